// What a process has of a checkpoint, it has once.
#include "engine/checkpoint/loaded_parts.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <array>
#include <atomic>
#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <future>
#include <latch>
#include <new>
#include <thread>
#include <vector>

#include "engine/policy/flow_policy.h"
#include "tests/directories.h"
#include "tests/scratch_folder.h"

using namespace sluice;
using kernels::WeightFormat;

namespace {

namespace fs = std::filesystem;
const std::string golden = std::string(SLUICE_SOURCE_DIR) + "/tests/golden/";

Result<int> number(int value) { return value; }

std::uint64_t loads() { return LoadedParts::here().loads(); }

/// Threads that ask for one part while it is being loaded; the first of them loads.
struct Crowd {
  static constexpr int followers = 4;
  LoadedParts parts;
  std::latch begun{1}, all_wait{followers};
  std::array<Result<std::shared_ptr<const int>>, followers> got = {Error{}, Error{}, Error{},
                                                                   Error{}};
  std::atomic<int> others_loaded = 0;

  /// `load` is called when all of the others wait.
  template <typename Load>
  Result<std::shared_ptr<const int>> meet(const Load& load) {
    parts.on_wait = [&] { all_wait.count_down(); };
    std::vector<std::jthread> threads;
    for (auto& one : got)
      threads.emplace_back([&] {
        begun.wait();
        one = parts.get<int>("part", [&] {
          all_wait.count_down();  // the test ends if this one does not wait
          return number(++others_loaded);
        });
      });
    return parts.get<int>("part", [&] {
      begun.count_down();
      all_wait.wait();
      return load();
    });
  }
};

void set_time(const fs::path& path, std::int64_t seconds) {
  const timespec time{seconds, 0};
  const std::array<timespec, 2> both{time, time};
  REQUIRE(::utimensat(AT_FDCWD, path.c_str(), both.data(), 0) == 0);
}

void write(const fs::path& path, const std::string& text) { std::ofstream(path) << text; }

}  // namespace

TEST_CASE("a part is loaded once, is everybody's who asks, and is gone with the last of them") {
  LoadedParts parts;
  auto first = parts.get<int>("a", [] { return number(1); }).value();
  auto again = parts.get<int>("a", [] { return number(2); }).value();
  CHECK(first == again);
  CHECK(*again == 1);
  CHECK(parts.loads() == 1);
  CHECK(parts.get<int>("b", [] { return number(3); }).value() != first);  // held by nobody
  CHECK(parts.loads() == 2);
  CHECK(parts.alive() == 1);
  first.reset();
  CHECK(*parts.get<int>("a", [] { return number(4); }).value() == 1);
  const std::weak_ptr<const int> seen = again;
  again.reset();
  CHECK(seen.expired());
  CHECK(parts.alive() == 0);
  CHECK(*parts.get<int>("a", [] { return number(5); }).value() == 5);
}

TEST_CASE("parts of one name and two types are two, and those without a name are nobody else's") {
  LoadedParts parts;
  const auto whole = parts.get<int>("a", [] { return number(1); }).value();
  const auto real = parts.get<double>("a", [] { return Result<double>(0.5); }).value();
  CHECK(*whole == 1);
  CHECK(*real == 0.5);
  const auto mine = parts.get<int>("", [] { return number(7); }).value();
  const auto yours = parts.get<int>("", [] { return number(8); }).value();
  CHECK(*mine == 7);
  CHECK(*yours == 8);
  CHECK(parts.loads() == 2);
}

TEST_CASE("who asks for a part that is being loaded waits for it and gets the same") {
  Crowd crowd;
  const auto mine = crowd.meet([] { return number(7); }).value();
  CHECK(*mine == 7);
  for (const auto& one : crowd.got) CHECK(one.value() == mine);
  CHECK(crowd.others_loaded == 0);
  CHECK(crowd.parts.loads() == 1);
}

