#include "engine/checkpoint/safetensors.h"

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/file.h"
#include "engine/checkpoint/mapped_file.h"
#include "kernels/quant.h"

namespace sluice {

namespace {

using Json = nlohmann::json;

std::size_t width_of(std::string_view dtype) {
  if (dtype == "BOOL" || dtype == "U8" || dtype == "I8" || dtype.starts_with("F8")) return 1;
  if (dtype == "F16" || dtype == "BF16" || dtype == "I16" || dtype == "U16") return 2;
  if (dtype == "F32" || dtype == "I32" || dtype == "U32") return 4;
  if (dtype == "F64" || dtype == "I64" || dtype == "U64") return 8;
  return 0;
}

Error corrupt(const std::string& file, const std::string& what) {
  return {ErrorCode::corrupt, file + ": " + what};
}

/// Of a name in the file, for messages: without what would command a terminal.
std::string printable(std::string_view name) {
  std::string text;
  for (const char c : name) text += static_cast<unsigned char>(c) < ' ' || c == 0x7f ? '?' : c;
  return text;
}

/// A header's object, a tensor's, and its lists are three.
constexpr std::size_t depth_max = 64;

/// Whether brackets stand in each other more often. Text that only opens them takes eighty times
/// its bytes when it is parsed.
bool is_nested_too_deep(std::string_view text) {
  std::size_t depth = 0;
  bool in_text = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (in_text) {
      if (c == '\\') ++i;
      in_text = c != '"';
    } else if (c == '"') {
      in_text = true;
    } else if (c == '[' || c == '{') {
      if (++depth > depth_max) return true;
    } else if ((c == ']' || c == '}') && depth > 0) {
      --depth;
    }
  }
  return false;
}

/// One entry of the header. `data` is the part of the file after the header.
Result<TensorView> read_entry(const std::string& file, const std::string& name, const Json& entry,
                              std::span<const std::byte> data) {
  const std::string at = "tensor '" + printable(name) + "': ";
  if (!entry.is_object() || !entry.contains("dtype") || !entry["dtype"].is_string() ||
      !entry.contains("shape") || !entry["shape"].is_array() || !entry.contains("data_offsets") ||
      !entry["data_offsets"].is_array() || entry["data_offsets"].size() != 2)
    return corrupt(file, at + "dtype, shape or data_offsets is missing or of the wrong kind");
  TensorView view;
  view.name = name;
  view.dtype = entry["dtype"].get<std::string>();
  const std::size_t width = width_of(view.dtype);
  if (width == 0) return corrupt(file, at + "unknown dtype '" + printable(view.dtype) + "'");
  if (entry["shape"].size() > Tensor::rank_max) return corrupt(file, at + "more than 8 dimensions");
  std::uint64_t bytes = width;
  for (const Json& size : entry["shape"]) {
    if (!size.is_number_unsigned() || size.get<std::uint64_t>() > INT64_MAX)
      return corrupt(file, at + "a dimension is not a whole number");
    view.shape.push_back(size.get<std::int64_t>());
    if (__builtin_mul_overflow(bytes, size.get<std::uint64_t>(), &bytes))
      return corrupt(file, at + "the shape overflows 64 bits");
  }
  const Json& offsets = entry["data_offsets"];
  if (!offsets[0].is_number_unsigned() || !offsets[1].is_number_unsigned())
    return corrupt(file, at + "an offset is not a whole number");
  const auto begin = offsets[0].get<std::uint64_t>();
  const auto end = offsets[1].get<std::uint64_t>();
  if (begin > end || end > data.size())
    return corrupt(file, at + "offsets " + std::to_string(begin) + ".." + std::to_string(end) +
                             " leave the file's " + std::to_string(data.size()) + " data bytes");
  if (end - begin != bytes)
    return corrupt(file, at + "shape and dtype need " + std::to_string(bytes) +
                             " bytes, the offsets give " + std::to_string(end - begin));
  view.bytes = data.subspan(begin, bytes);
  return view;
}

/// Sees every key, also one that stands twice, which a parsed object cannot show.
bool has_duplicate_keys(const std::string& text) {
  std::vector<std::string> keys;
  const Json::parser_callback_t collect = [&](int depth, Json::parse_event_t event, Json& value) {
    if (event == Json::parse_event_t::key && depth == 1) keys.push_back(value.get<std::string>());
    return true;
  };
  const Json whole = Json::parse(text, collect, false);
  if (!whole.is_object()) return false;
  std::ranges::sort(keys);
  return std::ranges::adjacent_find(keys) != keys.end();
}

/// Blocks, or rows in another order: widened one by one.
Result<Tensor> widened(const TensorView& view, kernels::BlockType type) {
  Result<Tensor> tensor = Tensor::zeros(Dtype::f32, view.shape);
  if (!tensor.ok() || view.bytes.empty()) return tensor;
  kernels::BlockRows rows;
  rows.type = type;
  rows.bytes = reinterpret_cast<const std::uint8_t*>(view.bytes.data());
  rows.in = view.shape.size() < 2 && view.interleaved != 0
                ? 1
                : static_cast<std::size_t>(view.shape.back());
  rows.rows = static_cast<std::size_t>(tensor->count()) / rows.in;
  rows.interleaved = view.interleaved;
  for (std::size_t r = 0; r < rows.rows; ++r)
    kernels::read_blocks(type, rows.row(r), tensor->f32().subspan(r * rows.in, rows.in));
  return tensor;
}

}  // namespace

