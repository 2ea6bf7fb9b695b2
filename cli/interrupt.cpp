#include "cli/interrupt.h"

#include <poll.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <utility>

namespace sluice::cli {

namespace {

// A signal handler has nothing else to reach its object by.
std::atomic<int> target{-1};
std::atomic<int> first{0};
static_assert(std::atomic<int>::is_always_lock_free);

void raise_event(int event) {
  const std::uint64_t one = 1;
  // It cannot fail in a way that matters: a full counter is readable already.
  [[maybe_unused]] const ssize_t written = ::write(event, &one, sizeof one);
}

void on_ctrl_c(int number) {
  first = number;
  raise_event(target);
}

void on_end(int number) {
  int none = 0;
  first.compare_exchange_strong(none, number);
  // Not by SIGHUP: a terminal that closes sends it twice.
  for (const int other : {SIGINT, SIGTERM}) {
    struct sigaction now {};
    sigaction(other, nullptr, &now);
    if (now.sa_handler == on_end) signal(other, SIG_DFL);  // another one ends the program
  }
  raise_event(target);
}

/// Not SIG_IGN, which programs that are started from here would inherit.
void on_broken_pipe(int) {}

bool is_ignored(int number) {
  struct sigaction now {};
  sigaction(number, nullptr, &now);
  return now.sa_handler == SIG_IGN;
}

}  // namespace

void survive_broken_pipes() {
  struct sigaction action {};
  action.sa_handler = on_broken_pipe;
  sigemptyset(&action.sa_mask);
  action.sa_flags = SA_RESTART;
  sigaction(SIGPIPE, &action, nullptr);
}

Interrupts::Interrupts(Of of) {
  target = bell_.descriptor();
  first = 0;
  for (std::size_t i = 0; i < signals.size(); ++i) {
    sigaction(signals[i], nullptr, &before_[i]);
    if (of == Of::ctrl_c && signals[i] != SIGINT) continue;
    if (signals[i] == SIGHUP && is_ignored(SIGHUP)) continue;
    struct sigaction action {};
    action.sa_handler = signals[i] == SIGPIPE ? on_broken_pipe
                        : of == Of::ctrl_c    ? on_ctrl_c
                                              : on_end;
    sigemptyset(&action.sa_mask);
    action.sa_flags = SA_RESTART;
    sigaction(signals[i], &action, nullptr);
  }
}

Interrupts::~Interrupts() {
  for (std::size_t i = 0; i < signals.size(); ++i) sigaction(signals[i], &before_[i], nullptr);
  target = -1;
}

bool Interrupts::take() { return bell_.hear(); }

int Interrupts::signal() const { return first; }

std::string Interrupts::words() const {
  if (signal() == SIGTERM) return "SIGTERM, which `sluice down` sends too";
  return signal() == SIGHUP ? "SIGHUP: its terminal is gone" : "Ctrl-C";
}

StopOnInterrupt::StopOnInterrupt(const Interrupts& interrupts, std::function<void()> stop)
    : interrupts_(interrupts),
      thread_([this, stop = std::move(stop)] { watch(stop); }) {}

void StopOnInterrupt::watch(const std::function<void()>& stop) {
  std::array<pollfd, 2> events{pollfd{interrupts_.descriptor(), POLLIN, 0},
                               pollfd{done_.descriptor(), POLLIN, 0}};
  while (::poll(events.data(), events.size(), -1) < 0) continue;  // another signal
  if (events[1].revents == 0) stop();
}

StopOnInterrupt::~StopOnInterrupt() {
  done_.ring();
  thread_.join();
}

}  // namespace sluice::cli
