// Files of weights, their heads and indices changed in every place, and every value that is read of
// them: what came of it before.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "base/crc32c.h"
#include "engine/checkpoint/gguf.h"
#include "engine/checkpoint/named_tensors.h"
#include "engine/checkpoint/weights.h"
#include "engine/family/gguf_model.h"
#include "engine/text/gguf_tokenizer.h"
#include "tests/directories.h"
#include "tests/outcomes.h"
#include "tests/scratch_folder.h"

namespace sluice {
namespace {

std::string read(const std::string& path) {
  std::ifstream file(std::string(SLUICE_SOURCE_DIR) + "/tests/" + path, std::ios::binary);
  std::string text(std::istreambuf_iterator<char>(file), {});
  REQUIRE_FALSE(text.empty());
  return text;
}

std::span<const std::byte> bytes_of(const std::string& text) {
  return std::as_bytes(std::span(text));
}

std::string words(std::span<const float> values) {
  std::string text;
  for (const float value : values.first(std::min<std::size_t>(values.size(), 4))) {
    char one[32];
    std::snprintf(one, sizeof one, " %.8g", static_cast<double>(value));
    text += one;
  }
  return text + " (" + std::to_string(crc32c(std::as_bytes(values))) + ")";
}

std::string words(const Result<Tensor>& tensor) {
  if (!tensor.ok()) return tensor.error().message;
  return tensor->describe() + " " + std::to_string(crc32c(tensor->bytes()));
}

std::string words(const Result<SafetensorsFile>& file) {
  if (!file.ok()) return file.error().message;
  std::string text = std::to_string(file->tensors().size()) + " tensors";
  const NamedInputs inputs(*file);
  for (const auto& [name, view] : file->tensors()) {
    text += "; " + name + ": " + words(file->load(name));
    const auto floats = inputs.floats(name);
    const auto integers = inputs.integers(name);
    text += floats.ok() ? words(*floats) : ", " + floats.error().message;
    text += integers.ok() ? " " + std::to_string(integers->size()) + " of " +
                                std::to_string(crc32c(std::as_bytes(std::span(*integers))))
                          : ", " + integers.error().message;
  }
  return text;
}

std::string file_of(const std::string& header, const std::string& data) {
  const std::uint64_t length = header.size();
  std::string file(sizeof length, '\0');
  std::memcpy(file.data(), &length, sizeof length);
  return file + header + data;
}

/// Bytes that are other numbers in every type.
std::string data_of(std::size_t bytes) {
  std::string data;
  for (std::size_t i = 0; i < bytes; ++i) data += static_cast<char>(i * 37 + 11);
  return data;
}

std::string entry(const char* dtype, std::size_t values, std::size_t begin, std::size_t end) {
  return std::string(R"({"dtype":")") + dtype + R"(","shape":[)" + std::to_string(values) +
         R"(],"data_offsets":[)" + std::to_string(begin) + "," + std::to_string(end) + "]}";
}

/// A loader's words after something was asked of it.
std::string words(const WeightLoader& load, std::span<const float> values) {
  const Result<void> outcome = load.outcome();
  return outcome.ok() ? words(values) : outcome.error().message;
}

std::string words(const WeightLoader& load, const Linear& made) {
  const Result<void> outcome = load.outcome();
  if (!outcome.ok()) return outcome.error().message;
  std::vector<float> row(made.weight.in()), all;
  for (std::size_t i = 0; i < made.weight.out(); ++i) {
    made.weight.read_row(i, row);
    all.insert(all.end(), row.begin(), row.end());
  }
  return std::to_string(made.weight.out()) + " x " + std::to_string(made.weight.in()) + words(all) +
         ", bias" + words(made.bias);
}

}  // namespace

TEST_CASE("each tensor of each type is read as it was before, and what cannot be is named") {
  test::Outcomes outcomes("tensor_types");
  const std::pair<const char*, std::size_t> types[] = {
      {"BOOL", 1}, {"U8", 1},  {"I8", 1},  {"F8_E4M3", 1}, {"F16", 2},
      {"BF16", 2}, {"I16", 2}, {"U16", 2}, {"F32", 4},     {"I32", 4},
      {"U32", 4},  {"F64", 8}, {"I64", 8}, {"U64", 8},     {"X", 1}};
  for (const auto& [dtype, width] : types)
    for (const std::size_t values : {0U, 1U, 3U, 8U}) {
      const std::size_t bytes = values * width;
      const std::string file =
          file_of("{\"a\":" + entry(dtype, values, 0, bytes) + "}", data_of(bytes));
      outcomes.add(dtype, words(SafetensorsFile::parse(bytes_of(file), "s")));
    }
  for (const char* name : {"all", "two", "empty", "overlap"}) {
    const std::string file = read(std::string("fuzz/corpus/safetensors/") + name + ".safetensors");
    outcomes.add(name, words(SafetensorsFile::parse(bytes_of(file), "s")));
  }
  outcomes.require_as_kept();
}

TEST_CASE("each place of a head of weights that is changed is refused or read, as before") {
  test::Outcomes outcomes("weight_heads");
  const std::string header =
      "{\"__metadata__\": {\"by\": \"us\"},\n\"a\": " + entry("F16", 3, 0, 6) +
      ",\n\"in.b\": " + entry("U8", 2, 6, 8) + ",\n\"c\": " + entry("F32", 0, 8, 8) +
      ",\n\"d\": " + entry("I64", 2, 8, 24) + "}";
  outcomes.change_text("a header", header, [](const std::string& changed) {
    const std::string file = file_of(changed, data_of(24));
    return words(SafetensorsFile::parse(bytes_of(file), "s"));
  });
  ScratchFolder scratch;
  for (const char* name : {"1", "2"})
    std::ofstream(scratch.path() + "/" + name + ".safetensors", std::ios::binary)
        << file_of(std::string("{\"a") + name + "\":" + entry("U8", 3, 0, 3) + "}", data_of(3));
  const std::string index = R"({"metadata": {"total_size": 6},
"weight_map": {"a1": "1.safetensors",
"a2": "2.safetensors"}})";
  outcomes.change_text("an index", index, [&](const std::string& changed) {
    const std::string path = scratch.path() + "/i.json";
    std::ofstream(path, std::ios::binary) << changed;
    std::string text = words(SafetensorsFile::open_index(path));
    for (std::size_t at; (at = text.find(scratch.path())) != std::string::npos;)
      text.erase(at, scratch.path().size());
    return text;
  });
  outcomes.require_as_kept();
}

