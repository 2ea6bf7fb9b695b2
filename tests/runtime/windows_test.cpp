// Windows between machines by themselves: which edges may stop their producer, and when bytes go
// back.
#include "runtime/windows.h"

#include <catch2/catch.hpp>
#include <map>

#include "runtime/node/wait_graphs.h"
#include "world.h"

namespace sluice {

namespace {

struct Compiled {
  explicit Compiled(const std::string& yaml) {
    PluginDeclaration scripted;
    scripted.name = "scripted";
    scripted.any_ports = true;
    const Declarations declarations{scripted};
    loaded = load_workflow("test.yaml", yaml);
    check(loaded.spec, declarations, loaded.diagnostics);
    plan = compile(loaded.spec, declarations, loaded.diagnostics);
    REQUIRE(!has_errors(loaded.diagnostics));
  }
  EdgeId edge(const std::string& from, const std::string& to) const {
    for (const Edge& edge : plan.edges)
      if (plan.nodes[edge.from].name == from && !edge.is_output() && plan.nodes[edge.to].name == to)
        return edge.id;
    FAIL("no edge from " + from + " to " + to);
    return none;
  }
  NodeId node(const std::string& name) const { return plan.find(name)->id; }

  LoadedWorkflow loaded;
  Plan plan;
};

std::vector<bool> stops_of(const Compiled& one) {
  return stopping_edges(std::vector{by_executor(one.plan)}).front();
}

/// `a` feeds `b` and `c`, which joins what came of each.
constexpr const char* triangle = R"(
sluice: 1
workflow: triangle
inputs: { x: text }
roles: { first: { plugin: scripted }, second: { plugin: scripted }, third: { plugin: scripted } }
nodes:
  a: { run: first.a, inputs: [ { x: inputs.x } ], outputs: [v] }
  b: { run: second.b, inputs: [ { x: a.v } ], outputs: [v] }
  c: { run: third.c, inputs: [ { x: a.v, y: b.v } ], outputs: [v] }
outputs: { out: c.v }
)";

std::string in_a_row(const std::string& workflow, const std::string& roles, const std::string& one,
                     const std::string& two, const std::string& three) {
  return "sluice: 1\nworkflow: " + workflow + "\ninputs: { x: text }\n" + roles +
         "nodes:\n  a: { run: " + one + ".a, inputs: [ { x: inputs.x } ], outputs: [v] }\n" +
         "  b: { run: " + two + ".b, inputs: [ { x: a.v } ], outputs: [v] }\n" +
         "  c: { run: " + three +
         ".c, inputs: [ { x: b.v } ], outputs: [v] }\noutputs: { out: c.v }\n";
}

const std::string two_roles =
    "roles: { left: { plugin: scripted }, right: { plugin: scripted } }\n";

constexpr std::uint32_t here = 1, there = 2;

}  // namespace

TEST_CASE("where nothing leads back every edge may stop its producer") {
  const Compiled one(triangle);
  for (const bool stops : stops_of(one)) CHECK(stops);
}

TEST_CASE("of a loop, and of nodes that share an executor, one edge lets every frame pass") {
  const Compiled loop(R"(
sluice: 1
workflow: loop
inputs: { x: text }
roles: { left: { plugin: scripted }, right: { plugin: scripted } }
nodes:
  a: { run: left.a, inputs: [ { x: inputs.x }, { x: b.again } ], outputs: [v] }
  b: { run: right.b, inputs: [ { x: a.v } ], outputs: [again, done] }
outputs: { out: b.done }
)");
  CHECK(stops_of(loop)[loop.edge("a", "b")]);
  CHECK(!stops_of(loop)[loop.edge("b", "a")]);
  // Which of them is where the call's inputs come in, not which is written first.
  const Compiled turned(R"(
sluice: 1
workflow: turned
inputs: { x: text }
roles: { right: { plugin: scripted }, left: { plugin: scripted } }
nodes:
  b: { run: right.b, inputs: [ { x: a.v } ], outputs: [again, done] }
  a: { run: left.a, inputs: [ { x: inputs.x }, { x: b.again } ], outputs: [v] }
outputs: { out: b.done }
)");
  CHECK(stops_of(turned)[turned.edge("a", "b")]);
  CHECK(!stops_of(turned)[turned.edge("b", "a")]);
  // `a` and `c` run on one lane: while `a` waits there for `b`, `c` takes nothing from `b`.
  const Compiled row(in_a_row("row", two_roles, "left", "right", "left"));
  CHECK(stops_of(row)[row.edge("a", "b")]);
  CHECK(!stops_of(row)[row.edge("b", "c")]);
}

