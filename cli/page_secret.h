// The secret that makes the names of pages the same on all machines of a cluster without keys: a
// file in the folder that only this user enters.
//
// Processes that begin and end at once agree: whoever makes, reads or removes it has the folder's
// lock (flock) meanwhile, for which nobody waits without end. Errors: as `read_shared_secret`;
// unavailable (somebody stands still with the lock).
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "base/result.h"

namespace sluice::cli {

/// The secret of a cluster without keys, made where there is none yet; `kept` is asked then for one
/// that was this cluster's before. Whoever asks has a file of its own in the folder, a lock: so
/// long the secret stays.
Result<std::array<std::uint8_t, 32>> page_secret(
    const std::string& folder, std::chrono::milliseconds patience = std::chrono::seconds(10),
    const std::function<std::optional<std::array<std::uint8_t, 32>>()>& kept = {});
/// Where nothing else is left in its folder; with it what a process has left that was killed while
/// it made one.
void remove_page_secret(const std::string& folder,
                        std::chrono::milliseconds patience = std::chrono::seconds(10));

}  // namespace sluice::cli
