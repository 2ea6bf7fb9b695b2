// Regions of this process that others may read, and who may read which: a grant for each key that
// was given, with a secret of its own.
//
// Owns: the regions' memory, until nobody here reads it any more. Thread: any.
// Bounds: `grants_most`; the one that was made first goes first, and its reader is let in no more.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

#include "base/remote_memory.h"
#include "runtime/tcp/tcp_key.h"

namespace sluice::tcp {

/// Plain memory, zero-filled; with few page faults where the system has large pages.
class Region {
 public:
  /// Null: there is not so much.
  static std::shared_ptr<Region> make(std::size_t size);
  Region(std::byte* data, std::size_t size, void* mapped, std::size_t mapped_bytes)
      : data_(data), size_(size), mapped_(mapped), mapped_bytes_(mapped_bytes) {}
  ~Region();
  Region(const Region&) = delete;
  Region& operator=(const Region&) = delete;

  std::byte* data() const { return data_; }
  std::size_t size() const { return size_; }
  /// Its owner has let go of it: nobody is answered any more.
  bool is_gone() const { return is_gone_.load(std::memory_order_acquire); }
  void let_go() { is_gone_.store(true, std::memory_order_release); }

  /// Who answers from now on; null: nobody. Who did so does not any more when this has returned.
  void guide(RegionGuide* guide);
  void answer(std::span<const std::byte> question, std::vector<std::byte>& answer) const;

 private:
  std::byte* const data_;
  const std::size_t size_;
  void* const mapped_;
  const std::size_t mapped_bytes_;
  std::atomic<bool> is_gone_{false};
  mutable std::mutex guided_;  // held while it answers
  RegionGuide* guide_ = nullptr;
};

class Grants {
 public:
  static constexpr std::size_t grants_most = 4096;

  struct Grant {
    Secret secret{};
    std::shared_ptr<const Region> region;
  };
  struct Made {
    std::uint64_t number = 0;
    Secret secret{};
  };
  /// Numbers are random too: whoever guesses one learns nothing by it.
  Made make(std::shared_ptr<const Region> region);
  std::optional<Grant> find(std::uint64_t number) const;
  /// Those of a region that has gone.
  void drop_gone();

 private:
  mutable std::mutex mutex_;
  std::map<std::uint64_t, Grant> grants_;
  std::deque<std::uint64_t> order_;
};

/// So many bytes of the system's random source.
void fill_random(std::byte* to, std::size_t size);

}  // namespace sluice::tcp
