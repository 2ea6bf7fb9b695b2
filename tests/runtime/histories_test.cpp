// What sessions have said, over machines of a cluster in one process: it goes on wherever the
// session goes on, a call that a machine's loss has ended is no part of it, and nobody else may
// tell, ask or answer.
#include <algorithm>
#include <thread>

#include "keeping.h"
#include "runtime/node/control.h"
#include "runtime/node/history_parcel.h"
#include "test_cluster.h"

namespace sluice::over_machines {

namespace {

constexpr std::uint32_t front = 0, gpu = 1, disk = 2, arm = 3;

constexpr const char* keeping_yaml = R"(
sluice: 1
workflow: keeping
inputs: { x: text }
global_params: { said: { kind: memory } }
roles:
  first: { plugin: scripted }
  second: { plugin: keeping, global_params: [said], balance: session }
  third: { plugin: scripted }
nodes:
  a: { run: first.a, inputs: [ { x: inputs.x } ], outputs: [v] }
  b: { run: second.b, inputs: [ { x: a.v } ], outputs: [v] }
  c: { run: third.c, inputs: [ { x: b.v } ], outputs: [v] }
outputs: { out: c.v }
)";

enum class May : std::uint8_t { run_once, run_twice };

/// `run_twice`: all roles are `idempotent`.
std::string yaml_of(May may) {
  std::string yaml = keeping_yaml;
  const std::string plugin = "{ plugin:", twice = "{ idempotent: true, plugin:";
  for (std::size_t at = yaml.find(plugin); may == May::run_twice && at != std::string::npos;
       at = yaml.find(plugin, at + twice.size()))
    yaml.replace(at, plugin.size(), twice);
  return yaml;
}

/// A cluster whose role `second` remembers, on `gpu` and `disk` or where else is said.
struct World {
  KeepingRole::Hook before = [](const std::string&) {}, after = [](const std::string&) {};
  KeepingRole::Hook at_first = [](const std::string&) {}, at_third = at_first;
  std::vector<Kept*> kept;  // in the order in which they were made
  std::unique_ptr<TestCluster> cluster;

  explicit World(RoleMachines spread = {{front}, {gpu, disk}, {front}},
                 std::vector<std::uint32_t> homes = {front}, May may = May::run_once) {
    Wiring wiring;
    wiring.spread = std::move(spread);
    wiring.machines = 4;
    wiring.homes = std::move(homes);
    wiring.param = [this] {
      auto made = std::make_unique<Kept>();
      kept.push_back(made.get());
      return made;
    };
    wiring.keeping = [this](const RoleMaking& making) {
      return std::make_unique<KeepingRole>(
          dynamic_cast<Kept&>(*making.global_params.at(0)), making.role->name.text,
          [this](const std::string& text) { before(text); },
          [this](const std::string& text) { after(text); });
    };
    const Script passes = [this](Activation& activation, std::uint32_t) -> Result<void> {
      (activation.node() == "c" ? at_third : at_first)(activation.input("x")->text);
      activation.yield("v", make_text(activation.input("x")->text));
      return {};
    };
    cluster =
        std::make_unique<TestCluster>(std::vector<std::string>{yaml_of(may)},
                                      std::vector<std::uint32_t>{}, passes, std::move(wiring));
  }

  std::string say(const std::string& session, const std::string& text, std::uint32_t home = front) {
    auto [outcome, came] = cluster->call_at(home, session, text);
    warnings = outcome.warnings;
    INFO(outcome.error.message);
    CHECK(outcome.ok);
    return came;
  }
  bool warned(const std::string& words) const {
    return std::ranges::any_of(
        warnings, [&](const std::string& one) { return one.find(words) != std::string::npos; });
  }
  void lose(std::uint32_t machine) {
    cluster->kill(machine);
    const std::string words = std::string("machine '") + names[machine] + "' is lost";
    REQUIRE(eventually([&] { return cluster->noticed(words); }));
  }
  /// It goes on, hears that it is lost, and begins another life in place.
  void come_back(std::uint32_t machine) {
    const std::uint32_t lives = cluster->node(machine).lives();
    cluster->network.thaw(machine);
    REQUIRE(eventually([&] { return cluster->node(machine).lives() > lives; }));
    REQUIRE(cluster->home().wait_for_members(10s).ok());
  }
  void restart(std::uint32_t machine, std::uint32_t incarnation) {
    cluster->network.forget(machine);
    cluster->start(machine, incarnation);
    const auto is_known = [&] {
      return cluster->home().status().machines[machine].known.incarnation == incarnation;
    };
    REQUIRE(eventually(is_known));
    REQUIRE(cluster->home().wait_for_members(10s).ok());
  }

