// Nodes of one cluster in one memory: the same calls as in one process, and machines that go.
#include "runtime/node/node.h"

#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <deque>

#include "memory_network.h"
#include "runtime/node/control.h"
#include "runtime/node/life.h"
#include "runtime/wire/codec.h"
#include "runtime/zmq/zmq_transport.h"
#include "world.h"

namespace sluice {

namespace {

using namespace std::chrono_literals;

/// Three roles in a row, a stream, and a join of two of its ways.
constexpr const char* chain_yaml = R"(
sluice: 1
workflow: chain
inputs: { x: text }
roles: { first: { plugin: scripted }, second: { plugin: scripted }, third: { plugin: scripted } }
nodes:
  a: { run: first.a, inputs: [ { x: inputs.x } ], outputs: [v] }
  b: { run: second.b, inputs: [ { x: a.v } ], outputs: [v] }
  c: { run: third.c, inputs: [ { x: a.v, y: b.v } ], outputs: [v] }
outputs: { out: c.v }
)";

struct Wiring {
  std::uint32_t machines = 3;
  Connect connect{};  // empty: links in memory
};

/// What roles hold of sessions, elsewhere.
class Memory final : public GlobalParam {
 public:
  explicit Memory(const std::function<void(std::string)>& ends) : ends_(ends) {}
  void end_session(std::string_view session) override {
    if (ends_) ends_(std::string(session));
  }

 private:
  const std::function<void(std::string)>& ends_;
};

/// A cluster of machines 0 (the home), 1, 2 and maybe 3; role i of each workflow runs on machine
/// `placed[i]`.
class TestCluster {
 public:
  TestCluster(std::vector<std::string> yamls, std::vector<std::uint32_t> placed, Script script,
              Wiring wiring = {})
      : placed_(std::move(placed)), connect_(std::move(wiring.connect)), nodes_(wiring.machines) {
    PluginDeclaration declaration;
    declaration.name = "scripted";
    declaration.any_ports = true;
    catalog_.add_global_param(
        "memory", [this](const GlobalParamMaking&) -> Result<std::unique_ptr<GlobalParam>> {
          return std::unique_ptr<GlobalParam>(std::make_unique<Memory>(session_ends));
        });
    Plugin plugin;
    plugin.declaration = declaration;
    plugin.make = [this, script](const RoleMaking& making) -> Result<RoleInstance> {
      ++made;
      return RoleInstance(
          std::unique_ptr<Role>(std::make_unique<ScriptedRole>(script, making.replica)));
    };
    catalog_.add(plugin);
    plugin.declaration.name = "remembering";
    plugin.declaration.global_param_kinds = {"memory"};
    catalog_.add(std::move(plugin));
    for (const std::string& yaml : yamls) {
      LoadedWorkflow& loaded = loaded_.emplace_back(load_workflow("test.yaml", yaml));
      plans_.push_back(plan_workflow(loaded, catalog_.declarations()));
      REQUIRE(!has_errors(loaded.diagnostics));
    }
    for (std::size_t i = 0; i < yamls.size(); ++i)
      graphs_.push_back({&loaded_[i].spec, &plans_[i]});
    for (std::uint32_t machine = 0; machine < nodes_.size(); ++machine) start(machine, 1);
    REQUIRE(home().wait_for_members(10s).ok());
    for (std::uint32_t machine = 1; machine < nodes_.size(); ++machine)
      REQUIRE(nodes_[machine]->wait_for_members(10s).ok());
  }
  ~TestCluster() {
    // The home first, as when a caller is done.
    for (auto& node : nodes_) node.reset();
  }

