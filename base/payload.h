// One value that travels in a frame's field: text, JSON, an image, a tensor, a number or bytes.
//
// Immutable once shared; see `Ref`. Shape: an image is a u8 tensor [height, width, 3] in RGB.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/ref.h"
#include "base/tensor.h"

namespace sluice {

/// The types of call inputs, and of role ports. `any` accepts every other.
enum class ValueType : std::uint8_t { any, json, text, image, audio, tensor, number, bytes };

std::string_view to_string(ValueType type);
std::optional<ValueType> value_type_from(std::string_view name);

struct Payload final : Counted {
  ValueType type = ValueType::any;
  std::string text;           // text, json, bytes
  Tensor tensor;              // image, audio, tensor
  std::int64_t number = 0;    // number; what a count group reads
  /// Small facts a role passes to the next one, e.g. {"generate", 1}. Names as in the role's docs.
  std::vector<std::pair<std::string, std::int64_t>> attributes;

  std::optional<std::int64_t> attribute(std::string_view name) const;
  static void dispose(const Payload* payload);
};

using PayloadRef = Ref<Payload>;

PayloadRef make_text(std::string text);
PayloadRef make_json(std::string text);
PayloadRef make_bytes(std::string bytes);
PayloadRef make_number(std::int64_t number);
PayloadRef make_image(Tensor pixels);
PayloadRef make_tensor(Tensor tensor,
                       std::vector<std::pair<std::string, std::int64_t>> attributes = {});

}  // namespace sluice
