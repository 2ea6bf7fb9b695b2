// A pool's side of the index of pages, of which several threads ask.
//
// For a test's machine that a keeper drives: the machine's own calls take the lock too.
#pragma once

#include <cstdint>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "dataplane/page_index.h"

namespace sluice {

class LockedIndex : protected IndexClient {
 protected:
  explicit LockedIndex(PageIndex::Settings settings) : index_(std::move(settings)) {}

  std::optional<IndexQuestion> ask(Instant at) override {
    const std::lock_guard lock(mutex_);
    return index_.ask(at);
  }
  Instant due() const override {
    const std::lock_guard lock(mutex_);
    return index_.due();
  }
  void answered(std::uint64_t number, const std::vector<std::string>& words, Instant at) override {
    const std::lock_guard lock(mutex_);
    index_.answered(number, words, at);
  }
  void refused(std::uint64_t number, const std::string& why, Instant at) override {
    const std::lock_guard lock(mutex_);
    index_.refused(number, why, at);
  }
  void broke(const std::string& why, Instant at) override {
    const std::lock_guard lock(mutex_);
    index_.broke(why, at);
  }
  std::vector<std::string> farewell() const override { return index_.farewell(); }

  mutable std::mutex mutex_;
  PageIndex index_;
};

}  // namespace sluice
