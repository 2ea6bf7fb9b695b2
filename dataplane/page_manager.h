// A page table for processes of one machine that use its pages: it answers for the table, and gives
// back what a process had that is gone.
//
// The table stays the one owner of who has which page. Each client's sequences are sequences of the
// table, so whatever two processes share is shared and copied as in one. A client that says what
// cannot be is detached: nothing that it says can break the table, or what others have. Clients
// have the secret of the keys: that what one publishes is what its key says is taken from it.
// Pure: no bytes of pages, no sockets. Thread: that of the table. Owns: the clients' sequences; the
// table is borrowed, and outlives it. Bounds: `clients_most`, and for each client
// `sequences_most` sequences and `offers_most` offers. Errors: corrupt, of a client that is
// detached then; exhausted (there are too many clients). Cost: that of the table's.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <utility>
#include <vector>

#include "base/result.h"
#include "dataplane/key_table.h"
#include "dataplane/page_requests.h"
#include "dataplane/page_table.h"

namespace sluice {

/// One connection of one process. Never used again.
using PageClientId = std::uint64_t;

class PageManager final : private PageWatcher {
 public:
  static constexpr std::size_t clients_most = 256;
  static constexpr std::size_t sequences_most = 16'384;
  static constexpr std::size_t offers_most = sequences_most;
  static constexpr std::size_t texts_most = 64 << 20;  // bytes with one client's offers

  /// It watches the table, and tells `next` (null: nobody) all that it hears.
  PageManager(PageTable& table, std::uint32_t rows_per_page, PageWatcher* next = nullptr);
  ~PageManager() override;
  PageManager(const PageManager&) = delete;
  PageManager& operator=(const PageManager&) = delete;

  /// Requires: a new number.
  Result<void> attach(PageClientId client);
  /// It is gone: its sequences, reserved pages and offers are given back, what it published stays
  /// as cache; who has given it something hears that. A client that there is not: nothing happens.
  void detach(PageClientId client);
  /// What a client asks, in its order. On an error it is detached, and its later requests have
  /// the same end.
  Result<attached::Answer> handle(PageClientId client, std::span<const attached::Request> batch);

  /// What a client has.
  struct Held {
    std::size_t sequences = 0, offers = 0;
    std::size_t leased = 0;  // pages
    std::size_t pages = 0;   // all, each once, also where several of its sequences have it
  };
  Held held(PageClientId client) const;
  std::vector<PageClientId> clients() const;

 private:
  struct Offered {
    enum class State : std::uint8_t { shared, given, accepted, done } state = State::shared;
    Sequence sequence;    // until it is accepted, where it is given
    attached::Text text;  // for who accepts it; once that is done, for who gave it
    PageClientId with = 0;
  };
  struct Client {
    PageClientId id = 0;
    std::map<attached::SequenceNumber, Sequence> sequences;
    std::map<attached::OfferToken, Offered> offers;
    Sequence lease;                     // without rows
    std::vector<Sequence> copied_from;  // what it may be reading still
  };

  void published(Page page) override;
  void dropped(Page page) override;

  Result<Sequence*> find(Client& client, attached::SequenceNumber number);
  /// A place for a new one.
  Result<Sequence*> make(Client& client, attached::SequenceNumber number);
  Result<void> wrote(Sequence& sequence, std::uint32_t rows);
  Result<void> check_rows(std::uint32_t rows) const;
  /// Somebody else has the page that the sequence's next row goes to, or may find it.
  bool copies(const Sequence& sequence) const;
  void give_up(Client& client, std::uint32_t pages);
  Result<attached::Reply> cut_to_lease(Client& client, Sequence& sequence,
                                       const attached::Truncate& cut);
  /// Whether the table may be asked to publish the sequence's next page under it.
  Result<void> check_key(const Sequence& sequence, const PageKey& key) const;
  attached::Pages pages_of(const Sequence& sequence) const;
  static bool has_room(const Client& client, const attached::Text& text);
  attached::Given accept_given(Client& client, Offered& offered, Sequence& made);

  Result<attached::Reply> handle(Client& client, const attached::Ask& ask);
  Result<attached::Reply> handle(Client& client, const attached::Open& open);
  Result<attached::Reply> handle(Client& client, const attached::Lease& lease);
  Result<attached::Reply> handle(Client& client, const attached::Take& take);
  Result<attached::Reply> handle(Client& client, const attached::Reserve& reserve);
  Result<attached::Reply> handle(Client& client, const attached::Publish& publish);
  Result<attached::Reply> handle(Client& client, const attached::Truncate& truncate);
  Result<attached::Reply> handle(Client& client, const attached::Fork& fork);
  Result<attached::Reply> handle(Client& client, const attached::Release& release);
  Result<attached::Reply> handle(Client& client, const attached::Offer& offer);
  Result<attached::Reply> handle(Client& client, const attached::Withdraw& withdraw);
  Result<attached::Reply> handle(Client& client, const attached::Accept& accept);
  Result<attached::Reply> handle(Client& client, const attached::Give& give);
  Result<attached::Reply> handle(Client& client, const attached::Say& say);
  Result<attached::Reply> handle(Client& client, const attached::Hear& hear);

  PageTable& table_;
  const std::uint32_t rows_per_page_;
  PageWatcher* const next_;
  KeyTable by_key_;  // published pages, by the first word of their key, as the table has them
  std::map<PageClientId, Client> clients_;
};

}  // namespace sluice
