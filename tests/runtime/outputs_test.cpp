// Memory that a role asks for to make an output in: where it stands, and that nobody copies it.
#include <sys/stat.h>

#include <cstdlib>
#include <filesystem>

#include "runtime/zmq/zmq_transport.h"
#include "test_cluster.h"

namespace sluice {

namespace {

constexpr std::int64_t side = 1024;  // of a tensor of 1 MiB

/// `far` is read on another machine, `near` where it is made.
constexpr const char* outputs_yaml = R"(
sluice: 1
workflow: outputs
inputs: { x: text }
roles: { first: { plugin: scripted }, second: { plugin: scripted }, third: { plugin: scripted } }
nodes:
  a: { run: first.a, inputs: [ { x: inputs.x } ], outputs: [far, near, small] }
  b: { run: second.b, inputs: [ { x: a.far, y: a.small } ], outputs: [v] }
  c: { run: third.c, inputs: [ { x: a.near } ], outputs: [v] }
outputs: { far: b.v, near: c.v }
)";

class IpcFolder {
 public:
  IpcFolder() {
    std::string name = "/tmp/sluice-outputs-XXXXXX";
    REQUIRE(mkdtemp(name.data()) != nullptr);
    path_ = name;
  }
  IpcFolder(const IpcFolder&) = delete;
  IpcFolder& operator=(const IpcFolder&) = delete;
  ~IpcFolder() { std::filesystem::remove_all(path_); }

  /// Machines that meet on ipc sockets. `shared_bytes`: of memory that they share.
  Connect connect(std::uint32_t machines, std::size_t shared_bytes) const {
    return [path = path_, machines, shared_bytes](Origin self) {
      ZmqOptions options;
      options.self = self;
      options.bind = "ipc://" + path + "/" + std::to_string(self.machine);
      options.cluster = "test";
      options.shared_bytes = shared_bytes;
      options.notice = [](const LinkNotice&) {};
      for (std::uint32_t other = 0; other < machines; ++other)
        if (other != self.machine)
          options.peers.push_back({other, "ipc://" + path + "/" + std::to_string(other), ""});
      return make_zmq_transport(std::move(options));
    };
  }

 private:
  std::string path_;
};

/// Where the tensors of `a` stood, by output.
struct Seen {
  std::atomic<bool> far_is_shared{false}, near_is_shared{false}, small_is_shared{false};
  std::atomic<bool> undeclared_is_shared{false}, wrong_is_refused{false};

  Script script() {
    return [this](Activation& activation, std::uint32_t) -> Result<void> {
      if (activation.node() == "a") return make(activation);
      const Tensor& tensor = activation.input("x")->tensor;
      std::int64_t sum = 0;
      for (const std::uint8_t one : tensor.u8()) sum += one;
      activation.yield("v", make_text(std::to_string(sum)));
      return {};
    };
  }

 private:
  static bool is_shared(const Tensor& tensor) { return tensor.buffer()->keeper() != nullptr; }

  Result<void> make(Activation& activation) {
    Tensor far = activation.make_output("far", Dtype::u8, {side, side}).value();
    Tensor near = activation.make_output("near", Dtype::u8, {side, side}).value();
    Tensor small = activation.make_output("small", Dtype::u8, {side}).value();
    far_is_shared = is_shared(far);
    near_is_shared = is_shared(near);
    small_is_shared = is_shared(small);
    undeclared_is_shared =
        is_shared(activation.make_output("nothing", Dtype::u8, {side, side}).value());
    wrong_is_refused = !activation.make_output("far", Dtype::u8, {-1}).ok() &&
                       !activation.make_output("near", Dtype::i64, {1LL << 62}).ok();
    std::ranges::fill(far.u8(), std::uint8_t{1});
    std::ranges::fill(near.u8(), std::uint8_t{2});
    std::ranges::fill(small.u8(), std::uint8_t{3});
    const std::vector<FieldValue> frame{{"far", make_tensor(std::move(far))},
                                        {"near", make_tensor(std::move(near))},
                                        {"small", make_tensor(std::move(small))}};
    activation.yield(frame);
    return {};
  }
};

/// What the machine has lent to another.
LentCounts lent(Node& node, std::uint32_t machine) {
  const NodeStatus status = node.status();
  const auto& link = status.machines.at(machine).link;
  return link ? link->lent : LentCounts{};
}

}  // namespace

