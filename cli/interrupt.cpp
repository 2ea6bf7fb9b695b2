#include "cli/interrupt.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <utility>

namespace sluice::cli {

namespace {

// A signal handler has nothing else to reach its object by.
std::atomic<int> target{-1};
static_assert(std::atomic<int>::is_always_lock_free);

void raise_event(int event) {
  const std::uint64_t one = 1;
  // It cannot fail in a way that matters: a full counter is readable already.
  [[maybe_unused]] const ssize_t written = ::write(event, &one, sizeof one);
}

void on_signal(int) { raise_event(target); }

}  // namespace

Interrupts::Interrupts() : event_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  target = event_;
  struct sigaction action {};
  action.sa_handler = on_signal;
  sigemptyset(&action.sa_mask);
  action.sa_flags = SA_RESTART;
  sigaction(SIGINT, &action, &before_);
}

Interrupts::~Interrupts() {
  sigaction(SIGINT, &before_, nullptr);
  target = -1;
  ::close(event_);
}

bool Interrupts::take() {
  std::uint64_t count = 0;
  return ::read(event_, &count, sizeof count) > 0;
}

StopOnInterrupt::StopOnInterrupt(std::function<void()> stop)
    : done_(::eventfd(0, EFD_CLOEXEC)), thread_([this, stop = std::move(stop)] { watch(stop); }) {}

void StopOnInterrupt::watch(const std::function<void()>& stop) {
  std::array<pollfd, 2> events{pollfd{interrupts_.descriptor(), POLLIN, 0},
                               pollfd{done_, POLLIN, 0}};
  while (::poll(events.data(), events.size(), -1) < 0) continue;  // another signal
  if (events[1].revents != 0) return;
  signal(SIGINT, SIG_DFL);
  stop();
}

StopOnInterrupt::~StopOnInterrupt() {
  raise_event(done_);
  thread_.join();
  ::close(done_);
}

}  // namespace sluice::cli
