// Which index of a loop a thread probably takes next, so that what it needs there can be asked for
// before.
//
// Threads that share a loop take parts of what is left (base/turns.h), and as long as they are
// about equally fast each of the others takes one between two of a thread's own. A wrong guess
// costs the reading.
#pragma once

#include <algorithm>
#include <cstddef>

namespace sluice::kernels {

/// For a thread that has taken indices up to `end` of a loop of `count` over so many threads;
/// count: it probably gets none.
constexpr std::size_t probably_next(std::size_t count, std::size_t end, std::size_t threads) {
  for (std::size_t other = 1; other < threads && end < count; ++other)
    end += std::max<std::size_t>((count - end) / (2 * threads), 1);
  return end;
}

}  // namespace sluice::kernels
