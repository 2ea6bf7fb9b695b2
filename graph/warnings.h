// The warnings of a call, as its caller reads them.
//
// Bounds: 50 texts, and how many more there were.
#pragma once

#include <string>
#include <vector>

namespace sluice {

/// Sorted, each once; what came several times says so.
std::vector<std::string> counted(std::vector<std::string> warnings);

}  // namespace sluice
