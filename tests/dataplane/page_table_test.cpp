// The page table beside a plain model: every sequence's tokens, written down in
// full, and a store of rows that only does what the table's effects say. After
// each event the invariants of docs/POOL.md are looked at.
#include "dataplane/page_table.h"

#include <algorithm>
#include <array>
#include <catch2/catch.hpp>
#include <map>
#include <string>
#include <utility>

#include "base/random.h"
#include "invariants.h"
#include "page_tokens.h"

using namespace sluice;

namespace {

/// Only so many different first words: keys meet in them.
std::vector<PageKey> coarse(std::vector<PageKey> keys, std::uint64_t words) {
  for (PageKey& key : keys) key.words[0] %= words;
  return keys;
}

/// What nobody has written: a page's rows when it is given to somebody.
constexpr std::uint32_t others = 0xdead;

struct Rig {
  struct Live {
    Sequence sequence;
    Tokens tokens;  // what it must read; its first rows() rows
    std::map<Page, std::uint64_t> generations;
    std::uint64_t number = 0;
    Tokens coming = {};  // all that it will be, where that was foretold
    std::uint32_t tenant = 0;  // whose keys its pages have
    PageOwner owner() const { return {name, once_published}; }
    std::string name{};  // whose it is; empty: nobody's, as what comes before anybody asks
    bool once_published = false;
  };

  /// `first_words`: as `coarse`; 0: all of them.
  explicit Rig(std::uint32_t pages, std::string_view policy, std::uint64_t first_words = 0)
      : table(pages, page_rows, std::move(make_eviction(policy, {pages, 2 * pages}).value())),
        store(pages, Tokens(page_rows, others)),
        last_generation(pages, 0),
        words(first_words) {}

  PageTable table;
  std::vector<Tokens> store;
  std::vector<std::uint64_t> last_generation;
  std::uint64_t words;
  std::map<PageKey, Tokens> published;    // every content ever published, by its key
  std::map<Page, PageKey> parent_key;     // of each page, whose content stands before it
  std::map<std::pair<Page, std::uint64_t>, PageKey> named;  // what a page's generation ever was
  std::vector<Live> live;
  std::uint32_t tenants = 0, quota = 0;  // none: nobody has any
  std::map<Page, std::string> owners;    // of pages that are somebody's, by what was done with them
  int refused = 0, made_room = 0;        // for the quota, and out of the tenant's own cache
  SplitMix64 random{1};
  Invariants invariants;
  std::uint64_t next_number = 1, actor = 0;  // whose event it is
  std::uint32_t fragment_page = 0,
                fragment = 0;  // rows of a partly filled page that it wrote on in
  int exhausted = 0, copied = 0, shared = 0, unshared = 0, foretold = 0, missed = 0, lies = 0;
  bool does_lie = false;

