// Pages as the engine uses them: whatever sequences do, each reads rows that are its own or equal
// to its own, what is reserved is there, and nothing is lost. The same where several processes have
// a pool each over the pages of one of them.
#include "engine/layers/kv.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <map>
#include <memory>
#include <optional>

#include "base/random.h"
#include "base/sha256.h"
#include "engine/storage/shared_pages.h"

using namespace sluice;

namespace {

constexpr std::size_t page_tokens = 4;
constexpr std::int32_t picture = 9;
const KvShape shape{2, 1, page_tokens};

/// A history with all that decides its rows.
struct History {
  RowsOrigin origin;
  std::vector<std::int32_t> tokens;
};

/// What a row is, by itself: a token, or a row of a picture.
std::string row_name(const History& history, std::size_t row) {
  if (history.tokens[row] != picture) return "t" + std::to_string(history.tokens[row]);
  std::size_t before = 0;
  for (std::size_t i = 0; i < row; ++i) before += history.tokens[i] == picture ? 1 : 0;
  for (const PictureRows& one : history.origin.pictures) {
    if (before < one.rows) return one.content + std::to_string(before);
    before -= one.rows;
  }
  return "?";
}

/// What a decoder would write for a row: something of all rows that it sees.
float value_of(const History& history, std::size_t row) {
  std::string seen = history.origin.model;
  const std::size_t end = row < history.origin.block ? history.origin.block : row + 1;
  for (std::size_t i = 0; i < end; ++i) seen += row_name(history, i) + ",";
  return static_cast<float>(sha256_prefix(seen + std::to_string(row)) >> 44U);
}

/// Another process's pool; here by a socket too.
std::unique_ptr<KvPool> attached_pool(SharedPages& shared, const std::string& name) {
  AttachedPages attached = AttachedPages::attach(shared.connect(name).value()).value();
  return std::make_unique<KvPool>(
      shape, AttachedTable{std::move(attached.port), attached.shape.pages, attached.shape.secret},
      std::move(attached.bytes));
}

std::unique_ptr<SharedPages> shared_pages(std::uint32_t pages) {
  SharedPagesShape all{pages, page_tokens, shape.page_bytes(), {}};
  all.secret[0] = 3;
  return SharedPages::make(all).value();
}

struct Rig {
  struct Live {
    KvPool* pool = nullptr;  // before the sequence, which goes first
    KvSequence sequence;
    History history;           // its first tokens() rows are written
    std::size_t reserved = 0;  // tokens
    std::size_t reserved_from = 0;
  };

  explicit Rig(std::size_t pages) : last_generation(pages, 0) {
    pools.push_back(std::make_unique<KvPool>(shape, pages));
  }
  /// So many processes over one table.
  Rig(std::uint32_t pages, int processes) : shared(shared_pages(pages)), last_generation(pages, 0) {
    for (int i = 0; i < processes; ++i)
      pools.push_back(attached_pool(*shared, "process " + std::to_string(i)));
  }

  std::unique_ptr<SharedPages> shared;
  std::vector<std::unique_ptr<KvPool>> pools;
  std::vector<Live> live;
  std::vector<std::uint64_t> last_generation;
  SplitMix64 random{5};
  int full = 0, found = 0, found_pictures = 0, found_blocks = 0, forks = 0, drawn = 0, handed = 0,
      kept = 0;

  KvPool& some_pool() { return *pools[below(pools.size())]; }
  std::size_t below(std::size_t n) { return random.next() % n; }

  /// Few different ones, so that histories meet often.
  History draw() {
    History made;
    made.origin.model = below(4) == 0 ? "other" : "model";
    made.origin.picture_token = picture;
    for (std::size_t i = 1 + below(4); i > 0; --i) {
      if (below(3) == 0) {
        const std::size_t rows = 2 + below(2);
        made.origin.pictures.push_back({std::string(32, below(2) == 0 ? 'a' : 'b'), rows});
        made.tokens.insert(made.tokens.end(), rows, picture);
      }
      made.tokens.insert(made.tokens.end(), 3 + below(3), static_cast<std::int32_t>(below(2)));
    }
    if (below(4) == 0) {  // whole blocks meet seldom, so there are three of them
      made.origin.pictures = {{std::string(32, 'a'), 2}};
      made.tokens = {picture, picture, 0, 0, 1, 1, 0, static_cast<std::int32_t>(below(3)), 1, 1};
      made.origin.block = made.tokens.size();
    }
    return made;
  }

