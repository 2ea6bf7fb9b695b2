// What roles over a robot policy have in common: observations to prefixes, prefixes to actions.
//
// A control cycle of each activation advances in the engine of its `paged_kv`. Which parts it has
// follows from its inputs: pictures or features, words and state make a prefix; `prefix` names one
// that is there; the interface `prefill` ends with it.
// Source: openpi; OxyGen, section 4.1.
#pragma once

#include <span>
#include <string_view>

#include "roles/engine_options.h"
#include "roles/policy_kv.h"

namespace sluice {

/// Null: the role's paged_kv is of another kind of checkpoint.
PolicyKv* policy_kv_of(const RoleMaking& making);
/// `known`: the options that the plugin declares.
Result<RoleInstance> make_policy_role(const RoleMaking& making, PolicyKv& kv,
                                      const std::vector<OptionDeclaration>& known);

/// Pictures of cameras, those that are there: image0, image1, ...
inline constexpr std::string_view camera_ports[] = {"image0", "image1", "image2", "image3"};

/// The pixels of all cameras that are there, one behind the other, as the tower takes them.
/// Errors: invalid_argument (what is no picture, naming the port).
Result<std::vector<float>> read_cameras(const Activation& activation, const PictureSteps& steps,
                                        const Architecture& architecture);

}  // namespace sluice
