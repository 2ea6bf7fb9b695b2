// Both sides of a connection over which memory is read, driven by hand: what is answered is what
// stands there, and whoever has no secret, or changes a byte, gets nothing.
#include "runtime/tcp/tcp_link.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cstring>
#include <functional>

#include "base/crc32c.h"
#include "base/little_endian.h"
#include "base/random.h"
#include "runtime/tcp/tcp_serving.h"

using namespace sluice;
using namespace sluice::tcp;

namespace {

constexpr std::size_t region_bytes = std::size_t{1} << 20U;

Nonce nonce_of(std::uint8_t first) {
  Nonce nonce{};
  nonce[0] = std::byte{first};
  return nonce;
}

/// A region of which one reader was told, and both ends of a connection between the two.
struct Pair {
  Grants grants;
  std::shared_ptr<Region> region = Region::make(region_bytes);
  Key key;
  std::shared_ptr<Landing> landing = std::make_shared<Landing>();
  std::optional<Link> link;
  std::optional<Serving> serving;
  bool is_over = false;  // the owner has ended it
  std::vector<std::byte> to_owner, to_reader;
  std::function<void(std::vector<std::byte>&)> on_way_to_owner, on_way_to_reader;

  explicit Pair(bool is_encrypted) {
    SplitMix64 random(3);
    for (std::size_t at = 0; at < region_bytes; ++at)
      region->data()[at] = static_cast<std::byte>(random.next());
    const Grants::Made made = grants.make(region);
    key = {{"127.0.0.1", 9}, made.number, region_bytes, is_encrypted, made.secret};
    connect(1);
  }
  void connect(std::uint8_t nonce) {
    link.emplace(key, nonce_of(nonce), landing);
    serving.emplace(grants, key.is_encrypted, nonce_of(static_cast<std::uint8_t>(100 + nonce)));
    is_over = false;
  }
  bool is_what_stands_there(const Link::Ended& ended, const Request& request,
                            const Ref<Buffer>& to = {}) const {
    const auto is = [&](const std::byte* at, RemoteRegion::Part part) {
      return std::memcmp(at, region->data() + part.offset, part.size) == 0;
    };
    const std::size_t unplaced = to ? 0 : request.first.size;
    const bool is_summed =
        to ? ended.sum && *ended.sum == crc32c({to->data(), to->size()}) : !ended.sum;
    return is_summed && ended.bytes && ended.bytes->size() == unplaced + request.then.size &&
           is((to ? to : ended.bytes)->data(), request.first) &&
           is(ended.bytes->data() + unplaced, request.then);
  }
  /// What comes goes in as far as there is room for it.
  void give_owner(std::span<const std::byte> bytes) {
    while (!bytes.empty() && !is_over) {
      const std::span<std::byte> room = serving->room();
      REQUIRE(room.size() <= question_frame_most);
      if (room.empty()) return;
      const std::size_t size = std::min(room.size(), bytes.size());
      std::ranges::copy(bytes.first(size), room.begin());
      is_over = !serving->took(size);
      bytes = bytes.subspan(size);
    }
  }
  void give_reader(std::span<const std::byte> bytes) {
    while (!bytes.empty() && !link->is_broken()) {
      Link::Rooms rooms{};
      const std::size_t count = link->rooms(rooms);
      std::size_t filled = 0;
      for (std::size_t i = 0; i < count && filled < bytes.size(); ++i) {
        const std::size_t size = std::min(rooms[i].size(), bytes.size() - filled);
        std::ranges::copy(bytes.subspan(filled, size), rooms[i].begin());
        filled += size;
      }
      link->took(filled);
      bytes = bytes.subspan(filled);
    }
  }
  std::vector<std::byte> said_by_reader() {
    std::vector<std::byte> said;
    for (auto bytes = link->to_send(); !bytes.empty(); bytes = link->to_send()) {
      said.insert(said.end(), bytes.begin(), bytes.end());
      link->sent(bytes.size());
    }
    return said;
  }
  /// `most`: of a call, so that what is sent ends anywhere.
  std::vector<std::byte> said_by_owner(std::size_t most) {
    std::vector<std::byte> said;
    while (!is_over && serving->owes()) {
      Serving::Pieces pieces{};
      const std::size_t count = serving->pieces(pieces);
      REQUIRE(count > 0);
      std::size_t sent = 0;
      for (std::size_t i = 0; i < count && sent < most; ++i) {
        const auto part = pieces[i].first(std::min(pieces[i].size(), most - sent));
        said.insert(said.end(), part.begin(), part.end());
        sent += part.size();
      }
      serving->sent(sent);
    }
    return said;
  }
  /// Until nothing moves.
  void run(std::size_t most = std::size_t{1} << 30U) {
    for (;;) {
      std::vector<std::byte> there = said_by_reader();
      if (on_way_to_owner) on_way_to_owner(there);
      to_owner.insert(to_owner.end(), there.begin(), there.end());
      give_owner(there);
      std::vector<std::byte> back = said_by_owner(most);
      if (on_way_to_reader) on_way_to_reader(back);
      to_reader.insert(to_reader.end(), back.begin(), back.end());
      give_reader(back);
      if (there.empty() && back.empty()) return;
    }
  }
};

constexpr Request page{{65536, 65536}, {region_bytes - 64, 64}};

std::vector<std::byte> frame_of(std::size_t count, const Request& request) {
  std::vector<std::byte> frame;
  append_little_endian(count, 4, frame);
  for (std::size_t i = 0; i < std::min(count, requests_most); ++i) append(request, frame);
  return frame;
}

}  // namespace

