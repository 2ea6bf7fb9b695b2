// Where memory runs out amid a change, what was there is as it was, and the next change is made.
#include <catch2/catch.hpp>
#include <new>
#include <optional>
#include <string>

#include "counter.h"
#include "dataplane/numbered.h"
#include "dataplane/page_news.h"
#include "dataplane/page_preloads.h"
#include "dataplane/page_tenants.h"

using namespace sluice;

namespace {

/// Whether it came to its end, where so many times more memory is had.
template <typename Do>
bool ends_with(std::size_t memory, const Do& change) {
  bool has_ended = true;
  fail_behind(memory);
  try {
    change();
  } catch (const std::bad_alloc&) {
    has_ended = false;
  }
  fail_behind({});
  return has_ended;
}

}  // namespace

TEST_CASE("what is under way is numbered again behind memory that ran out") {
  bool has_ended = false;
  for (std::size_t memory = 0; !has_ended; ++memory) {
    INFO(memory);
    Numbered<int> numbered;
    has_ended = ends_with(memory, [&] { (void)numbered.add(1); });
    REQUIRE(numbered.empty() == !has_ended);
    const std::uint64_t number = numbered.add(2);
    REQUIRE(numbered.find(number) != nullptr);
    CHECK(numbered.take(number) == 2);
    CHECK(numbered.empty() == !has_ended);
    REQUIRE(memory < 10);
  }
}

TEST_CASE("tenants are told apart behind memory that ran out as the first of them came") {
  const std::string first(40, '1'), second(40, '2');
  bool has_ended = false;
  for (std::size_t memory = 0; !has_ended; ++memory) {
    INFO(memory);
    PageTenants tenants(8);
    tenants.limit(4);
    has_ended = ends_with(memory, [&] { (void)tenants.join(first); });
    const TenantNumber two = tenants.join(second), one = tenants.join(first);
    REQUIRE(one != two);
    tenants.take(one, 3);
    tenants.take(two, 4);
    tenants.take(two, 5);
    CHECK(tenants.pages_of(first).pages == 1);
    CHECK(tenants.pages_of(second).pages == 2);
    REQUIRE(memory < 100);
  }
}

TEST_CASE("what a machine tells of its pages is heard behind memory that ran out") {
  const PeerLife teller{1, 1}, asker{2, 1};
  bool has_ended = false;
  for (std::size_t memory = 0; !has_ended; ++memory) {
    INFO(memory);
    PageNews news({});
    PagePreloads preloads(100);
    news.met(asker);
    preloads.met(teller);
    const auto ask = [&] {
      for (auto& out = preloads.out(); !out.empty(); out.erase(out.begin()))
        REQUIRE(news.take(asker, std::get<pages::Follow>(*pages::decode(out.front().bytes))));
    };
    ask();
    has_ended = ends_with(memory, [&] { news.published(0, {{{1, 1, 1, 1}}, {}}); });
    if (!has_ended) news.published(1, {{{2, 2, 2, 2}}, {}});  // tells it, too
    REQUIRE(news.out().size() == 1);
    const auto told = std::get<pages::Published>(*pages::decode(news.take_out().front().bytes));
    const bool is_heard = ends_with(memory, [&] { preloads.take(teller, told); });
    if (preloads.counts().told == 0) preloads.take(teller, told);
    has_ended = has_ended && is_heard;
    CHECK((preloads.counts().told == told.pages.size() && preloads.counts().refused == 0));
    CHECK(preloads.next([](const PageKey&) { return false; }, 8).has_value());
    CHECK(preloads.out().size() == 1);  // the next question
    ask();
    REQUIRE(memory < 100);
  }
}
