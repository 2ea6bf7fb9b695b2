// Peers with ill intent: each is refused by name where it can be told, costs little memory, and the
// good machines go on.
#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <fstream>
#include <optional>
#include <zmq.hpp>

#include "runtime/zmq/parcel.h"
#include "tests/zmq/machines.h"

using namespace sluice;
using namespace sluice::testing;
using namespace std::chrono_literals;
using links::Head;
using links::Hello;
using links::Reason;
using wire::Bytes;

namespace {

std::size_t resident_bytes() {
  std::ifstream file("/proc/self/statm");
  std::size_t all = 0, resident = 0;
  file >> all >> resident;
  return resident * static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
}

#if defined(__SANITIZE_ADDRESS__) || \
    defined(__SANITIZE_THREAD__)  // what is freed stays resident for a while
constexpr std::size_t growth_max = std::size_t{1} << 30U;
#else
constexpr std::size_t growth_max = std::size_t{64} << 20U;
#endif

/// Somebody with a socket of the right kind, who says what the test makes it say.
class Stranger {
 public:
  explicit Stranger(zmq::socket_type type = zmq::socket_type::dealer) : socket_(context_, type) {
    socket_.set(zmq::sockopt::linger, 0);
    socket_.set(zmq::sockopt::rcvtimeo, 5000);
    socket_.set(zmq::sockopt::reconnect_ivl, 24 * 3600 * 1000);
    if (type == zmq::socket_type::sub) socket_.set(zmq::sockopt::subscribe, "");
  }
  void use(const Keys& keys, const std::string& server) {
    socket_.set(zmq::sockopt::curve_publickey, keys.public_key);
    socket_.set(zmq::sockopt::curve_secretkey, keys.secret_key);
    socket_.set(zmq::sockopt::curve_serverkey, server);
  }
  void connect(const std::string& address) { socket_.connect(address); }
  void say(const Bytes& head, bool more = false) {
    socket_.send(zmq::const_buffer(head.data(), head.size()),
                 more ? zmq::send_flags::sndmore : zmq::send_flags::none);
  }
  void say(const Head& head, const std::string& body = "") {
    say(links::write_head(head), !body.empty());
    if (!body.empty()) socket_.send(zmq::buffer(body));
  }
  /// Whether it is told anything `within` this time.
  std::optional<Head> hear(int within_ms = 5000) {
    socket_.set(zmq::sockopt::rcvtimeo, within_ms);
    zmq::message_t piece;
    if (!socket_.recv(piece)) return std::nullopt;
    const auto head = links::read_head({static_cast<std::byte*>(piece.data()), piece.size()});
    while (piece.more()) static_cast<void>(socket_.recv(piece));
    REQUIRE(head.ok());
    return *head;
  }
  std::optional<Reason> refused(int within_ms = 5000) {
    const std::optional<Head> head = hear(within_ms);
    if (!head) return std::nullopt;
    const links::Refusal* no = std::get_if<links::Refusal>(&*head);
    return no != nullptr ? std::optional(no->reason) : std::nullopt;
  }

