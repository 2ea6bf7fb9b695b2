#include "graph/warnings.h"

#include <algorithm>

namespace sluice {

namespace {

constexpr std::size_t warnings_max = 50;  // of one call

}  // namespace

std::vector<std::string> counted(std::vector<std::string> warnings) {
  std::ranges::sort(warnings);
  std::vector<std::string> texts;
  for (std::size_t i = 0, next = 0; i < warnings.size(); i = next) {
    while (next < warnings.size() && warnings[next] == warnings[i]) ++next;
    texts.push_back(warnings[i]);
    if (next - i > 1) texts.back() += " (" + std::to_string(next - i) + " times)";
  }
  if (texts.size() > warnings_max) {
    const std::string more = std::to_string(texts.size() - warnings_max) + " more warnings";
    texts.resize(warnings_max);
    texts.push_back(more);
  }
  return texts;
}

}  // namespace sluice
