#include "base/payload.h"

#include <array>

namespace sluice {

namespace {

constexpr std::array<std::string_view, 8> type_names{"any",   "json",   "text",   "image",
                                                     "audio", "tensor", "number", "bytes"};

PayloadRef make_of(ValueType type, std::string text) {
  auto* payload = new Payload;
  payload->type = type;
  payload->text = std::move(text);
  return PayloadRef(payload);
}

}  // namespace

std::string_view to_string(ValueType type) { return type_names[static_cast<std::size_t>(type)]; }

std::optional<ValueType> value_type_from(std::string_view name) {
  for (std::size_t i = 0; i < type_names.size(); ++i)
    if (type_names[i] == name) return static_cast<ValueType>(i);
  return std::nullopt;
}

void Payload::dispose(const Payload* payload) { delete payload; }

std::optional<std::int64_t> Payload::attribute(std::string_view name) const {
  for (const auto& [key, value] : attributes)
    if (key == name) return value;
  return std::nullopt;
}

PayloadRef make_text(std::string text) { return make_of(ValueType::text, std::move(text)); }
PayloadRef make_json(std::string text) { return make_of(ValueType::json, std::move(text)); }
PayloadRef make_bytes(std::string bytes) { return make_of(ValueType::bytes, std::move(bytes)); }

PayloadRef make_number(std::int64_t number) {
  auto* payload = new Payload;
  payload->type = ValueType::number;
  payload->number = number;
  return PayloadRef(payload);
}

PayloadRef make_image(Tensor pixels) {
  auto* payload = new Payload;
  payload->type = ValueType::image;
  payload->tensor = std::move(pixels);
  return PayloadRef(payload);
}

PayloadRef make_tensor(Tensor tensor,
                       std::vector<std::pair<std::string, std::int64_t>> attributes) {
  auto* payload = new Payload;
  payload->type = ValueType::tensor;
  payload->tensor = std::move(tensor);
  payload->attributes = std::move(attributes);
  return PayloadRef(payload);
}

}  // namespace sluice