 private:
  zmq::context_t context_;
  zmq::socket_t socket_;
};

/// Machines 1 and 2 are good and connected; the place of machine 3 is free for somebody else.
struct Scene {
  ScratchFolder directory;
  Cluster cluster;
  explicit Scene(Way way, std::chrono::milliseconds lease = 3s)
      : cluster(make_cluster(3, way, directory)) {
    for (ZmqOptions& options : cluster.options) options.lease = lease;
    cluster.begin(1);
    cluster.begin(2);
    REQUIRE(cluster.at(1).ear->wait_connected(2));
    REQUIRE(cluster.at(2).ear->wait_connected(1));
  }
  ~Scene() { good_machines_go_on(); }
  const std::string& address() { return cluster.options[0].bind; }
  Hello hello() const {
    Hello made;
    made.from = {3, 1};
    made.to = 1;
    made.lease_ms = static_cast<std::uint64_t>(cluster.options[0].lease.count());
    made.cluster = "test";
    made.nonce = 5;
    return made;
  }
  void good_machines_go_on() {
    Ear& ear = *cluster.at(2).ear;
    const std::size_t before = ear.received_.size();
    cluster.at(1).transport->send({2, 1}, Channel::message, bytes_of("still here"));
    CHECK(ear.wait_received(before + 1));
    CHECK(ear.silent_.empty());
    CHECK(ear.connected_.size() == 1);
  }
  /// A stranger that is machine 3 as far as anybody can tell.
  void shake_hands(Stranger& stranger, std::uint32_t incarnation = 1) {
    Hello mine = hello();
    mine.from.incarnation = incarnation;
    stranger.say(mine);
    const std::optional<Head> answer = stranger.hear();
    REQUIRE(answer);
    const links::Welcome* welcome = std::get_if<links::Welcome>(&*answer);
    REQUIRE(welcome != nullptr);
    stranger.say(links::Ready{welcome->hello.nonce, 1, 0});
    REQUIRE(cluster.at(1).ear->wait([&](const Ear& ear) {
      return std::ranges::find(ear.connected_, Origin{3, incarnation}) != ear.connected_.end();
    }));
  }
};

Bytes cut(Bytes bytes, std::size_t size) {
  bytes.resize(size);
  return bytes;
}

Bytes changed(Bytes bytes, std::size_t at, int to) {
  bytes[at] = static_cast<std::byte>(to);
  return bytes;
}

Bytes longer(Bytes bytes) {
  bytes.push_back(std::byte{0});
  return bytes;
}

}  // namespace

TEST_CASE("who says the wrong thing first is refused by name") {
  struct Case {
    std::string name;
    std::function<Bytes(Hello)> make;
    Reason reason;
  };
  const auto hello_with = [](void (*change)(Hello&)) {
    return [change](Hello hello) {
      change(hello);
      return links::write_head(hello);
    };
  };
  const auto just = [](Head head) {
    return [head](const Hello&) { return links::write_head(head); };
  };
  const Case wrong = GENERATE_COPY(values<Case>({
      {"nothing", [](const Hello&) { return Bytes{}; }, Reason::malformed},
      {"a byte", [](const Hello&) { return Bytes{std::byte{200}}; }, Reason::malformed},
      {"many bytes", [](const Hello&) { return Bytes(900, std::byte{7}); }, Reason::malformed},
      {"too many", [](const Hello&) { return Bytes(2000, std::byte{1}); }, Reason::malformed},
      {"no magic", [](const Hello& h) { return changed(links::write_head(h), 1, 'X'); },
       Reason::malformed},
      {"half a hello", [](const Hello& h) { return cut(links::write_head(h), 30); },
       Reason::malformed},
      {"more than a hello", [](const Hello& h) { return longer(links::write_head(h)); },
       Reason::malformed},
      {"a name that is longer than the rest",
       [](const Hello& h) { return changed(links::write_head(h), 43, 120); }, Reason::malformed},
      {"a longer name than allowed", hello_with([](Hello& h) { h.cluster.assign(500, 'x'); }),
       Reason::malformed},
      {"incarnation 0", hello_with([](Hello& h) { h.from.incarnation = 0; }), Reason::malformed},
      {"parcels of no life", hello_with([](Hello& h) { h.applied = 4; }), Reason::malformed},
      {"a refusal whose reason is none",
       [](const Hello&) {
         return changed(links::write_head(links::Refusal{Reason::key, {3, 1}, 0, ""}), 1, 12);
       },
       Reason::malformed},
      {"a lease of years", hello_with([](Hello& h) { h.lease_ms = 1ULL << 40U; }),
       Reason::malformed},
      {"a later format", just(links::OtherVersion{links::format_version + 1}), Reason::version},
      {"an earlier format", just(links::OtherVersion{links::format_version - 1}), Reason::version},
      {"another cluster", hello_with([](Hello& h) { h.cluster = "theirs"; }), Reason::cluster},
      {"another workflow", hello_with([](Hello& h) { h.workflow[31] = std::byte{1}; }),
       Reason::workflow},
      {"another lease", hello_with([](Hello& h) { h.lease_ms = 60; }), Reason::lease},
      {"for another machine", hello_with([](Hello& h) { h.to = 2; }), Reason::wrong_machine},
      {"nobody we know", hello_with([](Hello& h) { h.from.machine = 77; }), Reason::unknown},
      {"ourselves", hello_with([](Hello& h) { h.from.machine = 1; }), Reason::unknown},
      {"messages", just(links::Batch{1, 0}), Reason::not_connected},
      {"a part", just(links::Part{1, 0, Channel::message, 1 << 20, 0}), Reason::not_connected},
      {"a heartbeat", just(links::Heartbeat{0}), Reason::not_connected},
      {"a readiness", just(links::Ready{1, 1, 0}), Reason::not_connected},
      {"a welcome", just(links::Welcome{}), Reason::not_connected},
  }));
  CAPTURE(wrong.name);
  Scene scene(Way::ipc);
  Stranger stranger;
  stranger.connect(scene.address());
  stranger.say(wrong.make(scene.hello()));
  CHECK(stranger.refused() == wrong.reason);
  // Nothing is remembered against the machine whose name was used.
  Stranger proper;
  proper.connect(scene.address());
  scene.shake_hands(proper);
}

