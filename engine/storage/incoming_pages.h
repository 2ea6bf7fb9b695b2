// Pages of a pool that others' pages are written into as they come, before anybody may find them.
//
// They are taken from the pool behind pages that it has, and are nobody else's until each is
// published, in order, by whoever has checked what stands there. Whoever writes one refers to
// its place: a copy, a socket, a card. As long as anybody does `is_written` is true, and they are
// not to go back to the pool: so what is given up amid a read is kept until the read has ended.
// Thread: the pool's owner; places are let go of by any.
// Source: omni-flow, section 4.2 (transfer).
#pragma once

#include <chrono>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "engine/layers/kv.h"

namespace sluice {

class IncomingPages {
 public:
  /// As many as can be had, at most `most`. Null: those `before` are not there, or there is no
  /// room for `least`. `tenant`: whose they are from when they can be found. Borrows the pool.
  static std::unique_ptr<IncomingPages> take(KvPool& pool, std::span<const PageKey> before,
                                             std::size_t least, std::size_t most,
                                             std::string_view tenant = {});
  IncomingPages(KvPool& pool, Sequence taken, std::size_t pages);
  IncomingPages(const IncomingPages&) = delete;
  IncomingPages& operator=(const IncomingPages&) = delete;
  /// Requires: nobody writes, or nobody gets pages of the pool any more.
  ~IncomingPages();

  /// They come before anybody asks, so the pool's policy is told of no use.
  void come_unasked() { is_use_ = false; }

  /// Those that have no place yet.
  std::size_t unplaced() const { return unplaced_; }
  /// One for each of the next pages, at most `most`, which the pool gives others up for now: so the
  /// first may be written meanwhile. All are to be asked for before anybody else takes pages.
  /// `memory`: where the pool stands, which they keep alive; null: in memory of its own.
  std::vector<Ref<Buffer>> places(const Ref<Buffer>& memory, std::size_t most);
  /// When all have their places: what the pool's policy is told of them it is told now, and not at
  /// the end. `keys`: theirs, and those before.
  void foretell(std::span<const PageKey> keys) { pool_.foretell(taken_, keys, is_use_); }
  /// The next page has been written and checked. False: neither it nor those behind it can be
  /// found.
  bool publish(const PageKey& key);
  bool is_written() const;
  /// Returns when nobody writes any more, or then at the latest.
  void wait_for_writers(std::chrono::nanoseconds most) const;

 private:
  class Place;
  struct Writers;

  KvPool& pool_;
  Sequence taken_;
  std::size_t unplaced_;
  bool is_use_ = true;
  const std::shared_ptr<Writers> writers_;
};

}  // namespace sluice