TEST_CASE("what is read over a connection is what stands in the region, however it is cut") {
  for (const bool is_encrypted : {false, true})
    for (const std::size_t most : {std::size_t{1} << 30U, std::size_t{65536}, std::size_t{1000}}) {
      Pair pair(is_encrypted);
      SplitMix64 random(most);
      std::vector<Request> asked;
      std::vector<Ref<Buffer>> places;  // every other one has one
      const auto ask = [&] {
        const std::uint64_t number = asked.size() - 1;
        places.push_back(number % 2 == 0 ? Buffer::zeros(asked.back().first.size) : Ref<Buffer>());
        pair.link->ask(number, asked.back(), places.back());
      };
      const auto part = [&]() -> RemoteRegion::Part {
        const std::size_t size = random.next() % 3 == 0 ? random.next() % 200 : 65536;
        return {random.next() % (region_bytes - size), size};
      };
      for (std::uint64_t number = 0; number < 100; ++number) {
        asked.push_back({part(), part()});
        if (asked.back().first.size + asked.back().then.size == 0) asked.back() = page;
        ask();
      }
      asked.push_back({{0, region_bytes}, {0, region_bytes}});  // of several records
      ask();
      CHECK(pair.link->unended().size() == 101);
      pair.run(most);
      CHECK_FALSE(pair.link->is_broken());
      CHECK(pair.link->asked() == 0);
      const std::vector<Link::Ended> ended = pair.link->take_ended();
      REQUIRE(ended.size() == asked.size());
      for (std::size_t i = 0; i < asked.size(); ++i) {
        CHECK(ended[i].number == i);
        CHECK(pair.is_what_stands_there(ended[i], asked[i], places[i]));
        if (places[i]) CHECK(places[i]->references() == 1);  // nothing writes there any more
      }
    }
}

TEST_CASE("nothing of a region crosses an encrypted connection as it stands there") {
  for (const bool is_encrypted : {false, true}) {
    Pair pair(is_encrypted);
    pair.link->ask(1, page);
    pair.run();
    REQUIRE(pair.link->take_ended().size() == 1);
    const std::span<const std::byte> some(pair.region->data() + page.first.offset + 5000, 16);
    CHECK(std::ranges::search(pair.to_reader, some).empty() == is_encrypted);
    std::vector<std::byte> request;
    append(page, request);
    CHECK(std::ranges::search(pair.to_owner, request).empty() == is_encrypted);
    // The same again is other bytes: another connection has other keys.
    const std::vector<std::byte> first = pair.to_reader;
    pair.to_reader.clear();
    pair.connect(2);
    pair.link->ask(1, page);
    pair.run();
    CHECK(std::ranges::equal(std::span(first).last(65536), std::span(pair.to_reader).last(65536)) ==
          !is_encrypted);
  }
}