TEST_CASE("a hello cut at any length is refused") {
  Scene scene(Way::tcp);
  const Bytes whole = links::write_head(scene.hello());
  Stranger stranger;
  stranger.connect(scene.address());
  for (std::size_t size = 0; size < whole.size(); ++size) {
    CAPTURE(size);
    stranger.say(cut(whole, size));
    CHECK(stranger.refused() == Reason::malformed);
  }
}

TEST_CASE("a refusal from a stranger is not answered") {
  Scene scene(Way::ipc);
  Stranger stranger;
  stranger.connect(scene.address());
  stranger.say(links::Refusal{Reason::over, {2, 1}, 9, "go away"});
  stranger.say(links::Heartbeat{0});
  CHECK(stranger.refused() == Reason::not_connected);
  CHECK(scene.cluster.at(1).ear->refused_.empty());
}

TEST_CASE("an earlier life is told that it is over, and a handshake said again leads to nothing") {
  Scene scene(Way::ipc);
  Stranger fifth;
  fifth.connect(scene.address());
  scene.shake_hands(fifth, 5);
  Stranger fourth;
  fourth.connect(scene.address());
  Hello hello = scene.hello();
  hello.from.incarnation = 4;
  fourth.say(hello);
  CHECK(fourth.refused() == Reason::over);
  // The words of the fifth life's handshake, on another connection: the nonce has changed.
  Stranger again;
  again.connect(scene.address());
  hello.from.incarnation = 5;
  again.say(hello);
  REQUIRE(again.hear());
  again.say(links::Ready{5, 1, 0});
  CHECK(again.refused() == Reason::malformed);
  CHECK(scene.cluster.at(1).ear->connected_.size() == 2);  // machine 2, and the fifth life
}

