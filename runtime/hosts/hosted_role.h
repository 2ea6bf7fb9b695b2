// Roles of a host, as this program's lanes see them.
//
// Thread and errors as for any role; an activation in a host that dies ends with how it died, or is
// tried again.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "roles/catalog.h"
#include "runtime/hosts/host_process.h"

namespace sluice::hosts {

/// The fields that a node's activations may have, for each interface and node.
using FieldsOf =
    std::function<std::vector<std::string>(std::string_view node, std::string_view interface)>;

/// `keeps_sessions`: a call whose session lost what the host held of it is told so. Where the role
/// is idempotent, an activation that yielded nothing before its host died is run once more, in the
/// host's next life, and its call is told so.
Result<RoleInstance> make_hosted_role(std::shared_ptr<HostProcess> host, MakeRole making,
                                      FieldsOf fields, bool keeps_sessions);

}  // namespace sluice::hosts
