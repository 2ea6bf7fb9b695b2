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

/// Whether what the interface needs of a session is kept by the role.
using KeepsSession = std::function<bool(std::string_view interface)>;

/// A call whose session lost what the host held of it is told so, where the role keeps it. Where it
/// is idempotent, an activation that yielded nothing before its host died is run once more, in the
/// host's next life, and its call is told so.
Result<RoleInstance> make_hosted_role(std::shared_ptr<HostProcess> host, MakeRole making,
                                      FieldsOf fields, KeepsSession keeps_session);

}  // namespace sluice::hosts
