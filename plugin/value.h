// Values on their way over the C interface: types, and copies of what a plugin yields.
#pragma once

#include <cstdint>
#include <optional>

#include "base/payload.h"
#include "base/result.h"
#include "plugin/include/sluice/sluice_plugin.h"

namespace sluice {

std::optional<Dtype> dtype_from(std::uint32_t dtype);
std::uint32_t to_c(Dtype dtype);
/// Whether values of this type of the C interface are tensors.
bool holds_tensor(std::uint32_t type);

/// Copies a plugin's value. Errors: say it as the end of "yielded ...".
Result<PayloadRef> payload_from(const sluice_value& value);

}  // namespace sluice