  std::uint64_t below(std::uint64_t n) { return random.next() % n; }
  std::vector<PageKey> keys(const Tokens& tokens, std::uint32_t tenant) const {
    return words == 0 ? keys_of(tokens, tenant) : coarse(keys_of(tokens, tenant), words);
  }
  void limit(std::uint32_t count, std::uint32_t pages) {
    tenants = count;
    quota = pages;
    table.limit_tenants(pages);
  }
  /// By the model.
  TenantPages pages_of(const std::string& name) const {
    TenantPages all{name};
    for (const auto& [page, owner] : owners) {
      if (owner != name) continue;
      ++all.pages;
      all.cached += table.references(page) == 0 ? 1 : 0;
    }
    return all;
  }

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
    const std::string charged = at.once_published ? "" : at.name;
    const TenantPages had = pages_of(at.name);
    const std::uint32_t free_pages = table.free_pages(), others_had = others_cache(at.name);
    const bool copies_last =
        from / page_rows < before.size() && (table.references(before[from / page_rows]) > 1 ||
                                             table.is_published(before[from / page_rows]));
    const std::uint32_t more = needed(before, from, to, copies_last);
    const bool reserved = table.reserve(at.sequence, to, copies).ok();
    const bool is_over = !charged.empty() && quota > 0 && had.held() + more > quota;
    invariants.must("K17", !reserved || !is_over);
    invariants.must("K18", reserved || is_over || more > free_before);
    if (!reserved) {
      ++exhausted;
      refused += is_over && more <= free_before ? 1 : 0;
      REQUIRE(std::equal(before.begin(), before.end(), at.sequence.pages().begin(),
                         at.sequence.pages().end()));
      REQUIRE(table.free_pages() + table.cached_pages() == free_before);
      return;
    }
    // Also for what counts later.
    if (!at.name.empty() && quota > 0 && had.held() + more <= quota) {
      const std::uint32_t own = had.pages + more > quota ? had.pages + more - quota : 0;
      made_room += own > 0 ? 1 : 0;
      if (free_pages + own >= more) invariants.must("K18", others_cache(at.name) >= others_had);
    }
    for (const Page page : at.sequence.pages())
      if (std::ranges::find(before, page) == before.end()) {
        store[page].assign(page_rows, others);  // what was in it is nobody's business
        owners.erase(page);
        if (!charged.empty()) owners[page] = charged;
      }
    for (const CopyPage& copy : copies) {
      ++copied;
      std::copy_n(store[copy.from].begin(), copy.rows, store[copy.to].begin());
    }
    fragment_page = from / page_rows;
    fragment = from % page_rows;
    for (std::uint32_t row = from; row < to; ++row)
      store[at.sequence.pages()[row / page_rows]][row % page_rows] = target[row];
    table.wrote(at.sequence, to);
    at.tokens = target;
    note(at);
    check_contents();  // before the table looks at the keys of what was written
    publish(at);
  }

  /// Pages that room for rows [from, to) takes.
  static std::uint32_t needed(const std::vector<Page>& had, std::uint32_t from, std::uint32_t to,
                              bool copies) {
    const std::uint32_t all = (to + page_rows - 1) / page_rows;
    const auto has = static_cast<std::uint32_t>(had.size());
    return (all > has ? all - has : 0) + (copies && to > from ? 1 : 0);
  }

  void publish(Live& at) {
    const std::vector<PageKey> all = keys(at.tokens, at.tenant);
    while (at.sequence.published() < all.size()) {
      const std::uint32_t index = at.sequence.published();
      const Page mine = at.sequence.pages()[index];
      if (!table.publish(at.sequence, all[index])) {
        ++unshared;
        break;
      }
      if (at.sequence.pages()[index] != mine) ++shared;
      const Page page = at.sequence.pages()[index];
      if (page == mine) own_published(at, index);
      invariants.must("K3",
                      named.try_emplace({page, table.generation(page)}, all[index]).first->second ==
                          all[index]);
      published[all[index]] = Tokens(at.tokens.begin() + index * page_rows,
                                     at.tokens.begin() + (index + 1) * page_rows);
      if (page == mine) parent_key[page] = index == 0 ? PageKey{} : all[index - 1];
      // Whatever was said of it before.
      invariants.must("K10", table.match(std::span(all).first(index + 1)) == index + 1);
    }
    note(at);
  }

  /// A page is of whose page it follows, else of who has published it.
  void own_published(const Live& at, std::uint32_t index) {
    const Page page = at.sequence.pages()[index];
    const auto before = index == 0 ? owners.end() : owners.find(at.sequence.pages()[index - 1]);
    const std::string owner = before != owners.end() ? before->second : at.name;
    owners.erase(page);
    if (!owner.empty()) owners[page] = owner;
  }

  void open() {
    const Tokens target = history();
    Live made;
    made.tenant = tenants == 0 ? 0 : static_cast<std::uint32_t>(below(tenants + 1));
    const std::uint64_t kind = below(6);
    if (tenants > 0 && kind > 0) made.name = name_of(made.tenant);
    made.once_published = tenants > 0 && kind == 1;
    const std::vector<PageKey> all = keys(target, made.tenant);
    const std::string charged = made.once_published ? "" : made.name;
    const Admission asked = table.ask(all, static_cast<std::uint32_t>(target.size()), charged);
    made.number = actor = next_number++;
    made.sequence = table.open(all, made.owner());
    REQUIRE(made.sequence.pages().size() == asked.cached);
    made.tokens.assign(target.begin(),
                       target.begin() + static_cast<std::ptrdiff_t>(made.sequence.rows()));
    const int before = exhausted;
    grow(made, target);
    REQUIRE(asked.fits == (exhausted == before));
    live.push_back(std::move(made));
    note(live.back());
  }