  static constexpr const char* names[] = {"front", "gpu", "disk", "arm"};
  std::vector<std::string> warnings;
};

wire::Bytes told(std::vector<std::string> texts) {
  ToldParcel parcel{.call = 1, .told = {.role = "second"}};
  for (const std::string& text : texts) {
    const auto bytes = std::as_bytes(std::span(text));
    parcel.told.part.records.emplace_back(bytes.begin(), bytes.end());
  }
  parcel.told.part.complete = static_cast<std::uint32_t>(texts.size());
  return encode_told(parcel);
}

}  // namespace

TEST_CASE("a session that moves goes on with what was said, back and forth") {
  World world;
  CHECK(world.say("s", "one ") == "one  ");
  CHECK(world.say("t", "uno ") == "uno  ");
  CHECK(world.say("s", "two ") == "one two  ");
  world.lose(gpu);
  const std::string words =
      "session 's' was on machine 'gpu', which is lost: it goes on on machine 'disk' with what "
      "was said";
  CHECK(world.say("s", "three ") == "one two three  ");
  CHECK(world.warned(words));
  CHECK(world.cluster->noticed(words));
  CHECK(world.say("s", "four ") == "one two three four  ");
  CHECK(world.warnings.empty());
  world.come_back(gpu);
  world.lose(disk);
  CHECK(world.say("s", "five ") == "one two three four five  ");
  CHECK(world.warned("it goes on on machine 'gpu' with what was said"));
  CHECK(world.say("t", "due ") == "uno due  ");
  CHECK(world.warned("it goes on on machine 'gpu' with what was said"));
}

TEST_CASE("a session goes on on its home's own machine, and from there as before") {
  World world({{front}, {gpu, front}, {front}});
  CHECK(world.say("s", "one ") == "one  ");
  world.lose(gpu);
  CHECK(world.say("s", "two ") == "one two  ");
  CHECK(world.warned("it goes on on machine 'front' with what was said"));
  CHECK(world.say("s", "three ") == "one two three  ");
  CHECK(world.warnings.empty());
}

TEST_CASE("a machine that begins anew goes on where its sessions' home says") {
  World world({{front}, {gpu}, {front}});
  CHECK(world.say("s", "one ") == "one  ");
  SECTION("in place: it has kept what it knew") {
    world.lose(gpu);
    world.come_back(gpu);
    CHECK(world.say("s", "two ") == "one two  ");
    CHECK(world.warnings.empty());
  }
  SECTION("as another process: it is told, and so is the caller") {
    world.cluster->kill(gpu);
    world.restart(gpu, 2);
    CHECK(world.say("s", "two ") == "one two  ");
    CHECK(
        world.warned("session 's' was on machine 'gpu', which has begun anew: it goes on there "
                     "with what was said"));
    CHECK(world.say("s", "three ") == "one two three  ");
    CHECK(world.warnings.empty());
  }
}

TEST_CASE("a call that the loss of its machine has ended is no part of what was said") {
  const bool in_place = GENERATE(false, true), is_remembered = GENERATE(false, true);
  const bool is_late = in_place && GENERATE(false, true);
  INFO((in_place ? "in place" : "moved")
       << (is_remembered ? ", remembered" : "") << (is_late ? ", late" : ""));
  World world(
      {{front}, in_place ? std::vector<std::uint32_t>{gpu} : std::vector{gpu, disk}, {front}});
  Gate reached, let_go;
  const auto hold = [&](const std::string& text) {
    if (text != "lost ") return;
    reached.open();
    let_go.wait();
  };
  // What the role has remembered and not told goes with the life in which it was said; what it
  // remembers later goes where its session's next activation begins.
  (is_remembered ? world.after : world.before) = hold;
  CHECK(world.say("s", "one ") == "one  ");
  std::thread caller([&] {
    const auto [outcome, came] = world.cluster->call("s", "lost ");
    CHECK(!outcome.ok);
    CHECK(outcome.error.message.find("machine 'gpu', where node 'b' runs, is lost") == 0);
  });
  reached.wait();
  world.lose(gpu);
  caller.join();
  if (!is_late) let_go.open();
  if (in_place) world.come_back(gpu);
  std::string came;
  std::thread next([&] { came = world.say("s", "two "); });
  if (is_late) {  // the next activation waits behind this one, and its session has been settled
    REQUIRE(eventually([&] { return world.cluster->node(gpu).status().counts.activations == 1; }));
    REQUIRE(eventually([&] { return world.cluster->network.is_idle(); }));
    let_go.open();
  }
  next.join();
  CHECK(came == "one two  ");
  CHECK(world.say("s", "three ") == "one two three  ");
}

