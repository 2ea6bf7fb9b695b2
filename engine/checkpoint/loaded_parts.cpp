#include "engine/checkpoint/loaded_parts.h"

#include <malloc.h>
#include <sys/stat.h>

#include <algorithm>
#include <utility>

#include "base/failpoint.h"
#include "base/sha256.h"

namespace sluice {

namespace {

/// Of this program's file, which says how it keeps matrices. None: nobody can tell.
std::optional<std::string> program_text() {
  struct stat about {};
  if (::stat("/proc/self/exe", &about) != 0) return {};
  std::string text;
  for (const auto number :
       {static_cast<std::int64_t>(about.st_dev), static_cast<std::int64_t>(about.st_ino),
        static_cast<std::int64_t>(about.st_size), static_cast<std::int64_t>(about.st_mtim.tv_sec),
        static_cast<std::int64_t>(about.st_mtim.tv_nsec)})
    text += std::to_string(number) + ' ';
  return text;
}

}  // namespace

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

Result<LoadedParts::Any> LoadedParts::get_any(const std::string& name, const std::string& what,
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
    if (ended_.wait_for(held, patience, [&] { return other->ended; })) return other->outcome;
    return Error{ErrorCode::deadline, "another role of this process loads " + what +
                                          " and has not done so within " +
                                          std::to_string(patience.count()) + " ms"};
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

void LoadedParts::share(std::shared_ptr<const PartClient> client,
                        std::function<void(const std::string&)> notice) {
  const std::lock_guard held(mutex_);
  client_ = std::move(client);
  notice_ = std::move(notice);
}

void LoadedParts::note(const std::string& what, const std::string& why) const {
  std::function<void(const std::string&)> notice;
  {
    const std::lock_guard held(mutex_);
    notice = notice_;
  }
  if (notice) notice(what + ": its weights are not shared with other processes: " + why);
}

Result<LoadedParts::Shared> LoadedParts::begin(const std::string& name, const std::string& what) {
  std::shared_ptr<const PartClient> client;
  {
    const std::lock_guard held(mutex_);
    client = client_;
  }
  if (client == nullptr || name.empty()) return Shared();
  const auto alone = [&](const std::string& why) {
    note(what, why);
    return Shared();
  };
  const std::optional<std::string> program = program_text();
  if (!program.has_value()) return alone("/proc/self/exe does not say which program this is");
  const PartKey key = sha256(*program + name);
  Result<PartLease> asked = client->ask(key, what);
  if (!asked.ok() && asked.error().code == ErrorCode::deadline) return asked.error();
  if (!asked.ok()) return alone(asked.error().message);
  const bool is_there = asked->is_there();
  const OwnedFile memory = asked->take_memory();
  Shared shared{std::make_shared<const PartLease>(std::move(asked).value()), {}};
  Result<WeightArena> arena = is_there ? WeightArena::attach(memory, key) : WeightArena::make(key);
  if (!arena.ok()) return alone(arena.error().message);
  shared.arena = std::move(arena).value();
  shared.arena->hold(shared.lease);
  if (!is_there) failpoint("makes_weights");
  const std::lock_guard held(mutex_);
  if (is_there) ++attached_;
  return shared;
}

void LoadedParts::end(Shared& shared, const std::string& what) {
  if (!shared.arena.has_value() || shared.arena->is_sealed()) return;
  const Result<OwnedFile> sealed = shared.arena->seal();
  const Result<void> done =
      sealed.ok() ? shared.lease->made(*sealed) : Result<void>(sealed.error());
  if (!done.ok()) {
    note(what, done.error().message);
    shared.arena->hold(nullptr);  // whoever waits for it is to make it
    shared.lease.reset();
  }
  // What matrices were made in is free, and the allocator would keep tens of megabytes of it.
  ::malloc_trim(0);
}

std::uint64_t LoadedParts::attached() const {
  const std::lock_guard held(mutex_);
  return attached_;
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