  /// Full pages, of which the policy is told before they come.
  void foretell() {
    Live made;
    made.tenant = tenants == 0 ? 0 : static_cast<std::uint32_t>(below(tenants + 1));
    made.name = name_of(made.tenant);
    made.once_published = true;  // as what comes from elsewhere is
    made.number = actor = next_number++;
    made.coming = history();
    made.coming.resize(made.coming.size() / page_rows * page_rows);
    const std::vector<PageKey> all = keys(made.coming, made.tenant);
    made.sequence = table.open(all, made.owner());
    made.tokens.assign(made.coming.begin(),
                       made.coming.begin() + static_cast<std::ptrdiff_t>(made.sequence.rows()));
    std::vector<CopyPage> copies;
    if (made.coming.empty() ||
        !table.reserve(made.sequence, static_cast<std::uint32_t>(made.coming.size()), copies))
      return;
    for (const Page page : made.sequence.pages().subspan(made.sequence.published())) {
      store[page].assign(page_rows, others);
      owners.erase(page);
    }
    table.foretell(made.sequence, all, below(2) == 0);
    if (below(2) == 0) table.catch_up();
    ++foretold;
    live.push_back(std::move(made));
    note(live.back());
  }

  /// Pages amid a history that somebody says stand at a root.
  void lie() {
    const Tokens told = history();
    const std::vector<PageKey> all = keys(told, 0);
    std::uint32_t index = 1 + static_cast<std::uint32_t>(below(2));
    Sequence sequence = table.open({});
    std::vector<CopyPage> copies;
    PageKey before{};
    for (; index < all.size() && !table.has(all[index]); before = all[index++]) {
      const std::uint32_t at = sequence.published();
      if (!table.reserve(sequence, (at + 1) * page_rows, copies).ok()) return;
      const Page page = sequence.pages()[at];
      owners.erase(page);
      const auto content = told.begin() + index * page_rows;
      store[page].assign(content, content + page_rows);
      table.wrote(sequence, (at + 1) * page_rows);
      if (!table.publish(sequence, all[index])) return;
      published[all[index]] = store[page];
      parent_key[page] = before;
      ++lies;
    }
  }

  /// The next of those comes, if one does.
  void come(Live& at) {
    const std::uint32_t from = at.sequence.rows();
    const Page page = at.sequence.pages()[from / page_rows];
    std::copy_n(at.coming.begin() + from, page_rows, store[page].begin());
    at.tokens.assign(at.coming.begin(), at.coming.begin() + from + page_rows);
    table.wrote(at.sequence, from + page_rows);
    note(at);
    publish(at);
  }

