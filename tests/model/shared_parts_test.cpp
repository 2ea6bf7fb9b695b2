// The parts of a checkpoint in several processes of a machine: in memory once, and the same bits.
#include <fcntl.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <catch2/catch.hpp>
#include <filesystem>
#include <functional>
#include <future>
#include <new>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "base/sha256.h"
#include "engine/checkpoint/loaded_parts.h"
#include "engine/checkpoint/part_exchange.h"
#include "engine/checkpoint/part_packets.h"
#include "engine/policy/flow_policy.h"
#include "tests/directories.h"
#include "tests/scratch_folder.h"

using namespace sluice;
using Catch::Matchers::Contains;
using kernels::WeightFormat;
using std::chrono::milliseconds;

namespace {

namespace fs = std::filesystem;
const std::string golden = std::string(SLUICE_SOURCE_DIR) + "/tests/golden/";

/// What one process has of a checkpoint.
struct Seen {
  std::uint64_t parts = 0, of_others = 0, notices = 0;
  std::array<std::uint8_t, 32> digest{};  // of what its weights compute
};

void append(std::span<const float> values, std::string& to) {
  to.append(reinterpret_cast<const char*>(values.data()), values.size_bytes());
}

void run_text(const Decoder& decoder, std::string& to) {
  KvPool pool(decoder.kv_shape(16), 2);
  KvSequence sequence;
  const std::vector<std::int32_t> tokens{1, 2, 3, 5, 8};
  std::vector<float> rows, hidden, logits;
  decoder.embed(tokens, rows);
  const Chunk chunk{&sequence, rows};
  if (!decoder.forward(pool, {&chunk, 1}, hidden).ok()) return;
  decoder.logits(hidden, logits);
  append(logits, to);
  pool.release(sequence);
}

void run_pictures(const Model& model, std::string& to) {
  std::vector<float> pixels;
  std::vector<Grid> grids;
  const Architecture& has = model.architecture();
  if (has.qwen_vision.has_value()) {
    const auto side = static_cast<std::uint32_t>(2 * has.qwen_vision->merge);
    grids.push_back({1, side, side});
    pixels.assign(side * side * has.qwen_vision->patch_values(), 0.25F);
  } else {
    pixels.assign((model.has_two_towers() ? 6 : 3) * has.vision->side * has.vision->side, 0.25F);
  }
  for (std::size_t i = 0; i < pixels.size(); i += 3) pixels[i] = -0.5F;
  if (const auto features = model.features(pixels, grids); features.ok()) append(*features, to);
}

void run_drawing(const Model& model, std::string& to) {
  const Architecture& has = model.architecture();
  if (has.diffusion.has_value()) {
    const DiffusionTransformer& dit = model.diffusion();
    KvPool pool(dit.kv_shape(16), dit.shape().patches() / 16 + 2);
    const std::vector<float> latents(dit.shape().latent(), 0.5F), times{3};
    const std::vector<std::int32_t> classes{1};
    std::vector<float> predicted;
    if (dit.predict(pool, latents, times, classes, predicted).ok()) append(predicted, to);
  }
  if (has.vae.has_value()) {
    const std::size_t channels = has.vae->latent_channels;
    const Plane latents{std::vector<float>(channels * 16, 0.5F), channels, 4, 4};
    append(model.vae().decode(latents).values, to);
  }
}

Seen look_at(const std::string& directory, WeightFormat format) {
  Seen seen;
  static const Result<Model> model = Model::open(directory, format);  // as long as the process
  if (!model.ok()) return seen;
  std::string computed;
  const Architecture& has = model->architecture();
  if (has.text.has_value()) run_text(model->text(), computed);
  if (has.vision.has_value() || has.qwen_vision.has_value()) run_pictures(*model, computed);
  run_drawing(*model, computed);
  if (has.action.has_value()) {
    static const Result<FlowPolicy> policy = FlowPolicy::load(*model);
    if (!policy.ok()) return seen;
  }
  if (computed.empty()) return seen;
  seen.digest = sha256(computed);
  seen.parts = LoadedParts::here().loads();
  seen.of_others = LoadedParts::here().attached();
  return seen;
}

/// A process that looks at a checkpoint, and has it until it goes.
class Process {
 public:
  /// `exchange`: null: it shares with nobody.
  Process(PartExchange* exchange, const std::string& directory,
          WeightFormat format = WeightFormat::exact) {
    OwnedFile socket;
    if (exchange != nullptr) socket = exchange->join("a host").value();
    std::array<int, 2> said{}, end{};
    REQUIRE((::pipe2(said.data(), O_CLOEXEC) == 0 && ::pipe2(end.data(), O_CLOEXEC) == 0));
    const std::uint64_t had = LoadedParts::here().loads();
    pid_ = ::fork();
    REQUIRE(pid_ >= 0);
    if (pid_ == 0) {
      ::close(end[1]);
      std::uint64_t notices = 0;
      if (exchange != nullptr)
        LoadedParts::here().share(
            std::make_shared<const PartClient>(OwnedFile(::dup(socket.get()))),
            [&](const std::string&) { ++notices; });
      Seen mine = look_at(directory, format);
      if (mine.parts != 0) mine.parts -= had;
      mine.notices = notices;
      (void)!::write(said[1], &mine, sizeof mine);
      char byte = 0;
      (void)!::read(end[0], &byte, 1);
      ::_exit(0);
    }
    ::close(said[1]);
    ::close(end[0]);
    end_ = OwnedFile(end[1]);
    const OwnedFile from(said[0]);
    REQUIRE(::read(from.get(), &seen, sizeof seen) == sizeof seen);
  }
  ~Process() {
    end_ = OwnedFile();
    ::waitpid(pid_, nullptr, 0);
  }
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;

