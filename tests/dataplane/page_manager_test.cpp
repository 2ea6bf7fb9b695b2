// Processes that use one page table: each with a plain model of its histories, all with one store
// of rows, whatever others do between a question and its answer, and however they die. After each
// event the invariants of docs/POOL.md are looked at.
#include "dataplane/page_manager.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <iterator>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "base/random.h"
#include "dataplane/page_client.h"
#include "invariants.h"
#include "page_histories.h"

using namespace sluice;

namespace {
namespace processes {

using namespace histories;

struct Rig;

/// One process, and its way to the manager: bytes there and back, as over a socket.
class Process final : public PageManagerPort {
 public:
  Process(Rig& rig, PageClientId number) : rig_(rig), id(number), client(*this, page_rows, run) {}
  Result<attached::Answer> ask(std::span<const attached::Request> batch) override;
  Result<void> tell(std::span<const attached::Request> batch) override;

 private:
  Result<attached::Answer> handle(std::span<const attached::Request> batch);
  Rig& rig_;

 public:
  const PageClientId id;
  bool is_dead = false;
  PageClient client;
  std::vector<Live> live;  // they go before it
};

struct Rig {
  Rig(std::uint32_t pages, std::string_view policy, std::uint64_t words, std::uint64_t seed)
      : first_words(words),
        random(seed),
        table(pages, page_rows, std::move(make_eviction(policy, {pages, 2 * pages}).value())),
        manager(table, page_rows),
        store(pages, Tokens(page_rows, others)),
        last_generation(pages, 0) {
    for (int i = 0; i < 3; ++i) begin_process();
  }

  const std::uint64_t first_words;
  SplitMix64 random;
  PageTable table;
  PageManager manager;
  std::vector<Tokens> store;
  std::vector<std::uint64_t> last_generation;
  std::map<PageKey, Tokens> published;  // what was ever to be published, by its key
  std::map<PageKey, PageKey> parent_key;
  std::map<std::pair<Page, std::uint64_t>, PageKey> named;
  std::set<PageKey> strange;  // that a client has made up
  std::vector<std::unique_ptr<Process>> processes;
  std::map<attached::OfferToken, OfferedHistory> offers;
  std::set<std::uint64_t> actors;  // whose events these are
  Invariants invariants;
  std::uint64_t next_number = 1, next_process = 1;
  std::uint64_t handled = 0;  // batches
  int depth = 0;
  int exhausted = 0, copied = 0, shared = 0, unshared = 0, killed = 0, accepted = 0, refused = 0,
      asked_nothing = 0, between = 0, taken_over = 0, heard = 0, gone_with = 0;

  std::uint64_t below(std::uint64_t n) { return random.next() % n; }

  void begin_process() {
    processes.push_back(std::make_unique<Process>(*this, next_process++));
    REQUIRE(manager.attach(processes.back()->id).ok());
  }

  // ---- what a process does

  Tokens history() {
    Tokens tokens(1 + below(24));
    for (std::uint32_t& token : tokens) token = static_cast<std::uint32_t>(below(8) == 0 ? 2 : 1);
    return tokens;
  }

  /// A page out of a lease gets its generation when the manager hears of it.
  void note(const Process& process, Live& at) {
    at.is_noted = !process.client.has_news();
    if (!at.is_noted) return;
    at.generations.clear();
    for (const Page page : at.sequence.pages()) at.generations[page] = table.generation(page);
  }

  void kill(Process& process) {
    if (std::exchange(process.is_dead, true)) return;
    ++killed;
    manager.detach(process.id);
    const PageManager::Held held = manager.held(process.id);
    invariants.must("K6", held.sequences == 0 && held.offers == 0 && held.pages == 0);
    std::erase_if(offers, [&](const auto& one) { return one.second.from == process.id; });
    for (auto& [token, one] : offers)
      if (one.state == OfferedHistory::State::accepted && one.with == process.id) {
        one.state = OfferedHistory::State::done;
        ++gone_with;
      }
  }

