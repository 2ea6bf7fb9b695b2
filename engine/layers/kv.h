// Keys and values of sequences, in pages of a fixed pool.
//
// Which page holds what is decided by `PageTable`; here it is tied to a model's rows. Full pages
// whose content is known are published and found again by their keys (`kv_content.h`): whoever
// begins with the same tokens and pictures begins with their pages. A page that is being filled is
// its owner's; who writes where others read gets a copy, made by whoever keeps the bytes: `KvPool`,
// or a device's pool. The table may be in another process, whose pages this one uses too
// (`AttachedTable`): what is taken is leased first, so who was granted pages has them; what needs
// that process fails once it is gone, and nothing waits for it longer than its port does.
// Shape: a page holds, per layer, `page_tokens` rows of keys and as many of values, each row
// [kv_heads * head_dim] in f32, or in bf16, rounded to nearest even when it is written and widened
// when it is read. Errors: exhausted when no page can be had; nothing is changed then. The policy
// that gives unused pages up counts its time in extensions. Thread: the owner's.
// Source: omni-flow, section 4.1.1 (physical paging).
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "base/buffer.h"
#include "base/result.h"
#include "base/tensor.h"
#include "dataplane/page_client.h"
#include "dataplane/page_table.h"
#include "dataplane/promised_pages.h"
#include "engine/layers/kv_content.h"
#include "engine/layers/kv_sequence.h"

namespace sluice {

struct KvShape {
  std::size_t layers = 0;
  std::size_t row = 0;  // kv_heads * head_dim
  std::size_t page_tokens = 16;
  /// Keys are stored before RoPE and rotated when they are used, so that they may be used at other
  /// positions. Costs a pass over a sequence's keys for each layer of each forward. Such pages are
  /// not shared.
  bool keys_before_rope = false;
  Dtype dtype = Dtype::f32;  // or bf16

  std::size_t page_values() const { return layers * 2 * page_tokens * row; }
  std::size_t page_bytes() const { return page_values() * size_of(dtype); }
};

/// Which pages are whose; where their bytes lie is another's matter.
class KvPages {
 public:
  /// `secret`: of the pages' keys.
  KvPages(const KvShape& shape, std::size_t pages, const PageKeys::Secret& secret = {});
  /// Requires: pages of this shape.
  KvPages(const KvShape& shape, AttachedTable table);

  /// Room for `tokens` more tokens. Their rows are written before they are read; `copies` gets what
  /// must be copied before anything else is written, in order, whatever the outcome of the rest.
  Result<void> extend(KvSequence& sequence, std::size_t tokens, std::vector<CopyPage>& copies);
  /// The same for tokens that come later: extending by up to `tokens`, forgetting them and
  /// extending again then always succeeds, as long as no other shares the pages it is cut in (by
  /// `fork`, `publish` or because they are older than the reservation), until `unreserve` or
  /// `release`.
  Result<void> reserve(KvSequence& sequence, std::size_t tokens, std::vector<CopyPage>& copies);
  /// Gives back what is reserved and not used.
  void unreserve(KvSequence& sequence);
  /// Forgets all but the first `tokens`. Requires: there are so many.
  void truncate(KvSequence& sequence, std::size_t tokens);
  /// Forgets all, reservations too.
  void release(KvSequence& sequence);
  /// Its pages count as the tenant's, where the table is here. One that has pages is as it was.
  void belong(KvSequence& sequence, std::string_view tenant);
  /// As `PageTable::limit_tenants`, where the table is here.
  void limit_tenants(std::size_t pages);
  /// Another sequence that begins as this one does: a page is copied when one of them writes to it.
  KvSequence fork(const KvSequence& sequence) const;

