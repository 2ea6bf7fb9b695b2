// What a home keeps of its sessions, beside a plain model, in any order of events; and its parcels,
// whole and broken.
#include "runtime/node/history_store.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <map>
#include <string>
#include <vector>

#include "base/random.h"
#include "runtime/node/history_parcel.h"

namespace sluice::kept_at_home {

namespace {

using Key = HistoryStore::Key;
using Missing = HistoryStore::Missing;

constexpr Origin one{1, 1}, two{2, 1};

HistoryRecord record_of(const std::string& text) {
  const auto bytes = std::as_bytes(std::span(text));
  return {bytes.begin(), bytes.end()};
}

HistoryMark mark_of(std::span<const std::string> texts) {
  HistoryMark mark;
  for (const std::string& text : texts)
    mark = {mark.count + 1, next_in_chain(mark.chain, record_of(text))};
  return mark;
}

/// All of `texts` from `from` on; `turn` and `complete` as they are told.
ToldHistory told_of(const std::vector<std::string>& texts, std::size_t from, std::size_t turn,
                    std::size_t complete) {
  ToldHistory told;
  told.part.behind = mark_of(std::span(texts).first(from));
  told.part.turn = static_cast<std::uint32_t>(turn);
  told.part.complete = static_cast<std::uint32_t>(complete);
  for (std::size_t i = from; i < texts.size(); ++i)
    told.part.records.push_back(record_of(texts[i]));
  return told;
}

std::vector<std::string> texts_of(const KeptHistory& kept) {
  std::vector<std::string> texts;
  for (const HistoryRecord& record : kept.part.records)
    texts.emplace_back(reinterpret_cast<const char*>(record.data()), record.size());
  return texts;
}

/// What a home would give a machine that has nothing. Asks a copy: nothing changes.
std::optional<std::vector<std::string>> kept_in(HistoryStore store, const Key& key) {
  const KeptHistory kept = store.ask(key, {9, 9}, {});
  if (!kept.is_there) return {};
  return texts_of(kept);
}

}  // namespace

TEST_CASE("what was told is what another machine goes on with, and only what it lacks is sent") {
  HistoryStore store;
  const Key key{7, 0};
  CHECK(store.ask(key, one, {}).is_there);
  std::vector<std::string> said{"hello", "hi"};
  store.add(key, one, 1, told_of(said, 0, 0, 2));
  said.insert(said.end(), {"and?", "so"});
  store.add(key, one, 2, told_of(said, 2, 2, 4));
  CHECK(kept_in(store, key) == said);
  const HistoryMark two_said = mark_of(std::span(said).first(2));
  const KeptHistory rest = store.ask(key, two, two_said);
  CHECK(rest.part.behind == two_said);
  CHECK(texts_of(rest) == std::vector<std::string>{"and?", "so"});
  CHECK(store.ask(key, two, mark_of(said)).part.records.empty());
  const KeptHistory other = store.ask(key, two, {2, 12345});
  CHECK(other.part.behind.count == 0);
  CHECK(texts_of(other) == said);
  CHECK(store.take_dropped().empty());
}

TEST_CASE("a turn that is not whole is given to nobody, and one whose machine is lost goes back") {
  HistoryStore store;
  const Key key{7, 0};
  std::vector<std::string> said{"hello", "hi", "and?"};
  store.ask(key, one, {});
  store.add(key, one, 1, told_of({"hello", "hi"}, 0, 0, 2));
  store.add(key, one, 2, told_of(said, 2, 2, 2));
  CHECK(kept_in(store, key) == std::vector<std::string>{"hello", "hi"});
  said.push_back("so");
  store.add(key, one, 2, told_of(said, 3, 2, 4));
  CHECK(kept_in(store, key) == said);
  store.roll_back(7, 2, [](Origin) { return true; });  // its machine is there and has it
  CHECK(kept_in(store, key) == said);
  store.roll_back(7, 1, [](Origin) { return false; });  // an earlier call
  CHECK(kept_in(store, key) == said);
  store.roll_back(7, 2, [](Origin) { return false; });
  CHECK(kept_in(store, key) == std::vector<std::string>{"hello", "hi"});
}

TEST_CASE("an answer that is told before its question waits for it, and for no other") {
  HistoryStore store;
  const Key key{7, 0};
  store.ask(key, one, {});
  ToldHistory answer = told_of({"hello", "hi"}, 1, 0, 2);
  answer.is_own = false;
  SECTION("the question comes") {
    store.add(key, two, 1, answer);
    CHECK(kept_in(store, key) == std::vector<std::string>{});
    store.add(key, one, 1, told_of({"hello"}, 0, 0, 0));
    CHECK(kept_in(store, key) == std::vector<std::string>{"hello", "hi"});
    CHECK(store.find(key)->holder == one);
  }
  SECTION("another question comes") {
    store.add(key, two, 1, answer);
    store.add(key, one, 2, told_of({"good day"}, 0, 0, 0));
    CHECK(kept_in(store, key) == std::vector<std::string>{});
    store.add(key, one, 3, told_of({"hello"}, 0, 0, 0));
    CHECK(kept_in(store, key) == std::vector<std::string>{});
  }
  store.end_session(7);
  CHECK(store.bytes() == 0);
}

TEST_CASE("a part behind what is not here leaves nothing, and the whole begins it again") {
  HistoryStore store;
  const Key key{7, 0};
  const std::vector<std::string> said{"a", "b", "c", "d"};
  store.ask(key, one, {});
  store.add(key, one, 1, told_of({"a", "b"}, 0, 0, 2));
  ToldHistory wrong = told_of(said, 2, 2, 4);
  SECTION("another history") { wrong.part.behind.chain += 1; }
  SECTION("more records") { wrong.part.behind.count += 1; }
  SECTION("more whole turns than records") { wrong.part.complete = 5; }
  SECTION("a turn behind its end") { wrong.part.turn = 5; }
  store.add(key, one, 2, wrong);
  CHECK_FALSE(kept_in(store, key).has_value());
  CHECK(store.find(key)->missing == Missing::gap);
  CHECK(store.bytes() == 0);
  const auto dropped = store.take_dropped();
  REQUIRE(dropped.size() == 1);
  CHECK(dropped[0].key == key);
  CHECK(dropped[0].holder == one);
  store.add(key, one, 3, told_of(said, 2, 2, 4));  // it has not heard yet
  CHECK_FALSE(kept_in(store, key).has_value());
  store.add(key, one, 4, told_of(said, 0, 2, 4));
  CHECK(kept_in(store, key) == said);
  store.roll_back(7, 4, [](Origin) { return false; });
  CHECK(kept_in(store, key) == std::vector<std::string>{"a", "b"});
}

TEST_CASE("a session that says too much is kept no more, nor one that was used longest ago") {
  const std::size_t each = history_record_overhead + 10;
  HistoryStore store({.session_bytes = 3 * each, .all_bytes = 5 * each});
  const std::string text(10, 'x');
  for (const std::uint64_t session : {1U, 2U}) {
    store.ask({session, 0}, one, {});
    store.add({session, 0}, one, session, told_of({text, text}, 0, 0, 2));
  }
  CHECK(store.bytes() == 4 * each);
  store.ask({1, 0}, one, mark_of(std::vector{text, text}));  // is used
  store.ask({3, 0}, two, {});
  store.add({3, 0}, two, 3, told_of({text, text}, 0, 0, 2));
  CHECK(store.find({2, 0})->missing == Missing::no_room);
  CHECK(kept_in(store, {1, 0}).has_value());
  CHECK(store.bytes() == 4 * each);
  const auto dropped = store.take_dropped();
  REQUIRE(dropped.size() == 1);
  CHECK(dropped[0].key == Key{2, 0});
  CHECK(dropped[0].holder == one);
  const std::vector<std::string> four(4, text);
  store.add({1, 0}, one, 4, told_of(four, 2, 2, 4));
  CHECK(store.find({1, 0})->missing == Missing::too_large);
  CHECK(store.bytes() == 2 * each);
  ToldHistory too_large;
  too_large.is_too_large = true;
  store.add({3, 0}, two, 5, too_large);
  CHECK(store.find({3, 0})->missing == Missing::too_large);
  CHECK(store.bytes() == 0);
}

namespace {

/// A session as the machine that answers it has it.
struct Speaker {
  std::vector<std::string> said;
  std::size_t told = 0;
  Origin machine = one;
  std::optional<std::vector<std::string>> home = std::vector<std::string>{};  // none: not kept
};

/// Sessions that speak, fail, move and end, and what their home should have of each.
class Schedule {
 public:
  explicit Schedule(std::uint64_t seed)
      : random_(seed), store_({.session_bytes = 1500, .all_bytes = 4000}) {
    for (std::uint64_t session = 0; session < speakers_.size(); ++session) begin(session);
  }