  void step() {
    actor = fragment = 0;
    table.set_time(below(5) + 1000 * static_cast<std::uint64_t>(live.size()));
    const std::uint64_t what = live.empty() ? 0 : below(10);
    if (does_lie && below(8) == 0) return lie();
    if (what < 3 && live.size() < 9) return below(4) == 0 ? foretell() : open();
    if (live.empty()) return;
    const std::size_t which = below(live.size());
    Live& at = live[which];
    actor = at.number;
    if (!at.coming.empty()) {
      const bool is_whole = at.tokens.size() == at.coming.size();
      if (!is_whole && below(6) > 0) return come(at);
      missed += is_whole ? 0 : 1;
      live.erase(live.begin() + static_cast<std::ptrdiff_t>(which));
      return;
    }
    if (what < 6) {
      Tokens target = at.tokens;
      for (std::uint64_t i = below(7); i > 0; --i)
        target.push_back(static_cast<std::uint32_t>(1 + below(2)));
      return grow(at, target);
    }
    if (what == 6) {
      Live copy;
      copy.number = next_number++;
      copy.sequence = table.fork(at.sequence);
      copy.tokens = at.tokens;
      copy.tenant = at.tenant;
      copy.name = at.name;
      copy.once_published = at.once_published;
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

  /// All of them go: nothing may be left.
  void rest() {
    live.clear();
    check();
    invariants.must("K15", table.free_pages() + table.cached_pages() == table.capacity());
  }

  void check_rows(const Live& at) {
    REQUIRE(at.sequence.rows() == at.tokens.size());
    const std::size_t has = at.sequence.pages().size() * page_rows;
    invariants.must("K11", has >= at.tokens.size());
    for (std::size_t row = 0; row < std::min(has, at.tokens.size()); ++row) {
      const std::uint32_t read = store[at.sequence.pages()[row / page_rows]][row % page_rows];
      if (read == at.tokens[row]) continue;
      const bool is_own = at.number == actor;
      const bool in_fragment =
          is_own && row / page_rows == fragment_page && row % page_rows < fragment;
      invariants.must("K13", read != others);
      invariants.must(in_fragment ? "K11" : is_own ? "K2" : "K9", false);
    }
  }

  void check_pages() {
    std::vector<std::uint32_t> references(table.capacity(), 0);
    for (const Live& at : live)
      for (const Page page : at.sequence.pages()) {
        ++references[page];
        const auto noted = at.generations.find(page);
        invariants.must("K1", noted != at.generations.end() &&
                                  noted->second == table.generation(page) &&
                                  table.references(page) > 0);
      }
    std::uint32_t used = 0;
    for (Page page = 0; page < table.capacity(); ++page) {
      invariants.must("K15", table.references(page) == references[page]);
      invariants.must("K3", table.generation(page) >= last_generation[page]);
      last_generation[page] = table.generation(page);
      used += references[page] > 0 ? 1 : 0;
      if (table.is_published(page)) check_published(page);
    }
    check_contents();
    invariants.must("K7", used + table.free_pages() + table.cached_pages() == table.capacity());
  }

  void check_contents() {
    for (Page page = 0; page < table.capacity(); ++page)
      if (table.is_published(page))
        if (const auto content = published.find(table.key(page)); content != published.end())
          invariants.must("K9", store[page] == content->second);
  }

  void check_published(Page page) {
    const auto content = published.find(table.key(page));
    invariants.must("K4", content != published.end());
    const Page parent = table.parent(page);
    const bool has_parent = parent != no_page && table.is_published(parent);
    invariants.must("K10", parent == no_page ? parent_key[page] == PageKey{}
                                             : has_parent && table.key(parent) == parent_key[page]);
  }

  /// Cache that is not this tenant's.
  std::uint32_t others_cache(const std::string& name) const {
    return table.cached_pages() - pages_of(name).cached;
  }

  void check_tenants() {
    std::erase_if(owners, [&](const auto& one) {
      return table.references(one.first) == 0 && !table.is_published(one.first);
    });
    for (std::uint32_t tenant = 1; tenant <= tenants; ++tenant) {
      const TenantPages counted = pages_of(name_of(tenant));
      const TenantPages said = table.tenants().pages_of(name_of(tenant));
      invariants.must("K17", said.pages == counted.pages && said.cached == counted.cached);
      invariants.must("K17", quota == 0 || counted.pages <= quota);
    }
  }

  void check() {
    for (const Live& at : live) check_rows(at);
    check_pages();
    check_tenants();
    const Tokens asked = history();
    const auto tenant = tenants == 0 ? 0 : static_cast<std::uint32_t>(below(tenants + 1));
    const std::vector<PageKey> all = keys(asked, tenant);
    const Sequence found = table.open(all);
    for (const Page page : found.pages())  // another tenant's are never found
      if (const auto owner = owners.find(page); owner != owners.end())
        invariants.must("K13", owner->second == name_of(tenant));
    for (std::size_t i = 0; i < found.pages().size(); ++i) {
      const Page page = found.pages()[i];
      invariants.must("K4", published.contains(all[i]));
      invariants.must("K2", store[page] == published[all[i]]);
      invariants.must("K10", table.parent(page) == (i == 0 ? no_page : found.pages()[i - 1]));
    }
  }

  void run(int steps) {
    for (int at = 1; at <= steps && invariants.goes_on(); ++at) {
      step();
      check();
      if (at % 1000 == 0) rest();
    }
    rest();
    INFO("broken: " << invariants.broken());
    CHECK(invariants.all_hold());
  }
};

}  // namespace

TEST_CASE("whatever sequences do, each reads its own history and no page is lost") {
  for (const std::string_view policy : eviction_names()) {
    INFO(policy);
    Rig rig(24, policy);
    rig.run(4000);
    CHECK(rig.exhausted > 20);
    CHECK(rig.copied > 100);
    CHECK(rig.shared > 20);
    CHECK(rig.foretold > 50);
    CHECK(rig.missed > 10);
  }
}

TEST_CASE("whatever tenants do, none has more than its quota, or is in another's way") {
  for (const std::string_view policy : eviction_names()) {
    INFO(policy);
    Rig rig(24, policy);
    rig.limit(3, 9);
    rig.run(4000);
    CHECK(rig.refused > 20);
    CHECK(rig.made_room > 30);
    CHECK(rig.shared > 20);
  }
}

TEST_CASE("whatever sequences do, what somebody says of a page's place is in nobody's way") {
  for (const std::uint32_t tenants : {0U, 3U}) {
    Rig rig(24, "lru");
    rig.does_lie = true;
    if (tenants > 0) rig.limit(tenants, 9);
    rig.run(8000);
    CHECK(rig.lies > 200);
    CHECK(rig.shared > 20);
  }
}

TEST_CASE("tenants that are too many to be told apart count together") {
  constexpr std::uint32_t many = PageTenants::tenants_most + 40;
  PageTable table(many, page_rows, make_lru({many, 2 * many}));
  table.limit_tenants(30);
  std::vector<CopyPage> copies;
  std::vector<Sequence> all;
  std::uint32_t got = 0;
  for (std::uint32_t i = 1; i <= many; ++i) {
    all.push_back(table.open({}, {name_of(i), false}));
    got += table.reserve(all.back(), page_rows, copies).ok() ? 1 : 0;
  }
  CHECK(got == PageTenants::tenants_most - 1 + 30);
  CHECK(table.tenants().pages_of(name_of(1)).pages == 1);
  CHECK(table.tenants().pages_of(name_of(many)).pages == 30);
  CHECK(table.tenants().all().size() == PageTenants::tenants_most);
  all.clear();
  CHECK(table.tenants().all().empty());
  CHECK(table.tenants().pages_of(name_of(many)).pages == 0);
  all.push_back(table.open({}, {name_of(many), false}));  // their numbers are free again
  REQUIRE(table.reserve(all.back(), page_rows, copies).ok());
  CHECK(table.tenants().all()[0].name == name_of(many));
}

TEST_CASE("where keys meet in their first word no sequence reads another's pages") {
  Rig rig(24, "lru", 3);
  rig.run(4000);
  CHECK(rig.unshared > 100);
  CHECK(rig.shared > 20);
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
  Invariants invariants;
  const PageKey other_tenant = keys.root({"another", "model", "layout", "f32"});
  invariants.must("K13", root != other_tenant);
  invariants.must("K13", keys.next(root, "abcd") != keys.next(other_tenant, "abcd"));
  CHECK(invariants.all_hold());
  CHECK(root != keys.root({"tenant", "model", "layout", "bf16"}));
  CHECK(keys.next(root, "abcd") == keys.next(root, "abcd"));
  CHECK(keys.next(root, "abcd") != keys.next(root, "abce"));
  CHECK(keys.next(keys.next(root, "ab"), "cd") != keys.next(keys.next(root, "a"), "bcd"));
  // HMAC-SHA-256 as any other program computes it, of "abcd", 60 and 32 zero
  // bytes, "page" and the number 4.
  CHECK(keys.next(PageKey{}, "abcd").words[0] == 0x8b0d1b2b434df069ULL);
}

TEST_CASE("a chain of pages of every length has the key that Python's hmac computes") {
  // key = hmac(secret, content + zeros to a multiple of 64 + the key before it + "page" + the
  // content's size), n bytes a page.
  const PageKeys keys(secret());
  PageKey key;
  const auto follow = [&](std::size_t n) {
    std::string content;
    for (std::size_t i = 0; i < n; ++i) content += static_cast<char>((n + i) % 251);
    key = keys.next(key, content);
  };
  for (std::size_t n = 0; n < 300; ++n) follow(n);
  follow(4096);
  follow(70000);
  CHECK(key ==
        PageKey{{0x1cb7966b101a61aa, 0x15c488805b4738e2, 0x7d4901654f723119, 0x7d635de6a369627d}});
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
