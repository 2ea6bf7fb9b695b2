// Which of a role's machines a call gets, and what its number says of that.
#include "graph/replica_choice.h"

#include <catch2/catch.hpp>
#include <map>
#include <numeric>

#include "graph/beginning.h"
#include "graph/replica_units.h"
#include "workflows/load.h"

namespace sluice {

namespace {

/// Node 1 stays with its session on 4, 5 or 6; nodes 2 and 3 are on 7 or 8; node 4 is on one.
Replicas three_and_two() {
  return Replicas({{{4, 5, 6}, true}, {{7, 8}, false}}, {none, 0, 1, 1, none});
}

/// Node 1 is on one of four machines, which its sessions get by what their calls begin with.
Replicas by_cache() { return Replicas({{{0, 1, 2, 3}, true, true}}, {none, 0}); }

std::vector<std::uint64_t> blocks(std::size_t count, std::uint64_t first = 1) {
  std::vector<std::uint64_t> numbers(count);
  std::iota(numbers.begin(), numbers.end(), first);
  return numbers;
}

std::vector<std::uint64_t> beginning(const std::string& text) {
  const std::vector<PayloadRef> inputs = {make_text(text)};
  return beginning_of(inputs, 5);
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

TEST_CASE("a conversation that comes back as a new session finds the machine that knows it") {
  ReplicaChoice choice(by_cache(), {});
  CHECK(choice.by_cache());
  std::uint64_t session = 0;
  std::map<std::uint64_t, std::uint32_t> first;  // by conversation
  int elsewhere = 0;
  for (std::size_t turn = 1; turn <= 8; ++turn)
    for (std::uint64_t conversation = 1; conversation <= 64; ++conversation) {
      const std::uint64_t number = choice.choose(++session, blocks(3 * turn, 1000 * conversation));
      const std::uint32_t machine = choice.replicas().machine(1, number);
      if (turn == 1) first[conversation] = machine;
      if (machine != first[conversation]) ++elsewhere;
      choice.call_ended(number);
      choice.session_ended(session);
    }
  CHECK(elsewhere == 0);
  std::map<std::uint32_t, int> on;
  for (const auto& [conversation, machine] : first) ++on[machine];
  for (std::uint32_t machine = 0; machine < 4; ++machine) CHECK(on[machine] == 16);
}

TEST_CASE("a beginning counts where it is half of what the call has, and the longest one counts") {
  ReplicaChoice choice(by_cache(), {});
  auto machine = [&, session = std::uint64_t{0}](const auto& numbers) mutable {
    return choice.replicas().machine(1, choice.choose(++session, numbers));
  };
  CHECK(machine(blocks(4)) == 0);
  CHECK(machine(blocks(8)) == 0);   // half of it is known there
  CHECK(machine(blocks(17)) == 1);  // eight of seventeen are less
  CHECK(machine(blocks(8, 50)) == 2);
  CHECK(machine(blocks(17)) == 1);  // all of it, though the first eight were elsewhere before
  std::vector<std::uint64_t> mixed = blocks(8, 50);
  mixed.push_back(99);
  CHECK(machine(mixed) == 2);
  CHECK(machine(std::vector<std::uint64_t>{}) == 3);
}

TEST_CASE("a machine that knows a beginning and has too many sessions does not get more") {
  ReplicaChoice choice(by_cache(), {});
  std::map<std::uint32_t, int> on;
  for (std::uint64_t session = 1; session <= 100; ++session)
    ++on[choice.replicas().machine(1, choice.choose(session, blocks(4)))];
  const auto most = std::ranges::max_element(on, {}, [](const auto& one) { return one.second; });
  const auto least = std::ranges::min_element(on, {}, [](const auto& one) { return one.second; });
  CHECK(on.size() == 4);
  CHECK(most->second <= 2 * least->second + 9);
}

TEST_CASE("what a lost machine knew is forgotten, and a session stays where it is") {
  ReplicaChoice choice(by_cache(), {});
  const auto machine = [&](std::uint64_t session, const std::vector<std::uint64_t>& numbers) {
    return choice.replicas().machine(1, choice.choose(session, numbers));
  };
  CHECK(machine(1, blocks(4)) == 0);
  CHECK(machine(2, blocks(4, 50)) == 1);
  CHECK(machine(1, blocks(4, 50)) == 0);  // its own, whatever it says now
  choice.machine_lost(0);
  CHECK(machine(3, blocks(4)) == 2);
  choice.machine_back(0);
  CHECK(machine(4, blocks(4)) == 2);
  CHECK(machine(5, blocks(4, 50)) == 3);  // machine 0 got them last, and is another one now
}

TEST_CASE("of beginnings the latest are known, in bounded memory") {
  ReplicaChoice choice(by_cache(), {});
  auto machine = [&, session = std::uint64_t{0}](std::uint64_t first) mutable {
    const auto number = choice.choose(++session, blocks(4096, first));
    choice.session_ended(session);
    return choice.replicas().machine(1, number);
  };
  const std::uint32_t gone = machine(1);
  for (std::uint64_t i = 1; i <= 16; ++i) machine(1 + 4096 * i);
  CHECK(machine(1 + 4096 * 16) == (gone + 16) % 4);  // the latest
  CHECK(machine(1) == (gone + 17) % 4);              // in turn: nobody knows it
}

TEST_CASE("inputs that begin alike have the same first numbers") {
  const std::string history(10 * beginning_block_bytes, 'a');
  const auto shorter = beginning(history + "x"), longer = beginning(history + history + "y");
  REQUIRE(shorter.size() == 10);
  REQUIRE(longer.size() == 20);
  CHECK(std::equal(shorter.begin(), shorter.end(), longer.begin()));
  std::string other = history;
  other[3 * beginning_block_bytes] = 'b';
  const auto changed = beginning(other);
  for (std::size_t i = 0; i < 10; ++i) CHECK((changed[i] == shorter[i]) == (i < 3));
  CHECK(beginning("a").size() == 1);  // less than a block is known whole or not
  CHECK(beginning("a") != beginning("b"));
  CHECK(beginning("") == beginning(""));
  CHECK(beginning(std::string(3, '\0')) != beginning(std::string(4, '\0')));
}

TEST_CASE("which input a text is, pictures and numbers count, and a picture is one block") {
  const PayloadRef text = make_text(std::string(beginning_block_bytes, 'a'));
  const auto of = [](std::vector<PayloadRef> inputs, std::uint64_t seed = 5) {
    return beginning_of(inputs, seed);
  };
  CHECK(of({text, {}}) != of({{}, text}));
  CHECK(of({text}) != of({text}, 6));
  CHECK(of({make_number(1), text}) != of({make_number(2), text}));
  const auto picture = [](std::uint8_t last) {
    Tensor pixels = *Tensor::zeros(Dtype::u8, {40, 40, 3});
    pixels.u8().back() = last;
    return make_image(std::move(pixels));
  };
  const auto one = of({picture(1), text}), two = of({picture(2), text});
  REQUIRE(one.size() == 2);
  CHECK(one[0] != two[0]);
  CHECK(one[1] != two[1]);
  CHECK(one == of({picture(1), text}));
  CHECK(of({make_text(std::string(2U << 20U, 'a'))}).size() == beginning_blocks_max);
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