TEST_CASE("who has another secret is let in by neither side") {
  for (const bool is_encrypted : {false, true}) {
    Pair pair(is_encrypted);
    // A reader that only knows the grant's number is not proven, and believes no owner.
    pair.key.secret[31] ^= 1;
    pair.connect(1);
    pair.link->ask(1, page);
    pair.run();
    CHECK(pair.link->is_broken());
    CHECK_FALSE(pair.serving->is_proven());
    // One that goes on all the same is refused.
    pair.connect(2);
    pair.give_owner(pair.said_by_reader());
    pair.give_owner(std::vector<std::byte>(proof_bytes));
    CHECK(pair.is_over);
    // Nor is one let in that says the owner's own proof.
    pair.connect(3);
    pair.give_owner(pair.said_by_reader());
    const std::vector<std::byte> welcome = pair.said_by_owner(1000);
    REQUIRE(welcome.size() == welcome_bytes);
    pair.give_owner(std::span(welcome).last(proof_bytes));
    CHECK(pair.is_over);
    CHECK_FALSE(pair.serving->is_proven());
  }
}

TEST_CASE("a connection that was heard is of no use a second time") {
  for (const bool is_encrypted : {false, true}) {
    Pair pair(is_encrypted);
    pair.link->ask(1, page);
    pair.run();
    REQUIRE(pair.link->take_ended().size() == 1);
    const std::vector<std::byte> heard = pair.to_owner, answered = pair.to_reader;
    pair.connect(2);
    pair.give_owner(heard);
    CHECK(pair.is_over);
    CHECK_FALSE(pair.serving->is_proven());
    CHECK(pair.said_by_owner(1 << 20).empty());
    // The owner's side of it convinces no other reader.
    pair.give_reader(answered);
    CHECK(pair.link->is_broken());
    CHECK(pair.link->take_ended().empty());
  }
}

TEST_CASE("with any byte changed on the way no other bytes are taken") {
  // To the owner: hello, proof, frame. To the reader: welcome, records.
  const auto change = [](bool to_owner, std::size_t at, bool is_encrypted) {
    Pair pair(is_encrypted);
    std::size_t passed = 0;
    const auto changes = [&](std::vector<std::byte>& bytes) {
      if (at >= passed && at < passed + bytes.size()) bytes[at - passed] ^= std::byte{4};
      passed += bytes.size();
    };
    (to_owner ? pair.on_way_to_owner : pair.on_way_to_reader) = changes;
    pair.link->ask(1, page);
    pair.run();
    const std::vector<Link::Ended> ended = pair.link->take_ended();
    CHECK(passed > at);
    return ended.empty();
  };
  constexpr std::size_t frame = 4 + request_bytes + tag_bytes;
  for (std::size_t at = 0; at < hello_bytes + proof_bytes + frame; ++at) {
    INFO("to the owner, byte " << at);
    CHECK(change(true, at, true));
    if (at < hello_bytes + proof_bytes) CHECK(change(true, at, false));
  }
  for (std::size_t at = 0; at < welcome_bytes; ++at) {
    INFO("to the reader, byte " << at);
    CHECK(change(false, at, true));
    CHECK(change(false, at, false));
  }
  constexpr std::size_t answer = 65536 + 64 + tag_bytes;
  for (std::size_t at = welcome_bytes; at < welcome_bytes + answer; at += 997)
    CHECK(change(false, at, true));
  CHECK(change(false, welcome_bytes + answer - 1, true));
}

TEST_CASE("a record that is left out, repeated or put elsewhere ends the connection") {
  enum class Way : std::uint8_t { left_out, repeated, swapped, cut };
  for (const Way way : {Way::left_out, Way::repeated, Way::swapped, Way::cut}) {
    Pair pair(true);
    pair.run();  // the handshake
    constexpr Request same{{0, 100}, {0, 0}};
    constexpr std::size_t record = 100 + tag_bytes;
    for (std::uint64_t number = 1; number <= 3; ++number) pair.link->ask(number, same);
    pair.on_way_to_reader = [&](std::vector<std::byte>& bytes) {
      if (bytes.size() != 3 * record) return;
      const auto second = bytes.begin() + record;
      if (way == Way::left_out) bytes.erase(second, second + record);
      if (way == Way::repeated) std::copy(bytes.begin(), second, second);
      if (way == Way::swapped) std::swap_ranges(second, second + record, second + record);
      if (way == Way::cut) bytes.resize(2 * record - 1);
    };
    pair.run();
    CHECK(pair.link->take_ended().size() == 1);
    CHECK(pair.link->is_broken() == (way != Way::cut));
    CHECK(pair.link->asked() == 2);
  }
}

