#include "counter.h"

#include <atomic>
#include <catch2/catch.hpp>
#include <cstdlib>
#include <memory>
#include <new>

namespace {

std::atomic<std::size_t> count{0};
thread_local std::optional<std::size_t> left;  // before it fails

void* take(std::size_t size, std::size_t alignment) {
  ++count;
  if (left.has_value() && (*left)-- == 0) {
    left.reset();
    throw std::bad_alloc();
  }
  const std::size_t whole = (size + alignment - 1) / alignment * alignment;
  if (void* memory = std::aligned_alloc(alignment, whole == 0 ? alignment : whole)) return memory;
  std::abort();
}

}  // namespace

void* operator new(std::size_t size) { return take(size, alignof(std::max_align_t)); }
void* operator new(std::size_t size, std::align_val_t alignment) {
  return take(size, static_cast<std::size_t>(alignment));
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
void operator delete(void* memory, std::align_val_t) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t, std::align_val_t) noexcept { std::free(memory); }

namespace sluice {

std::size_t allocations() { return count; }
void fail_behind(std::optional<std::size_t> more) { left = more; }

}  // namespace sluice

TEST_CASE("the counter counts") {
  const std::size_t before = sluice::allocations();
  const auto one = std::make_unique<int>(1);
  CHECK(sluice::allocations() > before);
}