TEST_CASE("a call that had been told and was lost elsewhere on the same machine goes back") {
  // `c` too is on the machine that is lost, and holds the call while its home hears what `b` tells.
  World world({{front}, {gpu}, {gpu}});
  CHECK(world.say("s", "one ") == "one  ");
  Gate reached, let_go;
  world.at_third = [&](const std::string& text) {
    if (text != "one lost ") return;
    reached.open();
    let_go.wait();
  };
  std::thread caller([&] { CHECK(!world.cluster->call("s", "lost ").first.ok); });
  reached.wait();
  REQUIRE(eventually([&] { return world.cluster->node(gpu).status().counts.activations == 1; }));
  REQUIRE(eventually([&] { return world.cluster->network.is_idle(); }));
  world.lose(gpu);
  caller.join();
  let_go.open();
  world.restart(gpu, 2);
  CHECK(world.say("s", "two ") == "one two  ");
}

TEST_CASE("a call that begins once more has said what it says once") {
  World world({{front}, {gpu, disk}, {front}}, {front}, May::run_twice);
  CHECK(world.say("s", "one ") == "one  ");
  Gate reached, let_go;
  std::atomic<bool> first{true};
  world.at_third = [&](const std::string& text) {
    if (text != "one twice " || !first.exchange(false)) return;
    reached.open();
    let_go.wait();
  };
  std::string came;
  std::thread caller([&] { came = world.say("s", "twice "); });
  reached.wait();
  REQUIRE(eventually([&] { return world.cluster->node(gpu).status().counts.activations == 0; }));
  REQUIRE(eventually([&] { return world.cluster->network.is_idle(); }));
  world.lose(gpu);
  let_go.open();
  caller.join();
  CHECK(came == "one twice  ");
  CHECK(world.warned("it goes on on machine 'disk' with what was said"));
  CHECK(world.say("s", "three ") == "one twice three  ");
}

TEST_CASE("what waits for a home's word ends with the home, and calls of others go on") {
  World world({{front}, {gpu}, {front}}, {front, arm});
  CHECK(world.say("s", "one ", front) == "one  ");
  Gate reached, let_go;
  std::atomic<int> begun{0};
  world.at_first = [&](const std::string& text) {
    if (text != "silent ") return;
    reached.open();
    let_go.wait();
  };
  world.before = [&](const std::string& text) { begun += text == "silent " ? 1 : 0; };
  std::thread caller([&] { CHECK(!world.cluster->call_at(arm, "t", "silent ").first.ok); });
  reached.wait();
  world.cluster->network.freeze(arm);
  let_go.open();
  const auto activations = [&] { return world.cluster->node(gpu).status().counts.activations; };
  REQUIRE(eventually([&] { return activations() == 1; }));
  CHECK(world.say("s", "two ", front) == "one two  ");
  CHECK(eventually([&] { return activations() == 1; }));
  for (const std::uint32_t by : {front, gpu, disk}) world.cluster->network.silence_frozen(arm, by);
  REQUIRE(eventually([&] { return activations() == 0; }));
  CHECK(world.say("s", "three ", front) == "one two three  ");
  CHECK(begun == 0);
  world.cluster->network.thaw(arm);
  caller.join();
}

TEST_CASE("of a session that has ended nothing is kept for the next one of its name") {
  World world;
  CHECK(world.say("s", "one ") == "one  ");
  REQUIRE(world.cluster->home().runner(0).end_session("s").ok());
  CHECK(world.say("s", "two ") == "two  ");
  world.lose(gpu);
  CHECK(world.say("s", "three ") == "two three  ");
  world.come_back(gpu);
  world.lose(disk);
  CHECK(world.say("s", "four ") == "two three four  ");
}

TEST_CASE("what is too large to be kept begins anew, with a warning that says why") {
  World world;
  CHECK(world.say("s", "one ") == "one  ");
  CHECK(world.say("s", "huge") == "one huge ");
  CHECK(eventually([&] { return world.kept[0]->drops > 0; }));
  world.lose(gpu);
  CHECK(world.say("s", "two ") == "two  ");
  CHECK(
      world.warned("which is lost: it begins anew on machine 'disk', for what was said in it "
                   "takes more than the 8 MiB that a home keeps of a session"));
}

TEST_CASE(
    "sessions of one name that are each home's own are two, each with its own home's history") {
  World world({{front}, {gpu, disk}, {front}}, {front, arm});
  CHECK(world.say("--s", "one ", front) == "one  ");
  CHECK(world.say("--s", "uno ", arm) == "uno  ");
  CHECK(world.say("--s", "two ", front) == "one two  ");
  world.lose(gpu);
  REQUIRE(eventually([&] {
    return world.cluster->node(arm).status().machines[gpu].known.state == Roster::State::lost;
  }));
  CHECK(world.say("--s", "three ", front) == "one two three  ");
  CHECK(world.say("--s", "due ", arm) == "uno due  ");
}

TEST_CASE("what a home says that the role cannot use begins the session anew, with a warning") {
  World world;
  CHECK(world.say("s", "unsound") == "unsound ");
  world.lose(gpu);
  CHECK(world.say("s", "two ") == "two  ");
  CHECK(
      world.warned("session 's' begins anew: what its home kept of it cannot be used, it is "
                   "unsound"));
  CHECK(world.say("s", "three ") == "two three  ");
}

