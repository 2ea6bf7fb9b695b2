// Whose a call is: the tenant that its request names, on each piece of its message.
//
// A name is 1 to 64 of letters, digits and `._-`. Frames' attributes are numbers, so it travels as
// several of them, eight characters each (`tenant_0`, ...); a piece without them is nobody's.
// Thread: any; no state.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/payload.h"
#include "base/result.h"
#include "roles/role.h"

namespace sluice {

bool is_tenant_name(std::string_view name);

/// Requires: a tenant's name, or none.
void add_tenant(std::string_view name, std::vector<std::pair<std::string, std::int64_t>>& to);
/// Empty: nobody's. Errors: invalid_argument (what stands there is no name).
Result<std::string> tenant_of(const Payload& piece);

/// A session is of the tenant of its first call: `of_session` is set by that. Errors:
/// invalid_argument (this call is another's).
Result<void> go_on_as(const std::string& tenant, std::optional<std::string>& of_session);
/// For all that a piece of a message brings to `answer`, `generate` or `prefill`. A picture that
/// names no tenant may be anybody's: who encodes it may not know. Errors: those of both above;
/// `of_session` is as it was then.
Result<void> go_on_as(const Activation& piece, std::optional<std::string>& of_session);

}  // namespace sluice
