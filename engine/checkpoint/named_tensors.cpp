#include "engine/checkpoint/named_tensors.h"

#include <algorithm>
#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>

namespace sluice {

namespace {

template <typename From, typename To, typename Convert>
std::vector<To> converted(const TensorView& view, Convert convert) {
  std::vector<To> values(view.bytes.size() / sizeof(From));
  for (std::size_t i = 0; i < values.size(); ++i) {
    From from;
    std::memcpy(&from, view.bytes.data() + i * sizeof(From), sizeof(From));
    values[i] = convert(from);
  }
  return values;
}

std::string_view name_of(Dtype dtype) {
  switch (dtype) {
    case Dtype::u8:
      return "U8";
    case Dtype::i32:
      return "I32";
    case Dtype::i64:
      return "I64";
    case Dtype::f32:
      return "F32";
    case Dtype::bf16:
      return "BF16";
  }
  return "";
}

}  // namespace

const TensorView* NamedInputs::view(std::string_view name) const {
  for (const std::string& written : {std::string(name), "in." + std::string(name)})
    if (const TensorView* found = file_.find(written)) {
      read_.insert(written);
      return found;
    }
  return nullptr;
}

std::vector<std::string> NamedInputs::unread() const {
  std::vector<std::string> names;
  for (const auto& [name, tensor] : file_.tensors())
    if ((name.starts_with("in.") || name.find('.') == std::string::npos) && !read_.contains(name))
      names.push_back(name);
  return names;
}

std::vector<std::int64_t> NamedInputs::shape(std::string_view name) const {
  const TensorView* found = view(name);
  return found != nullptr ? found->shape : std::vector<std::int64_t>();
}

Result<std::vector<float>> NamedInputs::floats(std::string_view name) const {
  const TensorView* found = view(name);
  if (found == nullptr) return invalid_argument("input '" + std::string(name) + "' is missing");
  if (found->dtype == "F32") return converted<float, float>(*found, [](float v) { return v; });
  if (found->dtype == "BF16") return converted<std::uint16_t, float>(*found, f32_from_bf16);
  if (found->dtype == "F16") return converted<std::uint16_t, float>(*found, f32_from_f16);
  return invalid_argument("input '" + std::string(name) + "' is " + found->dtype +
                          "; it must be F32, BF16 or F16");
}

Result<std::vector<std::int32_t>> NamedInputs::integers(std::string_view name) const {
  const TensorView* found = view(name);
  if (found == nullptr) return invalid_argument("input '" + std::string(name) + "' is missing");
  const auto narrow = [](std::int64_t v) {
    return static_cast<std::int32_t>(std::clamp<std::int64_t>(v, INT32_MIN, INT32_MAX));
  };
  if (found->dtype == "I64") return converted<std::int64_t, std::int32_t>(*found, narrow);
  if (found->dtype == "I32") return converted<std::int32_t, std::int32_t>(*found, narrow);
  if (found->dtype == "U8" || found->dtype == "BOOL")
    return converted<std::uint8_t, std::int32_t>(*found, narrow);
  return invalid_argument("input '" + std::string(name) + "' is " + found->dtype +
                          "; it must be I64, I32, U8 or BOOL");
}

void put_floats(NamedTensors& to, const std::string& name, std::vector<std::int64_t> shape,
                std::vector<float> values) {
  to.insert_or_assign(name, Tensor::of_f32(std::move(shape), std::move(values)));
}

void put_integers(NamedTensors& to, const std::string& name, std::vector<std::int64_t> shape,
                  const std::vector<std::int32_t>& values) {
  Tensor tensor = std::move(Tensor::zeros(Dtype::i64, std::move(shape))).value();
  for (std::size_t i = 0; i < values.size(); ++i) {
    const std::int64_t wide = values[i];
    std::memcpy(tensor.bytes().data() + i * sizeof wide, &wide, sizeof wide);
  }
  to.insert_or_assign(name, std::move(tensor));
}

Result<void> save_safetensors(const std::string& path, const NamedTensors& tensors) {
  nlohmann::json header = nlohmann::json::object();
  std::size_t at = 0;
  for (const auto& [name, tensor] : tensors) {
    header[name] = {{"dtype", name_of(tensor.dtype())},
                    {"shape", tensor.shape()},
                    {"data_offsets", {at, at + tensor.bytes_size()}}};
    at += tensor.bytes_size();
  }
  std::string text = header.dump();
  text.resize((text.size() + 7) / 8 * 8, ' ');
  const std::uint64_t size = text.size();
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  file.write(reinterpret_cast<const char*>(&size), sizeof size);
  file.write(text.data(), static_cast<std::streamsize>(text.size()));
  for (const auto& [name, tensor] : tensors)
    file.write(reinterpret_cast<const char*>(tensor.bytes().data()),
               static_cast<std::streamsize>(tensor.bytes_size()));
  if (!file.flush()) return Error{ErrorCode::unavailable, path + ": cannot be written"};
  return {};
}

}  // namespace sluice