TEST_CASE("each place of a GGUF file's head that is changed is refused or read, as before") {
  test::Outcomes outcomes("gguf_heads");
  const auto read_all = [](std::span<const std::byte> bytes) -> std::string {
    const auto file = GgufFile::parse(bytes, "g");
    if (!file.ok()) return file.error().message;
    std::string text;
    for (const auto& [name, tensor] : file->tensors()) {
      text += "; " + std::to_string(name.size()) + " letters, type " +
              std::to_string(static_cast<int>(tensor.type));
      for (const std::int64_t size : tensor.shape) text += ' ' + std::to_string(size);
      text += ", " + std::to_string(tensor.bytes.size());
    }
    text = std::to_string(crc32c(std::as_bytes(std::span(text))));
    for (const std::int32_t end : gguf_end_tokens(*file)) text += " end " + std::to_string(end);
    const auto architecture = gguf_architecture(*file);
    if (!architecture.ok()) {
      text += ", " + architecture.error().message;
    } else if (const auto tensors = gguf_tensors(*file, *architecture); !tensors.ok()) {
      text += ", " + tensors.error().message;
    } else {
      std::string all;
      for (const auto& [name, view] : tensors->tensors())
        all += name + view.dtype + std::to_string(view.bytes.size()) +
               std::to_string(view.interleaved) + (view.in_place ? "!" : "") +
               words(tensors->load(name));
      text += ", " + std::to_string(crc32c(std::as_bytes(std::span(all))));
    }
    const auto tokenizer = gguf_tokenizer(*file);
    if (!tokenizer.ok()) return text + ", " + tokenizer.error().message;
    for (const std::int32_t id : tokenizer->encode("<s> a B\u00e4 12", true))
      text += ' ' + std::to_string(id);
    return text;
  };
  for (const char* name : {"llama", "gemma", "qwen2", "blocks_in_bias"}) {
    const std::string whole = read(std::string("fuzz/corpus/gguf/") + name + ".gguf");
    // What stands before the first tensor's bytes, by steps that meet every field.
    std::string file = whole;
    const bool is_small = whole.size() < 1000 || std::string(name) == "llama";
    const std::size_t step = is_small ? 1 : 5, end = std::min<std::size_t>(whole.size(), 2600);
    outcomes.add(name, read_all(bytes_of(file)));
    for (std::size_t at = 0; at < end; at += step) {
      for (const unsigned other : {1U, 0xffU, 0x80U}) {
        file[at] = static_cast<char>(static_cast<unsigned char>(whole[at]) + other);
        outcomes.add(name, read_all(bytes_of(file)));
      }
      file[at] = whole[at];
      if (at % 7 == 0) outcomes.add(name, read_all(bytes_of(whole).first(at)));
    }
  }
  outcomes.require_as_kept();
}

