// Both ends of a forwarded stream without sockets: every frame is carried or held back by the test.
#include <catch2/catch.hpp>
#include <deque>
#include <random>

#include "runtime/zmq/stream_desk.h"
#include "runtime/zmq/stream_half.h"

namespace sluice::links {

namespace {

using namespace std::chrono_literals;
using Instant = StreamHalf::Instant;
using Phase = StreamHalf::Phase;

constexpr Instant silence = 3s;

std::string carried(const StreamFrame& frame) {
  const wire::Bytes bytes = write_stream_frame(frame);
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

Result<StreamFrame> read(const std::string& bytes) {
  return read_stream_frame(std::as_bytes(std::span(bytes)));
}

std::string error_of(const std::string& bytes) {
  const Result<StreamFrame> frame = read(bytes);
  return frame.ok() ? "" : frame.error().message;
}

/// Who dials and who serves, as bytes between them.
struct Joined {
  Instant now = 1h;
  StreamHalf dials = StreamHalf::dial(7, silence, now);
  StreamHalf serves = StreamHalf::serve(silence, now);
  std::deque<std::string> to_serves, to_dials;
  bool greeted = false;

  void speak() {
    for (const StreamFrame& frame : dials.take_frames()) to_serves.push_back(carried(frame));
    for (const StreamFrame& frame : serves.take_frames()) to_dials.push_back(carried(frame));
  }
  bool carry_to_serves() {
    speak();
    if (to_serves.empty()) return false;
    const Result<StreamFrame> frame = read(to_serves.front());
    to_serves.pop_front();
    REQUIRE(frame.ok());
    if (std::exchange(greeted, true)) {
      serves.heard(frame, now);
    } else {
      const auto* const hello = std::get_if<StreamHello>(&*frame);
      REQUIRE(hello != nullptr);
      CHECK(hello->machine == 7);
    }
    return true;
  }
  bool carry_to_dials() {
    speak();
    if (to_dials.empty()) return false;
    const Result<StreamFrame> frame = read(to_dials.front());
    to_dials.pop_front();
    REQUIRE(frame.ok());
    dials.heard(frame, now);
    return true;
  }
  void carry_all() {
    while (carry_to_serves() || carry_to_dials()) continue;
  }
  void open() {
    serves.connected(now);
    carry_all();
    REQUIRE(dials.phase() == Phase::open);
    REQUIRE(serves.phase() == Phase::open);
  }
  /// To whoever is due first, as long as it is before then.
  void pass(Instant until) {
    for (;;) {
      const Instant due = std::min(dials.due(), serves.due());
      if (due > until) break;
      now = std::max(now, due);
      dials.tick(now);
      serves.tick(now);
      carry_all();
    }
    now = until;
  }
};

/// Takes all that waits for the local socket.
std::string drained(StreamHalf& half, Instant now) {
  std::string all(half.to_write());
  half.written(all.size(), now);
  return all;
}

StreamEnding why(const StreamHalf& half) {
  REQUIRE(half.fate());
  return half.fate()->end.why;
}

}  // namespace

TEST_CASE("frames of a stream are read as they were written, and what is none is named") {
  CHECK(std::get<StreamHello>(*read(carried(StreamHello{4'000'000'000}))).machine == 4'000'000'000);
  CHECK(std::get<StreamOtherVersion>(*read(carried(StreamOtherVersion{9}) + "more")).version == 9);
  CHECK(std::get<StreamData>(*read(carried(StreamData{std::string("a\0b", 3)}))).bytes ==
        std::string("a\0b", 3));
  CHECK(std::get<StreamGrant>(*read(carried(StreamGrant{65536}))).bytes == 65536);
  CHECK(std::holds_alternative<StreamBeat>(*read(carried(StreamBeat{}))));
  CHECK(std::holds_alternative<StreamWelcome>(*read(carried(StreamWelcome{}))));
  const Result<StreamFrame> end = read(carried(StreamEnd{StreamEnding::leaving, "a\x1b[2Jb"}));
  CHECK(std::get<StreamEnd>(*end).why == StreamEnding::leaving);
  CHECK(std::get<StreamEnd>(*end).text == "a?[2Jb");
  const Result<StreamFrame> longest =
      read(carried(StreamEnd{StreamEnding::closed, std::string(1000, 'x')}));
  CHECK(std::get<StreamEnd>(*longest).text == std::string(stream_text_bytes_max, 'x'));

  CHECK(error_of("") == "an empty frame");
  CHECK(error_of(std::string(1, '\0')) == "a frame of kind 0, which is none");
  CHECK(error_of("\x07") == "a frame of kind 7, which is none");
  CHECK(error_of("\x01slfx\x01") == "a hello that is none of a forwarded stream");
  CHECK(error_of("\x01slfw") == "a hello that is none of a forwarded stream");
  CHECK(error_of(carried(StreamHello{1}) + "x") == "a hello of another size");
  CHECK(error_of("\x02x") == "a welcome with bytes behind it");
  CHECK(error_of("\x03") == "data without bytes");
  CHECK(error_of("\x03" + std::string(stream_data_bytes_max, 'x')).empty());
  CHECK(error_of("\x03" + std::string(stream_data_bytes_max + 1, 'x')) ==
        "a frame of 16386 bytes, at most 16385 are allowed");
  CHECK(error_of("\x04xyz") == "a grant of nothing");
  CHECK(error_of(std::string("\x04\0\0\0\0", 5)) == "a grant of nothing");
  CHECK(error_of("\x05x") == "a beat with bytes behind it");
  CHECK(error_of("\x06") == "an end of another size");
  CHECK(error_of("\x06\x0b") == "an end for reason 11, which is none");
  CHECK(error_of(std::string("\x06\0", 2)) == "an end for reason 0, which is none");
  CHECK(error_of("\x06\x01" + std::string(stream_text_bytes_max + 1, 'x')) ==
        "an end of another size");
}

TEST_CASE("any bytes are a frame or an error, and a frame is written as it was read") {
  std::mt19937 random(7);
  for (int i = 0; i < 20'000; ++i) {
    std::string bytes(random() % 12, '\0');
    for (char& one : bytes) one = static_cast<char>(random());
    if (!bytes.empty() && i % 2 == 0) bytes[0] = static_cast<char>(random() % 8);
    const Result<StreamFrame> frame = read(bytes);
    if (!frame.ok()) continue;
    if (std::holds_alternative<StreamOtherVersion>(*frame)) continue;
    if (std::holds_alternative<StreamEnd>(*frame)) {
      CHECK(carried(*frame).size() == bytes.size());
      continue;
    }
    CHECK(carried(*frame) == bytes);
  }
}

TEST_CASE("a stream opens when the server is connected, and carries bytes both ways in order") {
  Joined both;
  both.carry_all();
  CHECK(both.dials.phase() == Phase::opening);
  CHECK(both.dials.may_read() == 0);
  CHECK(both.serves.may_read() == 0);
  both.open();
  both.dials.read("PI", both.now);
  both.dials.read("NG", both.now);
  both.serves.read("PONG", both.now);
  both.carry_all();
  CHECK(drained(both.serves, both.now) == "PING");
  CHECK(drained(both.dials, both.now) == "PONG");
  CHECK_FALSE(both.dials.fate());
  CHECK_FALSE(both.serves.fate());
}

TEST_CASE("a socket that takes nothing stops what feeds it, within the window, and not the rest") {
  Joined both;
  both.open();
  std::size_t sent = 0;
  while (both.serves.may_read() != 0) {
    const std::string part(both.serves.may_read(), 'x');
    both.serves.read(part, both.now);
    sent += part.size();
    both.carry_all();
  }
  CHECK(sent <= stream_window_bytes);
  CHECK(sent + 5 * stream_frame_cost >= stream_window_bytes);
  CHECK(both.dials.to_write().size() == sent);
  // The other way goes on.
  both.dials.read("PING", both.now);
  both.carry_all();
  CHECK(drained(both.serves, both.now) == "PING");
  // What is taken makes room, some at a time.
  both.dials.written(stream_window_bytes / 2, both.now);
  both.carry_all();
  CHECK(both.serves.may_read() == stream_data_bytes_max);
  CHECK_FALSE(both.serves.fate());
}

TEST_CASE("frames of one byte are bounded by the window too") {
  Joined both;
  both.open();
  std::size_t frames = 0;
  while (both.serves.may_read() != 0) {
    both.serves.read("x", both.now);
    both.speak();
    ++frames;
  }
  CHECK(frames <= stream_window_bytes / stream_frame_cost);
  both.carry_all();
  drained(both.dials, both.now);
  both.carry_all();
  CHECK(both.serves.may_read() != 0);
}

TEST_CASE("any split of bytes arrives whole, and neither side holds more than a window") {
  std::mt19937 random(11);
  for (int round = 0; round < 50; ++round) {
    Joined both;
    both.open();
    std::string sent, got;
    while (sent.size() < 400'000) {
      if (const std::size_t room = both.dials.may_read(); room != 0) {
        std::string part(1 + random() % room, '\0');
        for (char& one : part) one = static_cast<char>(random());
        both.dials.read(part, both.now);
        sent += part;
      }
      for (unsigned i = random() % 4; i > 0; --i) both.carry_to_serves();
      for (unsigned i = random() % 4; i > 0; --i) both.carry_to_dials();
      REQUIRE(both.serves.to_write().size() <= stream_window_bytes);
      const std::size_t waits = both.serves.to_write().size();
      const std::size_t takes = waits == 0 ? 0 : random() % (waits + 1);
      got += both.serves.to_write().substr(0, takes);
      both.serves.written(takes, both.now);
    }
    both.carry_all();
    got += drained(both.serves, both.now);
    REQUIRE((got == sent));
    REQUIRE_FALSE(both.serves.fate());
    REQUIRE_FALSE(both.dials.fate());
  }
}

TEST_CASE("the end of either socket ends both, behind what was sent before it") {
  SECTION("the server's") {
    Joined both;
    both.open();
    both.serves.read("BYE", both.now);
    both.serves.closed(StreamEnding::closed, "", both.now);
    CHECK(both.serves.is_over());
    both.carry_all();
    CHECK(both.dials.phase() == Phase::ending);
    CHECK(drained(both.dials, both.now) == "BYE");
    CHECK(both.dials.is_over());
    CHECK(why(both.dials) == StreamEnding::closed);
    CHECK_FALSE(both.dials.fate()->said_here);
  }
  SECTION("the caller's") {
    Joined both;
    both.open();
    both.dials.read("DEL name", both.now);
    both.dials.closed(StreamEnding::closed, "", both.now);
    both.carry_all();
    CHECK(both.serves.phase() == Phase::ending);
    CHECK(drained(both.serves, both.now) == "DEL name");
    CHECK(both.serves.is_over());
  }
  SECTION("and what nobody takes is not kept for ever") {
    Joined both;
    both.open();
    both.serves.read("BYE", both.now);
    both.serves.closed(StreamEnding::closed, "", both.now);
    both.carry_all();
    const Instant ended = both.now;
    CHECK(both.dials.due() == ended + silence);
    both.dials.tick(ended + silence - 1ns);
    CHECK_FALSE(both.dials.is_over());
    both.dials.tick(ended + silence);
    CHECK(both.dials.is_over());
  }
}

TEST_CASE("ends that idle stay, and a side that is not heard any more is gone after its silence") {
  Joined both;
  both.open();
  both.pass(both.now + 1h);
  CHECK(both.dials.phase() == Phase::open);
  CHECK(both.serves.phase() == Phase::open);
  const Instant cut = both.now;
  for (StreamHalf* half : {&both.dials, &both.serves})
    while (!half->fate()) {
      const Instant due = half->due();
      REQUIRE(due <= cut + silence);
      half->tick(due);
      half->take_frames();
    }
  CHECK(why(both.dials) == StreamEnding::silent);
  CHECK(both.dials.fate()->said_here);
  CHECK(both.serves.is_over());
}

TEST_CASE("a server that takes no connection is given up, though the other machine is heard") {
  StreamHalf serves = StreamHalf::serve(silence, 0s), dials = StreamHalf::dial(1, silence, 0s);
  for (Instant now{}; now < silence; now = std::min(serves.due(), dials.due())) {
    for (StreamHalf* half : {&serves, &dials}) {
      CHECK_FALSE(half->fate());
      half->heard(StreamFrame(StreamBeat{}), now);
      half->tick(now);
      half->take_frames();
    }
  }
  serves.tick(silence);
  dials.tick(silence);
  CHECK(why(serves) == StreamEnding::unreachable);
  CHECK(serves.fate()->end.text == "it takes no connection");
  CHECK(why(dials) == StreamEnding::silent);
}

TEST_CASE("who dials gives up where nobody answers, and hears why it is refused") {
  StreamHalf dials = StreamHalf::dial(1, silence, 0s);
  dials.tick(silence);
  CHECK(why(dials) == StreamEnding::silent);
  StreamHalf refused = StreamHalf::dial(1, silence, 0s);
  refused.heard(StreamFrame(StreamEnd{StreamEnding::unreachable, "it is not there"}), 1s);
  CHECK(refused.is_over());
  CHECK(why(refused) == StreamEnding::unreachable);
  CHECK(refused.fate()->end.text == "it is not there");
  CHECK_FALSE(refused.fate()->said_here);
}

TEST_CASE("a frame where none may come ends the stream, and is said to whoever sent it") {
  const auto ends = [](bool is_open, const StreamFrame& frame) {
    StreamHalf serves = StreamHalf::serve(silence, 0s);
    if (is_open) serves.connected(0s);
    serves.take_frames();
    serves.heard(frame, 0s);
    if (!serves.fate()) return std::string();
    CHECK(why(serves) == StreamEnding::malformed);
    CHECK(serves.is_over());
    const auto said = serves.take_frames();
    REQUIRE(said.size() == 1);
    return std::get<StreamEnd>(said[0]).text;
  };
  CHECK(ends(true, StreamHello{7}) == "a hello where none may come");
  CHECK(ends(true, StreamWelcome{}) == "a welcome where none may come");
  CHECK(ends(false, StreamData{"x"}) == "data where none may come");
  CHECK(ends(false, StreamGrant{1}) == "a grant where none may come");
  CHECK(ends(true, StreamGrant{1}) == "a grant where none may come");
  CHECK(ends(true, StreamData{"x"}).empty());
  CHECK(ends(true, StreamData{std::string(stream_window_bytes, 'x')}) ==
        "more than 65536 bytes at once");
  StreamHalf nonsense = StreamHalf::serve(silence, 0s);
  nonsense.heard(read("\x07"), 0s);
  CHECK(why(nonsense) == StreamEnding::malformed);
  StreamHalf dials = StreamHalf::dial(7, silence, 0s);
  dials.heard(StreamFrame(StreamWelcome{}), 0s);
  dials.heard(StreamFrame(StreamWelcome{}), 0s);
  CHECK(why(dials) == StreamEnding::malformed);
}

TEST_CASE("what comes behind an end says nothing more") {
  Joined both;
  both.open();
  both.dials.lost(StreamEnding::closed, "the connection broke", both.now);
  CHECK(both.dials.is_over());
  CHECK(both.dials.take_frames().empty());
  both.dials.heard(StreamFrame(StreamEnd{StreamEnding::leaving, ""}), both.now);
  both.dials.closed(StreamEnding::closed, "", both.now);
  CHECK(both.dials.fate()->end.text == "the connection broke");
  CHECK(both.dials.take_frames().empty());
}

TEST_CASE("only machines of the cluster open streams, each with its key, and each so many") {
  StreamDesk desk(true);
  desk.expect(1, "eyes");
  desk.expect(2, "paint");
  const auto verdict = [&](const Result<StreamFrame>& frame, std::optional<std::uint32_t> proved) {
    const auto judged = desk.judge(frame, proved);
    if (const auto* const entered = std::get_if<StreamDesk::Enter>(&judged))
      return "enter " + std::to_string(entered->machine);
    if (const auto* const end = std::get_if<StreamEnd>(&judged))
      return std::to_string(static_cast<int>(end->why)) + " " + end->text;
    return std::string("ignore");
  };
  const Result<StreamFrame> hello = StreamFrame(StreamHello{1});
  CHECK(verdict(hello, 2) == "4 its key is that of machine 'paint'");
  CHECK(verdict(hello, std::nullopt) == "4 its key is nobody's");
  CHECK(verdict(StreamFrame(StreamHello{9}), 2) == "3 machine 9 is not one of the others here");
  CHECK(verdict(StreamFrame(StreamOtherVersion{2}), 1) == "2 format 2 is asked for, 1 is here");
  CHECK(verdict(StreamFrame(StreamBeat{}), 1) == "9 no handshake on this connection");
  CHECK(verdict(StreamFrame(StreamEnd{}), 1) == "ignore");
  CHECK(verdict(read("\x07"), 1) == "1 a frame of kind 7, which is none");
  for (unsigned i = 0; i < streams_of_machine_max; ++i) CHECK(verdict(hello, 1) == "enter 1");
  CHECK(verdict(hello, 1) == "5 it has 16 connections, as many as are forwarded");
  CHECK(verdict(StreamFrame(StreamHello{2}), 2) == "enter 2");
  desk.left(1);
  CHECK(verdict(hello, 1) == "enter 1");
  StreamDesk open(false);
  open.expect(1, "eyes");
  CHECK(std::holds_alternative<StreamDesk::Enter>(open.judge(hello, std::nullopt)));
}

}  // namespace sluice::links
