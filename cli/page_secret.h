// The secret that makes the names of pages the same on all machines of a cluster without keys: a
// file in the folder that only this user enters.
//
// Processes that begin and end at once agree: whoever makes, reads or removes it has the folder's
// lock (flock) meanwhile. Errors: as `read_shared_secret`.
#pragma once

#include <array>
#include <cstdint>
#include <string>

#include "base/result.h"

namespace sluice::cli {

/// The secret of a cluster without keys, made where there is none yet. Whoever asks has a file of
/// its own in the folder, a lock: so long the secret stays.
Result<std::array<std::uint8_t, 32>> page_secret(const std::string& folder);
/// Where nothing else is left in its folder.
void remove_page_secret(const std::string& folder);

}  // namespace sluice::cli