TEST_CASE("each kind of value of a GGUF file is a number, a flag, a text or none, as before") {
  test::Outcomes outcomes("gguf_values");
  const auto number = [](std::uint64_t value, std::size_t bytes) {
    return std::string(reinterpret_cast<const char*>(&value), bytes);
  };
  const auto text = [&](const std::string& content) { return number(content.size(), 8) + content; };
  const auto file_with = [&](std::uint32_t type, const std::string& content) {
    return "GGUF" + number(3, 4) + number(0, 8) + number(1, 8) + text("k") + number(type, 4) +
           content;
  };
  const auto add = [&](const std::string& title, const std::string& bytes) {
    const auto file = GgufFile::parse(bytes_of(bytes), "g");
    if (!file.ok()) return outcomes.add(title, file.error().message);
    std::string line = file->has("k") ? "" : "not there";
    if (const auto value = file->whole("k")) line += " whole " + std::to_string(*value);
    if (const auto value = file->number("k")) line += " number " + std::to_string(*value);
    if (const auto value = file->flag("k")) line += *value ? " yes" : " no";
    if (const auto value = file->text("k")) line += " text '" + std::string(*value) + "'";
    for (const std::string_view one : file->texts("k")) line += " '" + std::string(one) + "'";
    for (const double one : file->numbers("k")) line += " " + std::to_string(one);
    outcomes.add(title, line);
  };
  const std::size_t widths[] = {1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8};
  for (std::uint32_t type = 0; type < 14; ++type) {
    const std::string title = "type " + std::to_string(type);
    const std::size_t width = type < 13 ? widths[type] : 0;
    if (width != 0) {
      for (const std::uint64_t value :
           {std::uint64_t{0}, std::uint64_t{1}, std::uint64_t{200}, std::uint64_t{0x41200000},
            std::uint64_t{0x4024000000000000}, ~std::uint64_t{0}})
        add(title, file_with(type, number(value, width)));
      for (const std::uint64_t count : {0U, 1U, 3U})
        add(title + " many",
            file_with(9, number(type, 4) + number(count, 8) + data_of(count * width)));
      for (const std::uint64_t count : {2U, 3U})
        add(title + " too many",
            file_with(9, number(type, 4) + number(count, 8) + data_of(2 * width + width / 2)));
    }
    if (type == 8) {
      for (const char* content : {"", "a", "abc"}) {
        add(title, file_with(8, text(content)));
        add(title + " many", file_with(9, number(8, 4) + number(2, 8) + text(content) + text("b")));
      }
      add(title, file_with(8, number(4, 8) + "abc"));
      add(title + " many", file_with(9, number(8, 4) + number(2, 8) + text("a")));
      add(title + " many", file_with(9, number(8, 4) + number(2, 8) + text("a") + number(9, 8)));
    }
    if (width == 0 && type != 8)
      add(title, file_with(9, number(type, 4) + number(1, 8) + data_of(8)));
  }
  for (const std::uint64_t alignment : {0U, 4U, 8U, 12U, 64U, 1U << 20, 1U << 21})
    outcomes.add("alignments", [&] {
      const std::string bytes = "GGUF" + number(3, 4) + number(0, 8) + number(1, 8) +
                                text("general.alignment") + number(10, 4) + number(alignment, 8);
      const auto file = GgufFile::parse(bytes_of(bytes), "g");
      return file.ok() ? std::string("taken") : file.error().message;
    }());
  outcomes.require_as_kept();
}

