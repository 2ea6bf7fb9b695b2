// Every key of a workflow reaches the spec, and every bound of a value holds on both sides.
#include "workflows/load.h"

#include <catch2/catch.hpp>

using namespace sluice;

namespace {

LoadedWorkflow load(const std::string& text) { return load_workflow("w.yaml", text); }

/// The workflow with one line more in its last node.
std::string with(const std::string& line) {
  return "sluice: 1\nworkflow: w\nroles: { a: { plugin: scripted } }\nnodes:\n  n:\n"
         "    run: a.go\n    inputs: [ { x: inputs.x } ]\n    " +
         line + "\ninputs: { x: text }\noutputs: { o: n.y }\n";
}

}  // namespace

TEST_CASE("every key that a workflow may have is in its spec") {
  const LoadedWorkflow made = load(R"(sluice: 1
workflow: all
include: [library.yaml]
inputs: { x: text, y: json }
global_params:
  memory: { kind: paged_kv, model: somewhere, page_tokens: 32, pages: 100,
            kv_dtype: bf16, ssd: there, ssd_bytes: 3MiB, device: cpu }
  fast: { kind: paged_kv, model: somewhere, device: cuda, host_bytes: 6MiB, tenant_pages: 99 }
roles:
  one: { plugin: scripted, model: elsewhere, replicas: 3, balance: session, global_params: [memory],
         options: { first: 1, second: two } }
  two: { plugin: scripted, colocate: one, balance: round_robin, idempotent: true }
nodes:
  n:
    run: one.go
    inputs: [ { a: [inputs.x, m.o] }, { b: inputs.y } ]
    on_error: skip
    deadline: 2m
    max_age: 3s
    on_full: drop_oldest
    queue: 5
    outputs: [p, q]
  m: { run: two.go, inputs: [ { a: n.p, b: n.q } ], count: { a: 2, b: all } }
outputs: { r: [n.p, m.o] }
limits: { deadline: 1500ms, loop_iterations: 7, frames: 9 }
calls: overlap
on_error: cancel
)");
  for (const Diagnostic& d : made.diagnostics) FAIL(d.message);
  const WorkflowSpec& spec = made.spec;
  CHECK(spec.name.text == "all");
  REQUIRE(spec.includes.size() == 1);
  CHECK(spec.includes[0].text == "library.yaml");
  REQUIRE(spec.inputs.size() == 2);
  CHECK(spec.inputs[0].name.text == "x");
  CHECK(spec.inputs[0].type == ValueType::text);
  CHECK(spec.inputs[1].type == ValueType::json);
  REQUIRE(spec.global_params.size() == 2);
  CHECK(spec.global_params[0].name.text == "memory");
  CHECK(spec.global_params[0].kind.text == "paged_kv");
  CHECK(spec.global_params[0].model->text == "somewhere");
  CHECK(spec.global_params[0].page_tokens == 32);
  CHECK(spec.global_params[0].pages == 100);
  CHECK(spec.global_params[0].kv_dtype == Dtype::bf16);
  CHECK(spec.global_params[0].ssd->text == "there");
  CHECK(spec.global_params[0].ssd_bytes == 3 << 20);
  CHECK(spec.global_params[0].device == EngineDevice::cpu);
  CHECK(spec.global_params[1].device == EngineDevice::cuda);
  CHECK(spec.global_params[1].host_bytes == 6 << 20);
  CHECK((spec.global_params[1].tenant_pages == 99 && spec.global_params[0].tenant_pages == 0));
  CHECK(!spec.global_params[0].host_bytes.has_value());
  CHECK(spec.global_params[1].device_mark.column == 53);
  REQUIRE(spec.roles.size() == 2);
  const RoleSpec& one = spec.roles[0];
  CHECK(one.name.text == "one");
  CHECK(one.plugin.text == "scripted");
  CHECK(one.model->text == "elsewhere");
  CHECK(one.replicas == 3);
  CHECK(one.balance == Balance::session);
  REQUIRE(one.global_params.size() == 1);
  CHECK(one.global_params[0].text == "memory");
  REQUIRE(one.options.size() == 2);
  CHECK(one.options[0].key.text == "first");
  CHECK(one.options[0].value.text == "1");
  CHECK(one.options[1].value.text == "two");
  CHECK_FALSE(one.colocate.has_value());
  CHECK(spec.roles[1].colocate->text == "one");
  CHECK_FALSE(one.idempotent);
  CHECK(spec.roles[1].idempotent);
  CHECK(spec.roles[1].balance == Balance::round_robin);
  CHECK(spec.roles[1].replicas == 1);
  REQUIRE(spec.nodes.size() == 2);
  const NodeSpec& n = spec.nodes[0];
  CHECK(n.role.text == "one");
  CHECK(n.interface.text == "go");
  REQUIRE(n.groups.size() == 2);
  REQUIRE(n.groups[0].fields.size() == 1);
  CHECK(n.groups[0].fields[0].field.text == "a");
  REQUIRE(n.groups[0].fields[0].sources.size() == 2);
  CHECK(n.groups[0].fields[0].sources[1].node == "m");
  CHECK(n.groups[0].fields[0].sources[1].field == "o");
  CHECK(n.on_error == OnError::skip);
  CHECK(n.deadline == std::chrono::milliseconds(120'000));
  CHECK(n.max_age == std::chrono::milliseconds(3'000));
  CHECK(n.on_full == OnFull::drop_oldest);
  CHECK(n.queue == 5);
  CHECK(spec.nodes[1].on_full == OnFull::wait);
  REQUIRE(n.outputs.size() == 2);
  CHECK(n.outputs[1].text == "q");
  REQUIRE(spec.nodes[1].counts.size() == 2);
  CHECK(std::get<std::int64_t>(spec.nodes[1].counts[0].frames) == 2);
  CHECK(std::holds_alternative<CountAll>(spec.nodes[1].counts[1].frames));
  REQUIRE(spec.outputs.size() == 1);
  CHECK(spec.outputs[0].sources.size() == 2);
  CHECK(spec.limits.deadline == std::chrono::milliseconds(1'500));
  CHECK(spec.limits.loop_iterations == 7);
  CHECK(spec.limits.frames == 9);
  CHECK(spec.calls == CallMode::overlap);
  CHECK(spec.cancel_on_error);
}

TEST_CASE("a duration is a whole number with its unit, up to a day") {
  const auto deadline = [](const std::string& text) -> std::int64_t {
    const LoadedWorkflow made = load(with("deadline: " + text));
    if (!made.diagnostics.empty()) {
      CHECK(made.diagnostics.size() == 1);
      CHECK(made.diagnostics[0].code == "bad-duration");
      return -1;
    }
    return made.spec.nodes.at(0).deadline.count();
  };
  CHECK(deadline("1ms") == 1);
  CHECK(deadline("1s") == 1'000);
  CHECK(deadline("2m") == 120'000);
  CHECK(deadline("86400s") == 86'400'000);
  CHECK(deadline("1440m") == 86'400'000);
  CHECK(deadline("86400000ms") == 86'400'000);
  for (const char* wrong : {"86401s", "90000s", "1441m", "86400001ms", "9223372036854775807m", "5",
                            "5h", "ms", "-1s", "1.5s", "5 s", "99999999999999999999s"})
    CHECK(deadline(wrong) == -1);
}

TEST_CASE("numbers hold their bounds on both sides") {
  const auto errors = [](const std::string& text) {
    std::size_t count = 0;
    for (const Diagnostic& d : load(text).diagnostics) count += d.code == "bad-number" ? 1 : 0;
    return count;
  };
  const auto role = [&](const std::string& part) {
    return errors("sluice: 1\nworkflow: w\nroles: { a: { plugin: scripted, " + part + " } }\n");
  };
  const auto limits = [&](const std::string& part) {
    return errors("sluice: 1\nworkflow: w\nlimits: { " + part + " }\n");
  };
  CHECK(role("replicas: 1") == 0);
  CHECK(role("replicas: 256") == 0);
  CHECK(role("replicas: 0") == 1);
  CHECK(role("replicas: 257") == 1);
  CHECK(limits("loop_iterations: 1") == 0);
  CHECK(limits("loop_iterations: 65535") == 0);
  CHECK(limits("loop_iterations: 0") == 1);
  CHECK(limits("loop_iterations: 65536") == 1);
  CHECK(limits("frames: 1") == 0);
  CHECK(limits("frames: 0") == 1);
  CHECK(limits("frames: [1]") == 1);
  CHECK(errors(with("count: { x: 100000 }")) == 0);
  CHECK(errors(with("count: { x: 100001 }")) == 1);
  CHECK(errors(with("count: { x: -1 }")) == 1);
  CHECK(errors(with("count: { x: 1x }")) == 1);
}
