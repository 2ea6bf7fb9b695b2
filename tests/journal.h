// What something did, line by line, in a text that is short: to compare thousands of runs made by
// chance with what they were, where a few of them are kept in full to be read.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace sluice::test {

/// How many lines, and a digest of all in their order. Source: FNV-1a.
inline std::string digest_of(const std::vector<std::string>& journal) {
  std::uint64_t hash = 0xcbf29ce484222325ULL;
  for (const std::string& line : journal)
    for (const char c : line + '\n')
      hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3ULL;
  return std::to_string(journal.size()) + " lines, " + std::to_string(hash);
}

}  // namespace sluice::test
