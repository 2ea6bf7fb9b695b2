// What the page table tells its policy, and when.
#include <catch2/catch.hpp>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "dataplane/eviction.h"
#include "dataplane/page_table.h"
#include "page_tokens.h"

using namespace sluice;

namespace {

/// Least recently used, and what it was told.
class Heard final : public EvictionPolicy {
 public:
  Heard(PoolSize size, std::vector<std::string>& words) : lru_(make_lru(size)), words_(words) {}
  void visit(const Visit& visit) override {
    words_.push_back("visit of " + std::to_string(visit.path.size()) + " at " +
                     std::to_string(visit.now_ms) + (visit.is_use ? "" : ", no use"));
    lru_->visit(visit);
  }
  Slot victim(Held held) override {
    words_.push_back("victim");
    return lru_->victim(held);
  }
  void removed(Slot slot) override {
    words_.push_back("removed");
    lru_->removed(slot);
  }

 private:
  std::unique_ptr<EvictionPolicy> lru_;
  std::vector<std::string>& words_;
};

using Words = std::vector<std::string>;

/// A table, and what its policy was told since somebody last looked.
struct Told {
  explicit Told(std::uint32_t pages)
      : table(pages, page_rows, std::make_unique<Heard>(PoolSize{pages, 2 * pages}, heard)) {}

  Words take() { return std::exchange(heard, {}); }
  void reserve(Sequence& sequence, std::uint32_t pages) {
    std::vector<CopyPage> copies;
    REQUIRE(table.reserve(sequence, pages * page_rows, copies));
  }
  void publish(Sequence& sequence, std::uint32_t pages, const PageKey& key) {
    table.wrote(sequence, pages * page_rows);
    REQUIRE(table.publish(sequence, key));
  }

  Words heard;
  PageTable table;
};

}  // namespace

TEST_CASE("the policy hears of visits in their order and time, before it gives anything up") {
  Told told(4);
  PageTable& table = told.table;
  const auto visit = [&](const Tokens& tokens, std::uint64_t time) {
    table.set_time(time);
    const std::vector<PageKey> keys = keys_of(tokens);
    Sequence sequence = table.open(keys);
    told.reserve(sequence, static_cast<std::uint32_t>(keys.size()));
    table.wrote(sequence, static_cast<std::uint32_t>(tokens.size()));
    for (const PageKey& key : keys) REQUIRE(table.publish(sequence, key));
  };
  visit({1, 1, 1, 1, 2, 2, 2, 2}, 5);
  CHECK(told.take().empty());  // who gave the pages back did not wait for it
  visit({3, 3, 3, 3}, 6);
  CHECK(told.take() == Words{"visit of 2 at 5"});
  table.set_time(7);
  table.catch_up();
  CHECK(told.take() == Words{"visit of 1 at 6"});
  table.catch_up();
  CHECK(told.take().empty());
  Sequence unasked = table.open(keys_of({3, 3, 3, 3}));
  const std::uint64_t asked = table.hit_window().blocks;
  CHECK(asked > 0);
  table.release(unasked, false);
  CHECK(table.hit_window().blocks == asked);
  table.catch_up();
  CHECK(told.take() == Words{"visit of 1 at 7, no use"});
  visit({4, 4, 4, 4}, 8);
  Sequence more = table.open({});
  told.reserve(more, 1);
  CHECK(told.take() == Words{"visit of 1 at 8", "victim"});
}

TEST_CASE("what is foretold the policy sees while it is filled, and what does not come has gone") {
  Told told(4);
  PageTable& table = told.table;
  const std::vector<PageKey> keys = keys_of({1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3, 4, 4, 4, 4});
  table.set_time(5);
  Sequence coming = table.open({});
  told.reserve(coming, 4);
  table.foretell(coming, keys);
  CHECK(told.take().empty());  // who foretells does not wait for it
  told.publish(coming, 1, keys[0]);
  table.catch_up();
  CHECK(told.take() == Words{"visit of 4 at 5"});
  told.publish(coming, 2, keys[1]);
  table.release(coming);
  CHECK(told.take() == Words{"removed", "removed"});
  table.catch_up();
  CHECK(told.take().empty());  // of what came it was told
  CHECK(table.cached_pages() == 2);
  CHECK(table.free_pages() == 2);
  // All of them can be had.
  Sequence more = table.open({});
  told.reserve(more, 4);
  CHECK(told.take() == Words{"victim", "victim"});
}

TEST_CASE("of a page that somebody else has published meanwhile the policy keeps that one") {
  Told told(3);
  PageTable& table = told.table;
  const std::vector<PageKey> keys = keys_of({1, 1, 1, 1});
  Sequence coming = table.open({}), other = table.open({});
  told.reserve(coming, 1);
  table.foretell(coming, keys);
  told.reserve(other, 1);
  told.publish(other, 1, keys[0]);
  told.publish(coming, 1, keys[0]);
  CHECK(told.take() == Words{"visit of 1 at 0", "removed"});
  CHECK(coming.pages()[0] == other.pages()[0]);
  coming = Sequence();
  other = Sequence();
  Sequence all = table.open({});
  told.reserve(all, 3);
  CHECK(told.take() == Words{"visit of 1 at 0", "victim"});
}