  void start(std::uint32_t machine, std::uint32_t incarnation) {
    NodeOptions options;
    options.machines = {"front", "gpu", "disk", "arm"};
    options.machines.resize(nodes_.size());
    options.self = machine;
    options.placed.assign(graphs_.size(), placed_);
    options.connect = [this](Origin self) -> Result<std::unique_ptr<Transport>> {
      return connect_ ? connect_(self) : network.join(self);
    };
    options.incarnation = incarnation;
    options.notice = [this](const std::string& line) {
      const std::lock_guard lock(mutex_);
      notices_ += line + "\n";
    };
    nodes_[machine].reset();
    auto node = Node::create(graphs_, catalog_, std::move(options));
    REQUIRE(node.ok());
    nodes_[machine] = std::move(*node);
  }
  /// It is gone without a word; the others find out.
  void kill(std::uint32_t machine) {
    network.freeze(machine);
    for (std::uint32_t by = 0; by < nodes_.size(); ++by)
      if (by != machine) network.silence_frozen(machine, by);
  }
  Node& home() { return *nodes_[0]; }
  const Plan& plan() const { return plans_[0]; }
  Node& node(std::uint32_t machine) { return *nodes_[machine]; }
  std::pair<CallOutcome, std::string> call(const std::string& session = "s",
                                           const std::string& text = "x", std::size_t graph = 0) {
    std::string came;
    CallOutcome outcome = home().runner(graph).call(
        {session, {{"x", make_text(text)}}, 20s},
        [&](std::string_view, const PayloadRef& value) { came += value->text + " "; });
    return {std::move(outcome), came};
  }
  bool noticed(const std::string& words) {
    const std::lock_guard lock(mutex_);
    return notices_.find(words) != std::string::npos;
  }

  MemoryNetwork network;
  std::atomic<int> made{0};
  std::function<void(std::string)> session_ends;  // set before the first call

 private:
  std::vector<std::uint32_t> placed_;
  Connect connect_;
  Catalog catalog_;
  std::deque<LoadedWorkflow> loaded_;
  std::deque<Plan> plans_;
  std::vector<Graph> graphs_;
  std::mutex mutex_;
  std::string notices_;
  std::vector<std::unique_ptr<Node>> nodes_;
};

/// `a` streams three frames, `b` marks them, `c` joins what came of each.
Result<void> chain_role(Activation& activation, std::uint32_t) {
  const std::string x = activation.input("x") != nullptr ? activation.input("x")->text : "";
  if (activation.node() == "a")
    for (int i = 0; i < 3; ++i) activation.yield("v", make_text(x + std::to_string(i)));
  if (activation.node() == "b") {
    activation.warn("marks");
    activation.yield("v", make_text("b" + x));
  }
  if (activation.node() == "c")
    activation.yield("v", make_text(std::string(activation.session()) + ":" + x + "+" +
                                    activation.input("y")->text));
  return {};
}

/// `b` says all that its session has said to it.
constexpr const char* remembering_yaml = R"(
sluice: 1
workflow: remembering
inputs: { x: text }
global_params: { said: { kind: memory } }
roles:
  first: { plugin: scripted }
  second: { plugin: remembering, global_params: [said] }
  third: { plugin: scripted }
nodes:
  a: { run: first.a, inputs: [ { x: inputs.x } ], outputs: [v] }
  b: { run: second.b, inputs: [ { x: a.v } ], outputs: [v] }
  c: { run: third.c, inputs: [ { x: b.v } ], outputs: [v] }
outputs: { out: c.v }
)";

class Told {
 public:
  Script script() {
    return [this](Activation& activation, std::uint32_t) -> Result<void> {
      std::string text = activation.input("x")->text;
      if (activation.node() == "b") {
        const std::lock_guard lock(mutex_);
        text = said_[std::string(activation.session())] += text;
      }
      activation.yield("v", make_text(text));
      return {};
    };
  }
  void forget(const std::string& session) {
    const std::lock_guard lock(mutex_);
    said_.erase(session);
  }

 private:
  std::mutex mutex_;
  std::map<std::string, std::string> said_;
};

/// Loopback addresses that nobody uses now, all different.
std::vector<std::string> free_addresses(std::size_t count) {
  std::vector<std::string> addresses;
  std::vector<int> sockets;
  while (addresses.size() < count) {
    sockets.push_back(::socket(AF_INET, SOCK_STREAM, 0));
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    REQUIRE(::bind(sockets.back(), reinterpret_cast<sockaddr*>(&address), size) == 0);
    REQUIRE(::getsockname(sockets.back(), reinterpret_cast<sockaddr*>(&address), &size) == 0);
    addresses.push_back("tcp://127.0.0.1:" + std::to_string(ntohs(address.sin_port)));
  }
  for (const int socket : sockets) ::close(socket);
  return addresses;
}

