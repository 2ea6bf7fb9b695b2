#include "roles/robot_policy.h"

#include "roles/contents.h"
#include "roles/policy_role.h"
#include "roles/token_policy.h"

namespace sluice {

namespace {

constexpr std::string_view of_experts[] = {"precision", "step_tokens", "steps",
                                           "seed",      "priority",    "deadline_ms"};
constexpr std::string_view of_all[] = {"precision", "step_tokens", "steps",     "seed",
                                       "priority",  "deadline_ms", "statistics"};

const Port state{"state",    ValueType::tensor, "the robot's state, scaled", false, 0,
                 Dtype::f32, {any_size},        PortFrames::at_most_one};
const Port noise{"noise", ValueType::tensor, "what the actions begin as", false,
                 0,       Dtype::f32,        {any_size, any_size},        PortFrames::at_most_one};
const Port actions{"actions", ValueType::tensor, "a chunk of actions", false,
                   0,         Dtype::f32,        {any_size, any_size}};

Error lacks_pages(const RoleMaking& making) {
  return invalid_argument("role '" + making.role->name.text +
                          "' needs a paged_kv of its model among its global_params");
}

Result<RoleInstance> make_whole(const RoleMaking& making) {
  if (PolicyKv* kv = policy_kv_of(making))
    return make_policy_role(making, *kv, PolicyPart::whole, engine_options(of_all));
  if (ChatSessions* sessions = chat_sessions_of(making))
    return make_token_policy(making, *sessions, engine_options(of_all));
  return lacks_pages(making);
}

Result<RoleInstance> make_expert(const RoleMaking& making) {
  if (PolicyKv* kv = policy_kv_of(making))
    return make_policy_role(making, *kv, PolicyPart::expert, engine_options(of_experts));
  return lacks_pages(making);
}

Plugin plugin_of(std::string name, std::string meaning, std::span<const std::string_view> options,
                 std::vector<Port> inputs) {
  Plugin plugin;
  plugin.declaration = {.name = std::move(name),
                        .meaning = std::move(meaning),
                        .interfaces = {{.name = "act",
                                        .inputs = std::move(inputs),
                                        .outputs = {actions},
                                        .frames = {},
                                        .yields_max = 1,
                                        .keeps_nothing = true}},
                        .session_state = true,
                        .needs_model = true,
                        .any_ports = false,
                        .global_param_kinds = {"paged_kv"},
                        .options = engine_options(options)};
  return plugin;
}

}  // namespace

Plugin robot_policy_plugin() {
  std::vector<Port> inputs;
  for (const std::string_view camera : camera_ports)
    inputs.push_back({.name = std::string(camera),
                      .type = ValueType::image,
                      .meaning = "what a camera sees",
                      .frames = PortFrames::at_most_one});
  inputs.push_back({.name = "instruction",
                    .type = ValueType::text,
                    .meaning = "what the robot is to do",
                    .frames = PortFrames::at_most_one});
  inputs.push_back({"tokens",
                    ValueType::tensor,
                    "the same as tokens",
                    false,
                    0,
                    Dtype::i32,
                    {any_size},
                    PortFrames::at_most_one});
  inputs.push_back(state);
  inputs.push_back(noise);
  Plugin plugin = plugin_of("robot_policy", "a robot's next actions, from what it sees and is told",
                            of_all, std::move(inputs));
  plugin.make = make_whole;
  return plugin;
}

Plugin action_expert_plugin() {
  Plugin plugin = plugin_of("action_expert",
                            "a robot's next actions over a prefix of a language_model", of_experts,
                            {{.name = "prefix",
                              .type = ValueType::number,
                              .meaning = "what the robot sees and was told",
                              .frames = PortFrames::one,
                              .content = contents::prefix},
                             state,
                             noise});
  plugin.make = make_expert;
  return plugin;
}

}  // namespace sluice