  /// A sequence that begins with the longest resident prefix of these tokens, by whole pages and
  /// short of the last token: somebody wants to know what follows it.
  KvSequence open(const RowsOrigin& origin, std::span<const std::int32_t> tokens) const;
  /// The sequence's rows are the first of these tokens; its full pages may be found from now on.
  void publish(KvSequence& sequence, const RowsOrigin& origin,
               std::span<const std::int32_t> tokens);
  /// What a sequence of `rows` rows that begins with these tokens would take, before anything is
  /// taken. Of several: their `fresh` pages together must be no more than `pages_free`.
  Admission ask(const RowsOrigin& origin, std::span<const std::int32_t> tokens,
                std::size_t rows) const;
  /// Of the pages that `open` looks for.
  std::vector<PageKey> keys_of(const RowsOrigin& origin,
                               std::span<const std::int32_t> tokens) const;
  /// Told of each page that others may find from now on, where the table is here.
  std::function<void(Page)> on_publish;
  const PromisedPages* promised = nullptr;  // to tasks; null: nothing is

  /// For whoever plans by free pages: so many, of which `pages` are nobody else's until `settle`
  /// says that fewer are needed. Where the table is here, all that are free. Where the one
  /// elsewhere is gone, all there are: whoever begins with them is told why.
  std::size_t claim(std::size_t pages);
  /// No more than `pages` are to be taken soon; the table hears what was done here.
  void settle(std::size_t pages);

  bool is_attached() const { return client_ != nullptr; }  // the table is in another process
  /// What follows requires that. A fork for whoever has the `token`. Errors: exhausted, and
  /// those of the other process.
  Result<void> offer(const KvSequence& sequence, attached::OfferToken token);
  void withdraw(attached::OfferToken token);
  /// None: nobody offers it any more. `text`: as of `PageClient::accept`.
  Result<std::optional<KvSequence>> accept(attached::OfferToken token,
                                           attached::Text* text = nullptr);
  /// The sequence itself, with what is reserved in it, for the first that accepts the token: it has
  /// nothing then. Errors: as `offer`'s; it is as it was. And what that one says of it, as
  /// `PageClient`'s of the same names.
  Result<void> give(KvSequence& sequence, attached::OfferToken token, attached::Text text);
  Result<bool> say(attached::OfferToken token, attached::Text text);
  Result<std::optional<attached::Text>> hear(attached::OfferToken token);
  const PageClient& client() const { return *client_; }

  /// Pages that extending by `tokens` takes, copies included.
  std::size_t missing(const KvSequence& sequence, std::size_t tokens) const;
  /// How many tokens more there is room for in the sequence's pages and `pages` others.
  std::size_t room(const KvSequence& sequence, std::size_t pages) const;

  const KvShape& shape() const { return shape_; }
  std::size_t pages_for(std::size_t tokens) const {
    return (tokens + shape_.page_tokens - 1) / shape_.page_tokens;
  }
  /// Pages that can be had: empty, or kept for nobody. Of a table elsewhere: as it said last.
  std::size_t pages_free() const {
    if (client_ != nullptr) return client_->leased() + std::size_t{client_->pages_free()};
    return table_->free_pages() + table_->cached_pages();
  }
  /// Of those, pages that still hold what somebody may ask for.
  std::size_t pages_cached() const {
    return client_ != nullptr ? client_->pages_cached() : table_->cached_pages();
  }
  std::size_t pages() const { return pages_; }
  /// None: it may have all, as a table elsewhere lets everybody.
  std::optional<TenantRoom> tenant_room(std::string_view tenant) const;
  /// Of pages that others see and that were written on in, since the start.
  std::uint64_t rows_copied() const { return rows_copied_; }
  /// Requires: it is here.
  const PageTable& table() const {
    SLUICE_CHECK(table_ != nullptr, "the table of pages is in another process");
    return *table_;
  }
  /// As `PageTable`'s; the first does nothing where that is elsewhere, the second requires it here.
  void catch_up() {
    if (table_ != nullptr) table_->catch_up();
  }
  void watch(PageWatcher* watcher) { pages_table().watch(watcher); }

  /// What follows is for pages that come from elsewhere, and requires that the table is here. The
  /// pages of `keys` that are there, as one sequence: they are not given up while it has them.
  Sequence open(std::span<const PageKey> keys, std::string_view tenant = {}) {
    return pages_table().open(keys, {tenant, true});
  }
  /// As `PageTable`'s.
  bool follow(Sequence& behind, const PageKey& key) { return pages_table().follow(behind, key); }
  void foretell(Sequence& sequence, std::span<const PageKey> keys, bool is_use) {
    pages_table().foretell(sequence, keys, is_use);
  }
  void give_back(Sequence& sequence, bool is_use) { pages_table().release(sequence, is_use); }
  /// Pages behind those of `behind`, of which none is filled that is not published, for somebody
  /// who writes them in place: all of `pages` or, if there are too few, none.
  Result<void> add_pages(Sequence& behind, std::size_t pages);
  /// The next of those was written, and is found under its key now. False: none can be any more.
  bool publish_next(Sequence& behind, const PageKey& key);

