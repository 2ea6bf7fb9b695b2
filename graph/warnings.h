// The warnings of a call, as its caller reads them.
//
// Bounds: 50 texts, and how many more there were. What is said again takes no more memory.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace sluice {

/// What was said so far, and how often.
class Warnings {
 public:
  void add(std::string text) { ++times_[std::move(text)]; }
  bool empty() const { return times_.empty(); }
  void clear() { times_.clear(); }
  /// Sorted, each once; what came several times says so.
  std::vector<std::string> counted() const;

 private:
  std::map<std::string, std::uint64_t> times_;
};

/// Sorted, each once; what came several times says so.
std::vector<std::string> counted(std::vector<std::string> warnings);

}  // namespace sluice
