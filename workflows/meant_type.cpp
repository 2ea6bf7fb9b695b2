#include "workflows/meant_type.h"

#include <algorithm>
#include <array>
#include <utility>

#include "base/nearest.h"

namespace sluice {

std::string meant_type(const std::string& given) {
  constexpr std::array<std::pair<std::string_view, std::string_view>, 12> elsewhere{
      {{"string", "text"},
       {"str", "text"},
       {"int", "number"},
       {"integer", "number"},
       {"picture", "image"},
       {"img", "image"},
       {"object", "json"},
       {"dict", "json"},
       {"map", "json"},
       {"array", "tensor"},
       {"ndarray", "tensor"},
       {"file", "bytes"}}};
  const auto* const it =
      std::ranges::find(elsewhere, given, &decltype(elsewhere)::value_type::first);
  if (it != elsewhere.end()) return std::string(it->second);
  return nearest_name(given, {"json", "text", "image", "audio", "tensor", "number", "bytes"});
}

}  // namespace sluice
