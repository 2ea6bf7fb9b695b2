// What roles over a robot policy have in common: observations to prefixes, prefixes to actions.
//
// A control cycle of each activation advances in the engine of its `paged_kv`. Pictures or
// features, words and state make a prefix, which a session's next one replaces; actions are made
// over it.
// Source: openpi; OxyGen, section 4.1.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "roles/engine_options.h"
#include "roles/policy_kv.h"

namespace sluice {

/// Null: the role's paged_kv is of another kind of checkpoint.
PolicyKv* policy_kv_of(const RoleMaking& making);
/// Which parts of a cycle a role runs, and so which fields it reads.
enum class PolicyPart : std::uint8_t {
  whole,   // robot_policy: cameras to actions
  trunk,   // language_model: features to a prefix
  expert,  // action_expert: a prefix to actions
};
/// `known`: the options that the plugin declares.
Result<RoleInstance> make_policy_role(const RoleMaking& making, PolicyKv& kv, PolicyPart part,
                                      const std::vector<OptionDeclaration>& known);

/// Errors: invalid_argument (there are no words in it).
Result<void> check_instruction(std::string_view text);

/// Pictures of cameras, those that are there: image0, image1, ...
inline constexpr std::string_view camera_ports[] = {"image0", "image1", "image2", "image3"};
/// "image0, image1, image2 or image3", for messages.
std::string camera_names();

/// The pixels of all cameras that are there, one behind the other, as the tower takes them.
/// Errors: invalid_argument (what is no picture, naming the port).
Result<std::vector<float>> read_cameras(const Activation& activation, const PictureSteps& steps,
                                        const Architecture& architecture);

}  // namespace sluice
