// docs/PLUGINS.md cannot rot: its tables are the loader's, its manifest loads. (Its C++ example is
// built with the other plugins.)
#include "tests/reference.h"

#include <algorithm>

#include "workflows/load_manifest.h"
#include "world.h"

using namespace sluice;

TEST_CASE("the guide to plugins lists exactly the keys that a manifest may have") {
  const std::string text = test::reference("PLUGINS.md");
  for (const KnownKeys& table : manifest_keys()) {
    INFO(table.part);
    std::vector<std::string> known(table.keys.begin(), table.keys.end());
    std::vector<std::string> listed = test::keys_of(text, std::string(table.part));
    std::ranges::sort(known);
    CHECK(listed == known);
  }
}

TEST_CASE("the guide's manifest is one") {
  const std::string text = test::reference("PLUGINS.md");
  const std::string fence = "```yaml\n";
  const std::size_t at = text.find(fence);
  REQUIRE(at != std::string::npos);
  const std::size_t begin = at + fence.size();
  const LoadedManifest loaded = load_manifest(text.substr(begin, text.find("```", begin) - begin));
  CHECK(loaded.diagnostics.empty());
  CHECK(loaded.manifest.stepped);
  CHECK(loaded.manifest.declaration.options.size() == 4);
}
