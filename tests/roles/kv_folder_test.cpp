// A `paged_kv` with a folder on a disk: opened with the pool, held by one, refused where it is of
// no use.
#include <unistd.h>

#include <catch2/catch.hpp>
#include <filesystem>

#include "roles/catalog.h"

using namespace sluice;

TEST_CASE("a paged_kv of a chat opens its folder, and one folder is one paged_kv's") {
  namespace fs = std::filesystem;
  std::string scratch = (fs::temp_directory_path() / "kv-XXXXXX").string();
  REQUIRE(::mkdtemp(scratch.data()) != nullptr);
  Catalog catalog;
  add_builtin_plugins(catalog);
  const std::string root = SLUICE_SOURCE_DIR;
  GlobalParamSpec spec;
  spec.name.text = "kv";
  spec.kind.text = "paged_kv";
  spec.pages = 16;
  spec.ssd = Name{scratch + "/pages", {}};
  const auto make = [&](const std::string& model) {
    return catalog.make_global_param({&spec, root + model});
  };
  {
    const auto held = make("/tests/golden/conversation_qwen");
    REQUIRE(held.ok());
    CHECK(fs::exists(scratch + "/pages/secret"));
    const auto second = make("/tests/golden/conversation_qwen");
    REQUIRE_FALSE(second.ok());
    CHECK_THAT(second.error().message, Catch::Matchers::Contains("another process keeps"));
  }
  CHECK(make("/tests/golden/conversation_qwen").ok());
  const auto draws = make("/models/scenes");
  REQUIRE_FALSE(draws.ok());
  CHECK_THAT(draws.error().message, Catch::Matchers::Contains("'kv' has `ssd`"));
  spec.ssd_bytes = 4096;
  const auto small = make("/tests/golden/conversation_qwen");
  REQUIRE_FALSE(small.ok());
  CHECK_THAT(small.error().message, Catch::Matchers::Contains("are too few"));
  fs::remove_all(scratch);
}