TEST_CASE("what a proven reader asks for beyond its region, or without sense, ends it") {
  constexpr std::uint64_t far = ~std::uint64_t{0};
  const Request bad[] = {{{region_bytes, 1}, {0, 1}}, {{0, 1}, {region_bytes - 63, 64}},
                         {{far, 64}, {0, 1}},         {{64, far}, {0, 1}},
                         {{0, region_bytes + 1}, {}}, {{0, 0}, {0, 0}}};
  const auto is_refused = [](std::span<const std::byte> frame) {
    Pair pair(false);
    pair.run();
    REQUIRE(pair.serving->is_proven());
    pair.give_owner(frame);
    const bool is_refused = pair.is_over;
    if (is_refused) return true;
    return pair.said_by_owner(1 << 20).empty();
  };
  for (const Request& request : bad) CHECK(is_refused(frame_of(1, request)));
  for (const std::size_t count : {std::size_t{0}, requests_most + 1, std::size_t{0xffffffff}})
    CHECK(is_refused(frame_of(count, page)));
  // Nor is a frame waited for that is larger than any, where it would be encrypted.
  for (const std::size_t count : {std::size_t{0}, requests_most + 1, std::size_t{0xffffffff}}) {
    Pair pair(true);
    pair.run();
    REQUIRE(pair.serving->is_proven());
    const std::vector<std::byte> frame = frame_of(count, page);
    pair.give_owner(std::span(frame).first(4));
    CHECK(pair.is_over);
  }
  CHECK_FALSE(is_refused(frame_of(1, page)));
  CHECK_FALSE(is_refused(frame_of(requests_most, page)));
}

TEST_CASE("a reader that asks and does not read is given no more room") {
  Pair pair(false);
  pair.run();
  const std::vector<std::byte> frame = frame_of(requests_most, page);
  std::size_t taken = 0;
  while (!pair.serving->room().empty() && taken < 100) {
    pair.give_owner(frame);
    ++taken;
  }
  CHECK(taken == Serving::requests_waiting / requests_most);
  CHECK_FALSE(pair.is_over);
}

TEST_CASE("a stranger is told nothing before its hello is here and fits") {
  Pair pair(false);
  const std::array<std::byte, hello_bytes> hello =
      encode(Hello{pair.key.grant, false, nonce_of(1)});
  pair.give_owner(std::span(hello).first(hello_bytes - 1));
  CHECK_FALSE(pair.serving->owes());
  CHECK_FALSE(pair.is_over);
  const Hello wrong[] = {{pair.key.grant + 1, false, {}}, {pair.key.grant, true, {}}};
  for (const Hello& one : wrong) {
    pair.connect(1);
    pair.give_owner(encode(one));
    CHECK(pair.is_over);
    CHECK_FALSE(pair.serving->owes());
  }
  std::array<std::byte, hello_bytes> other = hello;
  other[0] ^= std::byte{1};
  pair.connect(1);
  pair.give_owner(other);
  CHECK(pair.is_over);
}

TEST_CASE("a region that its owner has let go of is granted to nobody, and answered no more") {
  Pair pair(false);
  pair.run();
  CHECK_FALSE(pair.serving->is_over());
  pair.region->let_go();
  CHECK(pair.serving->is_over());
  CHECK_FALSE(pair.grants.find(pair.key.grant).has_value());
  pair.grants.drop_gone();
  pair.connect(2);
  pair.run();
  CHECK(pair.is_over);
  CHECK_FALSE(pair.link->is_open());
}

TEST_CASE("bytes that nobody has asked for break a connection") {
  for (const bool is_encrypted : {false, true}) {
    Pair pair(is_encrypted);
    pair.run();
    REQUIRE(pair.link->is_open());
    pair.give_reader(std::vector<std::byte>(1));
    CHECK(pair.link->is_broken());
    CHECK(pair.link->room().empty());
    CHECK(pair.link->to_send().empty());
  }
}