/// Machines that meet over TCP.
Connect over_tcp(std::uint32_t machines) {
  return [addresses = free_addresses(machines)](Origin self) {
    ZmqOptions options;
    options.self = self;
    options.bind = addresses[self.machine];
    options.cluster = "test";
    options.notice = [](const std::string&) {};
    for (std::uint32_t other = 0; other < addresses.size(); ++other)
      if (other != self.machine) options.peers.push_back({other, addresses[other], ""});
    return make_zmq_transport(std::move(options));
  };
}

/// Polls until it is so, for at most ten seconds.
template <typename Condition>
bool eventually(Condition is_so) {
  const auto until = std::chrono::steady_clock::now() + 10s;
  while (!is_so()) {
    if (std::chrono::steady_clock::now() > until) return false;
    std::this_thread::yield();
  }
  return true;
}

}  // namespace

TEST_CASE("a workflow over three machines gives what it gives in one process") {
  TestWorld world;
  world.add_scripted(chain_role);
  world.run(chain_yaml);
  const auto [alone, alone_text] = world.call("lisa", "x");
  REQUIRE(alone.ok);
  CHECK(alone_text == "lisa:x0+bx0 lisa:x1+bx1 lisa:x2+bx2 ");

  const std::vector<std::vector<std::uint32_t>> placements{
      {0, 1, 2}, {1, 2, 0}, {2, 2, 1}, {1, 1, 1}, {0, 0, 1}};
  for (const auto& placed : placements) {
    TestCluster cluster({chain_yaml}, placed, chain_role);
    for (int i = 0; i < 20; ++i) {
      const auto [outcome, text] = cluster.call("lisa", "x");
      INFO(outcome.error.message);
      CHECK(outcome.ok);
      CHECK(text == alone_text);
      CHECK(outcome.warnings == alone.warnings);
    }
    CHECK(eventually([&] { return cluster.home().runner(0).counts().calls == 0; }));
  }
}

TEST_CASE("a role's failure elsewhere is the call's, with its node and words") {
  TestCluster cluster({chain_yaml}, {0, 1, 2}, [](Activation& activation, std::uint32_t replica) {
    if (activation.node() == "b") return Result<void>(Error{ErrorCode::invalid_argument, "no b"});
    return chain_role(activation, replica);
  });
  const auto [outcome, text] = cluster.call();
  CHECK(!outcome.ok);
  CHECK(outcome.node == "b");
  CHECK(outcome.error.message == "no b");
}

TEST_CASE("a call whose machine is lost ends with its name, calls meanwhile too, later ones work") {
  Gate reached;
  Gate hold;
  std::atomic<bool> first{true};
  TestCluster cluster({chain_yaml}, {0, 1, 2}, [&](Activation& activation, std::uint32_t replica) {
    if (activation.node() == "b" && first.exchange(false)) {
      reached.open();
      hold.wait();
    }
    return chain_role(activation, replica);
  });
  Waiting waiting;
  const auto handle =
      cluster.home().runner(0).start({"s", {{"x", make_text("x")}}, {}}, waiting.observer());
  reached.wait();
  cluster.kill(1);
  CHECK(!waiting.wait().ok);
  CHECK(waiting.outcome.node == "b");
  CHECK(waiting.outcome.error.message ==
        "machine 'gpu', where node 'b' runs, is lost: nothing was heard of it for 1000 ms");
  CHECK(waiting.outcome.error.code == ErrorCode::unavailable);
  const auto [away, nothing] = cluster.call();
  CHECK(!away.ok);
  CHECK(away.error.message == waiting.outcome.error.message);
  // It was alive, hears that its life is over, and begins another: its roles are the same.
  const int made = cluster.made;
  hold.open();
  cluster.network.thaw(1);
  CHECK(eventually([&] { return cluster.node(1).lives() == 2; }));
  REQUIRE(cluster.home().wait_for_members(10s).ok());
  const auto [again, text] = cluster.call();
  INFO(again.error.message);
  CHECK(again.ok);
  CHECK(text == "s:x0+bx0 s:x1+bx1 s:x2+bx2 ");
  CHECK(cluster.made == made);
  CHECK(waiting.ends == 1);
}

