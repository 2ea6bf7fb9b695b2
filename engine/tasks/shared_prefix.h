// What a generation need not compute: the prefix that it shares with others, or with what its
// session said before.
//
// Errors: none; what is not there is computed. Thread: the pool's owner.
#pragma once

#include <cstdint>
#include <span>

#include "engine/tasks/generation.h"

namespace sluice {

/// What of the prompt may be found, but its last token.
std::span<const std::int32_t> to_be_found(const Generation& generation);

/// Of a generation that has computed nothing: begins it with the longest resident prefix of its
/// prompt, by whole pages, if that is more than it kept; the last token is always computed.
/// `width`: of its rows.
void take_prefix(const KvPages& pages, Generation& generation, std::size_t width);

/// The same with the session's own sequence at hand, which holds the first of `before`: what that
/// has in common with the prompt, or, where `others` may be looked at now, the resident prefix if
/// it is longer. Who waits for pages must not hold those of others: it looks when it is admitted.
/// Returns its tokens.
std::size_t take_prefix(KvPages& pages, KvSequence sequence, const RowsOrigin& before,
                        std::span<const std::int32_t> tokens, Generation& generation,
                        std::size_t width, bool others);

/// After a forward: full pages are there for others.
void publish_rows(KvPages& pages, Generation& generation);

}  // namespace sluice
