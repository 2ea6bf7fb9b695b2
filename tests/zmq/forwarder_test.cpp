// Streams forwarded over real sockets to a server that the test plays by hand: ends, refusals, slow
// and hostile sides. Each ends in a bounded time, with a reason that names the machine.
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <catch2/catch.hpp>
#include <filesystem>
#include <mutex>
#include <optional>
#include <zmq.hpp>

#include "runtime/zmq/forwarded_streams.h"
#include "runtime/zmq/stream_desk.h"
#include "runtime/zmq/stream_forwarder.h"
#include "tests/zmq/machines.h"
#include "tests/zmq/played_server.h"

namespace sluice::testing::forwarding {

using namespace std::chrono_literals;
using links::StreamData;
using links::StreamEnd;
using links::StreamEnding;
using links::StreamFrame;
using links::StreamHello;

namespace {

const std::string forwards = "machine 'talk', which forwards to it";
constexpr auto patience = 10s;

template <typename Condition>
bool soon(const Condition& condition) {
  const auto deadline = std::chrono::steady_clock::now() + patience;
  while (!condition()) {
    if (std::chrono::steady_clock::now() > deadline) return false;
    ::poll(nullptr, 0, 2);
  }
  return true;
}

std::size_t open_descriptors() {
  return static_cast<std::size_t>(std::distance(
      std::filesystem::directory_iterator("/proc/self/fd"), std::filesystem::directory_iterator()));
}

/// Machine 1, 'talk', forwards; 2 and 3, 'eyes' and 'paint', may come in.
struct Setting {
  explicit Setting(bool with_keys = true) {
    for (Keys& one : keys)
      if (with_keys) one = *make_keys();
    address = "tcp://127.0.0.1:" + std::to_string(free_port());
  }
  StreamForwarderOptions options() {
    StreamForwarderOptions made;
    made.self = 1;
    made.name = "talk";
    made.bind = address;
    made.peers = {{2, "", keys[1].public_key, "eyes"}, {3, "", keys[2].public_key, "paint"}};
    made.keys = keys[0];
    made.silence = silence;
    made.connect = [path = path] { return connect_to(path); };
    made.notice = [this](const LinkNotice& notice) {
      const std::lock_guard lock(mutex);
      notices.push_back(notice.text);
    };
    return made;
  }
  std::unique_ptr<StreamForwarder> forward() {
    auto made = StreamForwarder::create(options());
    if (!made.ok()) FAIL(made.error().message);
    return std::move(made).value();
  }
  ForwardedStreamsOptions caller(std::uint32_t machine = 2) {
    ForwardedStreamsOptions made;
    made.self = machine;
    made.keys = keys[machine - 1];
    made.forwarder = {1, address, keys[0].public_key, "talk"};
    made.silence = silence;
    return made;
  }
  std::unique_ptr<ForwardedStreams> streams(std::uint32_t machine = 2) {
    auto made = ForwardedStreams::create(caller(machine));
    if (!made.ok()) FAIL(made.error().message);
    return std::move(made).value();
  }
  bool noticed(const std::string& part) {
    return soon([&] {
      const std::lock_guard lock(mutex);
      for (const std::string& one : notices)
        if (one.find(part) != std::string::npos) return true;
      return false;
    });
  }