TEST_CASE("a machine's restart that comes before its silence ends its calls, and lets it in") {
  Gate reached;
  Gate hold;
  std::atomic<bool> first{true};
  TestCluster cluster({chain_yaml}, {0, 1, 2}, [&](Activation& activation, std::uint32_t replica) {
    if (activation.node() == "b" && first.exchange(false)) {
      reached.open();
      hold.wait();
    }
    return chain_role(activation, replica);
  });
  Waiting waiting;
  const auto handle =
      cluster.home().runner(0).start({"s", {{"x", make_text("x")}}, {}}, waiting.observer());
  reached.wait();
  cluster.network.freeze(1);
  hold.open();
  cluster.network.forget(1);
  cluster.start(1, 5);
  CHECK(!waiting.wait().ok);
  CHECK(waiting.outcome.error.message ==
        "machine 'gpu', where node 'b' runs, is lost: it has begun anew");
  REQUIRE(cluster.home().wait_for_members(10s).ok());
  CHECK(cluster.call().first.ok);
}

TEST_CASE("a call is over for its caller though a role elsewhere does not let go") {
  Gate reached;
  Gate hold;
  std::atomic<bool> first{true};
  TestCluster cluster({chain_yaml}, {2, 1, 0}, [&](Activation& activation, std::uint32_t replica) {
    if (activation.node() == "a" && first.exchange(false)) {
      reached.open();
      hold.wait();
    }
    return chain_role(activation, replica);
  });
  Waiting waiting;
  const auto handle =
      cluster.home().runner(0).start({"s", {{"x", make_text("x")}}, {}}, waiting.observer());
  reached.wait();
  cluster.kill(1);  // the role that holds on is on machine 2
  CHECK(!waiting.wait().ok);
  CHECK(waiting.outcome.node == "b");
  CHECK(cluster.home().runner(0).counts().given_up == 1);
  hold.open();
  CHECK(eventually([&] { return cluster.home().runner(0).counts().calls == 0; }));
}

TEST_CASE("a machine that another cannot hear is lost") {
  TestCluster cluster({chain_yaml}, {0, 1, 2}, chain_role);
  cluster.network.silence(1, 2);
  CHECK(eventually([&] {
    return cluster.noticed("machine 'gpu' is lost: machine 'disk' says: nothing was heard");
  }));
  CHECK(eventually([&] { return cluster.node(1).lives() == 2; }));
  REQUIRE(cluster.home().wait_for_members(10s).ok());
  CHECK(cluster.call().first.ok);
}

TEST_CASE("a machine that another could not hear before it was let in is lost, too") {
  TestCluster cluster({chain_yaml}, {0, 1, 2}, chain_role);
  cluster.network.hold(1, 0);  // it asks, and is not heard yet
  cluster.start(1, 5);
  const std::size_t heard = cluster.network.heard(2, 0);
  cluster.network.silence(1, 2);
  REQUIRE(eventually([&] { return cluster.network.heard(2, 0) == heard + 1; }));
  cluster.network.let_go(1, 0);
  CHECK(eventually([&] {
    return cluster.noticed("machine 'gpu' is lost: machine 'disk' says: nothing was heard");
  }));
  REQUIRE(eventually([&] { return cluster.node(1).lives() == 2; }));
  REQUIRE(cluster.home().wait_for_members(10s).ok());
  CHECK(cluster.call().first.ok);
}

TEST_CASE("when the home begins anew, so do the others, and no session is left of before") {
  std::atomic<int> lisa{0};
  TestCluster cluster({chain_yaml}, {0, 1, 2}, [&](Activation& activation, std::uint32_t replica) {
    if (activation.session() == "lisa") ++lisa;
    return chain_role(activation, replica);
  });
  CHECK(cluster.call("lisa").first.ok);
  CHECK(lisa == 7);
  cluster.start(0, 9);
  REQUIRE(cluster.home().wait_for_members(10s).ok());
  CHECK(cluster.node(1).lives() == 2);
  CHECK(cluster.node(2).lives() == 2);
  CHECK(cluster.call("lisa").first.ok);
  CHECK(lisa == 14);
}