TEST_CASE("workflows that share instances are looked at together, and so are shared parameters") {
  Compiled one(in_a_row("one", two_roles, "left", "left", "right"));
  Compiled two(in_a_row("two", two_roles, "right", "right", "left"));
  const auto count = [&] {
    const std::vector<Graph> graphs{{&one.loaded.spec, &one.plan}, {&two.loaded.spec, &two.plan}};
    const auto stops = stopping_edges(wait_graphs(graphs));
    return std::pair(stops[0][one.edge("b", "c")], stops[1][two.edge("b", "c")]);
  };
  CHECK(count() == std::pair(true, true));
  Compiled shared = one;
  for (RoleSpec& role : one.loaded.spec.roles) role.included_from = "roles.yaml";
  for (RoleSpec& role : two.loaded.spec.roles) role.included_from = "roles.yaml";
  CHECK(count() == std::pair(true, false));
  // Within one workflow: what `left` holds of the parameter may be what `right` waits for.
  WorkflowSpec& spec = shared.loaded.spec;
  GlobalParamSpec param;
  param.name.text = "pages";
  spec.global_params.push_back(param);
  for (RoleSpec& role : spec.roles) role.global_params.push_back(param.name);
  const std::vector<Graph> graph{{&spec, &shared.plan}};
  CHECK(!stopping_edges(wait_graphs(graph))[0][shared.edge("b", "c")]);
}

TEST_CASE("nodes stop together where their executors or their roles' parameters are one") {
  const auto places = [](std::vector<Compiled*> all) {
    std::vector<Graph> graphs;
    for (Compiled* const one : all) graphs.push_back({&one->loaded.spec, &one->plan});
    const std::vector<WaitGraph> waits = wait_graphs(graphs);
    REQUIRE(waits.size() == all.size());
    // Names for the places, in the order in which they come; the entry's is none.
    std::string text;
    std::map<std::uint32_t, char> names;
    for (std::size_t i = 0; i < all.size(); ++i) {
      CHECK(waits[i].plan == &all[i]->plan);
      REQUIRE(waits[i].places.size() == all[i]->plan.nodes.size());
      CHECK(waits[i].places[entry_node] == 0);
      text += i == 0 ? "" : " ";
      for (const char* node : {"a", "b", "c"})
        text +=
            names
                .emplace(waits[i].places[all[i]->node(node)], static_cast<char>('A' + names.size()))
                .first->second;
    }
    return text;
  };
  Compiled three(triangle), again(triangle);
  Compiled one(in_a_row("one", two_roles, "left", "right", "left"));
  CHECK(places({&three}) == "ABC");
  CHECK(places({&three, &one}) == "ABC DED");
  CHECK(places({&three, &again, &one}) == "ABC DEF GHG");
  const auto share = [](Compiled& in, std::size_t role, const std::string& param) {
    in.loaded.spec.roles[role].global_params.push_back({param, {}});
  };
  share(three, 0, "pages");
  share(again, 0, "pages");  // of its own
  share(one, 0, "pages");
  CHECK(places({&three, &again, &one}) == "ABC DEF GHG");
  share(three, 2, "pages");
  CHECK(places({&three, &again, &one}) == "ABA CDE FGF");
  share(three, 1, "words");
  share(three, 2, "words");
  CHECK(places({&three, &again, &one}) == "AAA BCD EFE");
  share(one, 1, "pages");
  CHECK(places({&three, &again, &one}) == "AAA BCD EEE");
  // A parameter that two workflows include from one file is one; another of the name is not.
  for (Compiled* const in : {&again, &one}) {
    GlobalParamSpec pages;
    pages.name.text = "pages";
    pages.included_from = "pages.yaml";
    GlobalParamSpec words = pages;
    words.name.text = "words";
    in->loaded.spec.global_params = {words, pages};
  }
  CHECK(places({&three, &again, &one}) == "AAA BCD BBB");
}

TEST_CASE("windows of all edges between machines have 32 MiB, each 64 KiB to 4 MiB") {
  const Compiled one(triangle);
  const auto window = [&](std::size_t workflows, const std::vector<std::uint32_t>& roles,
                          std::uint32_t home) {
    const std::vector<Graph> graphs(workflows, Graph{&one.loaded.spec, &one.plan});
    RoleMachines placed;
    for (const std::uint32_t machine : roles) placed.push_back({machine});
    return window_for(graphs, std::vector(workflows, placed), {home});
  };
  constexpr std::size_t all = std::size_t{32} << 20U, most = std::size_t{4} << 20U;
  CHECK(window(0, {}, 0) == most);
  CHECK(window(3, {1, 1, 1}, 1) == most);
  CHECK(window(7, {1, 1, 0}, 0) == all / 22);  // into `a`, and into `c` from both
  CHECK(window(7, {1, 1, 1}, 0) == all / 15);  // in and out
  CHECK(window(7, {1, 2, 3}, 0) == all / 36);  // every edge
  CHECK(window(7, {1, 2, 3}, 3) == all / 29);  // not what goes out
  CHECK(window(7, {0, 0, 1}, 0) == all / 22);  // into `c`, and out
  CHECK(window(102, {1, 2, 3}, 0) == all / 511);
  CHECK(window(103, {1, 2, 3}, 0) == std::size_t{64} << 10U);
}

