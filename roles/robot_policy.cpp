#include "roles/robot_policy.h"

#include "roles/policy_role.h"

namespace sluice {

namespace {

constexpr std::string_view options[] = {"precision", "step_tokens", "steps",
                                        "seed",      "priority",    "deadline_ms"};

const Port state{"state",    ValueType::tensor, "the robot's state, scaled", false, 0,
                 Dtype::f32, {any_size}};
const Port noise{"noise", ValueType::tensor, "what the actions begin as", false,
                 0,       Dtype::f32,        {any_size, any_size}};
const Port actions{"actions", ValueType::tensor, "a chunk of actions, scaled", false,
                   0,         Dtype::f32,        {any_size, any_size}};

Result<RoleInstance> make(const RoleMaking& making, PolicyPart part) {
  PolicyKv* kv = policy_kv_of(making);
  if (kv == nullptr)
    return invalid_argument("role '" + making.role->name.text +
                            "' needs a paged_kv of its model among its global_params");
  return make_policy_role(making, *kv, part, engine_options(options));
}

Plugin plugin_of(std::string name, std::string meaning, PolicyPart part, std::vector<Port> inputs) {
  Plugin plugin;
  plugin.declaration = {.name = std::move(name),
                        .meaning = std::move(meaning),
                        .interfaces = {{.name = "act",
                                        .inputs = std::move(inputs),
                                        .outputs = {actions},
                                        .frames = {},
                                        .yields_max = 1}},
                        .session_state = true,
                        .needs_model = true,
                        .any_ports = false,
                        .global_param_kinds = {"paged_kv"},
                        .options = engine_options(options)};
  plugin.make = [part](const RoleMaking& making) { return make(making, part); };
  return plugin;
}

}  // namespace

Plugin robot_policy_plugin() {
  std::vector<Port> inputs;
  for (const std::string_view camera : camera_ports)
    inputs.push_back({std::string(camera), ValueType::image, "what a camera sees", false});
  inputs.push_back({"instruction", ValueType::text, "what the robot is to do", false});
  inputs.push_back(
      {"tokens", ValueType::tensor, "the same as tokens", false, 0, Dtype::i32, {any_size}});
  inputs.push_back(state);
  inputs.push_back(noise);
  return plugin_of("robot_policy", "a robot's next actions, from what it sees and is told",
                   PolicyPart::whole, std::move(inputs));
}

Plugin action_expert_plugin() {
  return plugin_of(
      "action_expert", "a robot's next actions over a prefix of a language_model",
      PolicyPart::expert,
      {{"prefix", ValueType::number, "what the robot sees and was told", false}, state, noise});
}

}  // namespace sluice
