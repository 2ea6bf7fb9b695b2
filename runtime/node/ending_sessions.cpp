#include "runtime/node/ending_sessions.h"

#include <algorithm>
#include <utility>

namespace sluice {

EndingSessions::EndingSessions(std::size_t machines, std::function<void(const std::string&)> end,
                               std::function<void(std::uint32_t home)> ended)
    : end_(std::move(end)), ended_(std::move(ended)), homes_(machines) {}

void EndingSessions::add(std::uint32_t home, std::string session) {
  const std::lock_guard lock(mutex_);
  if (stop_) return;
  Home& of = homes_[home];
  ++of.names[session];
  of.order.push_back(std::move(session));
  if (!of.thread.joinable()) of.thread = std::thread([this, home] { run(home); });
  changed_.notify_all();
}

bool EndingSessions::is_ending(std::uint32_t home, const std::string& session) const {
  const std::lock_guard lock(mutex_);
  return homes_[home].names.contains(session);
}

bool EndingSessions::is_ending_of(std::uint32_t home) const {
  const std::lock_guard lock(mutex_);
  return !homes_[home].order.empty();
}

bool EndingSessions::is_ending_any() const {
  const std::lock_guard lock(mutex_);
  return std::ranges::any_of(homes_, [](const Home& home) { return !home.order.empty(); });
}

void EndingSessions::run(std::uint32_t number) {
  Home& home = homes_[number];
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [&] { return stop_ || !home.order.empty(); });
    if (stop_) return;
    const std::string session = home.order.front();
    lock.unlock();
    end_(session);
    lock.lock();
    const auto named = home.names.find(session);
    if (--named->second == 0) home.names.erase(named);
    home.order.pop_front();
    lock.unlock();
    ended_(number);
    lock.lock();
  }
}

void EndingSessions::stop() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
    changed_.notify_all();
  }
  for (Home& home : homes_)
    if (home.thread.joinable()) home.thread.join();
}

}  // namespace sluice
