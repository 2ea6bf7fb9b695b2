#include "engine/policy/policy_prompt.h"

#include <algorithm>
#include <cmath>

namespace sluice {

namespace {

constexpr double bins_in_one = 128;
constexpr double last_bin = 255;

std::string_view stripped(std::string_view text) {
  constexpr std::string_view blanks = " \t\n\v\f\r";
  const std::size_t begin = text.find_first_not_of(blanks);
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(blanks) - begin + 1);
}

int bin_of(float value) {
  const double bin = std::floor((double{value} + 1) * bins_in_one);
  return static_cast<int>(std::isnan(bin) ? last_bin : std::clamp(bin, -1.0, last_bin));
}

/// On one line, as openpi cleans it.
std::string cleaned(std::string_view instruction) {
  std::string text(stripped(instruction));
  std::ranges::replace_if(
      text, [](char c) { return c == '_' || c == '\n'; }, ' ');
  return text;
}

}  // namespace

std::string subtask_prompt(std::string_view instruction) {
  std::string text = cleaned(instruction);
  // ASCII only: what else there is stays as it is written.
  std::ranges::transform(text, text.begin(), [](char c) {
    return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  });
  return "Task: " + text + ". Subtask: ";
}

std::string policy_prompt(Family family, std::string_view instruction,
                          std::span<const float> state) {
  if (family == Family::smolvla) {
    std::string text(instruction);
    if (!text.ends_with('\n')) text += '\n';
    return text;
  }
  const std::string text = cleaned(instruction);
  if (family != Family::pi05 || state.empty()) return text + '\n';
  std::string bins;
  for (const float value : state) {
    if (!bins.empty()) bins += ' ';
    bins += std::to_string(bin_of(value));
  }
  return "Task: " + text + ", State: " + bins + ";\nAction: ";
}

}  // namespace sluice
