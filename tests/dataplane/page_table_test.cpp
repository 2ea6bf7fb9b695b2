// The page table beside a plain model: every sequence's tokens, written down in
// full, and a store of rows that only does what the table's effects say. After
// each event all invariants are looked at.
#include "dataplane/page_table.h"

#include <algorithm>
#include <array>
#include <catch2/catch.hpp>
#include <map>

#include "base/random.h"

using namespace sluice;

namespace {

constexpr std::uint32_t page_rows = 4;
using Tokens = std::vector<std::uint32_t>;

PageKeys::Secret secret() {
  PageKeys::Secret bytes{};
  for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::uint8_t>(7 * i + 1);
  return bytes;
}

std::vector<PageKey> keys_of(const Tokens& tokens) {
  const PageKeys keys(secret());
  static std::map<std::pair<PageKey, Tokens>, PageKey>
      known;  // a hash costs more than all else here
  std::vector<PageKey> out;
  PageKey parent;
  for (std::size_t at = 0; at + page_rows <= tokens.size(); at += page_rows) {
    const Tokens page(tokens.begin() + static_cast<std::ptrdiff_t>(at),
                      tokens.begin() + static_cast<std::ptrdiff_t>(at + page_rows));
    auto [found, fresh] = known.try_emplace({parent, page});
    if (fresh)
      found->second =
          keys.next(parent, {reinterpret_cast<const char*>(page.data()), page.size() * 4});
    out.push_back(parent = found->second);
  }
  return out;
}

struct Rig {
  struct Live {
    Sequence sequence;
    Tokens tokens;  // what it must read; its first rows() rows
    std::map<Page, std::uint64_t> generations;
  };

  explicit Rig(std::uint32_t pages, std::string_view policy)
      : table(pages, page_rows, std::move(make_eviction(policy, {pages, 2 * pages}).value())),
        store(pages, Tokens(page_rows, 0)),
        last_generation(pages, 0) {}

  PageTable table;
  std::vector<Tokens> store;
  std::vector<std::uint64_t> last_generation;
  std::map<PageKey, Tokens> published;  // every content ever published, by its key
  std::map<std::pair<Page, std::uint64_t>, PageKey> named;  // what a page's generation ever was
  std::vector<Live> live;
  SplitMix64 random{1};
  int exhausted = 0, copied = 0, shared = 0;

  std::uint64_t below(std::uint64_t n) { return random.next() % n; }

  /// Few different tokens, so that histories meet often.
  Tokens history() {
    Tokens tokens(1 + below(28));
    for (std::uint32_t& token : tokens) token = static_cast<std::uint32_t>(below(8) == 0 ? 2 : 1);
    return tokens;
  }

  void note(Live& at) {
    at.generations.clear();
    for (const Page page : at.sequence.pages()) at.generations[page] = table.generation(page);
  }

  void grow(Live& at, const Tokens& target) {
    const auto from = at.sequence.rows();
    const auto to = static_cast<std::uint32_t>(target.size());
    std::vector<CopyPage> copies;
    const std::uint32_t free_before = table.free_pages() + table.cached_pages();
    const std::vector<Page> before(at.sequence.pages().begin(), at.sequence.pages().end());
    if (!table.reserve(at.sequence, to, copies)) {
      ++exhausted;
      REQUIRE(std::equal(before.begin(), before.end(), at.sequence.pages().begin(),
                         at.sequence.pages().end()));
      REQUIRE(table.free_pages() + table.cached_pages() == free_before);
      return;
    }
    for (const CopyPage& copy : copies) {
      ++copied;
      std::copy_n(store[copy.from].begin(), copy.rows, store[copy.to].begin());
    }
    for (std::uint32_t row = from; row < to; ++row)
      store[at.sequence.pages()[row / page_rows]][row % page_rows] = target[row];
    table.wrote(at.sequence, to);
    at.tokens = target;
    note(at);
    publish(at);
  }