  void write(Live& at, std::size_t from) {
    KvPool& pool = *at.pool;
    for (std::size_t row = from; row < at.sequence.tokens(); ++row) {
      const Page page = at.sequence.pages()[row / page_tokens];
      for (std::size_t layer = 0; layer < shape.layers; ++layer) {
        const auto by = static_cast<float>(layer);
        pool.keys(page, layer)[row % page_tokens] = value_of(at.history, row) + by;
        pool.values(page, layer)[row % page_tokens] = -value_of(at.history, row) - by;
      }
    }
  }

  /// Writes what of its history is not yet written.
  bool grow(Live& at) {
    KvPool& pool = *at.pool;
    const std::size_t from = at.sequence.tokens();
    const std::size_t more = at.history.tokens.size() - from;
    const std::size_t free = pool.pages_free();
    const std::vector<Page> before(at.sequence.pages().begin(), at.sequence.pages().end());
    if (!pool.extend(at.sequence, more).ok()) {
      ++full;
      CHECK(at.sequence.tokens() == from);
      if (shared == nullptr) CHECK(pool.pages_free() == free);
      CHECK(before.size() == at.sequence.pages().size());
      CHECK(at.history.tokens.size() > at.reserved);
      at.history.tokens.resize(from);
      return false;
    }
    write(at, from);
    pool.publish(at.sequence, at.history.origin, at.history.tokens);
    must_be_found(at);
    return true;
  }

  /// What it has published, by whoever begins so.
  void must_be_found(const Live& at) {
    const KvSequence same = some_pool().open(at.history.origin, at.history.tokens);
    const std::size_t pages =
        std::min(at.sequence.published(), (at.history.tokens.size() - 1) / page_tokens);
    REQUIRE(same.published() >= pages);
    for (std::size_t i = 0; i < pages; ++i) REQUIRE(same.pages()[i] == at.sequence.pages()[i]);
  }

  void open() {
    Live made;
    made.pool = &some_pool();
    KvPool& pool = *made.pool;
    made.history = draw();
    const Admission asked =
        pool.ask(made.history.origin, made.history.tokens, made.history.tokens.size());
    made.sequence = pool.open(made.history.origin, made.history.tokens);
    CHECK(made.sequence.pages().size() == asked.cached);
    CHECK(made.sequence.tokens() < made.history.tokens.size());
    const std::size_t rows = made.sequence.tokens();
    found += rows > 0 ? 1 : 0;
    for (std::size_t i = 0; i < rows; ++i)
      if (made.history.tokens[i] == picture) {
        ++found_pictures;
        break;
      }
    found_blocks += rows > 0 && made.history.origin.block > 0 ? 1 : 0;
    const bool fitted = grow(made);
    // Of several processes each has leased some that nobody else is told of.
    CHECK((fitted == asked.fits || (shared != nullptr && fitted)));
    // A prompt that found no room goes: of a block, a part would be another block.
    if (fitted) live.push_back(std::move(made));
  }

  /// Rows that nobody may find, as a drawing's: written, forgotten, written again.
  void draw_on(Live& at) {
    KvPool& pool = *at.pool;
    const std::size_t from = at.sequence.tokens();
    const std::size_t more = 1 + below(6);
    if (!pool.reserve(at.sequence, more).ok()) return;
    for (int step = 0; step < 3; ++step) {
      REQUIRE(pool.extend(at.sequence, more).ok());
      for (std::size_t row = from; row < from + more; ++row)
        pool.keys(at.sequence.pages()[row / page_tokens], 0)[row % page_tokens] = -1;
      pool.truncate(at.sequence, from);
    }
    pool.unreserve(at.sequence);
    ++drawn;
  }

  /// To another process, or back to the same one, without a copy.
  void hand(Live& at) {
    const attached::OfferToken token = random.next();
    if (at.sequence.tokens() == 0) return;
    REQUIRE(at.pool->offer(at.sequence, token).ok());
    Live taken;
    taken.pool = &some_pool();
    const bool is_withdrawn = below(4) == 0;
    if (is_withdrawn) at.pool->withdraw(token);
    if (below(4) == 0) at.pool->settle(0);  // it is told before somebody else asks
    taken.history = at.history;
    const std::vector<Page> pages(at.sequence.pages().begin(), at.sequence.pages().end());
    Result<std::optional<KvSequence>> accepted = taken.pool->accept(token);
    REQUIRE(accepted.ok());
    at.reserved = 0;
    if (!accepted->has_value()) return;
    if (!is_withdrawn)  // as often as it is wanted
      CHECK(some_pool().accept(token).value()->tokens() == at.sequence.tokens());
    at.pool->withdraw(token);
    CHECK_FALSE(at.pool->accept(token).value().has_value());
    taken.sequence = *std::move(*accepted);
    for (std::size_t i = 0; i < taken.sequence.pages().size(); ++i)
      REQUIRE(taken.sequence.pages()[i] == pages[i]);
    handed += taken.pool != at.pool ? 1 : 0;
    live.push_back(std::move(taken));
  }

