// The link's decisions, without sockets: cuts, deaths and refusals at every point of a story.
#include <catch2/catch.hpp>

#include "runtime/zmq/door.h"
#include "tests/zmq/pair.h"

using namespace sluice;
using namespace sluice::testing;
using namespace std::chrono_literals;

namespace {

const std::string long_text(links::far_body_bytes_max + 40'000, 'l');  // two parts
using Texts = std::vector<std::string>;

Texts texts(const Said& said, Origin from) {
  Texts found;
  for (const auto& [life, text] : said.received)
    if (life == from) found.push_back(text);
  return found;
}

bool is_prefix(const Texts& part, const Texts& whole) {
  return part.size() <= whole.size() && std::equal(part.begin(), part.end(), whole.begin());
}

/// Both send small and long messages; after each step a parcel is carried. `interrupt(step)` is
/// called before each step. Returns how many steps there are.
template <typename Interrupt>
std::size_t story(Pair& pair, Interrupt interrupt, std::uint32_t life_of_1 = 1) {
  std::size_t step = 0;
  const auto carry = [&] {
    interrupt(step++);
    pair.carry();
  };
  pair.start();
  for (int i = 0; i < 3; ++i) carry();
  for (int i = 0; i < 6; ++i) {
    pair.send(2, life_of_1, std::to_string(i));
    if (i % 2 == 0) pair.send(2, life_of_1, long_text + std::to_string(i));
    pair.flush(2);
    carry();
    pair.send(1, 1, "b" + std::to_string(i));
    if (i == 3) pair.send(1, 1, long_text);
    pair.flush(1);
    carry();
  }
  for (int i = 0; i < 24; ++i) carry();
  return step;
}

Texts sent_by_2() {
  Texts all;
  for (int i = 0; i < 6; ++i) {
    all.push_back(std::to_string(i));
    if (i % 2 == 0) all.push_back(long_text + std::to_string(i));
  }
  return all;
}

Texts sent_by_1() {
  Texts all;
  for (int i = 0; i < 6; ++i) {
    all.push_back("b" + std::to_string(i));
    if (i == 3) all.push_back(long_text);
  }
  return all;
}

void check_all_arrived(Pair& pair) {
  CHECK(texts(pair.said(1), {2, 1}) == sent_by_2());
  CHECK(texts(pair.said(2), {1, 1}) == sent_by_1());
  CHECK(pair.said(1).connected == std::vector<Origin>{{2, 1}});
  CHECK(pair.said(2).connected == std::vector<Origin>{{1, 1}});
  CHECK(pair.said(1).silent.empty());
  CHECK(pair.said(2).silent.empty());
  CHECK(pair.peer(1).drained());
  CHECK(pair.peer(2).drained());
}

}  // namespace

TEST_CASE("an undisturbed link carries all of it, acknowledges it and stays") {
  Pair pair;
  story(pair, [](std::size_t) {});
  pair.advance(1min);
  check_all_arrived(pair);
  CHECK(pair.carried < 500);  // heartbeats: ten ways a lease
}

TEST_CASE("a link that is cut at any two points repeats what was lost, and nothing twice") {
  Pair plain;
  const std::size_t steps = story(plain, [](std::size_t) {});
  REQUIRE(steps > 30);
  for (std::size_t first = 0; first < steps; ++first)
    for (std::size_t second = first; second < steps; ++second) {
      CAPTURE(first, second);
      Pair pair;
      story(pair, [&](std::size_t step) {
        if (step == first || step == second) {
          pair.cut();
          pair.advance(second % 2 == 0 ? 0ms : 20ms);
        }
      });
      pair.advance(2s);
      check_all_arrived(pair);
    }
}

TEST_CASE(
    "a link that freezes at any point is silent on both sides, once, and goes on when it heals") {
  Pair plain;
  const std::size_t steps = story(plain, [](std::size_t) {});
  for (std::size_t frozen = 3; frozen < steps; ++frozen) {
    CAPTURE(frozen);
    Pair pair;
    story(pair, [&](std::size_t step) {
      if (step == frozen) pair.freeze();
    });
    pair.advance(20s);
    for (const unsigned machine : {1U, 2U}) {
      REQUIRE(pair.said(machine).silent.size() == 1);
      CHECK(pair.said(machine).silent[0].first == Origin{3 - machine, 1});
      CHECK(pair.said(machine).silent[0].second.find("for 3000 ms") != std::string::npos);
      CHECK(pair.said(machine).connected.size() == 1);
    }
    pair.heal();
    pair.advance(5s);
    CHECK(texts(pair.said(1), {2, 1}) == sent_by_2());
    CHECK(texts(pair.said(2), {1, 1}) == sent_by_1());
    CHECK(pair.said(1).connected.size() == 2);
    CHECK(pair.said(2).connected.size() == 2);
  }
}

TEST_CASE("a machine that restarts at any point gets nothing that was meant for its earlier life") {
  Pair plain;
  const std::size_t steps = story(plain, [](std::size_t) {});
  for (std::size_t dead = 0; dead < steps; ++dead)
    for (const unsigned who : {1U, 2U}) {
      CAPTURE(dead, who);
      Pair pair;
      Texts before;
      const unsigned other = 3 - who;
      story(pair, [&](std::size_t step) {
        if (step != dead) return;
        before = texts(pair.said(who), {other, 1});
        pair.restart(who, 2);
      });
      pair.advance(1s);
      CHECK(is_prefix(before, who == 1 ? sent_by_2() : sent_by_1()));
      CHECK(pair.said(other).connected.back() == Origin{who, 2});
      // What the other says to the first life, even now, goes nowhere.
      CHECK(texts(pair.said(who), {other, 1}).empty());
      pair.send(other, 1, "too late");
      pair.send(other, 2, "welcome");
      pair.flush(other);
      pair.send(who, 1, "again");
      pair.flush(who);
      pair.advance(1s);
      CHECK(texts(pair.said(who), {other, 1}) == Texts{"welcome"});
      const Texts second = texts(pair.said(other), {who, 2});
      REQUIRE(!second.empty());
      CHECK(second.back() == "again");
      CHECK(is_prefix(texts(pair.said(other), {who, 1}), who == 1 ? sent_by_1() : sent_by_2()));
    }
}

TEST_CASE("a life that is refused at any point is told so once, and is heard no more") {
  Pair plain;
  const std::size_t steps = story(plain, [](std::size_t) {});
  for (std::size_t at = 0; at < steps; ++at)
    for (const unsigned by : {1U, 2U}) {
      CAPTURE(at, by);
      Pair pair;
      std::size_t heard = 0;
      const unsigned other = 3 - by;
      story(pair, [&](std::size_t step) {
        if (step != at) return;
        pair.refuse(by, 1);
        heard = pair.said(by).received.size();
      });
      pair.advance(10s);
      CHECK(pair.said(by).received.size() == heard);
      CHECK(pair.said(other).refused == std::vector<Origin>{{by, 1}});
      CHECK(pair.said(by).silent.empty());
      CHECK(pair.peer(by).drained());
      CHECK(pair.peer(other).drained());
      // Its next life is met like any other.
      pair.restart(other, 2);
      pair.advance(2s);
      CHECK(pair.said(by).connected.back() == Origin{other, 2});
      pair.send(by, 2, "hello");
      pair.flush(by);
      pair.advance(1s);
      CHECK(texts(pair.said(other), {by, 1}) == Texts{"hello"});
    }
}

TEST_CASE("a full window ends the link on both sides, and a later life begins another") {
  const unsigned sender = GENERATE(1U, 2U);
  Pair pair(1 << 20);
  pair.start();
  pair.advance(100ms);
  pair.freeze();
  int sent = 0;
  while (pair.said(sender).silent.empty() && sent < 100) {
    pair.send(sender, 1, std::string(100'000, 'x'));
    ++sent;
  }
  CHECK(sent == 11);
  REQUIRE(pair.said(sender).silent.size() == 1);
  CHECK(pair.said(sender).silent[0].second.find("window of 1048576 bytes") != std::string::npos);
  CHECK(pair.peer(sender).owed() == 0);
  pair.send(sender, 1, "dropped");
  pair.heal();
  pair.advance(10s);
  const unsigned other = 3 - sender;
  REQUIRE(pair.said(other).silent.size() == 1);
  CHECK(pair.said(other).silent[0].second.find("ended the link") != std::string::npos);
  CHECK(pair.said(sender).silent.size() == 1);
  CHECK(pair.said(sender).connected.size() == 1);  // not again, with this life
  pair.restart(other, 2);
  pair.advance(2s);
  pair.send(sender, 2, "new");
  pair.flush(sender);
  pair.advance(1s);
  CHECK(texts(pair.said(other), {sender, 1}) == Texts{"new"});
}

TEST_CASE("a machine that comes back in the same life without its memory is found out") {
  const unsigned who = GENERATE(1U, 2U);
  Pair pair;
  story(pair, [](std::size_t) {});
  pair.advance(1s);
  pair.restart(who, 1);
  pair.advance(2s);
  const unsigned other = 3 - who;
  CHECK(pair.said(other).silent.size() + pair.said(who).silent.size() >= 1);
  CHECK(pair.said(who).received.empty());
  CHECK(pair.said(who).connected.empty());
  CHECK(pair.said(other).connected.size() == 1);
}

TEST_CASE("an earlier life that dials after a later one is told that it is over") {
  Pair pair;
  pair.start();
  pair.advance(100ms);
  pair.restart(2, 5);
  pair.advance(100ms);
  REQUIRE(pair.said(1).connected.back() == Origin{2, 5});
  pair.restart(2, 4);
  pair.advance(2s);
  CHECK(pair.said(2).refused == std::vector<Origin>{{1, 1}});
  CHECK(pair.peer(2).state({}).refused_up_to == 4);
  CHECK(pair.said(1).connected.back() == Origin{2, 5});
}

TEST_CASE("a machine that is sent to but never comes is silent after a lease") {
  Pair pair;
  pair.freeze();
  pair.start();
  pair.send(1, 3, "are you there");
  pair.advance(2900ms);
  CHECK(pair.said(1).silent.empty());
  pair.advance(200ms);
  REQUIRE(pair.said(1).silent.size() == 1);
  CHECK(pair.said(1).silent[0].first == Origin{2, 3});
  // An earlier life is not what was meant; that one gets what was kept.
  pair.heal();
  pair.advance(2s);
  CHECK(pair.said(1).connected.empty());
  CHECK(pair.said(2).refused.size() == 1);
  pair.restart(2, 3);
  pair.advance(2s);
  CHECK(texts(pair.said(2), {1, 1}) == Texts{"are you there"});
}

TEST_CASE("each wrong parcel ends the link by name, on both sides") {
  struct Case {
    std::string name;
    links::Head head;
    std::string body;
    std::string why;
  };
  const std::string message("\0\1x", 3);
  const auto part = [](std::uint64_t number, std::uint64_t total, std::uint64_t at) {
    return links::Part{number, 0, Channel::message, total, at};
  };
  const Case wrong = GENERATE_COPY(values<Case>({
      {"a gap", links::Batch{3, 0}, message, "parcel 3 came after parcel 0"},
      {"an acknowledgement of nothing", links::Heartbeat{7}, "", "were not sent"},
      {"the same beside messages", links::Batch{1, 9}, message, "were not sent"},
      {"an empty batch", links::Batch{1, 0}, "", "the channel"},
      {"an unknown channel", links::Batch{1, 0}, std::string("\2\1x", 3), "unknown channel"},
      {"a message longer than its batch", links::Batch{1, 0}, std::string("\0\5x", 3), "more than"},
      {"a batch longer than allowed", links::Batch{1, 0},
       std::string(links::body_bytes_max + 1, '\0'), std::to_string(links::body_bytes_max)},
      {"a part of nothing", part(1, 10, 0), "", "without bytes"},
      {"a part beyond its message", part(1, 2, 0), "xyz", "of a message of 2"},
      {"a part that begins in the middle", part(1, 30, 10), "xyz", "does not follow"},
      {"a body behind a heartbeat", links::Heartbeat{0}, "x", "heartbeat's body"},
      {"a second hello", links::Hello{}, "", "hello"},
      {"a welcome amid", links::Welcome{}, "", "answers nothing"},
      {"a readiness amid", links::Ready{1, 1, 0}, "", "answers nothing"},
  }));
  const unsigned to = GENERATE(1U, 2U);
  CAPTURE(wrong.name, to);
  Pair pair;
  pair.start();
  pair.advance(100ms);
  REQUIRE(pair.said(to).connected.size() == 1);
  pair.inject(to, wrong.head, wrong.body);
  pair.advance(100ms);
  REQUIRE(pair.said(to).silent.size() == 1);
  CHECK(pair.said(to).silent[0].second.find(wrong.why) != std::string::npos);
  CHECK(pair.said(to).received.empty());
  REQUIRE(pair.said(3 - to).silent.size() == 1);
  pair.advance(20s);
  CHECK(pair.said(to).connected.size() == 1);
  CHECK(pair.said(to).silent.size() == 1);
}

TEST_CASE("a head that cannot be read ends the link") {
  Pair pair;
  pair.start();
  pair.advance(100ms);
  pair.inject_nonsense(1);
  REQUIRE(pair.said(1).silent.size() == 1);
  CHECK(pair.said(1).silent[0].second.find("unknown kind") != std::string::npos);
}

TEST_CASE("parts of a message come one after the other") {
  Pair pair;
  pair.start();
  pair.advance(100ms);
  pair.inject(1, links::Part{1, 0, Channel::message, 6, 0}, "abc");
  SECTION("of one message") { pair.inject(1, links::Part{2, 0, Channel::message, 7, 3}, "def"); }
  SECTION("on one channel") { pair.inject(1, links::Part{2, 0, Channel::control, 6, 3}, "def"); }
  SECTION("without a hole") { pair.inject(1, links::Part{2, 0, Channel::message, 6, 4}, "ef"); }
  SECTION("without another message amid") {
    pair.inject(1, links::Batch{2, 0}, std::string("\0\1x", 3));
  }
  CHECK(pair.said(1).silent.size() == 1);
  CHECK(pair.said(1).received.empty());
}

TEST_CASE(
    "a message that fits goes in one parcel, and is handed on in the memory that it came in") {
  for (const std::size_t size : {links::far_body_bytes_max, links::far_body_bytes_max + 1}) {
    Pair pair;
    pair.start();
    pair.advance(100ms);
    const std::size_t before = pair.carried;
    pair.send(2, 1, std::string(size, 'x'));
    pair.flush(2);
    while (pair.carry()) continue;
    REQUIRE(pair.said(1).received.size() == 1);
    CHECK(pair.carried - before == (size == links::far_body_bytes_max ? 1 : 2));
    CHECK(pair.peer(2).owed() != 0);  // nobody has said yet that it was taken
    if (size != links::far_body_bytes_max) continue;
    for (int i = 0; i < 3; ++i) pair.send(2, 1, std::string(size, 'x'));
    pair.flush(2);
    while (pair.carry()) continue;
    CHECK(pair.peer(2).owed() == 0);  // of 4 MiB it is said at once
  }
  links::Peer peer({{1, 1}, 2, false, 3s, 1 << 20, {}, "", 1});
  links::Effects effects;
  peer.start(1h, effects);
  links::Hello hello;
  hello.from = {2, 1};
  hello.to = 1;
  hello.lease_ms = 3000;
  peer.heard(7, hello, {}, 1h, effects);
  const Result<links::Head> head = links::read_head(std::get<links::Transmit>(effects.back()).head);
  peer.heard(7, links::Ready{std::get<links::Welcome>(*head).hello.nonce, 0, 0}, {}, 1h, effects);
  effects.clear();
  const Ref<Buffer> came = Buffer::zeros(20'000);
  peer.heard(7, links::Part{1, 0, Channel::message, came->size(), 0}, MessageBytes(came), 1h,
             effects);
  REQUIRE(effects.size() == 1);
  CHECK(std::get<links::Deliver>(effects[0]).bytes.view().data() == came->data());
}

TEST_CASE("what was taken before may come again amid a message's parts") {
  Pair pair;
  pair.start();
  pair.advance(100ms);
  pair.inject(1, links::Batch{1, 0}, std::string("\0\1x", 3));
  pair.inject(1, links::Part{2, 0, Channel::message, 6, 0}, "abc");
  pair.inject(1, links::Batch{1, 0}, std::string("\0\1x", 3));
  pair.inject(1, links::Part{2, 0, Channel::message, 6, 0}, "abc");
  pair.inject(1, links::Part{3, 0, Channel::message, 6, 3}, "def");
  CHECK(texts(pair.said(1), {2, 1}) == Texts{"x", "abcdef"});
  CHECK(pair.said(1).silent.empty());
}

TEST_CASE("no more is given to a connection than a bound, however much waits") {
  Pair pair(std::size_t{128} << 20U);
  pair.start();
  pair.advance(100ms);
  pair.most_on_the_way = 0;
  for (int i = 0; i < 60; ++i) pair.send(2, 1, std::string(1 << 20, 'x'));
  pair.flush(2);
  CHECK(pair.most_on_the_way <= 9);  // 8 MiB in parcels of 1 MiB, and one
  for (int i = 0; i < 40'000; ++i) {
    pair.send(1, 1, "small");
    pair.flush(1);
  }
  CHECK(pair.most_on_the_way <= 9 + 128);
  pair.advance(1s);
  CHECK(pair.said(1).received.size() == 60);
  CHECK(pair.said(2).received.size() == 40'000);
}

TEST_CASE("a hello that differs is refused by name, and the other side says so too") {
  struct Case {
    std::string name;
    void (*change)(links::PeerSettings&);
    std::string shown;
  };
  const Case differs = GENERATE(values<Case>({
      {"cluster", [](links::PeerSettings& s) { s.cluster = "other\n"; }, "cluster"},
      {"workflow", [](links::PeerSettings& s) { s.workflow[0] = std::byte{1}; }, "workflow"},
      {"lease", [](links::PeerSettings& s) { s.lease = 2s; }, "lease"},
      {"this machine", [](links::PeerSettings& s) { s.self.machine = 7; }, "wrong machine"},
      {"the machine that is meant", [](links::PeerSettings& s) { s.machine = 9; }, "wrong machine"},
  }));
  CAPTURE(differs.name);
  links::PeerSettings here{{1, 1}, 2, false, 3s, 1 << 20, {}, "c", 1};
  links::PeerSettings there{{2, 1}, 1, true, 3s, 1 << 20, {}, "c", 2};
  differs.change(there);
  links::Peer first(here), second(there);
  links::Effects effects, answer, end;
  second.start(1h, effects);
  REQUIRE(effects.size() == 2);
  const auto head_of = [](const links::Effects& from) {
    for (const links::Effect& effect : from)
      if (const auto* transmit = std::get_if<links::Transmit>(&effect))
        return *links::read_head(transmit->head);
    return links::Head{links::Heartbeat{}};
  };
  first.heard(5, head_of(effects), {}, 1h, answer);
  REQUIRE(std::holds_alternative<links::Refusal>(head_of(answer)));
  CHECK(std::string(to_string(std::get<links::Refusal>(head_of(answer)).reason)) == differs.shown);
  CHECK(std::holds_alternative<links::HangUp>(answer.back()));
  second.heard(1, head_of(answer), {}, 1h, end);
  REQUIRE(std::holds_alternative<LinkNotice>(end[0]));
  CHECK(std::get<LinkNotice>(end[0]).text.find(differs.shown) != std::string::npos);
}

TEST_CASE("machines whose names are known are named, on either side of a link") {
  links::PeerSettings here{{1, 1}, 2, false, 3s, 1 << 20, {}, "c", 1, "front", "eyes"};
  const auto said = [&](const links::Hello& hello) { return links::judge(hello, here)->text; };
  links::Hello hello;
  hello.from = {2, 1};
  hello.to = 1;
  hello.cluster = "c";
  hello.lease_ms = 3000;
  hello.workflow[0] = std::byte{1};
  CHECK(said(hello) ==
        "its cluster file, workflows, plugins or --set are not those of machine 'front': it has "
        "digest 01000000..., 00000000... is here");
  hello.to = 7;
  CHECK(said(hello) == "it wants machine 7, this is machine 'front'");
  hello = {};
  hello.from = {9, 1};
  hello.to = 1;
  CHECK(said(hello) == "it is machine 9, machine 'eyes' was meant");

  links::Door door({1, 1}, true);
  door.expect(2, "eyes");
  door.expect(3, "paint");
  hello.from = {2, 1};
  const links::Verdict verdict = door.judge(links::Head(hello), 3);
  CHECK(std::get<links::Refusal>(verdict).text ==
        "it says that it is machine 'eyes', its key is that of machine 'paint'");

  // Whoever falls silent is named in what a call's failure says.
  links::Peer peer(here);
  links::Effects effects;
  peer.start(1h, effects);
  peer.send({2, 5}, Channel::message, {}, 1h, effects);
  peer.tick(1h + 3s, effects);
  REQUIRE(std::holds_alternative<links::SaySilent>(effects.back()));
  CHECK(std::get<links::SaySilent>(effects.back()).why ==
        "nothing was heard of machine 'eyes' (life 5) for 3000 ms");
}