  /// At times it dies: its rows are half written then.
  bool dies_in(Process& process, Live& at, std::uint32_t from, std::uint32_t to) {
    if (below(60) != 0) return false;
    for (std::uint32_t row = from; row < to; ++row)
      store[at.sequence.pages()[row / page_rows]][row % page_rows] = half;
    kill(process);
    return true;
  }

  void grow(Process& process, Live& at, const Tokens& target) {
    const std::uint32_t from = at.sequence.rows();
    const auto to = static_cast<std::uint32_t>(target.size());
    std::vector<CopyPage> copies;
    const std::vector<Page> before(at.sequence.pages().begin(), at.sequence.pages().end());
    const std::uint64_t trips = process.client.round_trips();
    const Result<void> made = process.client.reserve(at.sequence, to, copies);
    if (process.is_dead) return;
    if (!made.ok()) {
      ++exhausted;
      REQUIRE(made.error().code == ErrorCode::exhausted);
      REQUIRE(std::ranges::equal(before, at.sequence.pages()));
      return;
    }
    asked_nothing += trips == process.client.round_trips() && to > from ? 1 : 0;
    for (const Page page : at.sequence.pages())
      if (std::ranges::find(before, page) == before.end()) store[page].assign(page_rows, others);
    for (const CopyPage& copy : copies) {
      ++copied;
      std::copy_n(store[copy.from].begin(), copy.rows, store[copy.to].begin());
    }
    at.fragment_page = from / page_rows;
    at.fragment = from % page_rows;
    if (dies_in(process, at, from, to)) return;
    for (std::uint32_t row = from; row < to; ++row)
      store[at.sequence.pages()[row / page_rows]][row % page_rows] = target[row];
    process.client.wrote(at.sequence, to);
    at.tokens = target;
    note(process, at);
    if (below(4) != 0) publish(process, at);
  }

  void publish(Process& process, Live& at) {
    const std::vector<PageKey> all = keys_of(at.tokens, first_words);
    const std::uint32_t first = at.sequence.published();
    for (std::size_t i = first; i < all.size(); ++i) {
      published[all[i]] =
          Tokens(at.tokens.begin() + static_cast<std::ptrdiff_t>(i * page_rows),
                 at.tokens.begin() + static_cast<std::ptrdiff_t>((i + 1) * page_rows));
      parent_key[all[i]] = i == 0 ? PageKey{} : all[i - 1];
    }
    const std::vector<Page> before(at.sequence.pages().begin(), at.sequence.pages().end());
    const Result<std::uint32_t> done =
        process.client.publish(at.sequence, std::span(all).subspan(first));
    if (process.is_dead) return;
    REQUIRE(done.ok());
    unshared += *done < all.size() - first ? 1 : 0;
    shared += std::ranges::equal(before, at.sequence.pages()) ? 0 : 1;
    note(process, at);
  }

  void open(Process& process) {
    const Tokens target = history();
    Result<AttachedSequence> opened = process.client.open(keys_of(target, first_words));
    if (process.is_dead) return;
    REQUIRE(opened.ok());
    Live made;
    made.number = next_number++;
    actors.insert(made.number);
    made.sequence = std::move(opened).value();
    made.tokens.assign(target.begin(), target.begin() + made.sequence.rows());
    note(process, made);
    grow(process, made, target);
    if (!process.is_dead) process.live.push_back(std::move(made));
  }

  void offer(Process& process, Live& at) {
    const attached::OfferToken token = random.next();
    const auto pages = at.sequence.pages().first((at.sequence.rows() + page_rows - 1) / page_rows);
    OfferedHistory offered{process.id, at.tokens, {pages.begin(), pages.end()}};
    const Result<void> done = process.client.offer(at.sequence, token);
    if (process.is_dead) return;
    REQUIRE(done.ok());
    offers[token] = std::move(offered);
  }

