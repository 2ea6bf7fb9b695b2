// What pools may owe over the one link between two machines: each pool's bounds are its own.
// Units: bytes. Thread: any; no state.
#pragma once

#include <cstddef>

namespace sluice {

/// Of so many pools that both have. A link that is owed more ends.
std::size_t page_window(std::size_t pools);

}  // namespace sluice
