#include "kernels/cuda/emulation.h"

#include <ucontext.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <vector>

#include "base/check.h"

// Functions that go from one stack to another. The compiler may draw no conclusions from what is in
// them, and a sanitizer's own calls there would be made on the wrong stack.
#if defined(__clang__)
#define SLUICE_SWITCHES __attribute__((noinline, no_sanitize("address")))
#else
#define SLUICE_SWITCHES __attribute__((noipa, no_sanitize_address))
#endif
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

/// Of a block or a warp: opens when all of its threads that have not ended have come.
struct Barrier {
  std::size_t opened = 0;
  unsigned come = 0, alive = 0;

  void open_if_all() {
    if (come == 0 || come != alive) return;
    come = 0;
    ++opened;
  }
};

struct Thread {
  const Barrier* before = nullptr;  // that it waits for, while this was so often open
  std::size_t opened = 0;
  float given[2] = {};  // in this shuffle and the one before
  unsigned shuffles = 0;
  unsigned fiber = 0;
  bool waited = false;  // for what the kernels before have written
  bool done = false;
};

/// Where to go on. The compiler's own kind: contexts ask the kernel for the signal mask, and at the
/// library's jumps a sanitizer clears what it knows of a whole stack (six times slower).
using Place = void* [5];
/// Apart, as the compiler wants it: not in the function that took a place.
[[noreturn]] SLUICE_SWITCHES void go_to(Place& place) { __builtin_longjmp(place, 1); }

/// Runs threads one after the other, and only their own waiting makes it leave: a block whose
/// threads never wait takes one fiber and no switch between them.
struct Fiber {
  std::unique_ptr<char[]> stack = std::make_unique<char[]>(stack_bytes);
  Place left{};
  void* fake_stack = nullptr;
  bool begun = false, idle = true;
};

struct Block {
  std::vector<Thread> threads;
  std::vector<Barrier> warps;
  Barrier whole;
  std::vector<std::unique_ptr<Fiber>> fibers;
  std::vector<std::max_align_t> shared;
  Place scheduler{};
  void* scheduler_fake_stack = nullptr;
  const void* scheduler_bottom = nullptr;
  std::size_t scheduler_size = 0;
  unsigned current = 0, begun = 0;  // threads
  unsigned fiber = 0;               // that runs
  const std::function<void()>* body = nullptr;
};
Block block;

Thread& self() { return block.threads[block.current]; }

void become(unsigned thread) {
  block.current = thread;
  thread_index = {thread % block_size.x, thread / block_size.x, 0};
}

/// From a fiber to the scheduler.
SLUICE_SWITCHES void leave() {
  Fiber& fiber = *block.fibers[block.fiber];
  SLUICE_FIBER_LEAVE(&fiber.fake_stack, block.scheduler_bottom, block.scheduler_size);
  if (__builtin_setjmp(fiber.left) == 0) go_to(block.scheduler);
  SLUICE_FIBER_ENTER(block.fibers[block.fiber]->fake_stack);
}

void enter() {
#if defined(__SANITIZE_ADDRESS__)
  __sanitizer_finish_switch_fiber(nullptr, &block.scheduler_bottom, &block.scheduler_size);
#endif
  while (true) {
    while (block.begun < block.threads.size()) {
      become(block.begun++);
      self().fiber = block.fiber;
      (*block.body)();
      SLUICE_CHECK(self().waited, "a kernel's thread ends and has not waited for its inputs");
      self().done = true;
      for (Barrier* barrier : {&block.whole, &block.warps[block.current / warp]}) {
        --barrier->alive;
        barrier->open_if_all();
      }
    }
    block.fibers[block.fiber]->idle = true;
    leave();
  }
}

/// From the scheduler to a fiber, until it waits or has nothing to do.
SLUICE_SWITCHES void resume(unsigned index) {
  block.fiber = index;
  Fiber& fiber = *block.fibers[index];
  fiber.idle = false;
  SLUICE_FIBER_LEAVE(&block.scheduler_fake_stack, fiber.stack.get(), stack_bytes);
  if (__builtin_setjmp(block.scheduler) == 0) {
    if (fiber.begun) go_to(fiber.left);
    fiber.begun = true;
    ucontext_t first{};
    getcontext(&first);
    first.uc_stack.ss_sp = fiber.stack.get();
    first.uc_stack.ss_size = stack_bytes;
    makecontext(&first, enter, 0);
    setcontext(&first);
  }
  SLUICE_FIBER_ENTER(block.scheduler_fake_stack);
}

void wait(Barrier& barrier) {
  Thread& thread = self();
  SLUICE_CHECK(thread.waited, "a kernel's threads meet and have not waited for their inputs");
  thread.before = &barrier;
  thread.opened = barrier.opened;
  ++barrier.come;
  barrier.open_if_all();
  if (barrier.opened == thread.opened) leave();
  thread.before = nullptr;
}

unsigned find_idle() {
  for (unsigned i = 0; i < block.fibers.size(); ++i)
    if (block.fibers[i]->idle) return i;
  block.fibers.push_back(std::make_unique<Fiber>());
  return static_cast<unsigned>(block.fibers.size() - 1);
}

void prepare_block() {
  // As a GPU, which gives a block memory with anything in it; these are no numbers.
  if (!block.shared.empty())
    std::memset(block.shared.data(), 0xff, block.shared.size() * sizeof(block.shared[0]));
  std::ranges::fill(block.threads, Thread());
  const auto count = static_cast<unsigned>(block.threads.size());
  block.begun = 0;
  block.whole = {0, 0, count};
  block.warps.clear();
  for (unsigned first = 0; first < count; first += warp)
    block.warps.push_back({0, 0, std::min(warp, count - first)});
}

/// Round robin until all have ended. A round in which nobody could go on would go on for ever.
void run_block() {
  prepare_block();
  while (block.begun < block.threads.size()) resume(find_idle());
  for (std::size_t ended = 0; ended != block.threads.size();) {
    ended = 0;
    bool went_on = false;
    for (unsigned i = 0; i < block.threads.size(); ++i) {
      const Thread& thread = block.threads[i];
      if (!thread.done && thread.before->opened != thread.opened) {
        become(i);
        resume(thread.fiber);
        went_on = true;
      }
      ended += thread.done ? 1 : 0;
    }
    SLUICE_CHECK(went_on || ended == block.threads.size(),
                 "threads of a block wait at different barriers for ever");
  }
}

}  // namespace

void run(Dim3 grid, Dim3 size, std::size_t shared_bytes, const std::function<void()>& body) {
  // What a GPU refuses.
  SLUICE_CHECK(size.x * size.y <= 1024 && grid.y < 1U << 16 && grid.z < 1U << 16 &&
                   shared_bytes <= std::size_t{99} << 10,
               "a block or a grid is larger than a GPU takes");
  block.threads.resize(std::size_t{size.x} * size.y);
  // Hardly more than was asked for, so that a sanitizer sees who goes beyond.
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

void wait_for_warp() { wait(block.warps[block.current / warp]); }
void wait_for_block() { wait(block.whole); }
void wait_for_inputs() { self().waited = true; }

float shuffle_xor(float value, unsigned mask) {
  // Two slots by turns: nobody is two shuffles ahead of a lane that has not read yet.
  const unsigned slot = self().shuffles++ % 2;
  self().given[slot] = value;
  wait_for_warp();
  return block.threads[block.current ^ mask].given[slot];
}

}  // namespace sluice::device::emulated