TEST_CASE("what roles hold of sessions is the home's, and goes with it") {
  Told told;
  TestCluster cluster({remembering_yaml}, {0, 1, 2}, told.script());
  cluster.session_ends = [&](const std::string& session) { told.forget(session); };
  CHECK(cluster.call("lisa", "x").second == "x ");
  CHECK(cluster.call("lisa", "y").second == "xy ");
  // Another life of the machine, the same home: it goes on.
  cluster.network.silence(1, 0);
  REQUIRE(eventually([&] { return cluster.node(1).lives() == 2; }));
  REQUIRE(cluster.home().wait_for_members(10s).ok());
  CHECK(cluster.call("lisa", "z").second == "xyz ");
  cluster.start(0, 9);
  REQUIRE(cluster.home().wait_for_members(10s).ok());
  CHECK(cluster.call("lisa", "x").second == "x ");
}

TEST_CASE("a session's end that takes long delays nobody but a session of its name") {
  Told told;
  Gate reached;
  Gate hold;
  TestCluster cluster({remembering_yaml}, {0, 1, 2}, told.script());
  cluster.session_ends = [&](const std::string& session) {
    reached.open();
    hold.wait();
    told.forget(session);
  };
  CHECK(cluster.call("lisa", "x").second == "x ");
  REQUIRE(cluster.home().runner(0).end_session("lisa").ok());
  reached.wait();
  CHECK(cluster.call("bart", "y").second == "y ");
  const std::size_t heard = cluster.network.heard(0, 1);
  Waiting waiting;
  const auto handle =
      cluster.home().runner(0).start({"lisa", {{"x", make_text("z")}}, 20s}, waiting.observer());
  REQUIRE(eventually([&] { return cluster.network.heard(0, 1) == heard + 2; }));
  hold.open();
  CHECK(waiting.wait().ok);
  CHECK(waiting.text == "z ");
}

TEST_CASE("a session's end comes to machines that the home has not told of it itself") {
  Told told;
  TestCluster cluster({remembering_yaml}, {1, 2, 0}, told.script());
  std::atomic<int> ends{0};
  cluster.session_ends = [&](const std::string&) { ++ends; };
  CHECK(cluster.call("lisa", "x").second == "x ");
  REQUIRE(cluster.home().runner(0).end_session("lisa").ok());
  CHECK(eventually([&] { return ends == 1; }));
}

TEST_CASE("a life waits for the home until it is let in, and has no members when it is over") {
  struct Keeper final : LifeKeeper {
    void over(const std::string&) override {}
    void bound(Origin) override {}
    void session_known(const std::string&) override {}
    void session_ended(const std::string&) override {}
    bool is_ending(const std::string&) override { return false; }
  } keeper;
  NodeOptions options;
  options.machines = {"front", "gpu"};
  options.self = 1;
  options.placed = {{1}, {1}};
  MemoryNetwork network;
  Life life(options, {1, 1}, keeper);
  CHECK(life.wait(0ms) == std::vector<std::string>{"front"});  // no driver is there yet
  life.start({}, network.join({1, 1}));
  life.port().admitted();
  CHECK(life.wait(0ms) == std::vector<std::string>{"front"});
  life.port().admitted();
  CHECK(life.wait(0ms).empty());
  life.stop(false);
  CHECK(life.wait(0ms) == std::vector<std::string>{"front"});
}

TEST_CASE("over TCP, too, a machine begins another life at its address") {
  TestCluster cluster({chain_yaml}, {0, 1, 2}, chain_role, {3, over_tcp(3)});
  REQUIRE(cluster.call().first.ok);
  cluster.start(0, 9);
  REQUIRE(cluster.home().wait_for_members(10s).ok());
  CHECK(cluster.node(1).lives() == 2);
  CHECK(cluster.node(2).lives() == 2);
  CHECK(cluster.call().first.ok);
}