  void step() {
    const std::uint64_t session = below(speakers_.size());
    Speaker& speaker = speakers_[session];
    switch (below(8)) {
      case 0:
        store_.end_session(session);
        speaker = {};
        begin(session);
        break;
      case 1:  // another process: it has nothing
        move(session, speaker.machine == one ? two : one, {});
        break;
      case 2:  // in place, with what a failed call has left
        if (below(2) == 0) speaker.said.push_back("failed");
        move(session, speaker.machine, mark_of(speaker.said));
        break;
      case 3:
        lost_amid(session);
        break;
      case 4:
        by_two(session);
        break;
      default:
        speak(session);
    }
    check();
  }

 private:
  std::size_t below(std::size_t most) { return random_.next() % most; }
  std::string text() { return std::string(1 + below(120), static_cast<char>('a' + below(26))); }

  void begin(std::uint64_t session) { store_.ask({session, 0}, speakers_[session].machine, {}); }

  void hear_dropped() {
    for (const HistoryStore::Dropped& one_dropped : store_.take_dropped()) {
      Speaker& speaker = speakers_[one_dropped.key.session];
      REQUIRE(one_dropped.holder == speaker.machine);
      speaker.told = 0;
      speaker.home.reset();
    }
  }

  void tell(std::uint64_t session, std::size_t turn) {
    Speaker& speaker = speakers_[session];
    ToldHistory told = told_of(speaker.said, speaker.told, turn, speaker.said.size());
    speaker.told = speaker.said.size();
    speaker.home = speaker.said;
    store_.add({session, 0}, speaker.machine, ++call_, std::move(told));
    hear_dropped();
  }

