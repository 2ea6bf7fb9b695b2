#include "engine/checkpoint/loaded_parts.h"

#include <algorithm>

namespace sluice {

struct LoadedParts::Load {
  Result<Any> outcome = Error{ErrorCode::exhausted,
                              "another role was loading the same weights and ended in the middle, "
                              "most likely for want of memory"};
  bool ended = false;
};

/// Of a load, however it ends: with an exception the outcome stays what it was. Allocates nothing.
class LoadedParts::Ending {
 public:
  Ending(LoadedParts& parts, const std::string& name, Load& load)
      : parts_(parts), name_(name), load_(load) {}
  ~Ending() {
    const std::lock_guard held(parts_.mutex_);
    Entry& entry = parts_.entries_.find(name_)->second;
    if (load_.outcome.ok()) {
      entry.part = *load_.outcome;
      ++parts_.loads_;
    }
    load_.ended = true;
    entry.load.reset();
    parts_.ended_.notify_all();
  }
  Ending(const Ending&) = delete;
  Ending& operator=(const Ending&) = delete;

 private:
  LoadedParts& parts_;
  const std::string& name_;
  Load& load_;
};

LoadedParts& LoadedParts::here() {
  static LoadedParts parts;
  return parts;
}

Result<LoadedParts::Any> LoadedParts::get_any(const std::string& name,
                                              const std::function<Result<Any>()>& load) {
  if (name.empty()) return load();
  std::unique_lock held(mutex_);
  std::erase_if(entries_, [](const auto& one) {
    return one.second.load == nullptr && one.second.part.expired();
  });
  Entry& entry = entries_[name];
  if (Any part = entry.part.lock()) return part;
  if (const std::shared_ptr<Load> other = entry.load) {
    if (on_wait) on_wait();
    ended_.wait(held, [&] { return other->ended; });
    return other->outcome;
  }
  const auto mine = std::make_shared<Load>();
  entry.load = mine;
  held.unlock();
  {
    const Ending ending(*this, name, *mine);
    mine->outcome = load();
  }
  return mine->outcome;
}

std::uint64_t LoadedParts::loads() const {
  const std::lock_guard held(mutex_);
  return loads_;
}

std::size_t LoadedParts::alive() const {
  const std::lock_guard held(mutex_);
  return static_cast<std::size_t>(
      std::ranges::count_if(entries_, [](const auto& one) { return !one.second.part.expired(); }));
}

}  // namespace sluice