Result<SafetensorsFile> SafetensorsFile::parse(std::span<const std::byte> file,
                                               const std::string& name) {
  std::uint64_t header_bytes = 0;
  if (file.size() < sizeof header_bytes) return corrupt(name, "shorter than a safetensors header");
  std::memcpy(&header_bytes, file.data(), sizeof header_bytes);
  if (header_bytes > header_bytes_max)
    return Error{ErrorCode::exhausted, name + ": the header claims " +
                                           std::to_string(header_bytes) + " bytes, the limit is " +
                                           std::to_string(header_bytes_max)};
  if (header_bytes > file.size() - sizeof header_bytes)
    return corrupt(
        name, "the header claims " + std::to_string(header_bytes) + " bytes, the file has fewer");
  const std::string text(reinterpret_cast<const char*>(file.data()) + sizeof header_bytes,
                         header_bytes);
  if (is_nested_too_deep(text))
    return corrupt(name, "the header is nested more than " + std::to_string(depth_max) +
                             " deep; no tensor's description is");
  const Json header = Json::parse(text, nullptr, false);
  if (!header.is_object()) return corrupt(name, "the header is not a JSON object");
  if (has_duplicate_keys(text)) return corrupt(name, "a tensor name stands twice in the header");
  const std::span<const std::byte> data = file.subspan(sizeof header_bytes + header_bytes);

  SafetensorsFile made;
  std::vector<std::pair<std::uint64_t, const TensorView*>> places;
  for (const auto& [key, entry] : header.items()) {
    if (key == "__metadata__") continue;
    Result<TensorView> view = read_entry(name, key, entry, data);
    if (!view.ok()) return view.error();
    const auto it = made.tensors_.emplace(key, std::move(view).value()).first;
    if (!it->second.bytes.empty())
      places.emplace_back(it->second.bytes.data() - data.data(), &it->second);
  }
  std::ranges::sort(places);
  for (std::size_t i = 1; i < places.size(); ++i)
    if (places[i - 1].first + places[i - 1].second->bytes.size() > places[i].first)
      return corrupt(name, "tensors '" + printable(places[i - 1].second->name) + "' and '" +
                               printable(places[i].second->name) + "' overlap");
  return made;
}

Result<SafetensorsFile> SafetensorsFile::open(const std::string& path) {
  Result<MappedFile> file = MappedFile::open(path);
  if (!file.ok()) return file.error();
  auto made = parse(file->bytes, path);
  if (made.ok()) made->mappings_.push_back(std::move(file->owner));
  return made;
}

