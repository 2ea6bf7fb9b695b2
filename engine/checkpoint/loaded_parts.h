// The parts of checkpoints that this process has in memory, each once: whoever asks for a part that
// is there, or that somebody else is loading, gets the same one. With a client of the machine's
// exchange (part_exchange.h) the matrices of a part are the machine's once: the first process makes
// them, the others map them.
//
// A part is read by all who hold it, so nobody changes it once it is loaded, and it holds nothing
// of who asked (threads, pages, schedules). It is gone with the last of them: what is kept here are
// weak references.
// Thread: any. A part is loaded on the thread that asked for it first; the others sleep until that
// has ended. Errors: those of loading, for all who waited for it; who asks afterwards loads anew;
// deadline, of somebody else who loads too long, with who that is. Whatever else hinders processes
// from sharing is noticed, and each loads what it needs.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <typeinfo>

#include "base/result.h"
#include "engine/checkpoint/part_client.h"
#include "engine/checkpoint/weight_arena.h"

namespace sluice {

class LoadedParts {
 public:
  /// This process'.
  static LoadedParts& here();

  /// `name`: says which files, which part of them and how it is kept; empty: nobody else's.
  /// `load`: a Result<Part>. It asks for no part of this name. `what`: the part, for people.
  template <typename Part, typename Load>
  Result<std::shared_ptr<const Part>> get(const std::string& name, const Load& load,
                                          const std::string& what = "the same weights") {
    const auto load_any = [&]() -> Result<Any> {
      Result<Part> made = load();
      if (!made.ok()) return made.error();
      return Any(std::make_shared<const Part>(std::move(made).value()));
    };
    Result<Any> found = get_any(name.empty() ? name : name + typeid(Part).name(), what, load_any);
    if (!found.ok()) return found.error();
    return std::static_pointer_cast<const Part>(std::move(found).value());
  }

  /// The same of a part with matrices. `load`: a Result<Part>, of the arena in which matrices are
  /// found or kept; null: there is none.
  template <typename Part, typename Load>
  Result<std::shared_ptr<const Part>> get_weights(const std::string& name, const std::string& what,
                                                  const Load& load) {
    const auto load_shared = [&]() -> Result<Part> {
      Result<Shared> shared = begin(name.empty() ? name : name + typeid(Part).name(), what);
      if (!shared.ok()) return shared.error();
      Result<Part> made = load(shared->arena.has_value() ? &*shared->arena : nullptr);
      if (made.ok()) end(*shared, what);
      return made;
    };
    return get<Part>(name, load_shared, what);
  }

  /// From now on parts are shared through it; null: with nobody. `notice`: of what hinders that.
  void share(std::shared_ptr<const PartClient> client,
             std::function<void(const std::string&)> notice);
  /// How often the matrices of a part were another process'.
  std::uint64_t attached() const;

  /// How often a part with a name was loaded, and how many there are now.
  std::uint64_t loads() const;
  std::size_t alive() const;

  /// How long to wait for another role of this process that loads. Set before there are any.
  std::chrono::milliseconds patience = std::chrono::minutes(10);
  /// For tests: somebody begins to wait. Called under the lock.
  std::function<void()> on_wait;

 private:
  using Any = std::shared_ptr<const void>;
  struct Load;  // under way
  struct Entry {
    std::weak_ptr<const void> part;
    std::shared_ptr<Load> load;  // null: none
  };
  class Ending;
  Result<Any> get_any(const std::string& name, const std::string& what,
                      const std::function<Result<Any>()>& load);
  /// Of a load.
  struct Shared {
    std::shared_ptr<const PartLease> lease;
    std::optional<WeightArena> arena;  // none: the part's matrices are this process' alone
  };
  Result<Shared> begin(const std::string& name, const std::string& what);
  void end(Shared& shared, const std::string& what);
  void note(const std::string& what, const std::string& why) const;

  mutable std::mutex mutex_;
  std::condition_variable ended_;
  std::map<std::string, Entry> entries_;
  std::uint64_t loads_ = 0, attached_ = 0;
  std::shared_ptr<const PartClient> client_;  // null: no other process shares them
  std::function<void(const std::string&)> notice_;
};

}  // namespace sluice