TEST_CASE("a part that follows what its home does not have is no history, and the whole follows") {
  World world;
  CHECK(world.say("s", "one ") == "one  ");
  ToldParcel gap{.call = 1, .told = {.role = "second"}};
  gap.told.part.behind = {7, 99};
  gap.told.part.turn = gap.told.part.complete = 7;
  Control control{.kind = Control::Kind::history_told};
  control.node = world.cluster->plan().find("b")->id;
  control.value = encode_told(gap);
  world.cluster->network.inject(world.cluster->network.life_of(gpu), front, Channel::control,
                                encode_control(control));
  REQUIRE(eventually([&] { return world.kept[0]->drops == 1; }));
  CHECK(world.say("s", "two ") == "one two  ");
  world.lose(gpu);
  CHECK(world.say("s", "three ") == "one two three  ");
}

TEST_CASE("nobody tells, asks or answers what was said but who may, and calls go on") {
  World world({{front}, {gpu, disk}, {disk}}, {front, arm});
  CHECK(world.say("s", "one ", front) == "one  ");
  const NodeId node = world.cluster->plan().find("b")->id;
  using Kind = Control::Kind;
  struct Lie {
    std::uint32_t from, to;
    Kind kind;
    NodeId node;
    wire::Bytes value;
    std::string words;
  };
  const std::string no_role = "a role that it does not have";
  const wire::Bytes nonsense(5, std::byte{255});
  const Lie lie = GENERATE_COPY(
      Lie{arm, front, Kind::history_told, node, told({"lie "}),
          "it tells what was said in " + no_role},
      Lie{gpu, front, Kind::history_told, 99, told({"lie "}),
          "it tells what was said in " + no_role},
      Lie{gpu, disk, Kind::history_told, node, told({"lie "}), "it says what goes to a home"},
      Lie{gpu, front, Kind::history_told, node, nonsense, "what a session has said: byte"},
      Lie{arm, front, Kind::history_asked, node, encode_asked({1, {}}),
          "it asks what was said in " + no_role},
      Lie{gpu, front, Kind::history_asked, entry_node, encode_asked({1, {}}),
          "it asks what was said in " + no_role},
      Lie{gpu, disk, Kind::history_asked, node, encode_asked({1, {}}),
          "it says what goes to a home"},
      Lie{gpu, front, Kind::history_asked, node, nonsense, "what a session has said: byte"},
      Lie{gpu, disk, Kind::history_kept, node, encode_kept({true, {}}),
          "it says what was said in a session, and is no home"},
      Lie{arm, gpu, Kind::history_kept, 99, encode_kept({true, {}}),
          "it speaks of a node that is not there"},
      Lie{gpu,
          disk,
          Kind::history_dropped,
          node,
          {},
          "it drops what was said in a session, and is no home"},
      Lie{arm, gpu, Kind::history_dropped, 99, {}, "it speaks of a node that is not there"});
  INFO(lie.words);
  Control control{.kind = lie.kind};
  control.node = lie.node;
  control.value = lie.value;
  TestCluster& cluster = *world.cluster;
  cluster.network.inject(cluster.network.life_of(lie.from), lie.to, Channel::control,
                         encode_control(control));
  const bool is_told = eventually([&] { return cluster.noticed(lie.words); });
  INFO(cluster.notices());
  CHECK(is_told);
  REQUIRE(eventually([&] { return cluster.node(lie.from).lives() == 2; }));
  for (const std::uint32_t machine : {lie.from, front, arm})
    REQUIRE(cluster.node(machine).wait_for_members(10s).ok());
  CHECK(world.say("s", "two ", front) == "one two  ");
}

TEST_CASE("what a home says without having been asked changes no session") {
  World world({{front}, {gpu, disk}, {front}}, {front, arm});
  CHECK(world.say("--s", "one ", front) == "one  ");
  CHECK(world.say("--s", "uno ", arm) == "uno  ");
  KeptHistory lie{.is_there = true};
  lie.part.records.push_back({std::byte{'x'}});
  Control control{.kind = Control::Kind::history_kept};
  control.node = world.cluster->plan().find("b")->id;
  control.value = encode_kept(lie);
  TestCluster& cluster = *world.cluster;
  for (const std::uint32_t machine : {gpu, disk})
    cluster.network.inject(cluster.network.life_of(arm), machine, Channel::control,
                           encode_control(control));
  REQUIRE(eventually([&] { return cluster.network.is_idle(); }));
  CHECK(world.say("--s", "two ", front) == "one two  ");
  CHECK(world.say("--s", "due ", arm) == "uno due  ");
}

}  // namespace sluice::over_machines