TEST_CASE("a machine that sends nonsense is refused and named, and the rest goes on") {
  TestCluster cluster({chain_yaml}, {0, 1, 2}, chain_role);
  REQUIRE(cluster.call().first.ok);
  const auto nonsense = GENERATE(0, 1, 2, 3);
  wire::Bytes bytes;
  wire::ByteWriter out(bytes);
  if (nonsense == 1) out.number(7);               // a workflow that there is not
  if (nonsense == 2) out.bytes(wire::Bytes(40));  // no message
  if (nonsense == 3) out.u8(255);                 // no control parcel
  const Origin life = cluster.network.life_of(1);
  cluster.network.inject(life, 0, nonsense == 3 ? Channel::control : Channel::message, bytes);
  CHECK(eventually([&] { return cluster.noticed("what machine 'gpu' sent is refused"); }));
  CHECK(eventually([&] { return cluster.node(1).lives() == 2; }));
  REQUIRE(cluster.home().wait_for_members(10s).ok());
  CHECK(cluster.call().first.ok);
}

TEST_CASE("what only an engine refuses is its call's error, and nobody is fenced for it") {
  Gate reached;
  Gate hold;
  TestCluster cluster({chain_yaml}, {0, 1, 2}, [&](Activation& activation, std::uint32_t replica) {
    if (activation.node() == "b") {
      reached.open();
      hold.wait();
    }
    return chain_role(activation, replica);
  });
  Waiting waiting;
  const auto handle =
      cluster.home().runner(0).start({"s", {{"x", make_text("x")}}, 20s}, waiting.observer());
  reached.wait();
  // Machine 1 gives back all credit of the first call, though parts of it are with others: it may
  // have been told that it had so much.
  Message message;
  message.kind = Message::Kind::credit;
  message.to = entry_node;
  message.call = {1, cluster.network.life_of(0)};
  message.credit = Credit::whole();
  wire::Bytes bytes;
  wire::ByteWriter out(bytes);
  out.number(0);  // the workflow
  out.number(0);  // what it has heard of the home's news
  REQUIRE(wire::encode(cluster.plan(), message, {}, {.machines = 3}, bytes).ok());
  cluster.network.inject(cluster.network.life_of(1), 0, Channel::message, bytes);
  CHECK(!waiting.wait().ok);
  CHECK(waiting.outcome.error.code == ErrorCode::corrupt);
  hold.open();
  CHECK(!cluster.noticed("is refused"));
  CHECK(cluster.call().first.ok);
  CHECK(cluster.node(1).lives() == 1);
  CHECK(cluster.node(2).lives() == 1);
}

TEST_CASE("what only the home may say is refused when another says it") {
  TestCluster cluster({chain_yaml}, {0, 1, 2}, chain_role);
  Control control{.kind = Control::Kind::lost};
  control.life = cluster.network.life_of(2);
  cluster.network.inject(cluster.network.life_of(1), 2, Channel::control, encode_control(control));
  CHECK(eventually([&] { return cluster.noticed("it says what only the home may say"); }));
  REQUIRE(eventually([&] { return cluster.node(1).lives() == 2; }));
  REQUIRE(cluster.home().wait_for_members(10s).ok());
  CHECK(cluster.call().first.ok);
}

TEST_CASE("much that waits for the home's word is refused, however small its parts are") {
  TestCluster cluster({chain_yaml}, {0, 1, 2}, chain_role);
  wire::Bytes bytes;
  wire::ByteWriter out(bytes);
  out.number(0);
  out.number(99);  // more news than the home has told anybody
  for (int i = 0; i < (64 << 20) / 200; ++i)
    cluster.network.inject(cluster.network.life_of(1), 2, Channel::message, bytes);
  CHECK(eventually([&] { return cluster.noticed("it sends too much before the home"); }));
}

TEST_CASE("a life that is lost names no sessions") {
  TestCluster cluster({remembering_yaml}, {0, 2, 0}, [](Activation& activation, std::uint32_t) {
    activation.yield("v", make_text(std::string(activation.session())));
    return Result<void>();
  });
  const Origin gone = cluster.network.life_of(1);
  cluster.network.silence(1, 0);
  REQUIRE(eventually([&] { return cluster.node(1).lives() == 2; }));
  REQUIRE(cluster.home().wait_for_members(10s).ok());
  Control control{.kind = Control::Kind::session};
  control.text = "false";  // for the number of the first session
  cluster.network.inject(gone, 2, Channel::control, encode_control(control));
  CHECK(cluster.call("true").second == "true ");
}