TEST_CASE("layers are loaded by name, in every format and shape, as before") {
  test::Outcomes outcomes("loaded_layers");
  std::string header = "{";
  std::string data;
  const auto put = [&](const std::string& name, const char* dtype, const std::string& shape,
                       std::size_t bytes) {
    header += (header.size() > 1 ? ",\"" : "\"") + name + R"(":{"dtype":")" + dtype +
              R"(","shape":)" + shape + R"(,"data_offsets":[)" + std::to_string(data.size()) + "," +
              std::to_string(data.size() + bytes) + "]}";
    for (std::size_t i = 0; i < bytes; ++i)  // small numbers in f32 and bf16
      data += i % 2 == 1 ? static_cast<char>(0x3d + i % 3) : static_cast<char>(data.size() * 5);
  };
  put("a.weight", "F32", "[4,3]", 48);
  put("a.bias", "F32", "[4]", 16);
  put("b.weight", "BF16", "[4,3]", 24);
  put("b.bias", "BF16", "[4]", 8);
  put("c.weight", "F32", "[2,3]", 24);
  put("c.bias", "F32", "[2]", 8);
  put("flat.weight", "F32", "[12]", 48);
  put("ids.weight", "I32", "[4,3]", 48);
  const std::string bytes = file_of(header + "}", data);
  const auto file = SafetensorsFile::parse(bytes_of(bytes), "s");
  INFO((file.ok() ? "" : file.error().message));
  REQUIRE(file.ok());
  const SafetensorsFile random = SafetensorsFile::random(5);
  using kernels::WeightFormat;
  for (const SafetensorsFile* from : {&*file, &random})
    for (const WeightFormat format :
         {WeightFormat::exact, WeightFormat::bf16, WeightFormat::int8}) {
      const std::string title = (from == &random ? "random, format " : "format ") +
                                std::to_string(static_cast<int>(format));
      for (const char* name : {"a", "b", "c", "flat", "ids", "none"})
        for (const bool bias : {false, true}) {
          WeightLoader linear(*from, format), wide(*from, format);
          outcomes.add(title, words(linear, linear.linear(name, 4, 3, bias)));
          outcomes.add(title, words(wide, wide.linear(name, 3, 4, bias)));
        }
      const std::vector<std::string> lists[] = {
          {"a", "c"}, {"a", "b"}, {"c", "none"}, {"a", "flat"}};
      for (const auto& names : lists)
        for (const std::size_t last : {2U, 4U}) {
          WeightLoader load(*from, format);
          outcomes.add(title, words(load, load.stacked(names, {4, last}, 3, true)));
          outcomes.add(title, words(load, load.values("a.bias", 4)));  // after what was wrong
        }
      for (const char* name : {"a", "b", "none"})
        for (const bool plus_one : {false, true}) {
          WeightLoader load(*from, format);
          const Norm norm = load.norm(name, 12, false, plus_one);
          outcomes.add(title, words(load, norm.weight));
          const Norm other = load.norm(name, 12, true, plus_one);
          outcomes.add(title, words(load, other.bias));
        }
    }
  outcomes.require_as_kept();
}

TEST_CASE("tensors that are written are the bytes that they were before") {
  test::Outcomes outcomes("written_tensors");
  ScratchFolder scratch;
  NamedTensors tensors;
  put_floats(tensors, "f", {2, 3}, {1, -2, 3, 4, 5, 6.5F});
  put_floats(tensors, "none", {0}, {});
  put_integers(tensors, "i", {3}, {1, -2, 3});
  for (const Dtype dtype : {Dtype::u8, Dtype::i32, Dtype::bf16})
    tensors.insert_or_assign(std::string(to_string(dtype)), Tensor::zeros(dtype, {2, 1}).value());
  const std::string path = scratch.path() + "/t.safetensors";
  REQUIRE(save_safetensors(path, tensors).ok());
  std::ifstream written(path, std::ios::binary);
  const std::string bytes(std::istreambuf_iterator<char>(written), {});
  outcomes.add("bytes",
               std::to_string(bytes.size()) + ", " + std::to_string(crc32c(bytes_of(bytes))));
  outcomes.add("read", words(SafetensorsFile::open(path)));
  outcomes.add("nowhere", save_safetensors("/no/such/folder/t", tensors).error().message);
  outcomes.require_as_kept();
}

}  // namespace sluice