TEST_CASE("who shakes hands and then lies loses the link, and only that") {
  struct Case {
    std::string name;
    Head head;
    std::string body;
  };
  const Case lie = GENERATE(values<Case>({
      {"a gap", links::Batch{9, 0}, std::string("\0\1x", 3)},
      {"an acknowledgement of nothing", links::Heartbeat{1000}, ""},
      {"a length beyond the batch", links::Batch{1, 0}, std::string("\0\xff\xff\3x", 5)},
      {"a part longer than its message", links::Part{1, 0, Channel::message, 1, 0}, "abc"},
      {"a part from the middle", links::Part{1, 0, Channel::message, 100, 50}, "abc"},
      {"a message longer than any", links::Part{1, 0, Channel::message, 1ULL << 60U, 0}, "abc"},
      {"a body longer than any", links::Batch{1, 0}, std::string(262'145, '\0')},
      {"another hello", Hello{{3, 1}, 1, 3000, {}, "test", 0, 0, 0, 1}, ""},
  }));
  CAPTURE(lie.name);
  Scene scene(Way::ipc);
  Stranger stranger;
  stranger.connect(scene.address());
  scene.shake_hands(stranger);
  stranger.say(lie.head, lie.body);
  Ear& ear = *scene.cluster.at(1).ear;
  REQUIRE(ear.wait([](const Ear& heard) { return !heard.silent_.empty(); }));
  CHECK(ear.silent_[0].first == Origin{3, 1});
  CHECK(stranger.refused() == Reason::ended);
  CHECK(ear.received_.empty());
}

TEST_CASE("a parcel of many pieces, and one larger than any, end the connection") {
  const Way way = GENERATE(Way::ipc, Way::tcp);
  Scene scene(way);
  Stranger stranger;
  stranger.connect(scene.address());
  for (int i = 0; i < 1000; ++i) stranger.say(Bytes(10, std::byte{1}), i < 999);
  CHECK(stranger.refused() == Reason::malformed);
  // The library itself ends the connection.
  stranger.say(Bytes((way == Way::ipc ? links::body_bytes_max : links::far_body_bytes_max) + 1000));
  stranger.say(links::Heartbeat{0});
  CHECK(!stranger.hear(300));
}

TEST_CASE("keys: a wrong one, another machine's, none, and a server that is not the one meant") {
  Scene scene(Way::tcp_with_keys, 2s);
  Ear& ear = *scene.cluster.at(1).ear;
  const std::string server = scene.cluster.options[0].keys.public_key;
  Stranger stranger;
  SECTION("a key that nobody has") {
    const Result<Keys> other = make_keys();
    stranger.use(*other, server);
    stranger.connect(scene.address());
    stranger.say(scene.hello());
    CHECK(!stranger.hear(300));
    CHECK(ear.wait_notice("its key is nobody's"));
  }
  SECTION("the key of machine 3, as machine 2, in a future life of it") {
    stranger.use(scene.cluster.options[2].keys, server);
    stranger.connect(scene.address());
    Hello hello = scene.hello();
    hello.from = {2, 4'000'000'000};
    stranger.say(hello);
    CHECK(stranger.refused() == Reason::key);
    CHECK(ear.wait_notice("it says that it is machine 2, its key is that of machine 3"));
  }
  SECTION("no keys") {
    stranger.connect(scene.address());
    stranger.say(scene.hello());
    CHECK(!stranger.hear(300));
  }
  SECTION("keys for another server") {
    stranger.use(scene.cluster.options[2].keys, scene.cluster.options[1].keys.public_key);
    stranger.connect(scene.address());
    stranger.say(scene.hello());
    CHECK(!stranger.hear(300));
  }
  SECTION("the right ones") {
    stranger.use(scene.cluster.options[2].keys, server);
    stranger.connect(scene.address());
    scene.shake_hands(stranger);
    return;
  }
  CHECK(ear.connected_.size() == 1);
}

TEST_CASE("a machine whose own key is not known learns why it is not let in") {
  Scene scene(Way::tcp_with_keys);
  const Result<Keys> other = make_keys();
  scene.cluster.options_at(3).keys = *other;
  scene.cluster.begin(3);
  CHECK(scene.cluster.at(3).ear->wait_notice("does not know this machine's key"));
  CHECK(scene.cluster.at(1).ear->wait_notice("its key is nobody's"));
  CHECK(scene.cluster.at(3).ear->connected_.empty());
}

TEST_CASE("a machine of another cluster learns why, and both sides say so") {
  Scene scene(Way::tcp);
  scene.cluster.options_at(3).cluster = "theirs";
  scene.cluster.begin(3);
  CHECK(scene.cluster.at(3).ear->wait_notice("refuses this machine (cluster)"));
  CHECK(scene.cluster.at(1).ear->wait_notice("was refused (cluster)"));
}

TEST_CASE("a socket of another kind is not let in") {
  Scene scene(Way::ipc);
  Stranger stranger(GENERATE(zmq::socket_type::sub, zmq::socket_type::pull));
  stranger.connect(scene.address());
  CHECK(!stranger.hear(100));
}

namespace {

/// A bare connection: no ZeroMQ at the other end.
class Bare {
 public:
  explicit Bare(const std::string& address) : socket_(socket(AF_INET, SOCK_STREAM, 0)) {
    sockaddr_in to{};
    to.sin_family = AF_INET;
    to.sin_port =
        htons(static_cast<std::uint16_t>(std::stoi(address.substr(address.rfind(':') + 1))));
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    REQUIRE(::connect(socket_, reinterpret_cast<sockaddr*>(&to), sizeof to) == 0);
  }
  Bare(const Bare&) = delete;
  Bare& operator=(const Bare&) = delete;
  ~Bare() { close(socket_); }
  void say(const std::string& bytes) { send(socket_, bytes.data(), bytes.size(), MSG_NOSIGNAL); }
  /// Whether the other side closes the connection in time.
  bool is_closed_within(int ms) {
    const auto until = std::chrono::steady_clock::now() + std::chrono::milliseconds(ms);
    while (std::chrono::steady_clock::now() < until) {
      pollfd readable{socket_, POLLIN, 0};
      const auto left = until - std::chrono::steady_clock::now();
      poll(&readable, 1,
           static_cast<int>(std::chrono::duration_cast<std::chrono::milliseconds>(left).count()));
      std::array<char, 512> bytes{};
      const ssize_t got = recv(socket_, bytes.data(), bytes.size(), MSG_DONTWAIT);
      if (got == 0 || (got < 0 && errno != EAGAIN)) return true;
    }
    return false;
  }

 private:
  int socket_;
};

const std::string greeting = std::string("\xff\0\0\0\0\0\0\0\1\x7f\3\0NULL", 16);

}  // namespace

TEST_CASE("two hundred connections that never finish are closed, and cost little") {
  const std::string words =
      GENERATE(std::string(), std::string("\xff"), greeting, std::string("GET / HTTP/1.1\r\n\r\n"),
               std::string(64, '\xee'));
  Scene scene(GENERATE(Way::tcp, Way::tcp_with_keys), 2s);
  const std::size_t before = resident_bytes();
  std::vector<std::unique_ptr<Bare>> many;
  for (int i = 0; i < 200; ++i) {
    many.push_back(std::make_unique<Bare>(scene.address()));
    many.back()->say(words);
  }
  scene.good_machines_go_on();
  for (const std::unique_ptr<Bare>& one : many) CHECK(one->is_closed_within(10'000));
  CHECK(resident_bytes() < before + growth_max);
}

TEST_CASE("a flood before any handshake costs no memory, and the good machines go on") {
  Scene scene(Way::ipc);
  const std::size_t before = resident_bytes();
  Stranger stranger;
  stranger.connect(scene.address());
  const std::string body(10'000, 'x');
  for (int i = 0; i < 20'000; ++i) {
    stranger.say(links::Batch{1, 0}, body);
    if (i % 5000 == 0) scene.good_machines_go_on();
  }
  scene.good_machines_go_on();
  CHECK(resident_bytes() < before + growth_max);
}

TEST_CASE("of hellos without end only the last is waited for") {
  Scene scene(Way::ipc);
  std::vector<std::unique_ptr<Stranger>> many;
  for (int i = 0; i < 50; ++i) {
    many.push_back(std::make_unique<Stranger>());
    many.back()->connect(scene.address());
    many.back()->say(scene.hello());
    REQUIRE(many.back()->hear());  // welcome
  }
  many.front()->say(links::Ready{1, 1, 0});
  CHECK(many.front()->refused() == Reason::not_connected);
}
