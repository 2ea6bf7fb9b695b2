#include "cli/interrupt.h"

#include <unistd.h>

namespace sluice::cli {

namespace {

// A signal handler has nothing else to reach its object by.
sem_t woken;
volatile sig_atomic_t interrupts = 0;

}  // namespace

void Interrupt::on_signal(int) {
  if (interrupts != 0) _exit(130);
  interrupts = 1;
  sem_post(&woken);
}

Interrupt::Interrupt(std::function<void()> stop) : stop_(std::move(stop)) {
  interrupts = 0;
  sem_init(&woken, 0, 0);
  thread_ = std::thread([this] {
    while (sem_wait(&woken) != 0) continue;  // another signal
    if (!done_) stop_();
  });
  struct sigaction action {};
  action.sa_handler = on_signal;
  sigemptyset(&action.sa_mask);
  action.sa_flags = SA_RESTART;
  sigaction(SIGINT, &action, &before_);
}

Interrupt::~Interrupt() {
  sigaction(SIGINT, &before_, nullptr);
  done_ = true;
  sem_post(&woken);
  thread_.join();
}

}  // namespace sluice::cli
