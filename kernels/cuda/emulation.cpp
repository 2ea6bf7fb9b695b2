#include "kernels/cuda/emulation.h"

#include <ucontext.h>

#include <algorithm>
#include <memory>
#include <vector>

#include "base/check.h"

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/common_interface_defs.h>
#define SLUICE_FIBER_LEAVE(save, bottom, size) __sanitizer_start_switch_fiber(save, bottom, size)
#define SLUICE_FIBER_ENTER(fake) __sanitizer_finish_switch_fiber(fake, nullptr, nullptr)
#else
#define SLUICE_FIBER_LEAVE(save, bottom, size) (void)(save)
#define SLUICE_FIBER_ENTER(fake) (void)(fake)
#endif

namespace sluice::device::emulated {

namespace {

constexpr std::size_t stack_bytes = std::size_t{128} << 10;
constexpr unsigned warp = 32;

struct Fiber {
  ucontext_t context{};
  std::unique_ptr<char[]> stack = std::make_unique<char[]>(stack_bytes);
  void* fake_stack = nullptr;
  bool done = false;
  std::size_t block_waits = 0, warp_waits = 0;  // how often it came to each
  float given[2] = {};                          // in this shuffle and the one before
  unsigned shuffles = 0;
};

struct Block {
  std::vector<Fiber> fibers;
  std::vector<std::max_align_t> shared;
  ucontext_t scheduler{};
  void* scheduler_fake_stack = nullptr;
  const void* scheduler_bottom = nullptr;
  std::size_t scheduler_size = 0;
  unsigned threads = 0, current = 0;
  const std::function<void()>* body = nullptr;
};
Block block;

Fiber& self() { return block.fibers[block.current]; }

void leave() {
  Fiber& fiber = self();
  SLUICE_FIBER_LEAVE(fiber.done ? nullptr : &fiber.fake_stack, block.scheduler_bottom,
                     block.scheduler_size);
  swapcontext(&fiber.context, &block.scheduler);
  SLUICE_FIBER_ENTER(fiber.fake_stack);
}

void enter() {
#if defined(__SANITIZE_ADDRESS__)
  __sanitizer_finish_switch_fiber(nullptr, &block.scheduler_bottom, &block.scheduler_size);
#endif
  (*block.body)();
  self().done = true;
  leave();
}

/// Whether every thread of [from, to) that has not ended came as often as this one.
template <typename Count>
void wait(unsigned from, unsigned to, Count Fiber::*count) {
  const Count mine = ++(self().*count);
  const auto met = [&] {
    for (unsigned i = from; i < to; ++i)
      if (!block.fibers[i].done && block.fibers[i].*count < mine) return false;
    return true;
  };
  while (!met()) leave();
}

void prepare(Fiber& fiber) {
  fiber.done = false;
  fiber.block_waits = fiber.warp_waits = 0;
  fiber.shuffles = 0;
  fiber.fake_stack = nullptr;
  getcontext(&fiber.context);
  fiber.context.uc_stack.ss_sp = fiber.stack.get();
  fiber.context.uc_stack.ss_size = stack_bytes;
  fiber.context.uc_link = &block.scheduler;
  makecontext(&fiber.context, enter, 0);
}

/// Lets one thread run until it waits or ends.
void resume(unsigned i) {
  Fiber& fiber = block.fibers[i];
  block.current = i;
  thread_index = {i % block_size.x, i / block_size.x, 0};
  SLUICE_FIBER_LEAVE(&block.scheduler_fake_stack, fiber.stack.get(), stack_bytes);
  swapcontext(&block.scheduler, &fiber.context);
  SLUICE_FIBER_ENTER(block.scheduler_fake_stack);
}

/// Round robin until all have ended. A round in which nobody came further would go on for ever.
void run_block() {
  for (unsigned i = 0; i < block.threads; ++i) prepare(block.fibers[i]);
  std::size_t progress = ~std::size_t{0};
  while (true) {
    std::size_t state = 0;
    unsigned ended = 0;
    for (unsigned i = 0; i < block.threads; ++i) {
      const Fiber& fiber = block.fibers[i];
      if (!fiber.done) resume(i);
      ended += fiber.done ? 1 : 0;
      state += fiber.block_waits + fiber.warp_waits + (fiber.done ? 1 : 0);
    }
    if (ended == block.threads) return;
    SLUICE_CHECK(state != progress, "threads of a block wait at different barriers for ever");
    progress = state;
  }
}

}  // namespace

void run(Dim3 grid, Dim3 size, std::size_t shared_bytes, const std::function<void()>& body) {
  block.threads = size.x * size.y;
  if (block.fibers.size() < block.threads) block.fibers = std::vector<Fiber>(block.threads);
  // As many bytes as asked for and no more, so that a sanitizer sees who goes beyond.
  block.shared = std::vector<std::max_align_t>(shared_bytes / sizeof(std::max_align_t) + 1);
  block.body = &body;
  block_size = size;
  grid_size = grid;
  for (unsigned z = 0; z < grid.z; ++z)
    for (unsigned y = 0; y < grid.y; ++y)
      for (unsigned x = 0; x < grid.x; ++x) {
        block_index = {x, y, z};
        run_block();
      }
}

void* shared_memory() { return block.shared.data(); }

void wait_for_warp() {
  const unsigned first = block.current / warp * warp;
  wait(first, std::min(first + warp, block.threads), &Fiber::warp_waits);
}

void wait_for_block() { wait(0, block.threads, &Fiber::block_waits); }

float shuffle_xor(float value, unsigned mask) {
  // Two slots by turns: nobody is two shuffles ahead of a lane that has not read yet.
  const unsigned slot = self().shuffles++ % 2;
  self().given[slot] = value;
  wait_for_warp();
  return block.fibers[block.current ^ mask].given[slot];
}

}  // namespace sluice::device::emulated