  /// The sequence itself, at times with pages for more.
  void give(Process& process, std::size_t which) {
    Live at = std::move(process.live[which]);
    process.live.erase(process.live.begin() + static_cast<std::ptrdiff_t>(which));
    std::vector<CopyPage> copies;
    if (below(2) == 0) (void)process.client.reserve(at.sequence, at.sequence.rows() + 5, copies);
    for (const CopyPage& copy : copies)
      std::copy_n(store[copy.from].begin(), copy.rows, store[copy.to].begin());
    if (process.is_dead) return void(process.live.push_back(std::move(at)));
    const attached::OfferToken token = random.next();
    const std::vector<Page> pages(at.sequence.pages().begin(), at.sequence.pages().end());
    const attached::Text text{static_cast<std::byte>(token)};
    const Result<void> done = process.client.give(at.sequence, token, text);
    if (process.is_dead) return void(process.live.push_back(std::move(at)));
    REQUIRE(done.ok());
    REQUIRE(!at.sequence.is_open());
    offers[token] = {process.id, at.tokens, pages, OfferedHistory::State::given};
  }

  /// Out of the list, so that nobody else does anything with it while somebody waits.
  std::pair<attached::OfferToken, OfferedHistory> take_offer() {
    const auto it = std::next(offers.begin(), static_cast<std::ptrdiff_t>(below(offers.size())));
    std::pair<attached::OfferToken, OfferedHistory> taken = *it;
    offers.erase(it);
    return taken;
  }
  /// Unless whoever offers it has died.
  void put_back(attached::OfferToken token, const OfferedHistory& offered) {
    const auto lives = [&](PageClientId id) {
      return std::ranges::any_of(processes,
                                 [&](const auto& one) { return one->id == id && !one->is_dead; });
    };
    if (!lives(offered.from)) return;
    OfferedHistory& back = offers[token] = offered;
    if (back.state != OfferedHistory::State::accepted || lives(back.with)) return;
    back.state = OfferedHistory::State::done;
    ++gone_with;
  }

  void say(Process& process) {
    if (offers.empty()) return;
    auto [token, offered] = take_offer();
    const bool waits = offered.state == OfferedHistory::State::given ||
                       offered.state == OfferedHistory::State::accepted;
    const std::uint64_t trips = handled;
    const attached::Text text{std::byte{1}, static_cast<std::byte>(token)};
    const Result<bool> said = process.client.say(token, text);
    if (handled != trips && waits) {
      offered.state = OfferedHistory::State::done;
      offered.said = text;
      offered.pages.clear();
    }
    put_back(token, offered);
    if (process.is_dead) return;
    REQUIRE(said.ok());
    CHECK(*said == waits);
  }

  void hear(Process& process) {
    const bool any = below(4) == 0;
    const auto it = std::ranges::find_if(offers, [&](const auto& one) {
      return one.second.from == process.id &&
             (any || one.second.state == OfferedHistory::State::done);
    });
    if (it == offers.end()) return;
    const attached::OfferToken token = it->first;
    const OfferedHistory offered = it->second;
    offers.erase(it);
    const Result<std::optional<attached::Text>> said = process.client.hear(token);
    if (process.is_dead) return;
    REQUIRE(said.ok());
    const bool is_done = offered.state == OfferedHistory::State::done;
    invariants.must("K6", said->has_value() == is_done);
    if (!is_done || !said->has_value()) return put_back(token, offered);
    ++heard;
    CHECK(**said == offered.said);
  }