TEST_CASE("a load that fails fails for all who wait for it, and the next one begins anew") {
  Crowd crowd;
  const auto mine = crowd.meet([] { return Result<int>(Error{ErrorCode::corrupt, "no head"}); });
  REQUIRE_FALSE(mine.ok());
  CHECK(mine.error().message == "no head");
  for (const auto& one : crowd.got) {
    REQUIRE_FALSE(one.ok());
    CHECK(one.error().code == ErrorCode::corrupt);
    CHECK(one.error().message == "no head");
  }
  CHECK(crowd.others_loaded == 0);
  CHECK(crowd.parts.loads() == 0);
  CHECK(*crowd.parts.get<int>("part", [] { return number(2); }).value() == 2);
}

TEST_CASE("nobody waits for ever for a load that ends by an exception") {
  Crowd crowd;
  CHECK_THROWS_AS(crowd.meet([]() -> Result<int> { throw std::bad_alloc(); }), std::bad_alloc);
  for (const auto& one : crowd.got) {
    REQUIRE_FALSE(one.ok());
    CHECK(one.error().code == ErrorCode::exhausted);
    CHECK_THAT(one.error().message, Catch::Matchers::Contains("for want of memory"));
  }
  CHECK(*crowd.parts.get<int>("part", [] { return number(2); }).value() == 2);
}

TEST_CASE("who waits too long for another's load gets an error that says for what") {
  LoadedParts parts;
  parts.patience = std::chrono::milliseconds(20);
  const auto mine = parts.get<int>("part", [&] {
    const auto late = std::async(std::launch::async, [&] {
                        return parts.get<int>(
                            "part", [] { return number(2); }, "text of m");
                      }).get();
    REQUIRE_FALSE(late.ok());
    CHECK(late.error().code == ErrorCode::deadline);
    CHECK(late.error().message ==
          "another role of this process loads text of m and has not done so within 20 ms");
    return number(1);
  });
  CHECK(*mine.value() == 1);
  CHECK(*parts.get<int>("part", [] { return number(3); }).value() == 1);
}

TEST_CASE("models of one checkpoint and precision have the same parts") {
  for (const char* family : {"llama", "smolvlm", "qwen2_5_vl", "openvla", "dit", "vae", "pi05"}) {
    CAPTURE(family);
    const Model first = Model::open(golden + family).value();
    const std::uint64_t before = loads();
    const Model second = Model::open(golden + family + "/").value();  // however it is written
    CHECK(loads() == before);
    CHECK(&first.file() == &second.file());
    const Architecture& has = first.architecture();
    if (has.text.has_value()) CHECK(&first.text() == &second.text());
    if (has.vision.has_value()) CHECK(&first.vision() == &second.vision());
    if (has.qwen_vision.has_value()) CHECK(&first.qwen_vision() == &second.qwen_vision());
    if (has.diffusion.has_value()) CHECK(&first.diffusion() == &second.diffusion());
    if (has.vae.has_value()) CHECK(&first.vae() == &second.vae());
  }
}

TEST_CASE("a precision has parts of its own, but for what is kept in one only") {
  const std::string scenes = std::string(SLUICE_SOURCE_DIR) + "/models/scenes";
  const Model exact = Model::open(scenes).value();
  const std::uint64_t before = loads();
  const Model rounded = Model::open(scenes, WeightFormat::bf16).value();
  CHECK(loads() == before + 3);  // decoder, tower, projectors
  CHECK(&exact.text() != &rounded.text());
  CHECK(&exact.vision() != &rounded.vision());
  CHECK(&exact.file() == &rounded.file());
  CHECK(&exact.codec() == &rounded.codec());
  CHECK(&exact.flow() == &rounded.flow());
}

TEST_CASE("who wants some parts shares them with who wants all, whoever comes first") {
  const std::string scenes = std::string(SLUICE_SOURCE_DIR) + "/models/scenes";
  const Model eye = Model::open(scenes, WeightFormat::exact, ModelParts::pictures).value();
  const Model all = Model::open(scenes).value();
  const Model codec = Model::open(scenes, WeightFormat::exact, ModelParts::codec).value();
  CHECK(&eye.vision() == &all.vision());
  CHECK(&codec.codec() == &all.codec());
  CHECK(&codec.file() == &all.file());
}

