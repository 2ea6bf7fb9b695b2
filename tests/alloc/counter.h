// How often the program has taken memory with `new`, and memory that runs out.
#pragma once

#include <cstddef>
#include <optional>

namespace sluice {

/// By any thread, since the program began.
std::size_t allocations();
/// Of this thread alone: so many more, and then `new` fails once. None: it does not.
void fail_behind(std::optional<std::size_t> more);

}  // namespace sluice