SafetensorsFile SafetensorsFile::of(std::vector<TensorView> tensors,
                                    std::shared_ptr<const void> owner) {
  SafetensorsFile made;
  made.mappings_.push_back(std::move(owner));
  for (TensorView& view : tensors) made.tensors_.emplace(view.name, std::move(view));
  return made;
}

Result<SafetensorsFile> SafetensorsFile::open_index(const std::string& path) {
  const Result<std::string> text = read_whole_file(path, header_bytes_max);
  if (!text.ok()) return text.error();
  if (is_nested_too_deep(*text))
    return corrupt(path, "nested more than " + std::to_string(depth_max) + " deep; no index is");
  const Json index = Json::parse(*text, nullptr, false);
  if (!index.is_object() || !index.contains("weight_map") || !index["weight_map"].is_object())
    return corrupt(path, "not an index (no object 'weight_map')");
  SafetensorsFile whole;
  std::map<std::string, SafetensorsFile> shards;
  for (const auto& [tensor, shard] : index["weight_map"].items()) {
    const std::string name = shard.is_string() ? shard.get<std::string>() : "";
    if (name.empty() || name.find('/') != std::string::npos || !name.ends_with(".safetensors"))
      return corrupt(path,
                     "tensor '" + printable(tensor) + "': the shard is not a plain file name");
    auto it = shards.find(name);
    if (it == shards.end()) {
      Result<SafetensorsFile> opened =
          open((std::filesystem::path(path).parent_path() / name).string());
      if (!opened.ok()) return opened.error();
      it = shards.emplace(name, std::move(opened).value()).first;
      whole.mappings_.push_back(it->second.mappings_.front());
    }
    const TensorView* view = it->second.find(tensor);
    if (view == nullptr)
      return corrupt(path,
                     "shard " + printable(name) + " has no tensor '" + printable(tensor) + "'");
    whole.tensors_.emplace(tensor, *view);
  }
  return whole;
}

SafetensorsFile SafetensorsFile::random(std::uint64_t seed) {
  SafetensorsFile made;
  made.random_ = true;
  made.seed_ = seed;
  return made;
}

const TensorView* SafetensorsFile::find(std::string_view name) const {
  const auto it = tensors_.find(name);
  return it == tensors_.end() ? nullptr : &it->second;
}

Result<Tensor> SafetensorsFile::load(std::string_view name) const {
  const TensorView* view = find(name);
  if (view == nullptr)
    return Error{ErrorCode::not_found, "the checkpoint has no tensor '" + std::string(name) + "'"};
  if (const auto type = kernels::block_type_named(view->dtype);
      type.has_value() &&
      (kernels::layout_of(*type).values != 1 || view->interleaved != 0 || view->in_place))
    return widened(*view, *type);
  Dtype dtype = Dtype::u8;
  if (view->dtype == "F32" || view->dtype == "F16") {
    dtype = Dtype::f32;
  } else if (view->dtype == "BF16") {
    dtype = Dtype::bf16;
  } else if (view->dtype == "I32") {
    dtype = Dtype::i32;
  } else if (view->dtype == "I64") {
    dtype = Dtype::i64;
  } else if (view->dtype != "U8") {
    return invalid_argument("tensor '" + view->name + "' is " + view->dtype +
                            "; F32, F16, BF16, I32, I64 and U8 are read");
  }
  Result<Tensor> tensor = Tensor::zeros(dtype, view->shape);
  if (tensor.ok() && view->dtype == "F16") {
    for (std::size_t i = 0; i < tensor->f32().size(); ++i) {
      std::uint16_t half = 0;
      std::memcpy(&half, view->bytes.data() + i * sizeof half, sizeof half);
      tensor->f32()[i] = f32_from_f16(half);
    }
  } else if (tensor.ok() && !view->bytes.empty())
    std::memcpy(tensor->bytes().data(), view->bytes.data(), view->bytes.size());
  return tensor;
}

}  // namespace sluice