TEST_CASE("policies of one checkpoint share the action expert") {
  const Model first = Model::open(golden + "pi05").value();
  const Model second = Model::open(golden + "pi05").value();
  const Model rounded = Model::open(golden + "pi05", WeightFormat::bf16).value();
  const FlowPolicy acts = FlowPolicy::load(first).value();
  const std::uint64_t before = loads();
  const FlowPolicy acts_too = FlowPolicy::load(second).value();
  CHECK(loads() == before);
  CHECK(&acts.expert() == &acts_too.expert());
  CHECK(&FlowPolicy::load(rounded)->expert() != &acts.expert());
  CHECK(loads() == before + 1);
}

TEST_CASE("weights that were given, and not opened, are nobody else's") {
  const std::string directory = golden + "llama";
  const auto given = [&] {
    return Model::load(Architecture::load(directory).value(), open_weights(directory).value())
        .value();
  };
  const std::uint64_t before = loads();
  const Model mine = given(), yours = given();
  CHECK(&mine.text() != &yours.text());
  CHECK(loads() == before);
}

TEST_CASE("the parts of a model are gone with it") {
  std::size_t before = LoadedParts::here().alive();
  {
    const Model model = Model::open(golden + "llama").value();
    const Model copy = model;
    CHECK(&copy.text() == &model.text());
    CHECK(LoadedParts::here().alive() == before + 2);  // the file and the decoder
  }
  CHECK(LoadedParts::here().alive() == before);
}

TEST_CASE("a checkpoint whose files have changed is another one") {
  const ScratchFolder scratch;
  const fs::path folder = fs::path(scratch.path()) / "llama";
  fs::copy(golden + "llama", folder);
  const Model first = Model::open(folder.string()).value();
  CHECK(&Model::open(folder.string())->text() == &first.text());
  set_time(folder / "model.safetensors", 1000);
  const Model second = Model::open(folder.string()).value();
  CHECK(&second.text() != &first.text());
  CHECK(&second.file() != &first.file());
  CHECK(&Model::open(folder.string())->text() == &second.text());
}

TEST_CASE("what was read of files that changed meanwhile is nobody's afterwards") {
  const ScratchFolder scratch;
  const fs::path folder = fs::path(scratch.path()) / "llama";
  fs::copy(golden + "llama", folder);
  const auto change = [&](const Architecture&, const SafetensorsFile&) -> Result<void> {
    set_time(folder / "model.safetensors", 1000);
    return {};
  };
  const Model torn =
      Model::open(folder.string(), WeightFormat::exact, ModelParts::all, change).value();
  CHECK(&Model::open(folder.string())->text() != &torn.text());
}

TEST_CASE("what was wrong with a checkpoint is looked at anew") {
  const ScratchFolder scratch;
  const fs::path folder = fs::path(scratch.path()) / "llama";
  const fs::path weights = folder / "model.safetensors";
  fs::copy(golden + "llama", folder);
  fs::remove(weights);
  write(weights, "torn");
  const Result<Model> torn = Model::open(folder.string());
  REQUIRE_FALSE(torn.ok());
  CHECK(torn.error().code == ErrorCode::corrupt);
  fs::remove(weights);
  CHECK(Model::open(folder.string()).error().code == ErrorCode::not_found);
  fs::copy(golden + "llama/model.safetensors", weights);
  const Model sound = Model::open(folder.string()).value();
  CHECK(sound.text().shape().layers > 0);
}

TEST_CASE("a checkpoint that may not be loaded is not") {
  const std::uint64_t before = loads();
  const auto refuse = [](const Architecture& model, const SafetensorsFile& file) -> Result<void> {
    CHECK(model.text.has_value());
    CHECK_FALSE(file.tensors().empty());
    return Error{ErrorCode::exhausted, "too large"};
  };
  const auto refused = Model::open(golden + "llama", WeightFormat::exact, ModelParts::all, refuse);
  REQUIRE_FALSE(refused.ok());
  CHECK(refused.error().message == "too large");
  CHECK(loads() == before + 1);  // the file's own table of tensors
}