TEST_CASE("what overtakes the home's word of its sender waits for it") {
  TestCluster cluster({chain_yaml}, {1, 2, 0}, chain_role);
  // Machine 2 begins anew; the home's word to it is late, machine 1's frames are not.
  cluster.network.hold(0, 2);
  cluster.network.silence(2, 0);
  REQUIRE(eventually([&] { return cluster.node(2).lives() == 2; }));
  REQUIRE(cluster.home().wait_for_members(10s).ok());
  const std::size_t heard = cluster.network.heard(1, 2);
  Waiting waiting;
  const auto handle =
      cluster.home().runner(0).start({"s", {{"x", make_text("x")}}, 20s}, waiting.observer());
  // A session's name, and three frames of `a`.
  REQUIRE(eventually([&] { return cluster.network.heard(1, 2) == heard + 4; }));
  CHECK(!waiting.ended());
  cluster.network.let_go(0, 2);
  CHECK(waiting.wait().ok);
  CHECK(waiting.text == "s:x0+bx0 s:x1+bx1 s:x2+bx2 ");
}

TEST_CASE("what overtakes the home's word of whom it causes messages to waits for it") {
  TestCluster cluster({chain_yaml}, {3, 1, 2}, chain_role, {4, {}});
  // Machine 2 begins anew; the home's word of it comes to 3, which sends to 1, before it comes
  // to 1.
  cluster.network.hold(0, 1);
  cluster.network.silence(2, 0);
  REQUIRE(eventually([&] { return cluster.node(2).lives() == 2; }));
  REQUIRE(cluster.home().wait_for_members(10s).ok());
  const std::size_t heard = cluster.network.heard(3, 1);
  Waiting waiting;
  const auto handle =
      cluster.home().runner(0).start({"s", {{"x", make_text("x")}}, 5s}, waiting.observer());
  REQUIRE(eventually([&] { return cluster.network.heard(3, 1) == heard + 4; }));
  cluster.network.let_go(0, 1);
  CHECK(waiting.wait().ok);
  INFO(waiting.outcome.error.message);
  CHECK(waiting.text == "s:x0+bx0 s:x1+bx1 s:x2+bx2 ");
}

TEST_CASE("what cannot be sent ends its call, and says which limit") {
  TestCluster cluster({chain_yaml}, {1, 2, 0}, [](Activation& activation, std::uint32_t) {
    activation.yield("v", make_text(std::string((std::size_t{64} << 20U) + 1, 'x')));
    return Result<void>();
  });
  const auto [outcome, text] = cluster.call();
  CHECK(!outcome.ok);
  CHECK(outcome.node == "a");
  CHECK(outcome.error.message.find("cannot be sent to machine 'disk'") != std::string::npos);
  CHECK(eventually([&] { return cluster.home().runner(0).counts().calls == 0; }));
}

TEST_CASE("a caller who gives up is heard elsewhere") {
  Gate reached;
  TestCluster cluster({chain_yaml}, {0, 1, 2}, [&](Activation& activation, std::uint32_t replica) {
    if (activation.node() != "b") return chain_role(activation, replica);
    reached.open();
    while (!activation.cancelled()) std::this_thread::yield();
    return Result<void>(Error{ErrorCode::cancelled, "stopped"});
  });
  Waiting waiting;
  const auto handle =
      cluster.home().runner(0).start({"s", {{"x", make_text("x")}}, {}}, waiting.observer());
  reached.wait();
  handle->cancel();
  CHECK(waiting.wait().error.message == "the caller cancelled the call");
  CHECK(eventually([&] { return cluster.home().runner(0).counts().calls == 0; }));
}

TEST_CASE("workflows that run together keep apart on the way") {
  TestCluster cluster({chain_yaml, chain_yaml}, {0, 1, 2}, chain_role);
  for (int i = 0; i < 10; ++i) {
    CHECK(cluster.call("s", "x", 0).second == "s:x0+bx0 s:x1+bx1 s:x2+bx2 ");
    CHECK(cluster.call("t", "y", 1).second == "t:y0+by0 t:y1+by1 t:y2+by2 ");
  }
}

}  // namespace sluice