  void publish(Live& at) {
    const std::vector<PageKey> keys = keys_of(at.tokens);
    while (at.sequence.published() < keys.size()) {
      const std::uint32_t index = at.sequence.published();
      const Page mine = at.sequence.pages()[index];
      if (!table.publish(at.sequence, keys[index])) break;
      if (at.sequence.pages()[index] != mine) ++shared;
      const Page page = at.sequence.pages()[index];
      REQUIRE(named.try_emplace({page, table.generation(page)}, keys[index]).first->second ==
              keys[index]);  // K3
      published[keys[index]] = Tokens(at.tokens.begin() + index * page_rows,
                                      at.tokens.begin() + (index + 1) * page_rows);
    }
    note(at);
  }

  void open() {
    const Tokens target = history();
    const std::vector<PageKey> keys = keys_of(target);
    const Admission asked = table.ask(keys, static_cast<std::uint32_t>(target.size()));
    Live made;
    made.sequence = table.open(keys);
    REQUIRE(made.sequence.pages().size() == asked.cached);
    made.tokens.assign(target.begin(),
                       target.begin() + static_cast<std::ptrdiff_t>(made.sequence.rows()));
    const int before = exhausted;
    grow(made, target);
    REQUIRE(asked.fits == (exhausted == before));
    live.push_back(std::move(made));
    note(live.back());
  }

  void step() {
    table.set_time(below(5) + 1000 * static_cast<std::uint64_t>(live.size()));
    const std::uint64_t what = live.empty() ? 0 : below(10);
    if (what < 3 && live.size() < 9) return open();
    if (live.empty()) return;
    const std::size_t which = below(live.size());
    Live& at = live[which];
    if (what < 6) {
      Tokens target = at.tokens;
      for (std::uint64_t i = below(7); i > 0; --i)
        target.push_back(static_cast<std::uint32_t>(1 + below(2)));
      return grow(at, target);
    }
    if (what == 6) {
      Live copy;
      copy.sequence = table.fork(at.sequence);
      copy.tokens = at.tokens;
      live.push_back(std::move(copy));
      return note(live.back());
    }
    if (what == 7) {
      const auto rows = static_cast<std::uint32_t>(below(at.sequence.rows() + 1));
      table.truncate(at.sequence, rows);
      at.tokens.resize(rows);
      return note(at);
    }
    live.erase(live.begin() + static_cast<std::ptrdiff_t>(which));
  }

  void check() {
    std::vector<std::uint32_t> references(table.capacity(), 0);
    for (const Live& at : live) {
      REQUIRE(at.sequence.rows() == at.tokens.size());
      for (std::size_t row = 0; row < at.tokens.size(); ++row)  // K2, K9
        REQUIRE(store[at.sequence.pages()[row / page_rows]][row % page_rows] == at.tokens[row]);
      for (const Page page : at.sequence.pages()) {
        ++references[page];
        REQUIRE(at.generations.at(page) == table.generation(page));  // K1
      }
    }
    std::uint32_t used = 0;
    for (Page page = 0; page < table.capacity(); ++page) {
      REQUIRE(table.references(page) == references[page]);
      REQUIRE(table.generation(page) >= last_generation[page]);  // K3
      last_generation[page] = table.generation(page);
      used += references[page] > 0 ? 1 : 0;
      const Page parent = table.parent(page);
      if (table.is_published(page) && parent != no_page)  // a published page's chain is resident
        REQUIRE(table.is_published(parent));
    }
    REQUIRE(used + table.free_pages() + table.cached_pages() == table.capacity());  // K7
    const Tokens asked = history();
    const std::vector<PageKey> keys = keys_of(asked);
    const Sequence found = table.open(keys);
    for (std::size_t i = 0; i < found.pages().size(); ++i) {  // K4, K10
      const Page page = found.pages()[i];
      REQUIRE(published.contains(keys[i]));
      REQUIRE(store[page] == published[keys[i]]);
      REQUIRE(table.parent(page) == (i == 0 ? no_page : found.pages()[i - 1]));
    }
  }
};

}  // namespace

