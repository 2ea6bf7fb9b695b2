// GGUF files against the references of tests/golden/make_gguf.py, and what is refused.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <cstring>
#include <deque>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "engine/check/model_check.h"
#include "engine/family/gguf_model.h"
#include "engine/tasks/chat_model.h"
#include "engine/text/gguf_tokenizer.h"
#include "tests/directories.h"
#include "tests/kernels/paths.h"

using namespace sluice;

namespace {

const std::string folder = std::string(SLUICE_SOURCE_DIR) + "/tests/golden/gguf/";

std::string read(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

SafetensorsFile tensors(const std::string& name) {
  Result<SafetensorsFile> file = SafetensorsFile::open(folder + name + ".safetensors");
  REQUIRE(file.ok());
  return std::move(file).value();
}

Result<GgufFile> parse(const std::string& bytes) {
  return GgufFile::parse({reinterpret_cast<const std::byte*>(bytes.data()), bytes.size()}, "file");
}

double distance(const Tensor& got, const Tensor& want) {
  REQUIRE(got.count() == want.count());
  double difference = 0;
  double size = 0;
  for (std::size_t i = 0; i < want.f32().size(); ++i) {
    difference += std::pow(double{got.f32()[i]} - double{want.f32()[i]}, 2);
    size += std::pow(double{want.f32()[i]}, 2);
  }
  return std::sqrt(difference / size);
}

struct Errors {
  double prefill = 0, decode = 0;
  bool same_tokens = false;
};

Errors compare(const std::string& name, Architecture architecture, SafetensorsFile weights,
               kernels::WeightFormat format = kernels::WeightFormat::exact) {
  const Result<Model> model = Model::load(std::move(architecture), std::move(weights), format);
  INFO((model.ok() ? "" : model.error().message));
  REQUIRE(model.ok());
  const SafetensorsFile inputs = tensors(name + ".inputs");
  const Result<NamedTensors> got = run_model(*model, NamedInputs(inputs));
  INFO((got.ok() ? "" : got.error().message));
  REQUIRE(got.ok());
  const SafetensorsFile want = tensors(name + ".expected");
  Errors errors;
  errors.prefill = distance(got->find("logits")->second, *want.load("logits"));
  errors.decode = distance(got->find("decode_logits")->second, *want.load("decode_logits"));
  const auto tokens = got->find("greedy_ids")->second.bytes();
  errors.same_tokens = std::ranges::equal(tokens, want.find("greedy_ids")->bytes);
  return errors;
}

// Relative L2. Products round activations to 16 bits.
constexpr double prefill_limit = 3e-4;
constexpr double decode_limit = 3e-4;

/// A file of one key or tensor, written field by field.
struct Bytes {
  std::string text;
  template <typename T>
  Bytes& put(T value) {
    text.append(reinterpret_cast<const char*>(&value), sizeof value);
    return *this;
  }
  Bytes& name(const std::string& what) {
    put<std::uint64_t>(what.size());
    text += what;
    return *this;
  }
  static Bytes header(std::uint64_t tensors, std::uint64_t values, std::uint32_t version = 3) {
    Bytes made;
    made.text = "GGUF";
    return made.put(version).put(tensors).put(values);
  }
  /// Of `rows` rows of 32 values, F32 unless told.
  Bytes& tensor(const std::string& called, std::uint64_t rows, std::uint64_t offset,
                std::uint32_t type = 0, std::uint64_t in = 32) {
    return name(called).put<std::uint32_t>(2).put(in).put(rows).put(type).put(offset);
  }
  /// The data, from the next multiple of 32 on.
  Bytes& data(std::size_t bytes) {
    text.resize((text.size() + 31) / 32 * 32 + bytes);
    return *this;
  }
};

}  // namespace

TEST_CASE("every block type reads as the gguf package reads it") {
  const Result<GgufFile> file = GgufFile::open(folder + "types.gguf");
  REQUIRE(file.ok());
  REQUIRE(file->tensors().size() == kernels::block_layouts().size());
  const SafetensorsFile want = tensors("types.expected");
  for (const auto& [name, tensor] : file->tensors()) {
    INFO(name);
    CHECK(kernels::layout_of(tensor.type).name == name);
    REQUIRE(tensor.shape == std::vector<std::int64_t>{3, 512});
    const Tensor expected = *want.load(name);
    for (const kernels::Isa path : kernels::paths()) {
      const kernels::AtMost at_most(path);
      std::vector<float> row(3 * 512);
      kernels::read_blocks(tensor.type, reinterpret_cast<const std::uint8_t*>(tensor.bytes.data()),
                           row);
      for (std::size_t i = 0; i < row.size(); ++i)
        REQUIRE(row[i] == Approx(expected.f32()[i]).epsilon(1e-6).margin(2e-7));
    }
  }
}

TEST_CASE("each architecture computes what transformers computes over the dequantised values") {
  for (const std::string name : {"llama", "qwen2", "gemma"}) {
    INFO(name);
    const Result<Architecture> architecture = Architecture::load(folder + name + ".gguf");
    INFO((architecture.ok() ? "" : architecture.error().message));
    REQUIRE(architecture.ok());
    const Errors errors =
        compare(name, *architecture, std::move(open_weights(folder + name + ".gguf")).value());
    CHECK(errors.prefill < prefill_limit);
    CHECK(errors.decode < decode_limit);
    CHECK(errors.same_tokens);
    // In another precision the blocks are widened and kept in that.
    const Errors narrow =
        compare(name, *architecture, std::move(open_weights(folder + name + ".gguf")).value(),
                kernels::WeightFormat::bf16);
    CHECK(narrow.prefill < 0.05);
  }
}

TEST_CASE("a weight of a GGUF file is not copied") {
  const Result<SafetensorsFile> file = open_weights(folder + "llama.gguf");
  REQUIRE(file.ok());
  WeightLoader loader(*file);
  const Linear linear =
      loader.stacked({"model.layers.0.self_attn.q_proj", "model.layers.0.self_attn.k_proj"},
                     {256, 128}, 256, true);
  REQUIRE(loader.outcome().ok());
  CHECK(linear.weight.bytes() == 0);
  CHECK(linear.bias.size() == 384);
  REQUIRE(linear.weight.blocks().size() == 2);
  const TensorView* view = file->find("model.layers.0.self_attn.k_proj.weight");
  CHECK(linear.weight.blocks()[1].bytes ==
        reinterpret_cast<const std::uint8_t*>(view->bytes.data()));
  // Another shape than the configuration's is an error, not a read past the end.
  WeightLoader other(*file);
  (void)other.linear("model.layers.0.self_attn.k_proj", 256, 256, false);
  CHECK(other.outcome().error().message.find("128, 256") != std::string::npos);
}

TEST_CASE("planted mistakes in what a GGUF file means show") {
  const auto run = [](const std::string& name, const auto& change) {
    Architecture architecture = std::move(Architecture::load(folder + name + ".gguf")).value();
    const SafetensorsFile file = std::move(open_weights(folder + name + ".gguf")).value();
    std::vector<TensorView> views;
    for (const auto& [key, view] : file.tensors()) views.push_back(view);
    change(architecture, views);
    return compare(name, architecture, SafetensorsFile::of(views, file.owner())).prefill;
  };
  const auto rows_in_order = [](Architecture&, std::vector<TensorView>& views) {
    for (TensorView& view : views) view.interleaved = 0;
  };
  CHECK(run("llama", [](Architecture&, std::vector<TensorView>&) {}) < prefill_limit);
  CHECK(run("llama", rows_in_order) > 10 * prefill_limit);
  CHECK(run("llama", [](Architecture& a, auto&) { a.text->rope.divisors.clear(); }) >
        10 * prefill_limit);
  CHECK(run("llama", [](Architecture& a, auto&) { a.text->block.out_bias = false; }) >
        10 * prefill_limit);
  CHECK(run("llama", [](Architecture& a, auto&) { a.text->block.eps = 1e-6F; }) > prefill_limit);
  CHECK(run("qwen2", [](Architecture& a, auto&) { a.text->rope.theta = 1e4; }) >
        10 * prefill_limit);
  CHECK(run("qwen2", [](Architecture&, std::vector<TensorView>& views) {
          for (TensorView& view : views)
            if (view.name.find("q_proj") != std::string::npos) view.interleaved = 64;
        }) > 10 * prefill_limit);
  CHECK(run("gemma", [](Architecture& a, auto&) { a.text->block.norm_plus_one = true; }) >
        10 * prefill_limit);
}

TEST_CASE("tokenizers of GGUF files give the libraries' ids and texts") {
  for (const std::string name : {"llama", "llama3", "qwen2", "gemma", "llama2"}) {
    const Result<GgufFile> file = GgufFile::open(folder + name + ".gguf");
    REQUIRE(file.ok());
    const Result<Tokenizer> tokenizer = gguf_tokenizer(*file);
    INFO(name << (tokenizer.ok() ? "" : tokenizer.error().message));
    REQUIRE(tokenizer.ok());
    const auto cases = nlohmann::json::parse(read(folder + name + ".cases.json"));
    REQUIRE(cases.size() > 25);
    for (const auto& one : cases) {
      const auto text = one.at("text").get<std::string>();
      const auto ids = one.at("ids").get<std::vector<std::int32_t>>();
      INFO(text);
      CHECK(tokenizer->encode(text) == ids);
      CHECK(tokenizer->encode(text, true) ==
            one.at("with_special").get<std::vector<std::int32_t>>());
      CHECK(tokenizer->decode(ids) == one.at("decoded").get<std::string>());
    }
  }
}

TEST_CASE("a GGUF file is talked to by its own template and ends") {
  Result<Model> model = Model::open(folder + "llama.gguf");
  REQUIRE(model.ok());
  const auto chat = ChatModel::open(folder + "llama.gguf", std::move(model).value());
  REQUIRE(chat.ok());
  REQUIRE(chat->chat().ok());
  const std::vector<ChatMessage> said{{"user", "hello", {}}};
  CHECK(*chat->chat()->render(said) ==
        "<|im_start|>system\nYou answer shortly<|im_end|>\n<|im_start|>user\nhello<|im_end|>\n"
        "<|im_start|>assistant\n");
  const auto generation = chat->begin(said, {});
  REQUIRE(generation.ok());
  const auto end = chat->tokenizer().encode("<|im_end|>");
  REQUIRE(end.size() == 1);
  CHECK(std::ranges::find(generation->options.end_tokens, end[0]) !=
        generation->options.end_tokens.end());
}

TEST_CASE("versions 2 and 3 of GGUF are read, others are refused by name") {
  std::string bytes = read(folder + "types.gguf");
  for (const auto& [version, said] : std::vector<std::pair<char, std::string>>{
           {2, ""}, {3, ""}, {1, "version 1 is not read"}, {4, "version 4 is not read"}}) {
    bytes[4] = version;
    const Result<GgufFile> file = parse(bytes);
    CHECK(file.ok() == said.empty());
    if (!file.ok()) CHECK(file.error().message.find(said) != std::string::npos);
  }
  bytes[4] = 0;
  bytes[7] = 3;
  CHECK(parse(bytes).error().message.find("big-endian") != std::string::npos);
}

TEST_CASE("hostile GGUF files are refused, each with what is wrong") {
  constexpr auto text = std::uint32_t{8};
  constexpr auto array = std::uint32_t{9};
  const std::vector<std::pair<Bytes, std::string>> files{
      {Bytes{"GGU"}, "header"},
      {Bytes{"GGML"}, "not a GGUF file"},
      {Bytes::header(0, 1), "a key"},
      {Bytes::header(1, 0), "a tensor's name"},
      {Bytes::header(UINT64_MAX, UINT64_MAX), "a key"},
      {Bytes::header(0, 1).put<std::uint64_t>(UINT64_MAX), "the limit is 65535"},
      {Bytes::header(0, 1).name("k").put<std::uint32_t>(13), "type 13 is not known"},
      {Bytes::header(0, 1).name("k").put(text).put<std::uint64_t>(UINT64_MAX - 3), "the limit is"},
      {Bytes::header(0, 1).name("k").put(array).put(array).put<std::uint64_t>(1),
       "arrays of arrays"},
      {Bytes::header(0, 1).name("k").put(array).put(text).put<std::uint64_t>(UINT64_MAX / 8),
       "more than the file has bytes for"},
      {Bytes::header(0, 1).name("k").put(array).put<std::uint32_t>(4).put<std::uint64_t>(9),
       "more than the file has bytes for"},
      // Two empty texts take sixteen bytes.
      {Bytes::header(0, 1)
           .name("k")
           .put(array)
           .put(text)
           .put<std::uint64_t>(2)
           .put<std::uint64_t>(0)
           .put<std::uint32_t>(0)
           .put<std::uint16_t>(0)
           .put('\0'),
       "2 values are more than the file has bytes for"},
      {Bytes::header(0, 2)
           .name("k")
           .put<std::uint32_t>(7)
           .put('\1')
           .name("k")
           .put<std::uint32_t>(7)
           .put('\1'),
       "'k' stands twice"},
      {Bytes::header(1, 0).name(std::string(300, 'x')), "the limit is 256"},
      {Bytes::header(1, 0).name("t").put<std::uint32_t>(5), "5 dimensions"},
      {Bytes::header(1, 0).name("t").put<std::uint32_t>(0), "0 dimensions"},
      {Bytes::header(1, 0).tensor("t", 0, 0), "a dimension of 0"},
      {Bytes::header(1, 0).tensor("t", 1, 0, 16).data(999), "type 16 of ggml is not read"},
      {Bytes::header(1, 0).tensor("t", 1, 0, 3, 48).data(999), "no whole blocks of 32 (Q4_1)"},
      {Bytes::header(1, 0).tensor("t", 1, 32).data(128), "leave the file's 128 data bytes"},
      {Bytes::header(1, 0).tensor("t", 1, UINT64_MAX - 31).data(128), "leave the file's"},
      {Bytes::header(1, 0).tensor("t", std::uint64_t{1} << 58, 0).data(128), "leave the file's"},
      {Bytes::header(1, 0).tensor("t", INT64_MAX, 0, 0, std::uint64_t{1} << 40).data(128),
       "leave the file's"},
      {Bytes::header(1, 0).tensor("t", 1, 8).data(256), "multiple of the alignment 32"},
      {Bytes::header(2, 0).tensor("t", 1, 0).tensor("u", 1, 96).data(256), "'t' and 'u' overlap"},
      {Bytes::header(2, 0).tensor("t", 1, 0).tensor("t", 1, 128).data(256), "stands twice"},
      {Bytes::header(0, 1).name("general.alignment").put<std::uint32_t>(4).put<std::uint32_t>(24),
       "general.alignment"},
      {Bytes::header(0, 1).name("general.alignment").put<std::uint32_t>(4).put<std::uint32_t>(0),
       "general.alignment"},
  };
  for (const auto& [bytes, said] : files) {
    const Result<GgufFile> file = parse(bytes.text);
    INFO(said);
    REQUIRE(!file.ok());
    INFO(file.error().message);
    CHECK(file.error().message.find(said) != std::string::npos);
  }
  CHECK(parse(Bytes::header(2, 0).tensor("t", 1, 0).tensor("u", 1, 128).data(256).text).ok());
  CHECK(parse(Bytes::header(0, 1)
                  .name("k")
                  .put(array)
                  .put(text)
                  .put<std::uint64_t>(2)
                  .put<std::uint64_t>(0)
                  .put<std::uint64_t>(0)
                  .text)
            .ok());
  // Cut anywhere, a whole file is refused or whole.
  const std::string whole = read(folder + "types.gguf");
  for (std::size_t size = 0; size + 1 < whole.size(); size += size < 2000 ? 1 : 997)
    CHECK(!parse(whole.substr(0, size)).ok());
}

TEST_CASE("values of llama's heads in blocks of several are refused: they cannot be put in order") {
  const std::string bytes =
      read(std::string(SLUICE_SOURCE_DIR) + "/tests/fuzz/corpus/gguf/blocks_in_bias.gguf");
  const Result<GgufFile> file = parse(bytes);
  REQUIRE(file.ok());
  const Result<Architecture> architecture = gguf_architecture(*file);
  INFO((architecture.ok() ? "" : architecture.error().message));
  REQUIRE(architecture.ok());
  const Result<SafetensorsFile> weights = gguf_tensors(*file, *architecture);
  REQUIRE_FALSE(weights.ok());
  CHECK(weights.error().code == ErrorCode::corrupt);
  CHECK(weights.error().message ==
        "file: tensor 'blk.0.attn_q.bias' has one dimension and blocks of 32 values (Q8_0), whose "
        "order within a head cannot be changed; write it as F32, F16 or BF16");
}

TEST_CASE("a value of a GGUF file is read as a number of every width, and as nothing else") {
  std::deque<std::string> kept;  // what is parsed stays where it is
  const auto of = [&](std::uint32_t type, auto... values) {
    Bytes made = Bytes::header(0, 1).name("k").put(type);
    (made.put(values), ...);
    kept.push_back(std::move(made.text));
    return std::move(parse(kept.back())).value();
  };
  CHECK(of(0, std::uint8_t{200}).whole("k") == 200);
  CHECK(of(1, std::int8_t{100}).whole("k") == 100);
  CHECK(of(1, std::int8_t{-1}).whole("k") == std::nullopt);
  CHECK(of(2, std::uint16_t{60000}).whole("k") == 60000);
  CHECK(of(4, std::uint32_t{4'000'000'000}).whole("k") == 4'000'000'000);
  CHECK(of(10, ~std::uint64_t{0}).whole("k") == ~std::uint64_t{0});
  CHECK(of(6, 1.5F).whole("k") == std::nullopt);
  CHECK(of(6, 1.5F).number("k") == 1.5);
  CHECK(of(0, std::uint8_t{7}).number("k") == 7);
  CHECK(of(7, '\1').whole("k") == std::nullopt);
  CHECK(of(7, '\1').number("k") == std::nullopt);
  const GgufFile text = of(8, std::uint64_t{8}, std::uint64_t{0x3131313131313131});
  CHECK(text.whole("k") == std::nullopt);
  CHECK(text.number("k") == std::nullopt);
  CHECK(text.text("k") == "11111111");
  const GgufFile list = of(9, std::uint32_t{4}, std::uint64_t{1}, std::uint32_t{5});
  CHECK(list.whole("k") == std::nullopt);
  CHECK(list.number("k") == std::nullopt);
}

TEST_CASE("what a GGUF file asks for and is not supported is refused by name") {
  std::deque<std::string> kept;  // what is parsed stays where it is
  const auto only = [&](const std::string& key, const std::string& value) {
    kept.push_back(Bytes::header(0, 1).name(key).put<std::uint32_t>(8).name(value).text);
    return std::move(parse(kept.back())).value();
  };
  CHECK(gguf_architecture(only("general.architecture", "mamba")).error().message.find("'mamba'") !=
        std::string::npos);
  CHECK(gguf_architecture(only("general.architecture", "llama"))
            .error()
            .message.find("'llama.embedding_length'") != std::string::npos);
  CHECK(gguf_tokenizer(only("tokenizer.ggml.model", "bert")).error().message.find("'bert'") !=
        std::string::npos);
  CHECK(gguf_tokenizer(only("tokenizer.ggml.model", "gpt2")).error().message.find("tokens") !=
        std::string::npos);
  CHECK(Model::open(folder + "none.gguf").error().code == ErrorCode::not_found);
  CHECK(Model::open(std::string(SLUICE_SOURCE_DIR) + "/README.md.gguf").error().code ==
        ErrorCode::not_found);
}
