// Writes a role and runs it in a workflow: `shout` makes two frames of every text.
//
// A role declares its ports, reads its inputs from an activation and yields frames. It knows
// nothing of scheduling, transport or the other nodes.
#include <cctype>
#include <cstdio>
#include <string>

#include "graph/check.h"
#include "runtime/runner.h"
#include "workflows/load.h"

using namespace sluice;

namespace {

class Shout final : public Role {
 public:
  Result<void> run(Activation& activation) override {
    std::string text = activation.input("text")->text;
    if (text.empty()) return invalid_argument("there is nothing to shout");
    activation.yield("loud", make_text(text + "!"));
    for (char& c : text) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
    activation.yield("loud", make_text(text + "!!"));
    return {};
  }
};

Plugin shout_plugin() {
  Plugin plugin;
  plugin.declaration = {.name = "shout",
                        .meaning = "says a text louder and louder",
                        .interfaces = {{.name = "say",
                                        .inputs = {{"text", ValueType::text, "what to say", false}},
                                        .outputs = {{"loud", ValueType::text, "louder", false}},
                                        .frames = {},
                                        .yields_max = 2}},
                        .session_state = false,
                        .needs_model = false,
                        .any_ports = false,
                        .global_param_kinds = {}};
  plugin.make = [](const RoleMaking&) -> Result<RoleInstance> {
    return RoleInstance(std::unique_ptr<Role>(std::make_unique<Shout>()));
  };
  return plugin;
}

constexpr const char* workflow = R"(
sluice: 1
workflow: shouting
inputs: { text: text }
roles: { speaker: { plugin: shout } }
nodes:
  once:  { run: speaker.say, inputs: [ { text: inputs.text } ] }
  twice: { run: speaker.say, inputs: [ { text: once.loud } ] }
outputs: { said: twice.loud }
)";

}  // namespace

int main() {
  Catalog catalog;
  catalog.add(shout_plugin());
  LoadedWorkflow loaded = load_workflow("shouting.yaml", workflow);
  check(loaded.spec, catalog.declarations(), loaded.diagnostics);
  Plan plan;
  if (!has_errors(loaded.diagnostics))
    plan = compile(loaded.spec, catalog.declarations(), loaded.diagnostics);
  for (const Diagnostic& d : loaded.diagnostics)
    std::fprintf(stderr, "line %u: %s\n", d.mark.line, d.message.c_str());
  if (has_errors(loaded.diagnostics)) return 1;
  Result<std::unique_ptr<Runner>> runner = Runner::create(loaded.spec, plan, catalog, {});
  if (!runner.ok()) return std::fprintf(stderr, "%s\n", runner.error().message.c_str()), 1;
  std::string said;
  const CallOutcome outcome = (*runner)->call(
      {.session = "example", .inputs = {{"text", make_text("hello")}}},
      [&](std::string_view, const PayloadRef& value) { said += value->text + "\n"; });
  std::fputs(said.c_str(), stdout);
  // Frames arrive in logical order, whatever ran first.
  return outcome.ok && said == "hello!!\nHELLO!!!\nHELLO!!!\nHELLO!!!!\n" ? 0 : 1;
}