  /// Of pages that were claimed nobody else can have one, whatever the one who claimed them does.
  void claim() {
    KvPool& mine = some_pool();
    KvPool& other = some_pool();
    const std::size_t pages = 1 + below(5);
    const std::size_t got = mine.claim(pages);
    if (&mine == &other || got < pages) return mine.settle(0);
    KvSequence all, more;
    for (int turn = 0; turn < 3; ++turn) {
      while (other.extend(all, page_tokens).ok()) continue;
      REQUIRE(mine.extend(more, pages * page_tokens).ok());
      mine.truncate(more, 0);
      mine.settle(pages);
    }
    ++kept;
    mine.settle(0);
  }

  void step() {
    if (shared != nullptr && below(12) == 0) return claim();
    if (shared != nullptr && below(10) == 0 && !live.empty() && live.size() < 8)
      return hand(live[below(live.size())]);
    const std::size_t what = live.empty() ? 0 : below(12);
    if (what < 3 && live.size() < 8) return open();
    if (live.empty()) return;
    const std::size_t which = below(live.size());
    Live& at = live[which];
    if (what < 6) {
      for (std::size_t i = 1 + below(7); i > 0; --i)
        at.history.tokens.push_back(static_cast<std::int32_t>(below(2)));
      (void)grow(at);
    } else if (what == 6) {
      Live copy{at.pool, at.pool->fork(at.sequence), at.history};
      ++forks;
      at.reserved = 0;  // the fork's pages may have to be copied
      live.push_back(std::move(copy));
    } else if (what == 7) {
      const std::size_t block = at.history.origin.block;
      const std::size_t rows = block + below(at.sequence.tokens() + 1 - block);
      if (rows < std::max(at.reserved_from, page_tokens * at.sequence.published())) at.reserved = 0;
      at.pool->truncate(at.sequence, rows);
      at.history.tokens.resize(rows);
    } else if (what == 8) {
      draw_on(at);
      at.reserved = 0;
    } else if (what == 9) {
      const std::size_t more = below(9);
      at.reserved_from = at.sequence.tokens();
      at.reserved = at.pool->reserve(at.sequence, more).ok() ? at.reserved_from + more : 0;
    } else {
      live.erase(live.begin() + static_cast<std::ptrdiff_t>(which));
    }
  }

  void check_table(const std::vector<std::uint32_t>& references) {
    const KvPool& pool = *pools.front();
    const PageTable& table = pool.table();
    std::size_t used = 0;
    for (Page page = 0; page < table.capacity(); ++page) {
      REQUIRE(table.references(page) == references[page]);
      REQUIRE(table.generation(page) >= last_generation[page]);
      last_generation[page] = table.generation(page);
      used += references[page] > 0 ? 1 : 0;
      if (table.is_published(page) && table.parent(page) != no_page)
        REQUIRE(table.is_published(table.parent(page)));
    }
    REQUIRE(used + pool.pages_free() == pool.pages());
  }

  void check() {
    std::vector<std::uint32_t> references(pools.front()->pages(), 0);
    for (Live& at : live) {
      REQUIRE(at.sequence.tokens() == at.history.tokens.size());
      for (std::size_t row = 0; row < at.sequence.tokens(); ++row) {
        const Page page = at.sequence.pages()[row / page_tokens];
        for (std::size_t layer = 0; layer < shape.layers; ++layer) {
          const float want = value_of(at.history, row) + static_cast<float>(layer);
          REQUIRE(at.pool->keys(page, layer)[row % page_tokens] == want);
          REQUIRE(at.pool->values(page, layer)[row % page_tokens] == -want);
        }
      }
      for (const Page page : at.sequence.pages()) ++references[page];
    }
    if (shared == nullptr) check_table(references);
  }
};

}  // namespace