TEST_CASE("of so many grants the first go, and no two have a secret in common") {
  Grants grants;
  const std::shared_ptr<Region> region = Region::make(64);
  const Grants::Made first = grants.make(region), second = grants.make(region);
  CHECK(first.secret != second.secret);
  for (std::size_t i = 2; i < Grants::grants_most; ++i) grants.make(region);
  CHECK(grants.find(first.number).has_value());
  grants.make(region);
  CHECK_FALSE(grants.find(first.number).has_value());
  CHECK(grants.find(second.number)->secret == second.secret);
}

namespace {

/// Answers with what was asked, reversed, and so many bytes more.
struct Echo final : RegionGuide {
  std::size_t more = 0, asked = 0;
  bool is_silent = false;
  void answer(std::span<const std::byte> question, std::vector<std::byte>& answer) override {
    ++asked;
    if (is_silent) return;
    answer.insert(answer.end(), question.rbegin(), question.rend());
    answer.resize(answer.size() + more, std::byte{9});
  }
};

std::vector<std::byte> question_of(std::size_t size) {
  SplitMix64 random(size);
  std::vector<std::byte> question(size);
  for (std::byte& byte : question) byte = static_cast<std::byte>(random.next());
  return question;
}

bool is_echo(const Ref<Buffer>& bytes, std::span<const std::byte> question, std::size_t more) {
  return bytes && bytes->size() == question.size() + more &&
         std::equal(question.rbegin(), question.rend(), bytes->data());
}

std::vector<std::byte> question_frame(std::span<const std::byte> question) {
  std::vector<std::byte> frame;
  append_little_endian(question_mark | question.size(), 4, frame);
  frame.insert(frame.end(), question.begin(), question.end());
  return frame;
}

}  // namespace