  Seen seen;

 private:
  pid_t pid_ = -1;
  OwnedFile end_;
};

/// A process' parts, in this one.
struct Host {
  Host(PartExchange& exchange, const std::string& name,
       milliseconds patience = milliseconds(60'000)) {
    parts.share(std::make_shared<const PartClient>(exchange.join(name).value(), patience),
                [this](const std::string& line) { notices.push_back(line); });
  }
  LoadedParts parts;
  std::vector<std::string> notices;

  /// A part with one matrix, of that number where this host makes it.
  Result<std::shared_ptr<const Linear>> get(float number, const std::function<void()>& amid = {}) {
    return parts.get_weights<Linear>("part", "the part", [&](WeightArena* arena) -> Result<Linear> {
      if (amid) amid();
      return one(number, arena);
    });
  }
  static Linear one(float number, WeightArena* arena) {
    Linear made;
    if (arena != nullptr && arena->is_sealed()) {
      made.weight = arena->find("matrix", 2, 2, WeightFormat::exact).value();
      return made;
    }
    const Tensor tensor = Tensor::of_f32({2, 2}, std::vector<float>(4, number));
    made.weight = kernels::Weight::from(tensor).value();
    if (arena != nullptr) made.weight = arena->keep("matrix", made.weight);
    return made;
  }
};

float number_in(const Linear& linear) { return linear.weight.f32()[3]; }

void until_waiting(PartExchange& exchange, std::size_t count) {
  while (exchange.report().size() != 1 || exchange.report()[0].waiting.size() != count)
    std::this_thread::yield();
}

}  // namespace

TEST_CASE("weights that another process made compute the same bits as those of one's own") {
  for (const char* family : {"llama", "smolvlm", "qwen2_5_vl", "openvla", "dit", "vae", "pi05"})
    for (const WeightFormat format :
         {WeightFormat::exact, WeightFormat::bf16, WeightFormat::int8}) {
      CAPTURE(family, static_cast<int>(format));
      const Process alone(nullptr, golden + family, format);
      PartExchange exchange;
      const Process first(&exchange, golden + family, format);
      const Process second(&exchange, golden + family + "/", format);
      REQUIRE(alone.seen.parts > 1);
      CHECK(first.seen.parts == alone.seen.parts);
      CHECK(second.seen.parts == alone.seen.parts);
      CHECK(first.seen.of_others == 0);
      CHECK(second.seen.of_others == alone.seen.parts - 1);  // each maps the file by itself
      CHECK(first.seen.notices + second.seen.notices == 0);
      CHECK(first.seen.digest == alone.seen.digest);
      CHECK(second.seen.digest == alone.seen.digest);
    }
}

TEST_CASE("processes share what is kept in one precision, and no more between two") {
  const std::string scenes = std::string(SLUICE_SOURCE_DIR) + "/models/scenes";
  PartExchange exchange;
  const Process exact(&exchange, scenes);
  const Process rounded(&exchange, scenes, WeightFormat::bf16);
  CHECK(rounded.seen.of_others == rounded.seen.parts - 4);  // file, decoder, tower, projectors
  const Process same(&exchange, scenes, WeightFormat::bf16);
  CHECK(same.seen.of_others == same.seen.parts - 1);
  CHECK(same.seen.digest == rounded.seen.digest);
  CHECK(same.seen.digest != exact.seen.digest);
}

TEST_CASE("a checkpoint that was replaced meanwhile is loaded anew by the next process") {
  const ScratchFolder scratch;
  const fs::path folder = fs::path(scratch.path()) / "llama";
  fs::copy(golden + "llama", folder);
  PartExchange exchange;
  const Process first(&exchange, folder.string());
  fs::copy(folder / "model.safetensors", folder / "new");
  fs::rename(folder / "new", folder / "model.safetensors");
  const Process second(&exchange, folder.string());
  CHECK(second.seen.of_others == 0);
  const Process third(&exchange, folder.string());
  CHECK(third.seen.of_others == third.seen.parts - 1);
}

TEST_CASE("a part of another process is there as long as somebody has it") {
  PartExchange exchange;
  Host a(exchange, "host 'a'"), b(exchange, "host 'b'");
  auto first = a.get(1).value();
  auto second = b.get(2).value();
  CHECK(number_in(*second) == 1);
  CHECK(b.parts.attached() == 1);
  first.reset();
  CHECK(number_in(*a.get(3).value()) == 1);
  const kernels::Weight copy = second->weight;
  second.reset();
  CHECK(copy.f32()[0] == 1);
  while (exchange.report().size() != 1 || exchange.report()[0].holders.size() != 1)
    std::this_thread::yield();
  CHECK(number_in(*a.get(4).value()) == 1);
}

TEST_CASE("a process that fails to load a part, or throws, lets the next one load it") {
  for (const bool throws : {false, true}) {
    PartExchange exchange;
    Host a(exchange, "host 'a'"), b(exchange, "host 'b'");
    std::future<Result<std::shared_ptr<const Linear>>> next;
    const auto load = [&](WeightArena* arena) -> Result<Linear> {
      REQUIRE(arena != nullptr);
      next = std::async(std::launch::async, [&] { return b.get(2); });
      until_waiting(exchange, 1);
      if (throws) throw std::bad_alloc();
      return Error{ErrorCode::corrupt, "no head"};
    };
    if (throws)
      CHECK_THROWS_AS(a.parts.get_weights<Linear>("part", "the part", load), std::bad_alloc);
    else
      CHECK(a.parts.get_weights<Linear>("part", "the part", load).error().message == "no head");
    CHECK(number_in(*next.get().value()) == 2);
    CHECK(b.parts.attached() == 0);
  }
}

TEST_CASE("who waits too long for another process' load gets an error that names it") {
  PartExchange exchange;
  Host a(exchange, "host 'a'"), b(exchange, "host 'b'", milliseconds(20));
  const auto first = a.get(1, [&] {
    const auto late = b.get(2);
    REQUIRE_FALSE(late.ok());
    CHECK(late.error().code == ErrorCode::deadline);
    CHECK(late.error().message == "host 'a' loads the part and has not done so within 20 ms");
  });
  CHECK(number_in(*first.value()) == 1);
  CHECK(number_in(*b.get(2).value()) == 1);
}

TEST_CASE("threads of one process ask the machine once") {
  PartExchange exchange;
  Host a(exchange, "host 'a'"), b(exchange, "host 'b'");
  std::vector<std::future<Result<std::shared_ptr<const Linear>>>> all;
  std::atomic<int> waiting = 0;
  b.parts.on_wait = [&] { ++waiting; };
  const auto first = a.get(1, [&] {
    for (int i = 0; i < 3; ++i)
      all.push_back(std::async(std::launch::async, [&] { return b.get(2); }));
    until_waiting(exchange, 1);
    while (waiting < 2) std::this_thread::yield();
    CHECK(exchange.report()[0].waiting.size() == 1);
  });
  std::set<const Linear*> got;
  for (auto& one : all) got.insert(one.get().value().get());
  CHECK(got.size() == 1);
}

TEST_CASE("memory that does not hold what it should is not used, and its user says why") {
  // In the place of an exchange: whoever asks gets this.
  const auto given = [](const OwnedFile& memory) {
    auto sockets = packet_sockets().value();
    LoadedParts parts;
    std::vector<std::string> notices;
    parts.share(std::make_shared<const PartClient>(std::move(sockets.second)),
                [&](const std::string& line) { notices.push_back(line); });
    const auto answers = std::async(std::launch::async, [&] {
      for (;;) {
        auto asked = receive_packet(sockets.first.get()).value();
        if (!asked.has_value()) continue;
        REQUIRE(
            send_packet(asked->with.get(), {PartPacket::Kind::have, {}, {}}, memory.get()).ok());
        return;
      }
    });
    const auto part = parts.get_weights<int>("part", "the part", [](WeightArena* arena) {
      return Result<int>(arena == nullptr ? 1 : 2);
    });
    CHECK(*part.value() == 1);
    CHECK(parts.attached() == 0);
    REQUIRE(notices.size() == 1);
    return notices[0];
  };
  WeightArena other = WeightArena::make({9}).value();
  CHECK(given(other.seal().value()) ==
        "the part: its weights are not shared with other processes: shared weights: they are "
        "another part's");
  const OwnedFile file(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  CHECK_THAT(given(file), Contains("not sealed"));
}

TEST_CASE("what cannot be sealed is its maker's alone, and whoever waits for it makes its own") {
  PartExchange exchange;
  Host a(exchange, "host 'a'"), b(exchange, "host 'b'");
  std::array<int, 2> pipe{};
  REQUIRE(::pipe2(pipe.data(), O_CLOEXEC) == 0);
  const OwnedFile out(pipe[0]), in(pipe[1]);
  std::future<std::shared_ptr<const Linear>> waits;
  const auto first = a.parts.get_weights<Linear>("part", "the part", [&](WeightArena* arena) {
    Linear made = Host::one(1, arena);
    waits = std::async(std::launch::async, [&] { return b.get(2).value(); });
    until_waiting(exchange, 1);
    // A page that is in a pipe is used by the system.
    const iovec used{const_cast<float*>(made.weight.f32().data()), sizeof(float)};
    REQUIRE(::vmsplice(in.get(), &used, 1, 0) == sizeof(float));
    return Result<Linear>(std::move(made));
  });
  CHECK(number_in(**first) == 1);
  REQUIRE(a.notices.size() == 1);
  CHECK_THAT(a.notices[0], Contains("they cannot be sealed: Device or resource busy"));
  REQUIRE(waits.wait_for(std::chrono::seconds(30)) == std::future_status::ready);
  const auto second = waits.get();
  CHECK(number_in(*second) == 2);
  CHECK(b.notices.empty());
  Host c(exchange, "host 'c'");
  CHECK(number_in(*c.get(3).value()) == 2);
}

TEST_CASE("without an exchange any more each process loads for itself") {
  std::optional<PartExchange> exchange(std::in_place);
  Host a(*exchange, "host 'a'");
  const auto first = a.get(1).value();
  exchange.reset();
  CHECK(number_in(*first) == 1);
  const auto other = a.parts
                         .get_weights<int>("other", "the other",
                                           [](WeightArena* arena) {
                                             return Result<int>(arena == nullptr ? 1 : 2);
                                           })
                         .value();
  CHECK(*other == 1);
  REQUIRE(a.notices.size() == 1);
  CHECK_THAT(a.notices[0], Contains("the other: its weights are not shared"));
}
