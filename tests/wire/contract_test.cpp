// Who may say what: each message of a run passes by its own sender, and by nobody who could not
// have sent it.
#include "runtime/wire/contract.h"

#include <catch2/catch.hpp>
#include <map>
#include <set>

#include "world.h"

using namespace sluice;
using sluice::testing::everything;
using sluice::testing::plan_of;
using sluice::testing::WireWorld;

namespace {

struct Sample {
  wire::Bytes bytes;
  NodeId from = 0;
  NodeId to = 0;
};

std::vector<Sample> conversation(const Plan& plan, std::uint64_t seed) {
  std::vector<Sample> all;
  WireWorld world(plan, seed);
  world.sent = [&](const wire::Bytes& bytes, NodeId from, NodeId to) {
    all.push_back({bytes, from, to});
  };
  world.fails = [](const StartActivation& start) { return start.node == 4; };
  for (std::uint64_t i = 0; i < 4; ++i) {
    const CallId call = world.call(i % 2);
    if (i == 1) world.cancel(call);
  }
  world.run();
  world.call(1);
  world.lose(plan.find("late")->id);
  world.run();
  REQUIRE(world.errors.empty());
  REQUIRE(world.kinds.size() == 7);
  return all;
}

/// One machine that hears messages of others.
struct Listener {
  explicit Listener(const Plan& made, wire::PortTable ports = {})
      : plan(made), contract(made, WireWorld::own_machines(made), std::move(ports)) {
    limits.machines = static_cast<std::uint32_t>(plan.nodes.size());
  }
  /// Why it is refused; empty: it is not.
  std::string hear(const wire::Bytes& bytes, Origin from, std::uint32_t at) {
    pools.self = {at, 3};
    Result<Message*> message =
        wire::decode(plan, bytes, {from, contract}, Instant{}, limits, pools);
    if (!message) return message.error().message;
    pools.give(*message);
    return "";
  }

  const Plan& plan;
  const wire::Contract contract;
  wire::Limits limits;
  Pools pools;
};

/// The same message after `change`.
template <typename Change>
wire::Bytes changed(const Plan& plan, const wire::Bytes& bytes, Change change) {
  Pools pools;
  const wire::Limits limits;
  Message* message = wire::decode(plan, bytes, Instant{}, limits, pools).value();
  change(*message);
  wire::Bytes out;
  REQUIRE(wire::encode(plan, *message, Instant{}, limits, out).ok());
  pools.give(message);
  return out;
}

Message::Kind kind_of(const wire::Bytes& bytes) { return static_cast<Message::Kind>(bytes[1]); }

bool ends_with(const std::string& text, std::string_view end) { return text.ends_with(end); }

}  // namespace

TEST_CASE("a message passes from its sender to whom it is for, and on no other way") {
  const Plan plan = plan_of(everything);
  Listener listener(plan);
  std::map<Message::Kind, std::set<std::string>> reasons;
  for (const Sample& sample : conversation(plan, 3)) {
    const Message::Kind kind = kind_of(sample.bytes);
    CHECK(listener.hear(sample.bytes, {sample.from, 3}, sample.to).empty());
    for (const PlanNode& node : plan.nodes) {
      if (node.id != sample.to)
        CHECK(ends_with(listener.hear(sample.bytes, {sample.from, 3}, node.id),
                        "a message for a place that is not here"));
      if (node.id == sample.from) continue;
      const std::string why = listener.hear(sample.bytes, {node.id, 3}, sample.to);
      // Several nodes can hold a share of a collector, and any can give credit back.
      if (kind != Message::Kind::settled && kind != Message::Kind::credit) CHECK(!why.empty());
      if (!why.empty()) reasons[kind].insert(why.substr(why.find(": ", 30) + 2));
    }
    // The home's earlier life says nothing in this one's calls.
    if (sample.from == entry_node)
      CHECK(!listener.hear(sample.bytes, {entry_node, 2}, sample.to).empty());
  }
  using Kind = Message::Kind;
  const std::string order = "an order that only the call's home gives";
  CHECK(reasons[Kind::frame].contains("a frame of a node that is not the sender's"));
  CHECK(reasons[Kind::settled].contains("a share that the sender cannot have"));
  CHECK(reasons[Kind::cancel].contains(order));
  CHECK(reasons[Kind::abort].contains(order));
  CHECK(reasons[Kind::call_ended].contains(order));
  CHECK(reasons[Kind::aborted].contains("an answer of a node of somebody else"));
  CHECK(reasons[Kind::credit].contains("credit of a machine that has no nodes"));
  CHECK(reasons[Kind::credit].contains("a failure of a node that is not the sender's"));
}