  void speak(std::uint64_t session) {
    Speaker& speaker = speakers_[session];
    const std::size_t turn = speaker.said.size();
    speaker.said.push_back(text());
    speaker.said.push_back(text());
    tell(session, turn);
  }

  void lost_amid(std::uint64_t session) {
    Speaker& speaker = speakers_[session];
    const std::vector<std::string> before = speaker.said;
    speak(session);
    store_.roll_back(session, call_, [](Origin) { return false; });
    speaker.said = before;
    // Where nothing was kept before, the whole came with this call.
    if (speaker.home) speaker.home = before;
    move(session, speaker.machine == one ? two : one, {});
  }

  /// One machine reads what is asked, another answers: told in any order.
  void by_two(std::uint64_t session) {
    Speaker& speaker = speakers_[session];
    const std::size_t turn = speaker.said.size();
    speaker.said.push_back(text());
    ToldHistory asks = told_of(speaker.said, speaker.told, turn, turn);
    speaker.said.push_back(text());
    ToldHistory answers = told_of(speaker.said, turn + 1, turn, turn + 2);
    answers.is_own = false;
    speaker.told = turn + 1;
    speaker.home = speaker.said;
    ++call_;
    const bool early = below(2) == 0 && store_.find({session, 0})->missing == Missing::nothing;
    if (early) store_.add({session, 0}, {3, 1}, call_, answers);
    hear_dropped();
    // Where there was no room for the answer alone there may be for the whole that follows.
    if (!speaker.home && asks.part.behind.count == 0)
      speaker.home.emplace(speaker.said.begin(),
                           speaker.said.begin() + static_cast<std::ptrdiff_t>(turn));
    store_.add({session, 0}, speaker.machine, call_, std::move(asks));
    if (!early) store_.add({session, 0}, {3, 1}, call_, answers);
    hear_dropped();
  }

