// One pull of pages from another machine, as the pool that they are for knows it: for a task, or
// before anybody asks for them.
//
// Of its chain the pages before `begin` were in memory when it was begun, those before `next` have
// come since, and those from there to `end` are still to come. Thread: the pool's owner. Units:
// nanoseconds of a clock that only rises.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "dataplane/page_puller.h"
#include "engine/storage/incoming_pages.h"

namespace sluice {

struct KvFetch {
  std::uint64_t task = 0;
  bool is_preload = false;  // of no task
  std::vector<PageKey> keys = {};
  std::string tenant = {};                   // whose pages they are; empty: nobody's
  std::size_t begin = 0, next = 0, end = 0;  // pages; end: as far as a peer has them
  std::optional<double> per_token = {};      // what computing one costs; none: not known
  std::uint64_t pull = 0;                    // 0: none, for it waits for that of another
  std::uint64_t behind = 0;                  // the pull of another that it waits for; 0: none
  std::int64_t asked = 0, began = 0;         // the question who has them; the pull of their content
  // Polls that did not wait since it began: before each but the first a forward may run.
  std::size_t glances = 0;
  std::optional<PeerLife> first = {};  // whom it asks first
  PeerLife peer = {};                  // who has them
  bool is_over = false;
  bool asks_index = false;                       // and waits for its answer
  bool is_indexed = false;                       // the index was asked
  bool is_named = false;                         // and has named whom is asked for the pages
  bool wants_room = false;                       // for what was found, and has waited once
  bool has_come = false;                         // what was found
  bool is_near = false;                          // it was found without a question
  std::vector<PullEvent> arrived = {};           // in order, from `next` on
  std::unique_ptr<IncomingPages> incoming = {};  // where they come

  /// The page that stands at this place of its chain.
  bool pulls(const PageKey& key, std::size_t at) const {
    return pull != 0 && begin <= at && at < keys.size() && keys[at] == key;
  }
};

/// Of a read of a page where it stands.
struct KvReadEnd {
  std::uint64_t number = 0;
  PeerLife owner;                // of what was read
  std::optional<bool> is_whole;  // none: it could not be read
};

}  // namespace sluice
