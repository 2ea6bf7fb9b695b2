#include "base/byte_size.h"

#include <array>
#include <charconv>
#include <string>
#include <utility>

namespace sluice {

std::optional<std::uint64_t> parse_byte_size(std::string_view text) {
  constexpr std::array<std::pair<std::string_view, unsigned>, 5> units{
      {{"", 0}, {"KiB", 10}, {"MiB", 20}, {"GiB", 30}, {"TiB", 40}}};
  std::uint64_t number = 0;
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, number);
  if (error != std::errc{}) return std::nullopt;
  const std::string_view unit(stop, static_cast<std::size_t>(end - stop));
  for (const auto& [name, shift] : units)
    if (unit == name)
      return number <= (std::uint64_t{1} << 62U) >> shift ? std::optional(number << shift)
                                                          : std::nullopt;
  return std::nullopt;
}

std::string_view byte_size_fault(std::string_view text) {
  const std::size_t unit = text.find_first_not_of("0123456789");
  if (unit == 0 || text.empty()) return "is no whole number with a unit";
  const bool known =
      parse_byte_size(unit == std::string_view::npos ? "1" : "1" + std::string(text.substr(unit)))
          .has_value();
  return known ? "is too large" : "has a unit that is not known";
}

}  // namespace sluice
