#include "cli/call_value.h"

#include <charconv>
#include <functional>
#include <nlohmann/json.hpp>

#include "base/utf8.h"
#include "cli/json_look.h"
#include "engine/picture/image_file.h"
#include "roles/npy_file.h"

namespace sluice::cli {

namespace {

using Json = nlohmann::json;

Result<PayloadRef> text_of(std::string bytes) {
  for (std::size_t at = 0; at < bytes.size();) {
    const std::size_t length = utf8_length(std::string_view(bytes).substr(at));
    if (length == 0)
      return invalid_argument("it is no text: byte " + std::to_string(at + 1) + " is not UTF-8");
    at += length;
  }
  return make_text(std::move(bytes));
}

Result<PayloadRef> json_of(std::string bytes) {
  if (Json::accept(bytes)) {
    JsonLook look;
    const auto parsed = nlohmann::ordered_json::parse(bytes, std::ref(look), false);
    if (!look.problem().empty()) return invalid_argument(look.problem());
    return make_json(std::move(bytes));
  }
  std::string where;
  try {
    const Json parsed = Json::parse(bytes);
  } catch (const Json::parse_error& error) {
    where = " (byte " + std::to_string(error.byte) + ")";
  } catch (const Json::exception&) {
    where = " that can be read: a number in it is out of range";
  }
  return invalid_argument("it is not JSON" + where);
}

Result<PayloadRef> number_of(std::string_view text) {
  while (text.ends_with('\n') || text.ends_with('\r')) text.remove_suffix(1);
  std::int64_t number = 0;
  const char* const end = text.data() + text.size();
  const auto [stop, failed] = std::from_chars(text.data(), end, number);
  if (failed != std::errc() || stop != end || text.empty())
    return invalid_argument("it is not a whole number of 64 bits");
  return make_number(number);
}

Result<PayloadRef> tensor_of(ValueType type, const std::string& bytes) {
  Result<Tensor> tensor = decode_npy(bytes);
  if (!tensor.ok()) return tensor.error();
  auto* const payload = new Payload;
  payload->type = type;
  payload->tensor = std::move(tensor).value();
  return PayloadRef(payload);
}

}  // namespace

bool is_file_type(ValueType type) {
  return type == ValueType::image || type == ValueType::audio || type == ValueType::tensor;
}

Result<PayloadRef> value_of(ValueType type, std::string bytes) {
  switch (type) {
    case ValueType::text:
      return text_of(std::move(bytes));
    case ValueType::json:
      return json_of(std::move(bytes));
    case ValueType::number:
      return number_of(bytes);
    case ValueType::image: {
      Result<Tensor> image = decode_image(bytes);
      if (!image.ok()) return image.error();
      return make_image(std::move(image).value());
    }
    case ValueType::audio:
    case ValueType::tensor:
      return tensor_of(type, bytes);
    case ValueType::any:
    case ValueType::bytes:
      break;
  }
  return make_bytes(std::move(bytes));
}

Result<std::string> checked_text(const std::string& name, std::string text) {
  const Result<PayloadRef> checked = text_of(text);
  if (!checked.ok()) return Error{checked.error().code, name + ": " + checked.error().message};
  return text;
}

std::string how_to_give(std::string_view name, ValueType type) {
  const std::string option = "--input " + std::string(name) + "=";
  if (type == ValueType::image) return option + "@FILE, a PNG or JPEG";
  if (is_file_type(type)) return option + "@FILE, a .npy file";
  return option + (type == ValueType::number ? "NUMBER" : "VALUE") + " or @FILE";
}

}  // namespace sluice::cli
