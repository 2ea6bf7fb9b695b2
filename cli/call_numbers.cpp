#include "cli/call_numbers.h"

#include <charconv>
#include <cstddef>
#include <cstdint>
#include <nlohmann/json.hpp>

namespace sluice::cli {

namespace {

using Json = nlohmann::ordered_json;

/// One text for each value: "-1.50e3", "-1500" and "-15E+2" all become "-15e2".
std::string canonical(std::string_view number) {
  const std::size_t e = number.find_first_of("eE");
  std::int64_t exponent = 0;
  if (e != std::string_view::npos) {
    const std::size_t digits = e + (number[e + 1] == '+' ? 2 : 1);
    std::from_chars(number.data() + digits, number.data() + number.size(), exponent);
    number = number.substr(0, e);
  }
  const bool negative = number.starts_with('-');
  if (negative) number.remove_prefix(1);
  std::string digits(number);
  if (const std::size_t point = digits.find('.'); point != std::string::npos) {
    digits.erase(point, 1);
    exponent -= static_cast<std::int64_t>(digits.size() - point);
  }
  digits.erase(0, digits.find_first_not_of('0'));
  if (digits.empty()) return "0";
  const std::size_t kept = digits.find_last_not_of('0') + 1;
  exponent += static_cast<std::int64_t>(digits.size() - kept);
  digits.resize(kept);
  return (negative ? "-" : "") + digits + "e" + std::to_string(exponent);
}

/// Hears of a line's parts in their order.
struct LineParts {
  std::string_view top, member;  // the keys whose value is looked at
  int depth = 0;
  bool in_top = false, in_value = false;
  std::string changes;
  std::size_t wrong_byte = 0;
  bool too_large = false;

  bool number_float(double value, const std::string& written) {
    if (in_value && changes.empty() && canonical(written) != canonical(Json(value).dump()))
      changes = written;
    return true;
  }
  bool key(const std::string& name) {
    if (depth == 1) {
      in_top = name == top;
      in_value = in_top && member.empty();
    } else if (depth == 2 && in_top && !member.empty()) {
      in_value = name == member;
    }
    return true;
  }
  bool start_object(std::size_t) { return ++depth > 0; }
  bool end_object() { return --depth >= 0; }
  bool start_array(std::size_t) { return ++depth > 0; }
  bool end_array() { return --depth >= 0; }
  bool null() { return true; }
  bool boolean(bool) { return true; }
  bool number_integer(std::int64_t) { return true; }
  bool number_unsigned(std::uint64_t) { return true; }
  bool string(const std::string&) { return true; }
  bool binary(const Json::binary_t&) { return true; }
  bool parse_error(std::size_t byte, const std::string&, const Json::exception& error) {
    constexpr int out_of_range = 406;  // the library's: a number that no float holds
    wrong_byte = byte;
    too_large = error.id == out_of_range;
    return false;
  }
};

}  // namespace

std::string number_that_changes(std::string_view line, std::string_view key,
                                std::string_view member) {
  LineParts parts;
  parts.top = key;
  parts.member = member;
  Json::sax_parse(line, &parts);
  return parts.changes;
}

std::string what_is_wrong(std::string_view line) {
  const std::size_t first = line.find_first_not_of(" \t");
  if (first != std::string_view::npos && line[first] == '#')
    return "JSON has no comments: remove this line, which begins with '#'";
  LineParts parts;
  Json::sax_parse(line, &parts);
  const std::string where = "as byte " + std::to_string(parts.wrong_byte) + " of the line shows";
  return parts.too_large ? "a number in it is out of range, " + where + "; write it as a string"
                         : "it is not JSON, " + where;
}

}  // namespace sluice::cli
