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

}  // namespace

TEST_CASE("the policy hears of visits in their order and time, before it gives anything up") {
  using Words = std::vector<std::string>;
  Words heard;
  PageTable table(4, page_rows, std::make_unique<Heard>(PoolSize{4, 8}, heard));
  std::vector<CopyPage> copies;
  const auto visit = [&](const Tokens& tokens, std::uint64_t time) {
    table.set_time(time);
    const std::vector<PageKey> keys = keys_of(tokens);
    Sequence sequence = table.open(keys);
    const auto rows = static_cast<std::uint32_t>(tokens.size());
    REQUIRE(table.reserve(sequence, rows, copies));
    table.wrote(sequence, rows);
    for (const PageKey& key : keys) REQUIRE(table.publish(sequence, key));
  };
  const auto take = [&] { return std::exchange(heard, {}); };
  visit({1, 1, 1, 1, 2, 2, 2, 2}, 5);
  CHECK(take().empty());  // who gave the pages back did not wait for it
  visit({3, 3, 3, 3}, 6);
  CHECK(take() == Words{"visit of 2 at 5"});
  table.set_time(7);
  table.catch_up();
  CHECK(take() == Words{"visit of 1 at 6"});
  table.catch_up();
  CHECK(take().empty());
  Sequence unasked = table.open(keys_of({3, 3, 3, 3}));
  const std::uint64_t asked = table.hit_window().blocks;
  CHECK(asked > 0);
  table.release(unasked, false);
  CHECK(table.hit_window().blocks == asked);
  table.catch_up();
  CHECK(take() == Words{"visit of 1 at 7, no use"});
  visit({4, 4, 4, 4}, 8);
  Sequence more = table.open({});
  REQUIRE(table.reserve(more, page_rows, copies));
  CHECK(take() == Words{"visit of 1 at 8", "victim"});
}

TEST_CASE("what is foretold the policy sees while it is filled, and what does not come has gone") {
  using Words = std::vector<std::string>;
  Words heard;
  PageTable table(4, page_rows, std::make_unique<Heard>(PoolSize{4, 8}, heard));
  std::vector<CopyPage> copies;
  const std::vector<PageKey> keys = keys_of({1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3, 4, 4, 4, 4});
  const auto take = [&] { return std::exchange(heard, {}); };
  table.set_time(5);
  Sequence coming = table.open({});
  REQUIRE(table.reserve(coming, 4 * page_rows, copies));
  table.foretell(coming, keys);
  CHECK(take().empty());  // who foretells does not wait for it
  table.wrote(coming, page_rows);
  REQUIRE(table.publish(coming, keys[0]));
  table.catch_up();
  CHECK(take() == Words{"visit of 4 at 5"});
  table.wrote(coming, 2 * page_rows);
  REQUIRE(table.publish(coming, keys[1]));
  table.release(coming);
  CHECK(take() == Words{"removed", "removed"});
  table.catch_up();
  CHECK(take().empty());  // of what came it was told
  CHECK(table.cached_pages() == 2);
  CHECK(table.free_pages() == 2);
  // All of them can be had.
  Sequence more = table.open({});
  REQUIRE(table.reserve(more, 4 * page_rows, copies));
  CHECK(take() == Words{"victim", "victim"});
}

TEST_CASE("of a page that somebody else has published meanwhile the policy keeps that one") {
  using Words = std::vector<std::string>;
  Words heard;
  PageTable table(3, page_rows, std::make_unique<Heard>(PoolSize{3, 6}, heard));
  std::vector<CopyPage> copies;
  const std::vector<PageKey> keys = keys_of({1, 1, 1, 1});
  Sequence coming = table.open({}), other = table.open({});
  REQUIRE(table.reserve(coming, page_rows, copies));
  table.foretell(coming, keys);
  REQUIRE(table.reserve(other, page_rows, copies));
  table.wrote(other, page_rows);
  REQUIRE(table.publish(other, keys[0]));
  table.wrote(coming, page_rows);
  REQUIRE(table.publish(coming, keys[0]));
  CHECK(std::exchange(heard, {}) == Words{"visit of 1 at 0", "removed"});
  CHECK(coming.pages()[0] == other.pages()[0]);
  coming = Sequence();
  other = Sequence();
  Sequence all = table.open({});
  CHECK(table.reserve(all, 3 * page_rows, copies));
  CHECK(heard == Words{"visit of 1 at 0", "victim"});
}