TEST_CASE("pages have the keys that one page after another has, as far as their rows are known") {
  constexpr std::size_t pages = 40;
  const PageKeys::Secret secret{7, 7};
  const PageKeys by_one(secret);
  const KvKeys keys(secret, "layout", page_tokens);
  const std::string unknown, known(32, 'k');
  for (const std::size_t shown : {std::size_t{0}, std::size_t{1}, std::size_t{2}, std::size_t{15},
                                  std::size_t{16}, pages - 1, pages}) {
    // Where no token stands for pictures, tokens are all that there is.
    for (const auto& [content, shows] : {std::pair{unknown, true}, {known, true}, {known, false}}) {
      History said;
      said.origin.model = "model";
      if (shows) said.origin.picture_token = picture, said.origin.pictures = {{content, 1}};
      for (std::size_t i = 0; i < pages * page_tokens; ++i)
        said.tokens.push_back(100 + static_cast<std::int32_t>(i));
      if (shown < pages) said.tokens[shown * page_tokens + 2] = picture;
      const PageKey root = *keys.root(said.origin, said.tokens);
      std::vector<PageKey> want;
      PageKey parent = root;
      for (std::size_t page = 0; page < pages && (page != shown || content == known); ++page) {
        std::string text;
        for (std::size_t row = page * page_tokens; row < (page + 1) * page_tokens; ++row)
          for (int shift = 0; shift < 32; shift += 8)
            text += static_cast<char>(said.tokens[row] >> shift & 0xff);
        if (shows && page == shown)
          text += std::string{2, 0, 0, 0, 0, 0, 0, 0} + known + std::string(8, 0);
        want.push_back(parent = by_one.next(parent, text));
      }
      std::vector<PageKey> is;
      keys.append(said.origin, said.tokens, 0, pages, root, is);
      CHECK(is == want);
      std::vector<PageKey> behind(want.begin(), want.begin() + 3 * (want.size() > 3));
      if (behind.empty()) continue;
      keys.append(said.origin, said.tokens, 3, pages, behind.back(), behind);
      CHECK(behind == want);
    }
  }
}

TEST_CASE("each sequence reads its own rows, whoever shares, forks, draws and goes") {
  Rig rig(20);
  for (int step = 0; step < 3000; ++step) {
    rig.step();
    rig.check();
  }
  CHECK(rig.full > 20);
  CHECK(rig.found > 50);
  CHECK(rig.found_pictures > 10);
  CHECK(rig.found_blocks > 3);
  CHECK(rig.forks > 50);
  CHECK(rig.drawn > 50);
  rig.live.clear();
  rig.check();
  CHECK(rig.pools.front()->pages_free() == rig.pools.front()->pages());
  CHECK(rig.pools.front()->pages_cached() > 0);
}

TEST_CASE("the same with pools of several processes, which hand histories to each other") {
  Rig rig(24, 3);
  for (int step = 0; step < 4000; ++step) {
    rig.step();
    rig.check();
  }
  CHECK(rig.full > 20);
  CHECK(rig.found > 30);
  CHECK(rig.found_blocks > 1);
  CHECK(rig.forks > 30);
  CHECK(rig.drawn > 30);
  CHECK(rig.handed > 20);
  CHECK(rig.kept > 20);
  rig.live.clear();
  for (const auto& pool : rig.pools) pool->settle(0);
  for (const auto& pool : rig.pools) (void)pool->claim(1);  // each was heard
  for (const auto& pool : rig.pools) pool->settle(0);
  for (const auto& pool : rig.pools) (void)pool->claim(0);
  (void)attached_pool(*rig.shared, "one more")->claim(1);
  const SharedPages::Report now = rig.shared->report();
  CHECK(now.refused.empty());
  CHECK(now.attached.size() >= 3);
  for (const SharedPages::Attached& one : now.attached) CHECK(one.held.sequences == 0);
}

TEST_CASE("who is cut off from the pages of its machine is told why, and waits for nobody") {
  auto shared = shared_pages(8);
  const auto pool = attached_pool(*shared, "one");
  RowsOrigin origin;
  origin.model = "m";
  const std::vector<std::int32_t> tokens(9, 1);
  KvSequence said;
  REQUIRE(pool->extend(said, 9).ok());
  pool->publish(said, origin, tokens);
  REQUIRE(said.published() == 2);
  REQUIRE(pool->reserve(said, 7).ok());
  shared = nullptr;  // its process is gone
  CHECK(pool->open(origin, tokens).tokens() == 0);
  CHECK(pool->ask(origin, tokens, 9).fits);
  CHECK(pool->claim(100) == 8);  // all may begin, and hear
  const Result<void> more = pool->extend(said, 40);
  REQUIRE_FALSE(more.ok());
  CHECK(more.error().code == ErrorCode::unavailable);
  CHECK(more.error().message == "the pool of KV pages: the process that has the pages has gone");
  CHECK(said.tokens() == 9);
  pool->truncate(said, 2);  // which pages stay, of those that others see, is asked
  CHECK(said.tokens() == 2);
  CHECK(said.pages().size() == 1);
  const KvSequence fork = pool->fork(said);
  CHECK(fork.tokens() == 2);
  CHECK_FALSE(pool->offer(said, 1).ok());
  CHECK_FALSE(pool->accept(1).ok());
  pool->settle(0);
}

