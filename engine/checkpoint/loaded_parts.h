// The parts of checkpoints that this process has in memory, each once: whoever asks for a part that
// is there, or that somebody else is loading, gets the same one.
//
// A part is read by all who hold it, so nobody changes it once it is loaded, and it holds nothing
// of who asked (threads, pages, schedules). It is gone with the last of them: what is kept here are
// weak references.
// Thread: any. A part is loaded on the thread that asked for it first; the others sleep until that
// has ended. Errors: those of loading, for all who waited for it; who asks afterwards loads anew.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <typeinfo>

#include "base/result.h"

namespace sluice {

class LoadedParts {
 public:
  /// This process'.
  static LoadedParts& here();

  /// `name`: says which files, which part of them and how it is kept; empty: nobody else's.
  /// `load`: a Result<Part>. It asks for no part of this name.
  template <typename Part, typename Load>
  Result<std::shared_ptr<const Part>> get(const std::string& name, const Load& load) {
    const auto load_any = [&]() -> Result<Any> {
      Result<Part> made = load();
      if (!made.ok()) return made.error();
      return Any(std::make_shared<const Part>(std::move(made).value()));
    };
    Result<Any> found = get_any(name.empty() ? name : name + typeid(Part).name(), load_any);
    if (!found.ok()) return found.error();
    return std::static_pointer_cast<const Part>(std::move(found).value());
  }

  /// How often a part with a name was loaded, and how many there are now.
  std::uint64_t loads() const;
  std::size_t alive() const;

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
  Result<Any> get_any(const std::string& name, const std::function<Result<Any>()>& load);

  mutable std::mutex mutex_;
  std::condition_variable ended_;
  std::map<std::string, Entry> entries_;
  std::uint64_t loads_ = 0;
};

}  // namespace sluice