TEST_CASE("whatever sequences do, each reads its own history and no page is lost") {
  for (const std::string_view policy : eviction_names()) {
    INFO(policy);
    Rig rig(24, policy);
    for (int step = 0; step < 4000; ++step) {
      rig.step();
      rig.check();
    }
    CHECK(rig.exhausted > 20);
    CHECK(rig.copied > 100);
    CHECK(rig.shared > 20);
    rig.live.clear();  // K15
    rig.check();
    CHECK(rig.table.free_pages() + rig.table.cached_pages() == rig.table.capacity());
  }
}

TEST_CASE(
    "an admission counts cached pages, and does not count on those that "
    "it uses itself") {
  Rig rig(4, "lru");
  const Tokens tokens = {1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3};
  const std::vector<PageKey> keys = keys_of(tokens);
  rig.live.emplace_back();
  rig.live[0].sequence = rig.table.open(keys);
  rig.grow(rig.live[0], tokens);
  rig.live.clear();
  CHECK(rig.table.cached_pages() == 3);
  CHECK(rig.table.match(keys) == 3);
  const Admission fits = rig.table.ask(keys, 16);
  CHECK((fits.cached == 3 && fits.fresh == 1 && fits.fits));
  const Admission too_long = rig.table.ask(keys, 17);
  CHECK((too_long.cached == 3 && too_long.fresh == 2 && !too_long.fits));
}

TEST_CASE(
    "a key depends on the secret, the scope, what came before and the "
    "content") {
  const PageKeys keys(secret());
  PageKeys::Secret other = secret();
  other[31] ^= 1;
  const PageKey root = keys.root({"tenant", "model", "layout", "f32"});
  CHECK(root == keys.root({"tenant", "model", "layout", "f32"}));
  CHECK(root != PageKeys(other).root({"tenant", "model", "layout", "f32"}));
  CHECK(root != keys.root({"tenan", "tmodel", "layout", "f32"}));  // fields do not run together
  CHECK(root != keys.root({"tenant", "model", "layout", "bf16"}));
  CHECK(keys.next(root, "abcd") == keys.next(root, "abcd"));
  CHECK(keys.next(root, "abcd") != keys.next(root, "abce"));
  CHECK(keys.next(keys.next(root, "ab"), "cd") != keys.next(keys.next(root, "a"), "bcd"));
  // HMAC-SHA-256 as any other program computes it, of "page", 32 zero bytes and
  // "abcd".
  CHECK(keys.next(PageKey{}, "abcd").words[0] == 0xdd8b0463aae4f556ULL);
}

TEST_CASE("keys that meet in their first word only are not each other's") {
  PageTable table(4, page_rows, make_lru({4, 8}));
  std::vector<CopyPage> copies;
  const PageKey one{{7, 1, 1, 1}}, other{{7, 1, 1, 2}};
  Sequence first = table.open({}), second = table.open({});
  for (Sequence* sequence : {&first, &second}) {
    REQUIRE(table.reserve(*sequence, page_rows, copies));
    table.wrote(*sequence, page_rows);
  }
  CHECK(table.publish(first, one));
  CHECK(table.match(std::array{other}) == 0);
  CHECK_FALSE(table.publish(second, other));
  CHECK(second.published() == 0);
  CHECK(table.match(std::array{one}) == 1);
}

TEST_CASE("a fork's pages are not exchanged under it, so what it uses follows what it uses") {
  PageTable table(6, page_rows, make_lru({6, 12}));
  std::vector<CopyPage> copies;
  const std::vector<PageKey> keys = keys_of({1, 1, 1, 1, 2, 2, 2, 2});
  Sequence other = table.open({}), owner = table.open({});
  REQUIRE(table.reserve(other, page_rows, copies));
  table.wrote(other, page_rows);
  REQUIRE(table.reserve(owner, 2 * page_rows, copies));
  table.wrote(owner, 2 * page_rows);
  Sequence fork = table.fork(owner);
  REQUIRE(table.publish(other, keys[0]));
  if (table.publish(owner, keys[0])) CHECK(table.publish(owner, keys[1]));
  owner = Sequence();
  other = Sequence();
  // All that is not the fork's can be had.
  Sequence rest = table.open({});
  CHECK(table.reserve(rest, 4 * page_rows, copies));
}