  void accept(Process& process) {
    if (offers.empty()) return;
    auto [token, offered] = take_offer();
    const bool is_there = offered.state == OfferedHistory::State::shared ||
                          offered.state == OfferedHistory::State::given;
    const bool is_given = offered.state == OfferedHistory::State::given;
    const std::uint64_t trips = handled;
    attached::Text text;
    Result<std::optional<AttachedSequence>> taken = process.client.accept(token, &text);
    if (handled != trips && is_given) {
      offered.state = OfferedHistory::State::accepted;
      offered.with = process.id;
      offered.pages.clear();
      ++taken_over;
    }
    put_back(token, offered);
    if (process.is_dead) return;
    REQUIRE(taken.ok());
    REQUIRE(taken->has_value() == is_there);
    if (!is_there) return;
    if (is_given) CHECK(text == attached::Text{static_cast<std::byte>(token)});
    ++accepted;
    Live made;
    made.number = next_number++;
    made.sequence = *std::move(taken).value();
    made.tokens = offered.tokens;
    note(process, made);
    process.live.push_back(std::move(made));
  }

  void withdraw(Process& process) {
    const auto it = std::ranges::find_if(
        offers, [&](const auto& one) { return one.second.from == process.id; });
    if (it == offers.end()) return;
    process.client.withdraw(it->first);
    offers.erase(it);
  }

  void act(Process& process) {
    const std::uint64_t what = process.live.empty() ? below(4) : below(18);
    if (what < 3 && process.live.size() < 5) return open(process);
    if (what == 16) return say(process);
    if (what == 17) return hear(process);
    if (what == 3 && below(3) == 0) {
      const auto pages = static_cast<std::uint32_t>(below(6));
      (void)(below(2) == 0 ? process.client.lease(pages) : process.client.hold(pages));
      return;
    }
    if (what == 3) return accept(process);
    if (what == 4) return withdraw(process);
    if (process.live.empty()) return;
    const std::size_t which = below(process.live.size());
    Live& at = process.live[which];
    actors.insert(at.number);
    if (what < 10) {
      Tokens target = at.tokens;
      for (std::uint64_t i = below(7); i > 0; --i)
        target.push_back(static_cast<std::uint32_t>(1 + below(2)));
      return grow(process, at, target);
    }
    if (what == 10) {
      Live copy;
      copy.number = next_number++;
      copy.sequence = process.client.fork(at.sequence);
      copy.tokens = at.tokens;
      note(process, copy);
      return process.live.push_back(std::move(copy));
    }
    if (what < 13) {
      const auto rows = static_cast<std::uint32_t>(below(at.sequence.rows() + 1));
      const auto reserved = static_cast<std::uint32_t>(below(3) == 0 ? below(24) : 0);
      const Result<void> cut = process.client.truncate(at.sequence, rows, reserved);
      if (process.is_dead) return;
      REQUIRE(cut.ok());
      at.tokens.resize(rows);
      return note(process, at);
    }
    if (what == 13 && below(2) == 0) return give(process, which);
    if (what == 13) return offer(process, at);
    process.live.erase(process.live.begin() + static_cast<std::ptrdiff_t>(which));
  }

  /// What others do while somebody waits for an answer, and who dies of it.
  void meanwhile(PageClientId waiting) {
    if (depth != 0 || below(3) != 0) return;
    ++depth;
    for (std::uint64_t i = below(4); i > 0; --i) {
      Process& other = *processes[below(processes.size())];
      if (other.id == waiting || other.is_dead) continue;
      ++between;
      act(other);
    }
    --depth;
  }

  // ---- a process that says anything

  PageKey some_key() {
    std::vector<PageKey> there;
    for (Page page = 0; page < table.capacity(); ++page)
      if (table.is_published(page)) there.push_back(table.key(page));
    if (!there.empty() && below(2) == 0) return there[below(there.size())];
    const PageKey made{{random.next(), 1, 2, 3}};
    strange.insert(made);
    return made;
  }
  void say_nonsense() {
    const PageClientId id = next_process++;
    REQUIRE(manager.attach(id).ok());
    for (int i = 0; i < 30; ++i) {
      // Some that are right, or nearly, or it would not come far.
      std::vector<attached::Request> batch{nonsense(random, [this] { return some_key(); })};
      if (i == 0) batch = {attached::Open{1, {}}, attached::Reserve{1, 0, 9, 0}};
      if (i == 1 && below(2) == 0) batch = {attached::Fork{1, 9, 2}};
      if (i == 2 && below(2) == 0) batch = {attached::Publish{1, 9, {some_key()}}};
      if (i == 3 && below(2) == 0) batch = {attached::Publish{below(3), 9, {some_key()}}};
      if (i == 4 && below(2) == 0) batch = {attached::Lease{2, false}, attached::Take{1, 12, 3}};
      const Result<attached::Answer> answer = manager.handle(id, batch);
      if (answer.ok()) continue;
      REQUIRE(answer.error().code == ErrorCode::corrupt);
      ++refused;
      break;
    }
    manager.detach(id);
  }

