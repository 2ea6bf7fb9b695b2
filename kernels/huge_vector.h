// A vector whose memory asks for huge pages: large matrices are read end to end for every token,
// and with 4 KiB pages a third of the bandwidth goes to address translation (measured: 24 against
// 32 GB/s on two cores).
#pragma once

#include <sys/mman.h>

#include <cstddef>
#include <cstdlib>
#include <new>
#include <vector>

namespace sluice::kernels {

template <typename T>
struct HugeAllocator {
  using value_type = T;
  static constexpr std::size_t page = std::size_t{2} << 20;

  HugeAllocator() = default;
  template <typename U>
  explicit HugeAllocator(const HugeAllocator<U>&) {}

  T* allocate(std::size_t count) {
    const std::size_t bytes = count * sizeof(T);
    if (bytes < page) return static_cast<T*>(::operator new (bytes, std::align_val_t{64}));
    void* memory = ::operator new ((bytes + page - 1) / page * page, std::align_val_t{page});
    (void)madvise(memory, bytes, MADV_HUGEPAGE);  // a wish: without it only speed is lost
    return static_cast<T*>(memory);
  }
  void deallocate(T* memory, std::size_t count) {
    const std::size_t align = count * sizeof(T) < page ? 64 : page;
    ::operator delete (memory, std::align_val_t{align});
  }
  friend bool operator==(const HugeAllocator&, const HugeAllocator&) { return true; }
};

template <typename T>
using HugeVector = std::vector<T, HugeAllocator<T>>;

/// Room for `count` values in scratch that is kept: `resize` would write zeros at each change.
template <typename T>
void grow(HugeVector<T>& scratch, std::size_t count) {
  if (scratch.size() < count) scratch.resize(count);
}

}  // namespace sluice::kernels