 protected:
  PageTable& pages_table() {
    SLUICE_CHECK(table_ != nullptr, "the table of pages is in another process");
    return *table_;
  }

 private:
  bool copies_last(const KvSequence& sequence) const;
  Result<void> make_room(KvSequence& sequence, std::size_t rows, std::vector<CopyPage>& copies);
  Result<void> reserve_rows(KvSequence& sequence, std::uint32_t rows,
                            std::vector<CopyPage>& copies);
  std::optional<PageKey> key_before(const KvSequence& sequence, const RowsOrigin& origin,
                                    std::span<const std::int32_t> tokens) const;

  KvShape shape_;
  KvKeys keys_;
  std::size_t pages_;
  // One of these; sequences know where it is.
  std::unique_ptr<PageTable> table_;
  std::unique_ptr<PageManagerPort> port_;
  std::unique_ptr<PageClient> client_;  // over the port
  std::uint64_t extensions_ = 0, rows_copied_ = 0;
};

/// Pages in the machine's memory.
class KvPool : public KvPages {
 public:
  /// `memory`: zero-filled, where the pages stand from its beginning on; null: memory of its own.
  KvPool(const KvShape& shape, std::size_t pages, const PageKeys::Secret& secret = {},
         Ref<Buffer> memory = {});
  /// Pages of several processes, in `memory` that all of them have.
  KvPool(const KvShape& shape, AttachedTable table, Ref<Buffer> memory);

  Result<void> extend(KvSequence& sequence, std::size_t tokens);
  Result<void> reserve(KvSequence& sequence, std::size_t tokens);

  /// Publishes pages that were kept elsewhere, behind those of `keys` that stand before `first`:
  /// one for each of `contents`. They are cache then, as pages that nobody uses are. Returns how
  /// many: fewer where those before are gone, or no page can be had.
  std::size_t put(std::span<const PageKey> keys, std::size_t first,
                  std::span<const std::byte* const> contents);
  /// The same behind pages that somebody has.
  std::size_t put(Sequence& behind, std::span<const PageKey> keys,
                  std::span<const std::byte* const> contents);
  std::span<const std::byte> content(Page page) const {  // all of it: `shape().page_bytes()`
    return store_.subspan(page * shape().page_bytes(), shape().page_bytes());
  }

  /// Requires: Value is what the pages hold: float, or std::uint16_t for bf16.
  template <typename Value = float>
  Value* keys(Page page, std::size_t layer) {
    SLUICE_CHECK(sizeof(Value) == size_of(shape().dtype), "pages are read as what they hold");
    return reinterpret_cast<Value*>(&store_[page * shape().page_bytes()]) + layer * layer_stride();
  }
  template <typename Value = float>
  Value* values(Page page, std::size_t layer) {
    return keys<Value>(page, layer) + shape().page_tokens * shape().row;
  }
  /// The layer's keys and values of a sequence's first tokens, as many as there is room for, in f32
  /// whatever the pages hold.
  void read(const KvSequence& sequence, std::size_t layer, std::span<float> keys,
            std::span<float> values);
  /// From a layer's keys or values to the next one's, in values.
  std::size_t layer_stride() const { return 2 * shape().page_tokens * shape().row; }

  std::byte* place(Page page) { return store_.data() + page * shape().page_bytes(); }
  /// Where all of them stand.
  std::span<std::byte> memory() { return store_; }

 private:
  void stand_in(Ref<Buffer> memory);
  void copy_pages();

  std::vector<std::byte> own_;
  Ref<Buffer> memory_;
  std::span<std::byte> store_;  // in one of these
  std::vector<CopyPage> copies_;
};

}  // namespace sluice
