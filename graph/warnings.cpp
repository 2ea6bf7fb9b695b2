#include "graph/warnings.h"

namespace sluice {

namespace {

constexpr std::size_t warnings_max = 50;  // of one call

}  // namespace

std::vector<std::string> Warnings::counted() const {
  std::vector<std::string> texts;
  for (const auto& [text, times] : times_)
    texts.push_back(times == 1 ? text : text + " (" + std::to_string(times) + " times)");
  if (texts.size() > warnings_max) {
    const std::string more = std::to_string(texts.size() - warnings_max) + " more warnings";
    texts.resize(warnings_max);
    texts.push_back(more);
  }
  return texts;
}

std::vector<std::string> counted(std::vector<std::string> warnings) {
  Warnings all;
  for (std::string& warning : warnings) all.add(std::move(warning));
  return all.counted();
}

}  // namespace sluice
