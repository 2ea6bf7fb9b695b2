// The tokens of one sequence, and the pages of a pool that hold them.
//
// The pool's table of pages may be in this process or in another one (`KvPages`); a sequence is of
// one of them. Thread: the pool's owner. Owns: its pages, which go back with it.
#pragma once

#include <cstddef>
#include <span>
#include <utility>
#include <vector>

#include "dataplane/page_client.h"
#include "dataplane/page_table.h"
#include "engine/layers/rope.h"

namespace sluice {

/// The tokens of one sequence and the pages that hold them. Move-only: a fork is made by the pool.
/// Gives its pages back when it goes; the pool must outlive it.
class KvSequence {
 public:
  KvSequence() = default;
  KvSequence(KvSequence&& other) noexcept { *this = std::move(other); }
  KvSequence& operator=(KvSequence&& other) noexcept {
    held_ = std::move(other.held_);
    attached_ = std::move(other.attached_);
    last_key_ = std::exchange(other.last_key_, {});
    reserved_ = std::exchange(other.reserved_, 0);
    positions = std::exchange(other.positions, {});
    return *this;
  }

  std::size_t tokens() const { return attached_.is_open() ? attached_.rows() : held_.rows(); }
  /// In order; behind those of the tokens, what is reserved.
  std::span<const Page> pages() const {
    return attached_.is_open() ? attached_.pages() : held_.pages();
  }
  /// Leading pages that others may find.
  std::size_t published() const {
    return attached_.is_open() ? attached_.published() : held_.published();
  }

  /// Whose its pages are, where their table is here.
  TenantNumber tenant() const { return held_.tenant(); }

  std::vector<Position> positions;  // of each token, when keys are stored before RoPE: may be moved

 private:
  friend class KvPages;
  struct LastKey {
    std::size_t pages = 0;  // none: it is not known
    PageKey key;            // of the last of so many published ones
  };
  Sequence held_;              // of a table here
  AttachedSequence attached_;  // of one in another process
  LastKey last_key_;           // of that
  std::size_t reserved_ = 0;   // tokens for which there are pages until they are released
};

}  // namespace sluice