TEST_CASE("a question is answered between reads, however what is said is cut") {
  for (const bool is_encrypted : {false, true})
    for (const std::size_t most : {std::size_t{1} << 30U, std::size_t{1000}, std::size_t{3}})
      for (const std::size_t more : {std::size_t{0}, std::size_t{1000}, std::size_t{200'000}}) {
        if (most == 3 && more > 1000) continue;
        Pair pair(is_encrypted);
        Echo echo;
        echo.more = more;
        pair.region->guide(&echo);
        CHECK_FALSE(pair.link->rests());
        pair.run(most);
        for (const std::size_t size :
             {std::size_t{1}, std::size_t{2100}, RemoteRegion::question_most, std::size_t{70}}) {
          REQUIRE(pair.link->rests());
          const std::vector<std::byte> question = question_of(size);
          pair.link->ask_owner(7, question);
          CHECK_FALSE(pair.link->rests());
          CHECK(pair.link->unended()[0].is_answer);
          CHECK_FALSE(pair.link->is_read());
          pair.link->ask(8, page);
          CHECK(pair.link->is_read());
          pair.give_owner(pair.said_by_reader());
          CHECK(pair.link->is_read());  // behind the answer
          pair.run(most);
          CHECK_FALSE(pair.link->is_read());
          CHECK_FALSE(pair.link->is_broken());
          CHECK_FALSE(pair.is_over);
          const std::vector<Link::Ended> ended = pair.link->take_ended();
          REQUIRE(ended.size() == 2);
          CHECK((ended[0].is_answer && ended[0].number == 7));
          CHECK(is_echo(ended[0].bytes, question, more));
          CHECK((!ended[1].is_answer && ended[1].number == 8));
          CHECK(pair.is_what_stands_there(ended[1], page));
        }
        CHECK(echo.asked == 4);
      }
}

TEST_CASE("a question that nobody answers ends without an answer, and reads go on") {
  enum class Why : std::uint8_t { nobody, nothing, too_much };
  for (const bool is_encrypted : {false, true})
    for (const Why why : {Why::nobody, Why::nothing, Why::too_much}) {
      Pair pair(is_encrypted);
      Echo echo;
      echo.is_silent = why == Why::nothing;
      echo.more = why == Why::too_much ? RemoteRegion::answer_most : 0;
      pair.region->guide(&echo);
      if (why == Why::nobody) pair.region->guide(nullptr);
      pair.run();
      pair.link->ask_owner(1, question_of(1));
      pair.link->ask(2, page);
      pair.run();
      const std::vector<Link::Ended> ended = pair.link->take_ended();
      REQUIRE(ended.size() == 2);
      CHECK((ended[0].is_answer && !ended[0].bytes));
      CHECK(pair.is_what_stands_there(ended[1], page));
      CHECK(echo.asked == (why == Why::nobody ? 0 : 1));
    }
}

TEST_CASE("a question that cannot be, or comes before the last was answered, ends the connection") {
  const auto is_over = [](std::span<const std::byte> said, bool is_encrypted, bool is_proven) {
    Pair pair(is_encrypted);
    Echo echo;
    pair.region->guide(&echo);
    if (is_proven) pair.run();
    pair.give_owner(said);
    CHECK(echo.asked == (is_proven && !is_encrypted && said.size() > 10 ? 1 : 0));
    return pair.is_over;
  };
  const auto head = [](std::uint64_t first) {
    std::vector<std::byte> bytes;
    append_little_endian(first, 4, bytes);
    return bytes;
  };
  for (const bool is_encrypted : {false, true})
    for (const std::uint64_t size :
         {std::uint64_t{0}, std::uint64_t{RemoteRegion::question_most + 1}, question_mark - 1})
      CHECK(is_over(head(question_mark | size), is_encrypted, true));
  CHECK_FALSE(is_over(head(question_mark | RemoteRegion::question_most), false, true));
  const std::vector<std::byte> frame = question_frame(question_of(100));
  CHECK_FALSE(is_over(frame, false, true));
  std::vector<std::byte> twice = frame;
  twice.insert(twice.end(), frame.begin(), frame.end());
  CHECK(is_over(twice, false, true));  // so a flood of them costs one answer
  CHECK(is_over(frame, false, false));
  CHECK(is_over(std::vector<std::byte>(frame.size() + tag_bytes), true, true));
}

TEST_CASE("with any byte of a question or its answer changed nothing is taken of it") {
  const auto ended_of = [](bool to_owner, std::size_t at, std::size_t& asked) {
    Pair pair(true);
    Echo echo;
    pair.region->guide(&echo);
    pair.run();
    std::size_t passed = 0;
    (to_owner ? pair.on_way_to_owner : pair.on_way_to_reader) = [&](auto& bytes) {
      if (at >= passed && at < passed + bytes.size()) bytes[at - passed] ^= std::byte{4};
      passed += bytes.size();
    };
    pair.link->ask_owner(1, question_of(64));
    pair.run();
    CHECK(passed > at);
    asked = echo.asked;
    return pair.link->take_ended().size();
  };
  std::size_t asked = 0;
  for (std::size_t at = 0; at < 4 + 64 + tag_bytes; ++at) {
    INFO("to the owner, byte " << at);
    CHECK(ended_of(true, at, asked) == 0);
    CHECK(asked == 0);
  }
  for (std::size_t at = 0; at < length_bytes + 64 + 2 * tag_bytes; ++at) {
    INFO("to the reader, byte " << at);
    CHECK(ended_of(false, at, asked) == 0);
    CHECK(asked == 1);
  }
}

TEST_CASE("sealed requests are no question, nor is a question requests") {
  // As many bytes, with the other mark in front.
  for (const bool asks : {false, true}) {
    Pair pair(true);
    Echo echo;
    pair.region->guide(&echo);
    pair.run();
    pair.on_way_to_owner = [&](std::vector<std::byte>& bytes) {
      if (bytes.empty()) return;
      std::vector<std::byte> first;
      append_little_endian(asks ? 1 : question_mark | request_bytes, 4, first);
      std::ranges::copy(first, bytes.begin());
    };
    std::vector<std::byte> request;
    append(page, request);
    asks ? pair.link->ask_owner(1, request) : pair.link->ask(1, page);
    pair.run();
    CHECK(pair.is_over);
    CHECK(echo.asked == 0);
    CHECK(pair.link->take_ended().empty());
  }
}

TEST_CASE("an owner that says of its answer what cannot be is believed nothing") {
  Pair pair(false);
  pair.run();
  pair.link->ask_owner(1, question_of(10));
  pair.said_by_reader();
  std::vector<std::byte> length;
  append_little_endian(RemoteRegion::answer_most + 1, 4, length);
  pair.give_reader(length);
  CHECK(pair.link->is_broken());
  CHECK(pair.link->take_ended().empty());
  REQUIRE(pair.link->unended().size() == 1);
  CHECK(pair.link->unended()[0].is_answer);
}