  // ---- what must hold

  void check_rows(const Live& at) {
    REQUIRE(at.sequence.rows() == at.tokens.size());
    const std::size_t has = at.sequence.pages().size() * page_rows;
    invariants.must("K11", has >= at.tokens.size());
    for (std::size_t row = 0; row < std::min(has, at.tokens.size()); ++row) {
      const std::uint32_t read = store[at.sequence.pages()[row / page_rows]][row % page_rows];
      if (read == at.tokens[row]) continue;
      const bool is_own = actors.contains(at.number);
      const bool in_fragment =
          is_own && row / page_rows == at.fragment_page && row % page_rows < at.fragment;
      invariants.must("K13", read != others);
      invariants.must("K4", read != half);
      invariants.must(in_fragment ? "K11" : is_own ? "K2" : "K9", false);
    }
  }

  void check_references() {
    std::vector<std::uint32_t> expected(table.capacity(), 0);
    std::size_t leased = 0;
    for (const auto& process : processes) {
      const PageManager::Held held = manager.held(process->id);
      invariants.must("K15", held.leased == process->client.leased());
      leased += held.leased;
    }
    for (const auto& process : processes)
      for (const Live& at : process->live)
        for (const Page page : at.sequence.pages()) ++expected[page];
    for (const auto& [token, offered] : offers)
      for (const Page page : offered.pages) ++expected[page];
    std::uint32_t used = 0;
    for (Page page = 0; page < table.capacity(); ++page) {
      // A leased page is nobody else's.
      const bool is_leased = leased > 0 && expected[page] == 0 && table.references(page) == 1;
      if (is_leased) --leased;
      invariants.must("K15", is_leased || table.references(page) == expected[page]);
      used += is_leased || expected[page] > 0 ? 1 : 0;
    }
    invariants.must("K15", leased == 0);
    invariants.must("K7", used + table.free_pages() + table.cached_pages() == table.capacity());
  }

  void check_pages() {
    for (Page page = 0; page < table.capacity(); ++page) {
      invariants.must("K3", table.generation(page) >= last_generation[page]);
      last_generation[page] = table.generation(page);
      if (!table.is_published(page)) continue;
      const PageKey& key = table.key(page);
      invariants.must("K3",
                      named.try_emplace({page, table.generation(page)}, key).first->second == key);
      if (strange.contains(key)) continue;
      const auto content = published.find(key);
      invariants.must("K4", content != published.end());
      if (content == published.end()) continue;
      invariants.must("K9", store[page] == content->second);
      const Page parent = table.parent(page);
      invariants.must("K10", parent == no_page ? parent_key[key] == PageKey{}
                                               : table.is_published(parent) &&
                                                     table.key(parent) == parent_key[key]);
    }
  }

  void check() {
    for (auto& process : processes)
      if (process->is_dead) {  // what it has in its own memory says nothing any more
        process->live.clear();
        process.reset();
      }
    std::erase(processes, nullptr);
    while (processes.size() < 3) begin_process();
    for (const auto& process : processes)
      for (Live& at : process->live) {
        check_rows(at);
        if (!at.is_noted) note(*process, at);
        if (!at.is_noted) continue;
        for (const Page page : at.sequence.pages()) {
          const auto noted = at.generations.find(page);
          invariants.must("K1", noted != at.generations.end() &&
                                    noted->second == table.generation(page) &&
                                    table.references(page) > 0);
        }
      }
    check_pages();
    if (below(2) == 0) return;
    for (const auto& process : processes) process->client.flush();
    for (const auto& process : processes) REQUIRE(!process->client.has_news());
    check_references();
  }