  std::chrono::milliseconds silence = 1000ms;  // how long who is not heard keeps a stream
  ScratchFolder folder;
  std::string path = folder.path() + "/server";
  std::array<Keys, 3> keys;
  std::string address;
  std::mutex mutex;
  std::vector<std::string> notices;
};

/// One that this side dials, once it is open, and the server's side of it.
struct Open {
  Open(ForwardedStreams& streams, const Server& server)
      : stream(*streams.open()), near(stream.socket), far(server.accept()) {
    REQUIRE(soon([&] { return stream.why() == "it does not answer " + forwards; }));
  }
  ForwardedStream stream;
  End near, far;
};

/// Why a stream ends that never opens.
std::string why_not(ForwardedStreams& streams) {
  const Result<ForwardedStream> stream = streams.open();
  REQUIRE(stream.ok());
  const End end(stream->socket);
  REQUIRE(end.ends());
  return stream->why();
}

/// A socket that says what the test makes it say.
class Stranger {
 public:
  Stranger(const Keys& keys, const std::string& server, const std::string& address)
      : socket_(context_, zmq::socket_type::dealer) {
    socket_.set(zmq::sockopt::linger, 0);
    socket_.set(zmq::sockopt::rcvtimeo, 10'000);
    socket_.set(zmq::sockopt::reconnect_ivl, 24 * 3600 * 1000);
    if (!keys.secret_key.empty()) {
      socket_.set(zmq::sockopt::curve_publickey, keys.public_key);
      socket_.set(zmq::sockopt::curve_secretkey, keys.secret_key);
      socket_.set(zmq::sockopt::curve_serverkey, server);
    }
    socket_.connect(address);
  }
  void say(const StreamFrame& frame, bool more = false) {
    const wire::Bytes bytes = links::write_stream_frame(frame);
    socket_.send(zmq::const_buffer(bytes.data(), bytes.size()),
                 more ? zmq::send_flags::sndmore : zmq::send_flags::none);
  }
  void say(const std::string& bytes) { socket_.send(zmq::buffer(bytes)); }
  /// The next that is neither a beat nor a grant. Nothing: none comes within the time.
  std::optional<StreamFrame> hear(int within_ms = 10'000) {
    socket_.set(zmq::sockopt::rcvtimeo, within_ms);
    for (;;) {
      zmq::message_t piece;
      if (!socket_.recv(piece)) return std::nullopt;
      const auto frame =
          links::read_stream_frame({static_cast<std::byte*>(piece.data()), piece.size()});
      REQUIRE(frame.ok());
      if (!std::holds_alternative<links::StreamBeat>(*frame) &&
          !std::holds_alternative<links::StreamGrant>(*frame))
        return *frame;
    }
  }
  bool is_welcome() {
    const auto frame = hear();
    return frame && std::holds_alternative<links::StreamWelcome>(*frame);
  }
  /// The reason's number and text.
  std::string refused() {
    const auto frame = hear();
    const auto* const end = frame ? std::get_if<StreamEnd>(&*frame) : nullptr;
    if (end == nullptr) return "none";
    return std::to_string(static_cast<int>(end->why)) + " " + end->text;
  }

 private:
  zmq::context_t context_;
  zmq::socket_t socket_;
};

}  // namespace

TEST_CASE("bytes go both ways to a server that only the forwarding machine reaches") {
  for (const bool with_keys : {true, false}) {
    Setting setting(with_keys);
    const Server server(setting.path);
    const auto forwarder = setting.forward();
    const auto eyes = setting.streams(2), paint = setting.streams(3);
    const Open one(*eyes, server), other(*paint, server);
    one.near.write("PING");
    CHECK(one.far.read(4) == "PING");
    other.near.write("other");
    CHECK(other.far.read(5) == "other");
    one.far.write("PONG");
    CHECK(one.near.read(4) == "PONG");
    CHECK(forwarder->streams() == 2);
    CHECK(one.stream.why() == "it does not answer " + forwards);
    const std::string large(1'000'000, 'y');
    std::string got;
    for (std::size_t at = 0; at < large.size(); at += 50'000) {
      one.far.write(large.substr(at, 50'000));
      got += one.near.read(50'000);
    }
    CHECK((got == large));
  }
}

TEST_CASE(
    "whoever ends a stream ends it for the other, behind what was sent, and nothing is left") {
  Setting setting;
  const Server server(setting.path);
  const auto forwarder = setting.forward();
  const auto streams = setting.streams();
  { const Open first(*streams, server); }
  REQUIRE(soon([&] { return forwarder->streams() == 0; }));
  const std::size_t before = open_descriptors();
  for (int i = 0; i < 20; ++i) {
    {
      Open one(*streams, server);
      one.near.write("last words");
      if (i % 2 == 0)
        one.near.close();
      else
        one.near.shut();  // half an end is one
      CHECK(one.far.read(10) == "last words");
      CHECK(one.far.ends());
    }
    {
      Open one(*streams, server);
      one.far.write("last words");
      if (i % 2 == 0)
        one.far.close();
      else
        one.far.shut();
      CHECK(one.near.read(10) == "last words");
      CHECK(one.near.ends());
      CHECK(one.stream.why() == "it closed its connection to " + forwards);
    }
  }
  CHECK(soon([&] { return forwarder->streams() == 0 && open_descriptors() <= before; }));
}

TEST_CASE("a server that is away is named, and is found again when it is there") {
  Setting setting;
  const auto forwarder = setting.forward();
  const auto streams = setting.streams();
  CHECK(why_not(*streams) ==
        forwards + ", says that it cannot be reached: No such file or directory");
  const Server server(setting.path);
  const Open one(*streams, server);
  one.near.write("PING");
  CHECK(one.far.read(4) == "PING");
}

TEST_CASE("a forwarder that ends, is away, or starts again, is named") {
  Setting setting;
  const Server server(setting.path);
  auto forwarder = setting.forward();
  const auto streams = setting.streams();
  const Open one(*streams, server);
  one.near.write("PING");
  CHECK(one.far.read(4) == "PING");
  forwarder.reset();
  CHECK(one.near.ends());
  CHECK(one.stream.why() == forwards + ", ends");
  CHECK(one.far.ends());
  CHECK(why_not(*streams) ==
        forwards + " at " + setting.address + ": nobody answers at its address");
  forwarder = setting.forward();
  const Open again(*streams, server);
  again.near.write("PING");
  CHECK(again.far.read(4) == "PING");
}

TEST_CASE("where somebody else listens and says nothing, a stream ends after its silence") {
  Setting setting;
  const int listener = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in at{};
  at.sin_family = AF_INET;
  at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  at.sin_port = htons(static_cast<std::uint16_t>(
      std::stoi(setting.address.substr(setting.address.rfind(':') + 1))));
  REQUIRE(::bind(listener, reinterpret_cast<sockaddr*>(&at), sizeof at) == 0);
  REQUIRE(::listen(listener, 8) == 0);
  const auto streams = setting.streams();
  const Result<ForwardedStream> stream = streams->open();
  REQUIRE(stream.ok());
  const End end(stream->socket);
  CHECK(stream->why() == forwards + " at " + setting.address + ", has not answered");
  CHECK(end.ends());
  const std::string why = stream->why();
  INFO(why);
  // The library's handshake and ours take equally long to be given up.
  CHECK((why == "nothing was heard of " + forwards + " for 1000 ms" ||
         why.starts_with(forwards + " at " + setting.address + ": ")));
  ::close(listener);
}

TEST_CASE(
    "keys: a stranger's, another machine's, and a forwarder with another than the one meant") {
  Setting setting;
  const Server server(setting.path);
  const auto forwarder = setting.forward();
  const std::string there = forwards + " at " + setting.address + ": ";
  ForwardedStreamsOptions options = setting.caller();
  SECTION("a stranger's") {
    options.keys = *make_keys();
    const auto streams = ForwardedStreams::create(options);
    CHECK(why_not(**streams) == there + "it does not know this machine's key (status 400)");
    CHECK(setting.noticed("was refused: its key is nobody's"));
  }
  SECTION("another machine's") {
    options.keys = setting.keys[2];
    const auto streams = ForwardedStreams::create(options);
    CHECK(why_not(**streams) ==
          forwards + ", knows this machine by another key: its key is that of machine 'paint'");
    CHECK(setting.noticed("machine 'paint' is not forwarded to the registry: its key is that of"));
  }
  SECTION("the forwarder's") {
    options.forwarder.public_key = make_keys()->public_key;
    const auto streams = ForwardedStreams::create(options);
    const std::string why = why_not(**streams);
    INFO(why);
    CHECK((why.starts_with(there + "no handshake could be made") ||
           why.starts_with("nothing was heard of ") || why == there + "the connection broke"));
  }
  SECTION("none") {
    Stranger stranger({}, "", setting.address);
    stranger.say(StreamHello{2});
    CHECK_FALSE(stranger.hear(300));
  }
  CHECK(forwarder->streams() == 0);
  const auto good = setting.streams();
  const Open one(*good, server);
  one.near.write("PING");
  CHECK(one.far.read(4) == "PING");
}

TEST_CASE("a side that reads nothing stops its own stream, with little kept, and no other") {
  Setting setting;
  const Server server(setting.path);
  const auto forwarder = setting.forward();
  const auto streams = setting.streams();
  const Open slow(*streams, server), other(*streams, server);
  const bool is_server = GENERATE(true, false);
  const End& full = is_server ? slow.far : slow.near;
  const End& empty = is_server ? slow.near : slow.far;
  const std::size_t kept = full.write_until_full();
  CHECK(kept > links::stream_window_bytes);
  // Two windows, and four buffers of the kernel, whose sizes are its own.
  CHECK(kept < (std::size_t{4} << 20U));
  other.near.write("PING");
  CHECK(other.far.read(4) == "PING");
  CHECK(forwarder->streams() == 2);
  CHECK((empty.read(kept) == std::string(kept, 'x')));
  full.write("more");
  CHECK(empty.read(4) == "more");
}

TEST_CASE("nonsense, messages of many pieces and too many bytes end one stream by name") {
  Setting setting;
  setting.silence = 60s;
  const Server server(setting.path);
  const auto forwarder = setting.forward();
  const auto streams = setting.streams(3);
  const Open good(*streams, server);
  const auto stranger = [&] {
    return std::make_unique<Stranger>(setting.keys[1], setting.keys[0].public_key, setting.address);
  };
  const auto opened = [&] {
    auto one = stranger();
    one->say(StreamHello{2});
    REQUIRE(one->is_welcome());
    return std::pair(std::move(one), server.accept());
  };
  {
    const auto one = stranger();
    one->say("\x07");
    CHECK(one->refused() == "1 a frame of kind 7, which is none");
    one->say(StreamData{"PING"});
    CHECK(one->refused() == "9 no handshake on this connection");
    one->say(StreamHello{2}, true);
    one->say("more");
    CHECK(one->refused() == "1 a frame of several pieces");
    one->say(links::StreamOtherVersion{2});
    CHECK(one->refused() == "2 format 2 is asked for, 1 is here");
    one->say(StreamHello{9});
    CHECK(one->refused() == "3 machine 9 is not one of the others here");
    one->say(StreamEnd{});
    CHECK_FALSE(one->hear(200));
  }
  {
    const auto [one, far] = opened();
    one->say("\x07");
    CHECK(one->refused() == "1 a frame of kind 7, which is none");
    CHECK(far.ends());
    CHECK(setting.noticed("machine 'eyes' is not forwarded to the registry any more: a frame of"));
  }
  {
    const auto [one, far] = opened();
    const std::string part(links::stream_data_bytes_max, 'x');
    // The server reads nothing: what its socket does not take is over the window at once.
    for (int i = 0; i < 200; ++i) one->say(StreamData{part});
    CHECK(one->refused() == "1 more than 65536 bytes at once");
    const std::string taken = far.read(part.size());
    CHECK((taken == part));
  }
  {
    const auto [one, far] = opened();
    one->say(std::string(1'000'000, 'x'));  // larger than any: the library ends the connection
    CHECK(far.ends());
  }
  good.near.write("PING");
  CHECK(good.far.read(4) == "PING");
  CHECK(soon([&] { return forwarder->streams() == 1; }));
}

TEST_CASE("who opens a stream and is not heard any more loses it") {
  Setting setting;
  const Server server(setting.path);
  const auto forwarder = setting.forward();
  Stranger silent(setting.keys[1], setting.keys[0].public_key, setting.address);
  silent.say(StreamHello{2});
  REQUIRE(silent.is_welcome());
  CHECK(server.accept().ends());
  CHECK(silent.refused() == "8 ");
  CHECK(soon([&] { return forwarder->streams() == 0; }));
}

TEST_CASE("behind a pause whoever has said something meanwhile is heard, however many they are") {
  Setting setting(false);
  setting.silence = 3s;  // or a busy computer alone makes them silent
  const Server server(setting.path);
  StreamForwarderOptions options = setting.options();
  constexpr std::uint32_t machines = 5;
  options.peers.clear();
  for (std::uint32_t machine = 2; machine < 2 + machines; ++machine)
    options.peers.push_back({machine, "", "", "m" + std::to_string(machine)});
  std::mutex pause;  // of the forwarder's thread, as it connects
  std::atomic<std::size_t> connects{0};
  options.connect = [&, path = setting.path] {
    ++connects;
    const std::lock_guard lock(pause);
    return connect_to(path);
  };
  const auto forwarder = std::move(StreamForwarder::create(std::move(options))).value();
  std::vector<End> ends;
  std::vector<std::unique_ptr<Stranger>> strangers;
  const auto say_to_all = [&] {
    for (const auto& one : strangers) one->say(links::StreamBeat{});
  };
  for (std::uint32_t i = 0; i < machines * links::streams_of_machine_max - 1; ++i) {
    strangers.push_back(std::make_unique<Stranger>(Keys{}, "", setting.address));
    strangers.back()->say(StreamHello{2 + i % machines});
    REQUIRE(strangers.back()->is_welcome());
    ends.push_back(server.accept());
    say_to_all();
  }
  Stranger last(Keys{}, "", setting.address);
  {
    const std::lock_guard lock(pause);
    last.say(StreamHello{1 + machines});
    REQUIRE(soon([&] { return connects == strangers.size() + 1; }));
    say_to_all();
    const auto over = std::chrono::steady_clock::now() + setting.silence + 200ms;
    CHECK(soon([&] { return std::chrono::steady_clock::now() > over; }));
  }
  CHECK(last.is_welcome());
  const End far = server.accept();
  last.say(StreamData{"PING"});
  CHECK(far.read(4) == "PING");
  CHECK(forwarder->streams() == strangers.size() + 1);
}

TEST_CASE("each machine has so many streams, and another has its own") {
  Setting setting;
  setting.silence = 60s;
  const Server server(setting.path);
  const auto forwarder = setting.forward();
  std::vector<End> ends;
  std::vector<std::unique_ptr<Stranger>> strangers;
  const auto open = [&](std::uint32_t machine) -> Stranger& {
    strangers.push_back(std::make_unique<Stranger>(setting.keys[machine - 1],
                                                   setting.keys[0].public_key, setting.address));
    strangers.back()->say(StreamHello{machine});
    return *strangers.back();
  };
  for (unsigned i = 0; i < links::streams_of_machine_max; ++i) {
    REQUIRE(open(2).is_welcome());
    ends.push_back(server.accept());
  }
  CHECK(open(2).refused() == "5 it has 16 connections, as many as are forwarded");
  CHECK(open(3).is_welcome());
  CHECK(forwarder->streams() == links::streams_of_machine_max + 1);
}

TEST_CASE("a process has so many streams, and its end is the end of all") {
  Setting setting;
  const Server server(setting.path);
  const auto forwarder = setting.forward();
  auto streams = setting.streams();
  std::vector<std::unique_ptr<Open>> all;
  for (int i = 0; i < 16; ++i) all.push_back(std::make_unique<Open>(*streams, server));
  const Result<ForwardedStream> more = streams->open();
  REQUIRE_FALSE(more.ok());
  CHECK(more.error().code == ErrorCode::exhausted);
  CHECK(more.error().message == "this machine has 16 connections through " + forwards);
  streams.reset();
  for (const auto& one : all) {
    CHECK(one->near.ends());
    CHECK(one->stream.why() == "this process ends");
    CHECK(one->far.ends());
  }
  CHECK(soon([&] { return forwarder->streams() == 0; }));
}

TEST_CASE("where others could reach it, nothing is forwarded without keys, nor everywhere") {
  const auto error_of = [](bool with_keys, const std::string& address) {
    Setting setting(with_keys);
    StreamForwarderOptions options = setting.options();
    options.bind = address;
    const auto made = StreamForwarder::create(std::move(options));
    return made.ok() ? "" : made.error().message;
  };
  CHECK(error_of(false, "tcp://10.0.0.5:7404").find("so keys are needed: `sluice keys`") !=
        std::string::npos);
  CHECK(error_of(true, "tcp://0.0.0.0:7404").find("every interface") != std::string::npos);
  CHECK(error_of(true, "tcp://*:7404").find("every interface") != std::string::npos);
  CHECK(error_of(true, "tcp://[::]:7404").find("every interface") != std::string::npos);
  CHECK(error_of(true, "ipc:///tmp/x").find("are forwarded at tcp://IP:PORT") != std::string::npos);
  Setting setting;
  const auto forwarder = setting.forward();
  const auto second = StreamForwarder::create(setting.options());
  REQUIRE_FALSE(second.ok());
  CHECK(second.error().code == ErrorCode::unavailable);
  CHECK(second.error().message == "address '" + setting.address +
                                      "', where the registry is forwarded, cannot be bound: "
                                      "Address already in use");
  ForwardedStreamsOptions far = setting.caller();
  far.keys = {};
  far.forwarder.public_key.clear();
  far.forwarder.address = "tcp://10.0.0.5:7404";
  const auto unkeyed = ForwardedStreams::create(std::move(far));
  REQUIRE_FALSE(unkeyed.ok());
  CHECK(unkeyed.error().message.find("so keys are needed") != std::string::npos);
}

}  // namespace sluice::testing::forwarding
