#include "tests/reference.h"

#include <algorithm>
#include <sstream>

#include "base/file.h"
#include "tests/directories.h"

namespace sluice::test {

std::string reference(const std::string& name) {
  return read_whole_file(std::string(SLUICE_SOURCE_DIR) + "/docs/" + name, 1 << 20).value();
}

std::vector<std::string> keys_of(const std::string& text, const std::string& part) {
  std::vector<std::string> keys;
  const std::size_t at = text.find("### " + part + "\n");
  if (at == std::string::npos) return keys;
  std::istringstream lines(text.substr(at));
  std::string line;
  std::getline(lines, line);
  while (std::getline(lines, line) && !line.starts_with("#"))
    if (line.starts_with("| `")) keys.push_back(line.substr(3, line.find('`', 3) - 3));
  std::ranges::sort(keys);
  return keys;
}

}  // namespace sluice::test