TEST_CASE("an output that another machine reads is made in memory that both have") {
  const IpcFolder folder;
  Seen seen;
  TestCluster cluster({outputs_yaml}, {0, 1, 0}, seen.script(),
                      {2, folder.connect(2, std::size_t{256} << 20U)});
  const std::string both = std::to_string(side * side) + " " + std::to_string(2 * side * side);
  std::uint64_t before = 0;
  // The other machine may not have mapped the memory at the first calls: they travel in messages.
  REQUIRE(eventually([&] {
    const auto [outcome, text] = cluster.call();
    REQUIRE(outcome.ok);
    CHECK((text == both + " " ||
           text == std::to_string(2 * side * side) + " " + std::to_string(side * side) + " "));
    before = lent(cluster.home(), 1).in_place;
    return before > 0;
  }));
  CHECK(seen.far_is_shared);
  CHECK_FALSE(seen.near_is_shared);
  CHECK_FALSE(seen.small_is_shared);
  CHECK_FALSE(seen.undeclared_is_shared);
  CHECK(seen.wrong_is_refused);
  for (int i = 0; i < 300; ++i) REQUIRE(cluster.call().first.ok);  // more than the memory holds
  const LentCounts counts = lent(cluster.home(), 1);
  CHECK(counts.in_place == before + 300);
  CHECK(counts.copied == 0);
  CHECK(eventually([&] { return lent(cluster.home(), 1).held_bytes == 0; }));
}

TEST_CASE("an output stands in the process's own memory where nothing is shared") {
  const IpcFolder folder;
  Seen seen;
  TestCluster cluster({outputs_yaml}, {0, 1, 0}, seen.script(), {2, folder.connect(2, 0)});
  CHECK(cluster.call().first.ok);
  CHECK_FALSE(seen.far_is_shared);
  CHECK(seen.wrong_is_refused);

  Seen alone;
  TestWorld world;
  world.add_scripted(alone.script());
  world.run(outputs_yaml);
  CHECK(world.call("s", "x").first.ok);
  CHECK_FALSE(alone.far_is_shared);
  CHECK(alone.wrong_is_refused);
}

TEST_CASE("a role that asks for memory after its driver has closed has the process's own") {
  const IpcFolder folder;
  Gate reached, let_go;
  std::atomic<int> shared{0}, asked{0};
  {
    std::optional<TestCluster> cluster;
    cluster.emplace(
        std::vector<std::string>{outputs_yaml}, std::vector<std::uint32_t>{0, 1, 0},
        [&](Activation& activation, std::uint32_t) -> Result<void> {
          if (activation.node() != "a") return {};
          reached.open();
          while (!activation.cancelled()) std::this_thread::yield();
          // It was cancelled by the end of the driver, which may not have ended yet.
          let_go.wait();
          const Result<Tensor> made = activation.make_output("far", Dtype::u8, {side, side});
          shared += made->buffer()->keeper() != nullptr ? 1 : 0;
          ++asked;
          return {};
        },
        Wiring{2, folder.connect(2, std::size_t{256} << 20U)});
    Waiting waiting;
    const auto handle =
        cluster->home().runner(0).start({"s", {{"x", make_text("x")}}, {}}, waiting.observer());
    reached.wait();
    // The runner goes first; its role runs on until it is let go by the end of its lanes.
    std::thread ends([&] { cluster.reset(); });
    CHECK(!waiting.wait().ok);
    let_go.open();
    ends.join();
  }
  CHECK(asked == 1);
  CHECK(shared == 0);
}

}  // namespace sluice
