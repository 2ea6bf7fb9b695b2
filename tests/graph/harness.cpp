#include "harness.h"

#include <algorithm>
#include <catch2/catch.hpp>

namespace sluice::testing {

Declarations scripted() {
  PluginDeclaration plugin;
  plugin.name = "scripted";
  plugin.any_ports = true;
  return {plugin};
}

Harness::Harness(const std::string& yaml) : Harness(yaml, scripted()) {}

Harness::Harness(const std::string& yaml, const Declarations& declarations)
    : loaded_(load_workflow("test.yaml", yaml)) {
  check(loaded_.spec, declarations, loaded_.diagnostics);
  plan_ = compile(loaded_.spec, declarations, loaded_.diagnostics);
  for (const Diagnostic& d : loaded_.diagnostics) {
    INFO(d.message);
    REQUIRE(d.severity == Severity::warning);
  }
  loop_ = std::make_unique<Loop>(plan_, *this);
}

CallId Harness::call(std::uint64_t session) {
  std::vector<PayloadRef> inputs;
  for (const std::string& name : plan_.inputs) inputs.push_back(make_text(name));
  return loop_->call(session, inputs, Instant{0});
}

void Harness::run() {
  loop_->run();
  while (!waiting_.empty()) {
    const std::size_t index = pick(waiting_.size()) % waiting_.size();
    const StartActivation start = waiting_[index];
    waiting_.erase(waiting_.begin() + static_cast<std::ptrdiff_t>(index));
    answer(start);
    loop_->run();
  }
}

void Harness::answer(const StartActivation& start) {
  const PlanNode& node = plan_.nodes[start.node];
  const std::string runner =
      node.fan_out() == 1 ? node.name : node.name + "@" + std::to_string(start.replica);
  Firing firing{node.name, start.group, {}, node.fan_out() == 1 ? 0 : start.replica};
  std::string origin;
  for (const InputValue& input : start.inputs) {
    firing.inputs[node.groups[start.group].fields[input.field]].push_back(input.value->text);
    origin += (origin.empty() ? "" : "+") + input.value->text;
  }
  firings.push_back(firing);
  if (fails[node.name] || fails[runner])
    return loop_->ended(
        start.node, start.activation,
        std::make_unique<Failure>(
            Failure{start.node,
                    {ErrorCode::unavailable, runner + " was told to fail by " + origin}}));
  auto script = yields.find(runner);
  if (script == yields.end()) script = yields.find(node.name);
  const Yields frames = script != yields.end() ? script->second : Yields{node.outputs};
  for (std::size_t y = 0; y < frames.size(); ++y) {
    Frame* frame = loop_->new_frame(start.node);
    for (const std::string& field : frames[y]) {
      const auto at =
          static_cast<std::size_t>(std::ranges::find(node.outputs, field) - node.outputs.begin());
      REQUIRE(at < node.outputs.size());
      auto* value = new Payload;
      value->text = runner + "#" + std::to_string(y) + "<" + origin + ">";
      value->number = numbers[node.name + "." + field];
      frame->values[at] = PayloadRef(value);
      frame->mask |= std::uint64_t{1} << at;
    }
    loop_->yielded(start.node, start.activation, frame, merge_last && y + 1 == frames.size());
  }
  loop_->ended(start.node, start.activation, nullptr);
}

void Harness::deliver(const DeliverOutput& output) {
  outputs[output.call].emplace_back(plan_.outputs[output.output].name, output.value->text);
}

void Harness::end(EndCall& end) {
  REQUIRE(!status.contains(end.call));
  status[end.call] = end.failure ? end.failure->error.message : "ok";
  for (const std::string& warning : end.warnings) warnings.push_back(warning);
}

void require_clean(Harness& harness) {
  const EngineCounts counts = harness.loop().counts();
  CHECK(counts.activations == 0);
  CHECK(counts.buckets == 0);
  CHECK(counts.calls == 0);
  CHECK(harness.loop().calls() == 0);
  CHECK(harness.loop().messages_in_use() == 0);
  CHECK(harness.loop().frames_in_use() == 0);
  CHECK(harness.loop().scopes_in_use() == 0);
}

}  // namespace sluice::testing
