// Which of a role's machines a call gets, and what its number says of that.
#include "graph/replica_choice.h"

#include <catch2/catch.hpp>
#include <map>

#include "graph/replica_units.h"
#include "workflows/load.h"

namespace sluice {

namespace {

/// Node 1 stays with its session on 4, 5 or 6; nodes 2 and 3 are on 7 or 8; node 4 is on one.
Replicas three_and_two() {
  return Replicas({{{4, 5, 6}, true}, {{7, 8}, false}}, {none, 0, 1, 1, none});
}

std::uint32_t stays_on(ReplicaChoice& choice, std::uint64_t session) {
  return choice.replicas().machine(1, choice.choose(session));
}

}  // namespace

TEST_CASE("a call's number says which machine of each unit it uses") {
  const Replicas replicas = three_and_two();
  CHECK(replicas.choices() == 6);
  CHECK(Replicas().choices() == 1);
  std::map<std::pair<std::uint32_t, std::uint32_t>, int> seen;
  for (std::uint64_t serial = 1; serial < 3; ++serial)
    for (std::size_t a = 0; a < 3; ++a)
      for (std::size_t b = 0; b < 2; ++b) {
        const std::uint64_t number = serial * 6 + replicas.part(0, a) + replicas.part(1, b);
        CHECK(replicas.machine(1, number) == 4 + a);
        CHECK(replicas.machine(2, number) == 7 + b);
        CHECK(replicas.machine(3, number) == 7 + b);
        ++seen[{replicas.machine(1, number), replicas.machine(2, number)}];
      }
  CHECK(seen.size() == 6);
  CHECK(replicas.has(1));
  CHECK(!replicas.has(4));
  const NodeMachines where{{0, 4, 7, 7, 9}, replicas};
  CHECK(where.lives(1, 6));
  CHECK(!where.lives(1, 7));
  CHECK(where.lives(4, 9));
  CHECK(where.machine(4, {6, {}}) == 9);
  CHECK(where.nodes_of(8) == std::vector<NodeId>{2, 3});
}

TEST_CASE("calls take turns, and the machine with fewer under way comes first") {
  ReplicaChoice choice(three_and_two(), {});
  std::vector<std::uint64_t> calls;
  std::vector<std::uint32_t> on;
  const auto call = [&] {
    calls.push_back(choice.choose(1));
    on.push_back(choice.replicas().machine(2, calls.back()));
  };
  for (int i = 0; i < 4; ++i) call();
  CHECK(on == std::vector<std::uint32_t>{7, 8, 7, 8});
  choice.call_ended(calls[1]);
  choice.call_ended(calls[3]);
  on.clear();
  for (int i = 0; i < 3; ++i) call();
  CHECK(on == std::vector<std::uint32_t>{8, 8, 7});
  on.clear();
  choice.machine_lost(8);
  for (int i = 0; i < 2; ++i) call();
  choice.machine_back(8);
  for (int i = 0; i < 3; ++i) call();
  CHECK(on == std::vector<std::uint32_t>{7, 7, 8, 8, 8});  // it has fewer: 2 and 5
}

TEST_CASE("a session stays on its machine, and moves when that is away") {
  ReplicaChoice choice(three_and_two(), {});
  CHECK(stays_on(choice, 1) == 4);
  CHECK(stays_on(choice, 2) == 5);
  CHECK(stays_on(choice, 3) == 6);
  for (int i = 0; i < 3; ++i) CHECK(stays_on(choice, 2) == 5);
  CHECK(choice.take_moves().empty());
  choice.machine_lost(5);
  CHECK(stays_on(choice, 1) == 4);
  const std::uint32_t moved = stays_on(choice, 2);
  CHECK(moved == 4);
  CHECK(choice.take_moves() == std::vector<SessionMove>{{2, 5, moved}});
  CHECK(choice.take_moves().empty());
  choice.machine_back(5);
  CHECK(stays_on(choice, 2) == moved);  // what it kept on 5 is void
  CHECK(stays_on(choice, 4) == 5);      // which has the fewest sessions
  choice.session_ended(1);
  CHECK(stays_on(choice, 5) == 6);  // each has one: the next in turn
}

TEST_CASE("where no machine is there a session keeps the one that it had") {
  ReplicaChoice choice(three_and_two(), {});
  CHECK(stays_on(choice, 1) == 4);
  for (const std::uint32_t machine : {4U, 5U, 6U, 7U, 8U}) choice.machine_lost(machine);
  CHECK(stays_on(choice, 1) == 4);
  CHECK(stays_on(choice, 2) == 4);
  CHECK(choice.take_moves().empty());
  choice.machine_back(6);
  CHECK(stays_on(choice, 2) == 6);  // it had none
  CHECK(choice.take_moves().empty());
  CHECK(stays_on(choice, 1) == 6);
  CHECK(choice.take_moves() == std::vector<SessionMove>{{1, 4, 6}});
}

TEST_CASE("roles that share something and have the same machines are one unit") {
  const LoadedWorkflow loaded = load_workflow("w.yaml", R"(
sluice: 1
workflow: w
inputs: { x: text }
global_params: { kv: { kind: memory } }
roles:
  a: { plugin: scripted, global_params: [ kv ] }
  b: { plugin: scripted }
  c: { plugin: scripted, global_params: [ kv ], balance: session }
  d: { plugin: scripted, colocate: b }
nodes:
  n: { run: a.n, inputs: [ { x: inputs.x } ], outputs: [ v ] }
  m: { run: d.m, inputs: [ { x: n.v } ], outputs: [ v ] }
outputs: { out: m.v }
)");
  Plan plan;
  plan.nodes.resize(5);
  for (std::uint16_t i = 1; i < 5; ++i) {
    plan.nodes[i].id = i;
    plan.nodes[i].role = static_cast<std::uint16_t>(i - 1);
  }
  const auto where = [&](const RoleMachines& placed) {
    return machines_of_nodes(loaded.spec, plan, placed, 9);
  };
  const NodeMachines one = where({{1, 2}, {3}, {1, 2}, {3}});
  REQUIRE(one.replicas.units().size() == 1);
  CHECK(one.replicas.units()[0].by_session);
  CHECK(one.replicas.unit(1) == one.replicas.unit(3));
  CHECK(!one.replicas.has(2));
  CHECK(one.of == std::vector<std::uint32_t>{9, 1, 3, 1, 3});
  const NodeMachines two = where({{1, 2}, {1, 2}, {1, 2}, {1, 2}});
  REQUIRE(two.replicas.units().size() == 2);
  CHECK(two.replicas.unit(2) == two.replicas.unit(4));
  CHECK(!two.replicas.units()[two.replicas.unit(2)].by_session);
  const NodeMachines apart = where({{1, 2}, {3}, {1, 2, 4}, {3}});  // their pages travel
  REQUIRE(apart.replicas.units().size() == 2);
  CHECK(!apart.replicas.units()[0].by_session);
  CHECK(choices_of(loaded.spec, {{1, 2}, {3}, {1, 2, 4}, {3}}) == 6);
  CHECK(choices_of(loaded.spec, {{1}, {1}, {1}, {1}}) == 1);
  std::vector<std::uint32_t> many(2000);
  for (std::uint32_t i = 0; i < many.size(); ++i) many[i] = i;
  std::vector<std::uint32_t> more = many;
  more.push_back(2000);
  CHECK(choices_of(loaded.spec, {many, {1}, more, {1}}) == choices_max + 1);
}

}  // namespace sluice