TEST_CASE("rows are shared by what decides them: model, tokens, pictures, and a block's whole") {
  const auto found = [](const History& first, const History& second) {
    KvPool pool(shape, 16);
    KvSequence sequence;
    REQUIRE(pool.extend(sequence, first.tokens.size()).ok());
    pool.publish(sequence, first.origin, first.tokens);
    return pool.open(second.origin, second.tokens).tokens();
  };
  const std::string cat(32, 'c'), dog(32, 'd');
  const History seen{{"m", picture, {{cat, 5}, {dog, 2}}, 0}, {1, 9, 9, 9, 9, 9, 2, 9, 9, 3, 4, 5}};
  CHECK(found(seen, seen) == 8);  // the last token is computed, so its page is
  History longer = seen;
  longer.tokens.push_back(6);
  CHECK(found(seen, longer) == 12);
  for (const auto& [what, rows] : std::map<std::string, std::size_t>{
           {"model", 0}, {"first", 0}, {"second", 4}, {"cut", 4}, {"unknown", 4}, {"block", 0}}) {
    INFO(what);
    History other = longer;
    if (what == "model") other.origin.model = "n";
    if (what == "first") other.origin.pictures[0].content = dog;
    if (what == "second") other.origin.pictures[1].content = cat;
    if (what == "cut") other.origin.pictures = {{cat, 4}, {cat, 1}, {dog, 2}};
    if (what == "unknown") other.origin.pictures[1].content.clear();
    if (what == "block") other.origin.block = 9;
    CHECK(found(longer, other) == rows);
    CHECK(found(other, longer) == rows);
  }
  // A block's rows see what comes later in it.
  History block = longer;
  block.origin.block = 12;
  CHECK(found(block, block) == 12);
  History ends_otherwise = block;
  ends_otherwise.tokens[11] = 7;
  CHECK(found(block, ends_otherwise) == 0);
  ends_otherwise = block;
  ends_otherwise.tokens[12] = 7;
  CHECK(found(block, ends_otherwise) == 12);
  History unknown = longer;
  unknown.origin.model.clear();
  CHECK(found(unknown, unknown) == 0);
}

TEST_CASE("rows in common are those that are the same rows") {
  const RowsOrigin cat{"m", picture, {{std::string(32, 'c'), 2}}, 0};
  const RowsOrigin dog{"m", picture, {{std::string(32, 'd'), 2}}, 0};
  const std::vector<std::int32_t> tokens{1, 9, 9, 2, 3}, other{1, 9, 9, 2, 4};
  CHECK(rows_in_common(cat, tokens, cat, tokens) == 5);
  CHECK(rows_in_common(cat, tokens, cat, other) == 4);
  CHECK(rows_in_common(cat, tokens, dog, tokens) == 1);
  RowsOrigin of_another = cat;
  of_another.model = "n";
  CHECK(rows_in_common(cat, tokens, of_another, tokens) == 0);
  RowsOrigin block = cat;
  block.block = 5;
  CHECK(rows_in_common(block, tokens, block, tokens) == 5);
  CHECK(rows_in_common(block, tokens, block, other) == 0);
  CHECK(rows_in_common(block, tokens, cat, tokens) == 0);
}

TEST_CASE("a reservation is what a sequence can count on, and nobody else can have") {
  KvPool pool(shape, 8);
  KvSequence mine, other;
  REQUIRE(pool.reserve(mine, 20).ok());  // 5 of 8 pages
  CHECK(mine.tokens() == 0);
  CHECK(pool.pages_free() == 3);
  const auto refused = pool.extend(other, 13);
  REQUIRE_FALSE(refused.ok());
  CHECK(refused.error().code == ErrorCode::exhausted);
  CHECK(refused.error().message.starts_with("the KV pool is full: 4 pages are needed, 3 of 8"));
  REQUIRE(pool.extend(other, 12).ok());
  for (int i = 0; i < 3; ++i) {
    REQUIRE(pool.extend(mine, 20).ok());
    pool.truncate(mine, 3);
    REQUIRE(pool.extend(mine, 7).ok());
    pool.truncate(mine, 0);
    CHECK(pool.pages_free() == 0);
  }
  REQUIRE(pool.extend(mine, 6).ok());
  pool.unreserve(mine);
  CHECK(pool.pages_free() == 3);
  pool.release(mine);
  CHECK(pool.pages_free() == 5);
}
