// The roles of a robot's policy: `robot_policy` is a whole one, `action_expert` acts on a prefix
// that a `language_model` over the same paged_kv made.
//
// `act` takes what the robot's cameras see, its state and what it is told, and yields a chunk of
// actions [horizon, dims]. State and actions are in the policy's own units: scaling them by a
// robot's statistics is the caller's; but those of a policy whose actions are words are in the
// robot's. Noise that is not given is drawn, the same for each cycle of one `seed`.
// Source: openpi; lerobot; OpenVLA; docs/MODELS.md.
#pragma once

#include "roles/catalog.h"

namespace sluice {

Plugin robot_policy_plugin();
Plugin action_expert_plugin();

}  // namespace sluice
