// Members of JSON that others wrote, where any of them may be missing or of another type.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <type_traits>
#include <utility>

namespace sluice::cli {

/// The member `key` of `json`, or null: it has none, or is no object.
template <typename Json>
const Json* member(const Json& json, const char* key) {
  if (!json.is_object()) return nullptr;
  const auto found = json.find(key);
  return found == json.end() ? nullptr : &*found;
}

/// A text; empty: it is none.
template <typename Json>
std::string text_of(const Json& json, const char* key) {
  const Json* const value = member(json, key);
  return value != nullptr && value->is_string() ? value->template get<std::string>()
                                                : std::string();
}

/// A number; `otherwise`: it is none, or one that a Number cannot hold.
template <typename Number, typename Json>
Number number_of(const Json& json, const char* key, Number otherwise = {}) {
  const Json* const value = member(json, key);
  if (value == nullptr || !value->is_number()) return otherwise;
  if constexpr (std::is_floating_point_v<Number>) {
    return value->template get<Number>();
  } else {
    if (value->is_number_float()) return otherwise;
    if (value->is_number_unsigned()) {
      const auto number = value->template get<std::uint64_t>();
      return std::in_range<Number>(number) ? static_cast<Number>(number) : otherwise;
    }
    const auto number = value->template get<std::int64_t>();
    return std::in_range<Number>(number) ? static_cast<Number>(number) : otherwise;
  }
}

}  // namespace sluice::cli