  /// All die at once: nothing may be left.
  void rest() {
    for (const auto& process : processes) kill(*process);
    check();
    invariants.must("K15", table.free_pages() + table.cached_pages() == table.capacity());
  }

  void run(int steps) {
    for (int at = 1; at <= steps && invariants.goes_on(); ++at) {
      actors.clear();
      table.set_time(static_cast<std::uint64_t>(at));
      const std::uint64_t what = below(40);
      Process& process = *processes[below(processes.size())];
      if (what == 0)
        kill(process);
      else if (what < 3)
        say_nonsense();
      else
        act(process);
      check();
      if (at % 1000 == 0) rest();
    }
    rest();
    INFO("broken: " << invariants.broken());
    CHECK(invariants.all_hold());
  }
};

Result<attached::Answer> Process::handle(std::span<const attached::Request> batch) {
  const std::vector<std::byte> sent = attached::encode(batch);
  const auto heard = attached::decode_batch(sent);
  REQUIRE(heard.ok());
  ++rig_.handled;
  const Result<attached::Answer> answer = rig_.manager.handle(id, *heard);
  // It wrote where others read, or names what it has not.
  if (!answer.ok()) rig_.invariants.must("K9", false);
  return answer;
}

Result<attached::Answer> Process::ask(std::span<const attached::Request> batch) {
  const Error gone{ErrorCode::unavailable, "this process has died"};
  if (rig_.below(200) == 0) rig_.kill(*this);  // the question never leaves
  if (is_dead) return gone;
  const Result<attached::Answer> answer = handle(batch);
  if (!answer.ok()) {
    rig_.kill(*this);
    return answer.error();
  }
  rig_.meanwhile(id);
  if (rig_.below(200) == 0) rig_.kill(*this);  // the answer never comes
  if (is_dead) return gone;
  const auto bytes = attached::encode(*answer);
  return attached::decode_answer(bytes);
}

Result<void> Process::tell(std::span<const attached::Request> batch) {
  if (is_dead) return Error{ErrorCode::unavailable, "this process has died"};
  const Result<attached::Answer> answer = handle(batch);
  if (!answer.ok()) return answer.error();
  REQUIRE(answer->replies.empty());
  return {};
}

}  // namespace processes
}  // namespace

TEST_CASE("whatever processes do, each reads its own histories and who dies leaves nothing") {
  int gone_with = 0;
  for (const std::string_view policy : {"chosen", "lru", "arc"})
    for (std::uint64_t seed = 1; seed <= 8; ++seed) {
      INFO(policy << ", seed " << seed);
      processes::Rig rig(28, policy, 0, seed);
      rig.run(4000);
      CHECK(rig.exhausted > 20);
      CHECK(rig.copied > 100);
      CHECK(rig.shared > 20);
      CHECK(rig.killed > 50);
      CHECK(rig.accepted > 50);
      CHECK(rig.taken_over > 15);
      CHECK(rig.heard > 5);
      gone_with += rig.gone_with;
      CHECK(rig.refused > 50);
      CHECK(rig.between > 200);
      CHECK(rig.asked_nothing > 200);
    }
  CHECK(gone_with > 20);
}

TEST_CASE("whatever processes do, keys that meet in their first word are not each other's") {
  for (std::uint64_t seed = 1; seed <= 4; ++seed) {
    INFO("seed " << seed);
    processes::Rig rig(28, "lru", 3, seed);
    rig.run(4000);
    CHECK(rig.unshared > 100);
  }
}