TEST_CASE("a machine names only scopes that it could have been given, and calls that could be") {
  const Plan plan = plan_of(everything);
  Listener listener(plan);
  std::size_t frames = 0;
  for (const Sample& sample : conversation(plan, 4)) {
    const auto hear = [&](const wire::Bytes& bytes) {
      return listener.hear(bytes, {sample.from, 3}, sample.to);
    };
    CHECK(ends_with(hear(changed(plan, sample.bytes,
                                 [](Message& message) {
                                   message.call.home = {4, 1};
                                 })),
                    "a call of a machine on which none begin"));
    if (kind_of(sample.bytes) != Message::Kind::frame) continue;
    const wire::Bytes forged = changed(plan, sample.bytes, [&](Message& message) {
      const Share* at = &message.shares[0];
      while (at->scope->parent.scope) at = &at->scope->parent;
      // The root of each collector is one node; no machine but its own opens such a scope.
      auto& origin = const_cast<Scope*>(at->scope.get())->id.origin;
      origin.machine = origin.machine == 3 ? 2 : 3;
    });
    CHECK(ends_with(hear(forged), "a scope of a machine that cannot have opened it"));
    ++frames;
  }
  CHECK(frames > 20);
}

TEST_CASE("a share of an output has room for each field, exactly or more") {
  const Plan plan = plan_of(everything);
  Listener listener(plan);
  std::size_t outputs = 0;
  WireWorld world(plan, 4);
  world.yields = [&](const StartActivation& start) -> std::vector<std::uint64_t> {
    return {plan.nodes[start.node].name == "split"  ? 7U
            : plan.nodes[start.node].name == "turn" ? 2U
                                                    : 1U};
  };
  world.sent = [&](const wire::Bytes& bytes, NodeId from, NodeId to) {
    if (kind_of(bytes) != Message::Kind::frame || to != entry_node) return;
    const wire::Bytes narrow =
        changed(plan, bytes, [](Message& message) { message.shares[0].width = 1; });
    CHECK(listener.hear(narrow, {from, 3}, to).empty());
    ++outputs;
  };
  world.call(1);
  world.run();
  CHECK(outputs > 1);
}

TEST_CASE("what only a home tells is not believed of a node") {
  const Plan plan = plan_of(everything);
  Listener listener(plan);
  std::size_t failures = 0;
  for (const Sample& sample : conversation(plan, 5)) {
    if (kind_of(sample.bytes) != Message::Kind::credit) continue;
    for (const FailureKind kind : {FailureKind::frame_limit, FailureKind::node_lost}) {
      const wire::Bytes bytes = changed(plan, sample.bytes, [&](Message& message) {
        message.failure =
            std::make_unique<Failure>(Failure{sample.from, {ErrorCode::unavailable, "gone"}, kind});
      });
      // A node of a loop counts what comes in it, and so does one to which frames may multiply.
      const bool may = kind == FailureKind::frame_limit && plan.nodes[sample.from].frames_counted;
      const std::string heard = listener.hear(bytes, {sample.from, 3}, entry_node);
      if (may)
        CHECK(heard.empty());
      else
        CHECK(ends_with(heard, "a failure that only the call's home tells"));
      ++failures;
    }
    const NodeId other = sample.from == 1 ? 2 : 1;
    const wire::Bytes lost = changed(plan, sample.bytes, [&](Message& message) {
      message.failure.reset();
      message.lost = {other, 0, 0, Lost::Kind::ran};
    });
    CHECK(ends_with(listener.hear(lost, {sample.from, 3}, entry_node),
                    "news of a node that is not the sender's"));
  }
  CHECK(failures > 10);
}

