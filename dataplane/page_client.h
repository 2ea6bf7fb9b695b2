// Sequences over a page table that is in another process: as a `PageTable` has them, without one.
//
// What needs the table is asked of a `PageManager`, one round trip each; what does not stays here:
// pages out of a lease, rows that there is room for, cuts, forks, releases. These are told with the
// next question, or by `flush`. Where the lease has too few pages, `run` of them are leased at once
// if there are so many, and what a sequence gives back is leased again, up to two runs, so most
// forwards ask nothing. Copies are made by whoever has the sequence, at once, before anything else
// is asked. When the manager is gone, or says what cannot be, everything that needs it fails from
// then on.
//
// Thread: one. Owns: numbers of sequences; `port` is borrowed. Units: rows (tokens), pages. Errors:
// exhausted, and nothing is changed; unavailable (the manager is gone); corrupt (what it says
// cannot be). Cost: constant time and no allocation where there is room.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "base/result.h"
#include "dataplane/page_requests.h"

namespace sluice {

/// The way to the manager. One batch after the other, in order.
class PageManagerPort {
 public:
  virtual ~PageManagerPort() = default;
  /// Waits for the answer. Errors: unavailable, corrupt; it is not used any more then.
  virtual Result<attached::Answer> ask(std::span<const attached::Request> batch) = 0;
  /// A batch that has no replies. Waits for nobody.
  virtual Result<void> tell(std::span<const attached::Request> batch) = 0;
};

/// A table of so many pages in another process.
struct AttachedTable {
  std::unique_ptr<PageManagerPort> port;
  std::size_t pages = 0;
  PageKeys::Secret secret{};  // of the pages' keys
};

class PageClient;

/// Pages of one history. Move-only; gives them back when it goes. The client must outlive it.
class AttachedSequence {
 public:
  AttachedSequence() = default;
  AttachedSequence(AttachedSequence&& other) noexcept { swap(other); }
  AttachedSequence& operator=(AttachedSequence&& other) noexcept {
    AttachedSequence(std::move(other)).swap(*this);
    return *this;
  }
  ~AttachedSequence();

  bool is_open() const { return client_ != nullptr; }
  std::span<const Page> pages() const { return pages_; }
  std::uint32_t rows() const { return rows_; }
  std::uint32_t published() const { return published_; }
  /// Nobody else has that page of it, nor may find it: it is written without a copy.
  bool is_mine(std::size_t at) const { return is_mine_[at] != 0; }

 private:
  friend class PageClient;
  void swap(AttachedSequence& other) noexcept {
    std::swap(client_, other.client_);
    std::swap(number_, other.number_);
    std::swap(pages_, other.pages_);
    std::swap(is_mine_, other.is_mine_);
    std::swap(rows_, other.rows_);
    std::swap(published_, other.published_);
  }

  PageClient* client_ = nullptr;
  attached::SequenceNumber number_ = 0;
  std::vector<Page> pages_;
  /// For each: nobody else has it, and it is not published. Mutable: who forks it changes no row.
  mutable std::vector<std::uint8_t> is_mine_;
  std::uint32_t rows_ = 0;
  std::uint32_t published_ = 0;
};

class PageClient {
 public:
  PageClient(PageManagerPort& port, std::uint32_t rows_per_page, std::uint32_t run)
      : port_(port), rows_per_page_(rows_per_page), run_(run) {}
  PageClient(const PageClient&) = delete;
  PageClient& operator=(const PageClient&) = delete;

  // As `PageTable`'s of the same names. A round trip:
  Result<Admission> ask(std::span<const PageKey> keys, std::uint32_t rows);
  Result<AttachedSequence> open(std::span<const PageKey> keys);
  /// Of the sequence's next pages, as many as can be shared now. Returns how many.
  Result<std::uint32_t> publish(AttachedSequence& sequence, std::span<const PageKey> keys);
  // None, or one (of a reservation two, where there are few pages left):
  Result<void> reserve(AttachedSequence& sequence, std::uint32_t rows,
                       std::vector<CopyPage>& copies);
  /// It is cut also where the manager is gone.
  Result<void> truncate(AttachedSequence& sequence, std::uint32_t rows, std::uint32_t reserved = 0);
  // None:
  AttachedSequence fork(const AttachedSequence& sequence);
  void wrote(AttachedSequence& sequence, std::uint32_t rows);
  void release(AttachedSequence& sequence);

