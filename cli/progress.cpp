#include "cli/progress.h"

#include <unistd.h>

#include <cstdio>

namespace sluice::cli {

namespace {

constexpr std::chrono::seconds patience{2};

}  // namespace

Progress::Progress() : since_(std::chrono::steady_clock::now()), thread_([this] { work(); }) {}

Progress::~Progress() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  changed_.notify_one();
  thread_.join();
  if (shown_ && isatty(STDERR_FILENO) != 0) std::fputs("\r\033[K", stderr);
}

void Progress::show(std::string what) {
  const std::lock_guard lock(mutex_);
  what_ = std::move(what);
  since_ = std::chrono::steady_clock::now();
}

void Progress::work() {
  std::unique_lock lock(mutex_);
  const bool terminal = isatty(STDERR_FILENO) != 0;
  while (!changed_.wait_for(lock, std::chrono::milliseconds(500), [this] { return stop_; })) {
    const auto passed = std::chrono::steady_clock::now() - since_;
    if (what_.empty() || passed < patience) continue;
    shown_ = true;
    const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(passed).count();
    std::fprintf(stderr, terminal ? "\r\033[K%s, %lld s" : "%s, %lld s\n", what_.c_str(),
                 static_cast<long long>(seconds));
    if (!terminal) since_ += patience * 4;
  }
}

}  // namespace sluice::cli
