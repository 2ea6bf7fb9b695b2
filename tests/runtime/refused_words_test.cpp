// What a machine says that cannot be: each such word is refused by who hears it, in words that name
// it, its machine begins anew, and the calls of all others go on.
#include "runtime/node/control.h"
#include "runtime/wire/codec.h"
#include "test_cluster.h"

namespace sluice {

namespace {

using Kind = Control::Kind;

constexpr std::uint32_t front = 0, gpu = 1, disk = 2, arm = 3;

/// Calls begin on `front`, which keeps the list, and on `arm`; `b` is on `gpu`, the rest on `disk`.
Wiring two_homes() {
  Wiring wiring;
  wiring.machines = 4;
  wiring.homes = {front, arm};
  wiring.window = 1 << 20U;
  return wiring;
}

struct Lie {
  std::string what;
  std::uint32_t from = 0, to = 0;
  Control control;
  std::string words;
};

EdgeId edge_between(const Plan& plan, const char* from, const char* to) {
  for (const Edge& edge : plan.edges)
    if (edge.from == plan.find(from)->id && edge.to == plan.find(to)->id) return edge.id;
  FAIL("no such edge");
  return 0;
}

std::vector<Lie> lies() {
  constexpr EdgeId nowhere = 99;
  const std::string leads = "it gives back bytes of an edge that does not lead from here to it";
  return {
      {"bytes of no edge", gpu, disk, {.kind = Kind::taken, .number = 1, .edge = nowhere}, leads},
      {"a call that cannot go on, to who begins none",
       gpu,
       disk,
       {.kind = Kind::give_up, .text = "no"},
       "it says what goes to a home"},
      {"a session of who hears it",
       gpu,
       arm,
       {.number = 9, .text = "s@arm", .life = {arm, 1}},
       "it names a session of this machine"},
      {"a known session by another name",
       gpu,
       disk,
       {.text = "lisa@front", .life = {front, 1}},
       "it gives a session another name"},
      {"a workflow that is not there",
       gpu,
       disk,
       {.workflow = 1, .text = "s@front", .life = {front, 1}},
       "it speaks of a workflow or a machine that is not there"},
      {"a machine that is not there",
       gpu,
       disk,
       {.text = "s@front", .life = {4, 1}},
       "it speaks of a workflow or a machine that is not there"},
      {"that somebody is let in", gpu, disk, {.kind = Kind::admitted}, "what only the keeper"},
      {"that somebody is there",
       arm,
       gpu,
       {.kind = Kind::joined, .life = {disk, 9}},
       "what only the keeper"},
      {"a session that is void, to its home",
       gpu,
       front,
       {.kind = Kind::forget, .text = "s@front"},
       "it speaks of what is no session of its own"}};
}

void check_refused(TestCluster& cluster, const Lie& lie) {
  INFO(lie.what);
  cluster.network.inject(cluster.network.life_of(lie.from), lie.to, Channel::control,
                         encode_control(lie.control));
  const bool told = eventually([&] { return cluster.noticed(lie.words); });
  INFO(cluster.notices());
  CHECK(told);
  REQUIRE(eventually([&] { return cluster.node(lie.from).lives() == 2; }));
  for (const std::uint32_t machine : {lie.from, front, arm})
    REQUIRE(cluster.node(machine).wait_for_members(10s).ok());
  CHECK(cluster.call_at(front).first.ok);
  CHECK(cluster.call_at(arm).first.ok);
}

}  // namespace

TEST_CASE("each word that a machine may not say is refused by its reason") {
  const Lie lie = GENERATE(from_range(lies()));
  TestCluster cluster({chain_yaml}, {disk, gpu, disk}, chain_role, two_homes());
  REQUIRE(cluster.call_at(front).first.ok);
  REQUIRE(cluster.call_at(arm).first.ok);
  check_refused(cluster, lie);
}

TEST_CASE("bytes of a window are given back by who reads them, and no more than were sent") {
  TestCluster cluster({chain_yaml}, {disk, gpu, disk}, chain_role, two_homes());
  REQUIRE(cluster.call_at(front).first.ok);
  const EdgeId there = edge_between(cluster.plan(), "a", "b");
  const EdgeId back = edge_between(cluster.plan(), "b", "c");
  SECTION("an edge that leads the other way")
  check_refused(cluster, {"the other way",
                          gpu,
                          disk,
                          {.kind = Kind::taken, .number = 1, .edge = back},
                          "an edge that does not lead from here to it"});
  SECTION("more than were sent")
  check_refused(cluster, {"more",
                          gpu,
                          disk,
                          {.kind = Kind::taken, .number = 1 << 21U, .edge = there},
                          "it gives back more bytes than it was sent"});
  SECTION("by a machine to which it does not lead")
  check_refused(cluster, {"another",
                          arm,
                          disk,
                          {.kind = Kind::taken, .number = 1, .edge = there},
                          "an edge that does not lead from here to it"});
}

TEST_CASE("who knows more than the keeper has told is refused by it") {
  TestCluster cluster({chain_yaml}, {disk, gpu, disk}, chain_role, two_homes());
  wire::Bytes bytes;
  wire::ByteWriter out(bytes);
  out.number(0);   // the workflow
  out.number(99);  // what it has heard of the keeper's news
  cluster.network.inject(cluster.network.life_of(gpu), front, Channel::message, bytes);
  CHECK(eventually([&] { return cluster.noticed("it knows more than the keeper has told"); }));
  REQUIRE(eventually([&] { return cluster.node(gpu).lives() == 2; }));
  for (const std::uint32_t home : {front, arm})
    REQUIRE(cluster.node(home).wait_for_members(10s).ok());
  CHECK(cluster.call_at(front).first.ok);
}

TEST_CASE("a message for a node of another machine is refused") {
  TestCluster cluster({chain_yaml}, {disk, gpu, disk}, chain_role, two_homes());
  REQUIRE(cluster.call_at(arm).first.ok);
  Message message;
  message.kind = Message::Kind::cancel;
  message.to = cluster.plan().find("b")->id;
  message.call = {7, {arm, 1}};
  message.credit = Credit::whole();
  wire::Bytes bytes;
  wire::ByteWriter out(bytes);
  out.number(0);  // the workflow
  out.number(0);  // what it has heard of the keeper's news
  REQUIRE(wire::encode(cluster.plan(), message, {}, {.machines = 4}, bytes).ok());
  cluster.network.inject(cluster.network.life_of(arm), disk, Channel::message, bytes);
  const bool told =
      eventually([&] { return cluster.noticed("a message for a place that is not here"); });
  INFO(cluster.notices());
  CHECK(told);
  REQUIRE(eventually([&] { return cluster.node(arm).lives() == 2; }));
  for (const std::uint32_t home : {front, arm})
    REQUIRE(cluster.node(home).wait_for_members(10s).ok());
  CHECK(cluster.call_at(arm).first.ok);
}

TEST_CASE("a message that begins with no workflow, or with nothing, is refused") {
  const bool is_empty = GENERATE(false, true);
  TestCluster cluster({chain_yaml}, {disk, gpu, disk}, chain_role, two_homes());
  wire::Bytes bytes;
  wire::ByteWriter out(bytes);
  if (!is_empty) out.number(1);
  cluster.network.inject(cluster.network.life_of(gpu), disk, Channel::message, bytes);
  CHECK(eventually([&] { return cluster.noticed("machine 'gpu' sent is refused: "); }));
  CHECK(cluster.noticed(is_empty ? "ends" : "at most 0"));
}

TEST_CASE("the end of a session reaches every machine that holds it, whichever began its calls") {
  const std::uint32_t begins = GENERATE(front, arm), holds = GENERATE(front, gpu, disk, arm);
  INFO(begins << " begins, " << holds << " holds");
  Told told;
  std::mutex mutex;
  std::vector<std::string> ended;
  TestCluster cluster({remembering_yaml}, {disk, holds, disk}, told.script(), two_homes());
  cluster.session_ends = [&](const std::string& session) {
    told.forget(session);
    const std::lock_guard lock(mutex);
    ended.push_back(session);
  };
  const std::uint32_t other = front + arm - begins;
  CHECK(cluster.call_at(begins, "lisa", "x").second == "x ");
  CHECK(cluster.call_at(other, "maggie", "y").second == "y ");
  CHECK(cluster.call_at(begins, "bart", "z").second == "z ");
  REQUIRE(cluster.node(begins).runner(0).end_session("lisa").ok());
  CHECK(eventually([&] {
    const std::lock_guard lock(mutex);
    return !ended.empty();
  }));
  CHECK(cluster.call_at(begins, "lisa", "u").second == "u ");
  CHECK(cluster.call_at(other, "maggie", "v").second == "yv ");
  CHECK(cluster.call_at(begins, "bart", "w").second == "zw ");
  const std::lock_guard lock(mutex);
  CHECK(ended == std::vector<std::string>{begins == front ? "lisa@front" : "lisa@arm"});
}

}  // namespace sluice
