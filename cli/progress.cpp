#include "cli/progress.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>
#include <utility>

namespace sluice::cli {

namespace {

using Clock = std::chrono::steady_clock;

/// Whether both streams end in one place.
bool are_one() {
  struct stat out {
  }, err{};
  return fstat(STDOUT_FILENO, &out) == 0 && fstat(STDERR_FILENO, &err) == 0 &&
         out.st_dev == err.st_dev && out.st_ino == err.st_ino;
}

void say(const std::string& text) { std::fwrite(text.data(), 1, text.size(), stderr); }

}  // namespace

Progress::Progress()
    : line_(isatty(STDERR_FILENO) != 0, are_one(), Clock::now()), thread_([this] { work(); }) {}

Progress::~Progress() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  changed_.notify_one();
  thread_.join();
  say(line_.end());
}

void Progress::show(std::string what) {
  const std::lock_guard lock(mutex_);
  if (what.empty()) say(line_.end());
  line_.begin(std::move(what), Clock::now());
}

void Progress::write(std::string_view text) {
  const std::lock_guard lock(mutex_);
  say(line_.before(text));
  std::fwrite(text.data(), 1, text.size(), stdout);
  std::fflush(stdout);
}

void Progress::work() {
  std::unique_lock lock(mutex_);
  while (!changed_.wait_for(lock, std::chrono::milliseconds(500), [this] { return stop_; }))
    say(line_.tick(Clock::now()));
}

}  // namespace sluice::cli
