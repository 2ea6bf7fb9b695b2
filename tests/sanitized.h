// Whether this program runs with sanitizers, which take several times as long, and how much less it
// then tries.
#pragma once

#include <cstdint>

namespace sluice::testing {

#if defined(__SANITIZE_ADDRESS__)
inline constexpr bool sanitized = true;
#else
inline constexpr bool sanitized = false;
#endif

/// How many of a random test's seeds to try: all of them as released, a quarter with sanitizers.
constexpr std::uint64_t seeds(std::uint64_t all) { return sanitized ? (all + 3) / 4 : all; }

}  // namespace sluice::testing