TEST_CASE("a node tells only what one of its kind can") {
  const Plan plan = plan_of(everything);
  Listener listener(plan);
  std::size_t refused = 0, taken = 0;
  for (const Sample& sample : conversation(plan, 5)) {
    if (kind_of(sample.bytes) != Message::Kind::credit) continue;
    const PlanNode& node = plan.nodes[sample.from];
    for (std::uint16_t group = 0; group < node.groups.size(); ++group)
      for (const Lost::Kind kind : {Lost::Kind::missing, Lost::Kind::ran, Lost::Kind::few,
                                    Lost::Kind::silent, Lost::Kind::stopped})
        for (const std::uint64_t fields : {0U, 1U}) {
          const bool counts = !node.groups[group].counts.empty();
          const bool joins = node.groups[group].collector != none && !counts;
          const bool may = kind == Lost::Kind::missing  ? joins && fields != 0
                           : kind == Lost::Kind::few    ? counts
                           : kind == Lost::Kind::silent ? group == 0
                                                        : group == 0 && fields == 0;
          const wire::Bytes bytes = changed(plan, sample.bytes, [&](Message& message) {
            message.failure.reset();
            message.lost = {sample.from, group, fields, kind};
          });
          const std::string heard = listener.hear(bytes, {sample.from, 3}, entry_node);
          INFO(node.name << " group " << group << " kind " << static_cast<int>(kind));
          CHECK((may ? heard.empty() : ends_with(heard, "news that such a node does not tell")));
          ++(may ? taken : refused);
        }
  }
  CHECK(refused > 10);
  CHECK(taken > 10);
}

TEST_CASE("an input of a call is what each of its readers declares, by the input's own name") {
  PluginDeclaration reader;
  reader.name = "reader";
  InterfaceDeclaration interface;
  interface.name = "go";
  interface.inputs = {Port{"query", ValueType::text, ""}, Port{"picture", ValueType::image, ""}};
  interface.outputs = {Port{"said", ValueType::text, ""}};
  reader.interfaces = {interface};
  LoadedWorkflow loaded = load_workflow("test.yaml",
                                        "sluice: 1\nworkflow: test\ninputs: { q: text, p: image }\n"
                                        "roles: { r: { plugin: reader } }\n"
                                        "nodes:\n"
                                        "  n:\n"
                                        "    run: r.go\n"
                                        "    inputs: [ { query: inputs.q, picture: inputs.p } ]\n"
                                        "outputs: { said: n.said }\n");
  check(loaded.spec, {reader}, loaded.diagnostics);
  const Plan plan = compile(loaded.spec, {reader}, loaded.diagnostics);
  REQUIRE_FALSE(has_errors(loaded.diagnostics));
  const wire::PortTable ports = wire::ports_of(loaded.spec, plan, {reader});
  REQUIRE(ports.at(entry_node).size() == 2);
  for (std::size_t i = 0; i < 2; ++i) {
    REQUIRE(ports[entry_node][i].size() == 2);  // what the workflow says, and its one reader
    for (const Port& port : ports[entry_node][i]) {
      CHECK(port.name == plan.inputs[i]);
      CHECK(port.type == (plan.inputs[i] == "q" ? ValueType::text : ValueType::image));
    }
  }
  const auto& said = ports.at(plan.find("n")->id);
  REQUIRE((said.size() == 1 && said[0].size() == 1));
  CHECK(said[0][0].name == "said");
}

TEST_CASE("a value is what its port declares, or the message is refused") {
  const Plan plan = plan_of(everything);
  wire::PortTable ports(plan.nodes.size());
  for (const PlanNode& node : plan.nodes)
    ports[node.id].resize(node.id == entry_node ? plan.inputs.size() : node.outputs.size());
  Port port{"f", ValueType::tensor, "", false, 64, Dtype::f32, {any_size, 3}};
  ports[plan.find("left")->id][0].push_back(port);
  Listener listener(plan, ports);
  for (const Sample& sample : conversation(plan, 6)) {
    if (kind_of(sample.bytes) != Message::Kind::frame || sample.from != plan.find("left")->id)
      continue;
    const auto hear = [&](PayloadRef value) {
      const wire::Bytes bytes = changed(plan, sample.bytes, [&](Message& message) {
        const_cast<Frame*>(message.frame.get())->values[0] = value;
      });
      return listener.hear(bytes, {sample.from, 3}, sample.to);
    };
    const auto tensor = [](Dtype dtype, std::vector<std::int64_t> shape) {
      auto* made = new Payload;
      made->type = ValueType::tensor;
      made->tensor = Tensor::zeros(dtype, std::move(shape)).value();
      return PayloadRef(made);
    };
    CHECK(hear(tensor(Dtype::f32, {5, 3})).empty());
    CHECK(ends_with(hear(make_text("x")), "text in 'f', which is declared as tensor"));
    CHECK(ends_with(hear(tensor(Dtype::f32, {5, 4})), "in 'f', which is declared as f32[?, 3]"));
    CHECK(ends_with(hear(tensor(Dtype::u8, {5, 3})), "in 'f', which is declared as f32[?, 3]"));
    CHECK(ends_with(hear(tensor(Dtype::f32, {6, 3})), "72 bytes in 'f', at most 64 are declared"));
    return;
  }
  FAIL("no frame of 'left'");
}
