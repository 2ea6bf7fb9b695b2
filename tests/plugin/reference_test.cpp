// docs/PLUGINS.md cannot rot: its tables are the loader's, its manifest loads. (Its C++ example is
// built with the other plugins.)
#include <algorithm>
#include <sstream>

#include "base/file.h"
#include "workflows/load_manifest.h"
#include "world.h"

using namespace sluice;

namespace {

std::string reference() {
  return read_whole_file(std::string(SLUICE_SOURCE_DIR) + "/docs/PLUGINS.md", 1 << 20).value();
}

/// Keys of the table under "### part", first column.
std::vector<std::string> keys_of(const std::string& text, const std::string& part) {
  std::vector<std::string> keys;
  const std::size_t at = text.find("### " + part + "\n");
  if (at == std::string::npos) return keys;
  std::istringstream lines(text.substr(at));
  std::string line;
  std::getline(lines, line);
  while (std::getline(lines, line) && !line.starts_with("#"))
    if (line.starts_with("| `")) keys.push_back(line.substr(3, line.find('`', 3) - 3));
  return keys;
}

}  // namespace

TEST_CASE("the guide to plugins lists exactly the keys that a manifest may have") {
  for (const KeyTable& table : manifest_keys()) {
    INFO(table.part);
    std::vector<std::string> known(table.keys.begin(), table.keys.end());
    std::vector<std::string> listed = keys_of(reference(), std::string(table.part));
    std::ranges::sort(known);
    std::ranges::sort(listed);
    CHECK(listed == known);
  }
}

TEST_CASE("the guide's manifest is one") {
  const std::string text = reference();
  const std::string fence = "```yaml\n";
  const std::size_t at = text.find(fence);
  REQUIRE(at != std::string::npos);
  const std::size_t begin = at + fence.size();
  const LoadedManifest loaded = load_manifest(text.substr(begin, text.find("```", begin) - begin));
  CHECK(loaded.diagnostics.empty());
  CHECK(loaded.manifest.stepped);
  CHECK(loaded.manifest.declaration.options.size() == 4);
}
