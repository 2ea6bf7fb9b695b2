// The tables of a reference in docs/, for tests that hold them to the program.
#pragma once

#include <string>
#include <vector>

namespace sluice::test {

/// The text of a file of docs/.
std::string reference(const std::string& name);
/// Sorted keys of the table under "### part", its first column.
std::vector<std::string> keys_of(const std::string& text, const std::string& part);

}  // namespace sluice::test
