// How often the program has taken memory with `new`.
#pragma once

#include <cstddef>

namespace sluice {

/// By any thread, since the program began.
std::size_t allocations();

}  // namespace sluice