  /// So many pages are this client's that no sequence has yet; `reserve` takes from them. Fewer
  /// than before: the others are given back. Errors: exhausted (there are fewer; as many as before
  /// are leased).
  Result<void> lease(std::uint32_t pages);
  std::uint32_t leased() const { return static_cast<std::uint32_t>(lease_.size()); }
  /// So many at least from now on, but for what sequences have of them: what these give back is
  /// leased again. Errors: as `lease`; what is leased, and was to be, is as before.
  Result<void> hold(std::uint32_t pages);

  /// A fork of it is for whoever has `token`, in another process, until that is withdrawn or this
  /// client goes.
  /// Errors: exhausted (there are as many offers of this client as there can be).
  Result<void> offer(const AttachedSequence& sequence, attached::OfferToken token);
  void withdraw(attached::OfferToken token);
  /// None: there is no such offer, or no more. `text`: gets what was given with it; null: nobody
  /// wants it.
  Result<std::optional<AttachedSequence>> accept(attached::OfferToken token,
                                                 attached::Text* text = nullptr);
  /// The sequence itself, for the first process that accepts the token, and a text for that. It is
  /// closed then. Errors: exhausted, as `offer`'s, also of texts; it is here still.
  Result<void> give(AttachedSequence& sequence, attached::OfferToken token, attached::Text text);
  /// To whoever gave what is accepted under the token, or may be: no more than once. False: nobody
  /// waits for it. Requires: no more than `attached::text_most`.
  Result<bool> say(attached::OfferToken token, attached::Text text);
  /// What was said of what was given here, once: empty where who accepted it has gone. None: as
  /// yet nothing.
  Result<std::optional<attached::Text>> hear(attached::OfferToken token);

  /// Tells what was done here since. Before it waits for anything else, whoever has a client sees
  /// to it that pages which are free are not kept from others.
  void flush();
  /// Something is to be told.
  bool has_news() const { return !untold_.empty() || copies_pending_; }
  /// Pages that can be had, as they were when the manager last answered.
  std::uint32_t pages_free() const { return free_ + cached_; }
  std::uint32_t pages_cached() const { return cached_; }
  /// Why the manager is not asked any more; none: it is.
  const std::optional<Error>& gone() const { return gone_; }
  /// Questions that were waited for.
  std::uint64_t round_trips() const { return round_trips_; }

 private:
  static constexpr std::size_t untold_most = 1024;

  template <typename Expected>
  Result<Expected> ask(attached::Request request);
  Result<attached::Answer> ask_any(attached::Request request);
  Result<bool> ask_whether(attached::Request request);
  void tell(attached::Request request);
  Error fails(Error error);
  Error exhausted(std::uint32_t rows) const;
  Result<void> reserve_by_copy(AttachedSequence& sequence, std::uint32_t rows,
                               std::vector<CopyPage>& copies);
  AttachedSequence make();
  Result<AttachedSequence> adopt(attached::Pages pages);
  Result<AttachedSequence> adopt(attached::Given given);
  Error misplaced();
  std::uint32_t pages_for(std::uint32_t rows) const {
    return rows / rows_per_page_ + (rows % rows_per_page_ != 0 ? 1 : 0);
  }
  void cut_here(AttachedSequence& sequence, std::uint32_t rows, std::size_t pages) const;
  static void share(const AttachedSequence& sequence, std::size_t pages);

  PageManagerPort& port_;
  const std::uint32_t rows_per_page_, run_;
  std::vector<Page> lease_;
  std::uint32_t held_ = 0;  // so many stay leased when they come back
  std::vector<attached::Request> untold_;
  bool copies_pending_ = false;  // were made, and the manager has not heard of it
  attached::SequenceNumber next_ = 1;
  std::uint32_t free_ = 0, cached_ = 0;
  std::optional<Error> gone_;
  std::uint64_t round_trips_ = 0;
};

}  // namespace sluice
