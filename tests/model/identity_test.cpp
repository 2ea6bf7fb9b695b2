// What makes a checkpoint another one.
#include "engine/checkpoint/identity.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <array>
#include <catch2/catch.hpp>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <set>

#include "tests/scratch_folder.h"

using namespace sluice;

namespace {

namespace fs = std::filesystem;

void write(const fs::path& path, const std::string& text) { std::ofstream(path) << text; }

void set_time(const fs::path& path, std::int64_t seconds, std::int64_t nanoseconds) {
  const timespec time{seconds, nanoseconds};
  const std::array<timespec, 2> both{time, time};
  REQUIRE(::utimensat(AT_FDCWD, path.c_str(), both.data(), 0) == 0);
}

}  // namespace

TEST_CASE("a checkpoint has one identity until one of its files is another in anything") {
  const ScratchFolder scratch;
  const fs::path folder = fs::path(scratch.path()) / "model", a = folder / "config.json",
                 b = folder / "tokenizer.json";
  fs::create_directory(folder);
  std::set<std::string> seen;
  const auto is_new = [&](const fs::path& path) {
    const std::string identity = checkpoint_identity(path.string());
    CHECK(identity.size() == 32);
    CHECK(checkpoint_identity(path.string()) == identity);
    return seen.insert(identity).second;
  };
  CHECK(is_new(folder));
  write(a, "1");
  set_time(a, 1000, 0);
  CHECK(is_new(folder));
  write(b, "1");
  set_time(b, 1000, 0);
  CHECK(is_new(folder));
  CHECK(checkpoint_identity(a.string()) != checkpoint_identity(b.string()));
  set_time(b, 1001, 0);
  CHECK(is_new(folder));
  set_time(b, 1000, 1);
  CHECK(is_new(folder));
  write(b, "12");
  set_time(b, 1000, 1);
  CHECK(is_new(folder));
  fs::rename(b, folder / "tokenizer.model");
  CHECK(is_new(folder));
  fs::copy_file(a, folder / "d");  // the same in another place
  set_time(folder / "d", 1000, 0);
  fs::rename(folder / "d", a);
  CHECK(is_new(folder));
  CHECK(checkpoint_identity(b.string()).empty());
  fs::create_symlink("nowhere", folder / "model.safetensors");
  CHECK(checkpoint_identity(folder.string()).empty());
}

TEST_CASE("what is not read of a checkpoint's folder makes it no other") {
  const ScratchFolder scratch;
  const fs::path folder = fs::path(scratch.path()) / "model";
  fs::create_directory(folder);
  const auto both = [&] {
    return checkpoint_identity(folder.string()) + checkpoint_content(folder.string());
  };
  std::string before = both();
  for (const char* name :
       {"config.json", "generation_config.json", "dataset_statistics.json", "tokenizer.json",
        "tokenizer.model", "tokenizer_config.json", "chat_template.jinja", "chat_template.json",
        "preprocessor_config.json", "model.safetensors", "model-00001-of-00002.safetensors",
        "model.safetensors.index.json", "diffusion_pytorch_model.safetensors"}) {
    INFO(name);
    write(folder / name, "1");
    const std::string with = both();
    CHECK(with.size() == 64);
    CHECK(with != before);
    before = with;
  }
  write(folder / "README.md", "1");
  write(folder / "training.log", "1");
  fs::create_symlink("nowhere", folder / "broken");
  fs::create_directories(folder / "kv" / "pages");
  CHECK(both() == before);
  write(folder / "training.log", "12");
  write(folder / "kv" / "config.json", "1");
  CHECK(both() == before);
}
