// A robot policy whose actions are words (OpenVLA): `act` of `robot_policy` over such a checkpoint.
//
// A cycle is an answer in the engine of the `paged_kv`, beside those of chats: the picture, what
// the robot is told, then a token for each value of the action, which `actions` f32 [1, dims] gives
// in the robot's own units, by the statistics of its data set. Each cycle stands for itself.
// Errors: invalid_argument (a field that this kind of policy does not read; statistics that the
// checkpoint lacks), unavailable (an answer that ends before the action does).
// Source: OpenVLA, section 3.2, and its `predict_action`.
#pragma once

#include "roles/chat_sessions.h"
#include "roles/engine_options.h"

namespace sluice {

/// `known`: the options that the plugin declares.
Result<RoleInstance> make_token_policy(const RoleMaking& making, ChatSessions& sessions,
                                       const std::vector<OptionDeclaration>& known);

}  // namespace sluice