TEST_CASE("a full window stops its producer until a quarter of it has come back") {
  const Compiled one(triangle);
  Windows producer(one.plan, stops_of(one), 400), consumer(one.plan, stops_of(one), 400);
  const EdgeId edge = one.edge("a", "b");
  const NodeId a = one.node("a"), b = one.node("b");
  for (int i = 0; i < 5; ++i) {
    CHECK(producer.may_yield(a));
    producer.sent(edge, there, 80);
  }
  CHECK(!producer.may_yield(a));
  CHECK(producer.take_changed() == std::vector<NodeId>{a});
  producer.sent(edge, there, 80);  // an activation that had not looked before
  // Each starts an activation.
  for (int i = 0; i < 6; ++i) {
    consumer.started(b);
    consumer.took(edge, here, 80);
  }
  CHECK(consumer.take_returns().empty());
  consumer.ended(b);
  CHECK(consumer.take_returns().empty());  // 80 bytes are not worth a message
  consumer.ended(b);
  const std::vector<Return> back = consumer.take_returns();
  REQUIRE(back.size() == 1);
  CHECK(back[0].to == here);
  CHECK(back[0].edge == edge);
  CHECK(back[0].bytes == 160);
  CHECK(producer.returned(edge, there, 160));
  CHECK(producer.may_yield(a));
  CHECK(producer.owed(edge, there) == 320);
  CHECK(consumer.kept(edge, here) == 320);
  CHECK(!producer.returned(edge, there, 321));
  CHECK(producer.owed(edge, there) == 320);
}

TEST_CASE("where a node runs on each replica a frame goes back for as many ends as there are") {
  std::string yaml = in_a_row("row", two_roles, "left", "right", "left");
  const std::string right = "right: { plugin: scripted";
  REQUIRE(yaml.find(right) != std::string::npos);
  yaml.replace(yaml.find(right), right.size(), right + ", replicas: 3, balance: broadcast");
  const Compiled one(yaml);
  Windows consumer(one.plan, stops_of(one), 1);
  const EdgeId edge = one.edge("a", "b");
  const NodeId b = one.node("b");
  const auto comes = [&] {
    for (int replica = 0; replica < 3; ++replica) consumer.started(b);
    consumer.took(edge, here, 100);
  };
  const auto back = [&] {
    std::uint64_t bytes = 0;
    for (const Return& one_back : consumer.take_returns()) bytes += one_back.bytes;
    return bytes;
  };
  comes();
  comes();
  // Two replicas are fast: what they end lets in less than they have ended.
  consumer.ended(b);
  consumer.ended(b);
  CHECK(back() == 0);
  consumer.ended(b);
  CHECK(back() == 100);
  comes();
  consumer.ended(b);
  consumer.ended(b);
  CHECK(back() == 0);
  // The slow one catches up.
  consumer.ended(b);
  CHECK(back() == 100);
  consumer.ended(b);
  consumer.ended(b);
  CHECK(back() == 0);
  consumer.ended(b);
  CHECK(back() == 100);
  CHECK(consumer.kept(edge, here) == 0);
}

TEST_CASE("what a node that drops the oldest has taken goes back whatever it has in hand") {
  std::string yaml = in_a_row("row", two_roles, "left", "right", "left");
  const std::string of_b = ".b, inputs: [ { x: a.v } ]";
  yaml.replace(yaml.find(of_b), of_b.size(), of_b + ", on_full: drop_oldest");
  const Compiled one(yaml);
  Windows consumer(one.plan, stops_of(one), 400);
  const EdgeId edge = one.edge("a", "b");
  consumer.started(one.node("b"));
  consumer.took(edge, here, 150);
  const std::vector<Return> back = consumer.take_returns();
  REQUIRE(back.size() == 1);
  CHECK(back[0].bytes == 150);
  CHECK(consumer.kept(edge, here) == 0);
}

TEST_CASE("frames that wait for others give their bytes back when nothing is in hand") {
  const Compiled one(triangle);
  Windows consumer(one.plan, stops_of(one), 1);
  const EdgeId edge = one.edge("a", "c");
  const NodeId c = one.node("c");
  consumer.took(edge, here, 100);  // in a bucket that waits for `b`
  CHECK(consumer.take_returns().size() == 1);
  // While an activation runs, one frame for each that ends; then all that is left.
  consumer.started(c);
  consumer.started(c);
  for (int i = 0; i < 4; ++i) consumer.took(edge, here, 100);
  CHECK(consumer.take_returns().empty());
  consumer.ended(c);
  CHECK(consumer.take_returns().front().bytes == 100);
  consumer.ended(c);
  CHECK(consumer.take_returns().front().bytes == 300);
}

TEST_CASE("what another life of a machine was owed, and owed, is void") {
  const Compiled one(triangle);
  Windows windows(one.plan, stops_of(one), 100);
  const NodeId a = one.node("a"), c = one.node("c");
  windows.sent(one.edge("a", "b"), there, 100);
  windows.started(c);
  windows.took(one.edge("b", "c"), there, 100);
  (void)windows.take_changed();
  windows.forget(there);
  CHECK(windows.may_yield(a));
  CHECK(windows.take_changed() == std::vector<NodeId>{a});
  CHECK(windows.kept(one.edge("b", "c"), there) == 0);
  windows.ended(c);
  CHECK(windows.take_returns().empty());
}

}  // namespace sluice
