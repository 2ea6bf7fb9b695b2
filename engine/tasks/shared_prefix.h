// What a generation need not compute: the prefix that it shares with others, or with what its
// session said before.
//
// Errors: none; what is not there is computed. Thread: the pool's owner.
#pragma once

#include "engine/tasks/generator.h"

namespace sluice {

/// Of a generation that has computed nothing and kept nothing: begins it with the longest resident
/// prefix of its prompt, by whole pages; the last token is always computed. `width`: of its rows.
void take_prefix(const KvPages& pages, Generation& generation, std::size_t width);

/// The same with the session's own sequence at hand, which holds the first of `before`: what that
/// has in common with the prompt, or the resident prefix if it is longer. Returns its tokens.
std::size_t take_prefix(KvPages& pages, KvSequence sequence, const RowsOrigin& before,
                        std::span<const std::int32_t> tokens, Generation& generation,
                        std::size_t width);

/// After a forward: full pages are there for others.
void publish_rows(KvPages& pages, Generation& generation);

}  // namespace sluice