  void move(std::uint64_t session, Origin to, HistoryMark has) {
    Speaker& speaker = speakers_[session];
    const KeptHistory kept = store_.ask({session, 0}, to, has);
    REQUIRE(kept.is_there == speaker.home.has_value());
    speaker.machine = to;
    if (kept.is_there) {
      std::vector<std::string> said = *speaker.home;
      REQUIRE(kept.part.behind.count + kept.part.records.size() == said.size());
      REQUIRE(mark_of(std::span(said).first(kept.part.behind.count)) == kept.part.behind);
      REQUIRE(std::ranges::equal(texts_of(kept), std::span(said).subspan(kept.part.behind.count)));
      speaker.said = said;
      speaker.told = said.size();
    } else {
      if (has.count == 0) speaker.said.clear();
      speaker.told = 0;
    }
  }

  void check() {
    std::size_t bytes = 0;
    for (std::uint64_t session = 0; session < speakers_.size(); ++session) {
      const Speaker& speaker = speakers_[session];
      REQUIRE(kept_in(store_, {session, 0}) == speaker.home);
      for (const std::string& one_text : speaker.home.value_or(std::vector<std::string>{}))
        bytes += one_text.size() + history_record_overhead;
    }
    REQUIRE(store_.bytes() == bytes);
    REQUIRE(bytes <= 4000);
  }

  SplitMix64 random_;
  HistoryStore store_;
  std::vector<Speaker> speakers_{5};
  std::uint64_t call_ = 0;
};

}  // namespace

TEST_CASE("in any order of events a home has what was said, or says that it has not") {
  const std::uint64_t seed = GENERATE(range(0, 40));
  INFO("seed " << seed);
  Schedule schedule(seed);
  for (int i = 0; i < 400; ++i) schedule.step();
}

TEST_CASE("parcels of what was said come back as they were, and broken ones are refused") {
  ToldHistory told = told_of({"hello", "", "and?"}, 1, 1, 3);
  told.is_own = false;
  const wire::Bytes sound[] = {encode_told({300, told}), encode_asked({300, {2, 77}}),
                               encode_asked({300, {}}), encode_kept({true, told.part}),
                               encode_kept({})};
  const auto again = [](std::size_t kind, std::span<const std::byte> bytes) -> Result<wire::Bytes> {
    if (kind == 0) {
      const auto read = decode_told(bytes);
      return read.ok() ? Result<wire::Bytes>(encode_told(*read)) : read.error();
    }
    if (kind < 3) {
      const auto read = decode_asked(bytes);
      return read.ok() ? Result<wire::Bytes>(encode_asked(*read)) : read.error();
    }
    const auto read = decode_kept(bytes);
    return read.ok() ? Result<wire::Bytes>(encode_kept(*read)) : read.error();
  };
  SplitMix64 random(3);
  for (std::size_t kind = 0; kind < std::size(sound); ++kind) {
    INFO("parcel " << kind);
    const wire::Bytes& bytes = sound[kind];
    CHECK(again(kind, bytes).value() == bytes);
    for (std::size_t size = 0; size < bytes.size(); ++size)
      CHECK_FALSE(again(kind, std::span(bytes).first(size)).ok());
    wire::Bytes longer = bytes;
    longer.push_back(std::byte{0});
    CHECK_FALSE(again(kind, longer).ok());
    // What is read at all is written as it was read: there is one way to write each.
    for (int i = 0; i < 2000; ++i) {
      wire::Bytes changed = bytes;
      changed[random.next() % changed.size()] = static_cast<std::byte>(random.next() % 256);
      if (const Result<wire::Bytes> read = again(kind, changed); read.ok()) CHECK(*read == changed);
    }
  }
}

TEST_CASE("a parcel that says it has more than may be is refused before it is read") {
  wire::Bytes bytes;
  wire::ByteWriter out(bytes);
  for (const std::uint64_t number : {1U, 0U, 0U}) out.number(number);  // kept, behind nothing
  for (const std::uint64_t number : {0U, 0U}) out.number(number);      // turn, complete
  SECTION("records") { out.number(std::uint64_t{1} << 40U); }
  SECTION("bytes of a record") {
    out.number(1);
    out.number(std::uint64_t{1} << 40U);
  }
  const Result<KeptHistory> read = decode_kept(bytes);
  REQUIRE_FALSE(read.ok());
  CHECK(read.error().code == ErrorCode::corrupt);
}

}  // namespace sluice::kept_at_home
