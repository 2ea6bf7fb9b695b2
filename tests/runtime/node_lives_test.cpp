// One life after the other of a machine, and what of sessions outlives them.
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <thread>

#include "runtime/node/control.h"
#include "runtime/node/life.h"
#include "runtime/zmq/zmq_transport.h"
#include "test_cluster.h"

namespace sluice {

namespace {

/// Loopback addresses that nobody uses now, all different.
std::vector<std::string> free_addresses(std::size_t count) {
  // Below those that the kernel gives to whoever connects, and elsewhere for each process.
  static std::atomic<int> next{::getpid() * 89 % 10'000};
  std::vector<std::string> addresses;
  while (addresses.size() < count) {
    const int port = 20'000 + next++ % 10'000;
    const int tried = ::socket(AF_INET, SOCK_STREAM, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<std::uint16_t>(port));
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (::bind(tried, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0)
      addresses.push_back("tcp://127.0.0.1:" + std::to_string(port));
    ::close(tried);
  }
  return addresses;
}

/// Machines that meet over TCP.
Connect over_tcp(std::uint32_t machines) {
  return [addresses = free_addresses(machines)](Origin self) {
    ZmqOptions options;
    options.self = self;
    options.bind = addresses[self.machine];
    options.cluster = "test";
    options.notice = [](const LinkNotice&) {};
    for (std::uint32_t other = 0; other < addresses.size(); ++other)
      if (other != self.machine) options.peers.push_back({other, addresses[other], ""});
    return make_zmq_transport(std::move(options));
  };
}

/// Holds the thread that sends first, so that nobody drives meanwhile.
struct Busy {
  std::atomic<std::thread::id> thread{};  // none: nobody is held
  Gate reached;
  Gate hold;
};

class BusyEnd final : public Transport {
 public:
  BusyEnd(std::unique_ptr<Transport> end, Busy& busy) : end_(std::move(end)), busy_(busy) {}
  void start(TransportListener& listener) override { end_->start(listener); }
  void send(Origin to, Channel channel, MessageBytes bytes) override {
    end_->send(to, channel, std::move(bytes));
    if (busy_.thread.load() != std::this_thread::get_id()) return;
    busy_.thread = std::thread::id();
    busy_.reached.open();
    busy_.hold.wait();
  }
  void refuse(Origin life) override { end_->refuse(life); }
  void stop() override { end_->stop(); }

 private:
  const std::unique_ptr<Transport> end_;
  Busy& busy_;
};

}  // namespace

TEST_CASE("what roles hold of sessions is the home's, and goes with it") {
  Told told;
  TestCluster cluster({remembering_yaml}, {0, 1, 2}, told.script());
  cluster.session_ends = [&](const std::string& session) { told.forget(session); };
  CHECK(cluster.call("lisa", "x").second == "x ");
  CHECK(cluster.call("lisa", "y").second == "xy ");
  // Another life of the machine, the same home: it goes on.
  cluster.network.silence(1, 0);
  REQUIRE(eventually([&] { return cluster.node(1).lives() == 2; }));
  REQUIRE(cluster.node(1).wait_for_members(10s).ok());
  REQUIRE(cluster.home().wait_for_members(10s).ok());
  CHECK(cluster.call("lisa", "z").second == "xyz ");
  cluster.start(0, 9);
  REQUIRE(cluster.home().wait_for_members(10s).ok());
  CHECK(cluster.call("lisa", "x").second == "x ");
}

TEST_CASE("a session's end that takes long delays nobody but a session of its name") {
  Told told;
  Gate reached;
  Gate hold;
  TestCluster cluster({remembering_yaml}, {0, 1, 2}, told.script());
  cluster.session_ends = [&](const std::string& session) {
    reached.open();
    hold.wait();
    told.forget(session);
  };
  const struct Opens {
    ~Opens() { gate.open(); }  // also where a check fails, or the cluster could not end
    Gate& gate;
  } opens{hold};
  CHECK(cluster.call("lisa", "x").second == "x ");
  REQUIRE(cluster.home().runner(0).end_session("lisa").ok());
  reached.wait();
  CHECK(cluster.call("bart", "y").second == "y ");
  REQUIRE(eventually([&] { return cluster.network.is_idle(); }));
  const std::size_t heard = cluster.network.heard(0, 1);
  Waiting waiting;
  const auto handle =
      cluster.home().runner(0).start({"lisa", {{"x", make_text("z")}}, 20s}, waiting.observer());
  // The session and its frame, and what is still said of the call before.
  REQUIRE(eventually([&] { return cluster.network.heard(0, 1) >= heard + 2; }));
  hold.open();
  CHECK(waiting.wait().ok);
  CHECK(waiting.text == "z ");
}

TEST_CASE("a session's end comes to machines that the home has not told of it itself") {
  Told told;
  TestCluster cluster({remembering_yaml}, {1, 2, 0}, told.script());
  std::atomic<int> ends{0};
  cluster.session_ends = [&](const std::string&) { ++ends; };
  CHECK(cluster.call("bart", "y").second == "y ");
  CHECK(cluster.call("lisa", "x").second == "x ");
  REQUIRE(cluster.home().runner(0).end_session("lisa").ok());
  CHECK(eventually([&] { return ends == 1; }));
}

TEST_CASE("a session's name that comes after its end is not kept") {
  Told told;
  TestCluster cluster({remembering_yaml}, {1, 2, 0}, told.script());
  std::atomic<int> of_bart{0}, of_lisa{0};
  cluster.session_ends = [&](const std::string& session) {
    ++(session == "bart" ? of_bart : of_lisa);
  };
  CHECK(cluster.call("bart", "y").second == "y ");
  REQUIRE(cluster.home().runner(0).end_session("bart").ok());
  REQUIRE(eventually([&] { return of_bart == 1; }));
  // Machine 1 had this on the way when it had not heard of the end yet.
  Control late{.kind = Control::Kind::session};
  late.text = "bart";  // for the number of the first session
  cluster.network.inject(cluster.network.life_of(1), 2, Channel::control, encode_control(late));
  CHECK(cluster.call("lisa", "x").second == "x ");
  // With another home what is known of sessions ends, in the order of their names.
  cluster.start(0, 9);
  REQUIRE(cluster.home().wait_for_members(10s).ok());
  REQUIRE(eventually([&] { return of_lisa == 1; }));
  CHECK(of_bart == 1);
}

TEST_CASE("a session's end leaves the next one of its name known") {
  Told told;
  TestCluster cluster({remembering_yaml}, {1, 2, 0}, told.script());
  std::atomic<int> ends{0};
  cluster.session_ends = [&](const std::string&) { ++ends; };
  const auto says = [&](std::uint32_t from, Control::Kind kind, std::uint64_t number) {
    Control control{.kind = kind, .number = number, .text = "lisa"};
    cluster.network.inject(cluster.network.life_of(from), 2, Channel::control,
                           encode_control(control));
  };
  says(1, Control::Kind::session, 7);
  says(1, Control::Kind::session, 8);  // overtakes the end, which comes from the home
  says(0, Control::Kind::session_ended, 7);
  CHECK(eventually([&] { return ends == 1; }));
  says(0, Control::Kind::session_ended, 8);
  CHECK(eventually([&] { return ends == 2; }));
}

TEST_CASE("a session that is named and ended while a driver is busy is not kept") {
  Told told;
  Busy busy;
  std::atomic<bool> alone{false};
  MemoryNetwork network;
  const Connect connect = [&](Origin self) -> Result<std::unique_ptr<Transport>> {
    return std::unique_ptr<Transport>(std::make_unique<BusyEnd>(network.join(self), busy));
  };
  const auto script = [&, say = told.script()](Activation& activation, std::uint32_t replica) {
    if (activation.node() == "b" && activation.session() == "bart") {
      // Then nobody else drives, and what it yields is sent by this thread.
      alone = eventually([&] { return network.is_idle(); });
      busy.thread = std::this_thread::get_id();
    }
    return say(activation, replica);
  };
  TestCluster cluster({remembering_yaml}, {1, 2, 0}, script, {3, connect});
  const struct Opens {
    ~Opens() { gate.open(); }  // also where a check fails, or the cluster could not end
    Gate& gate;
  } opens{busy.hold};
  std::atomic<int> of_lisa{0}, of_maggie{0};
  cluster.session_ends = [&](const std::string& session) {
    if (session != "bart") ++(session == "lisa" ? of_lisa : of_maggie);
  };
  Waiting waiting;
  const auto handle =
      cluster.home().runner(0).start({"bart", {{"x", make_text("y")}}, 20s}, waiting.observer());
  busy.reached.wait();
  CHECK(alone);
  // The home names a session by the end of its call, and ends it at once.
  Control named{.kind = Control::Kind::session, .number = 7, .text = "lisa"};
  Control ended{.kind = Control::Kind::session_ended, .number = 7, .text = "lisa"};
  network.inject(network.life_of(0), 2, Channel::control, encode_control(named));
  network.inject(network.life_of(0), 2, Channel::control, encode_control(ended));
  REQUIRE(eventually([&] { return network.is_idle(); }));
  busy.hold.open();
  CHECK(waiting.wait().ok);
  CHECK(cluster.call("maggie", "x").second == "x ");
  // With another home what is known of sessions ends, in the order of their names.
  cluster.start(0, 9);
  REQUIRE(cluster.home().wait_for_members(10s).ok());
  REQUIRE(eventually([&] { return of_maggie == 1; }));
  CHECK(of_lisa == 0);
}

TEST_CASE("a life waits for the keeper until it is let in, and has no members when it is over") {
  struct Owner final : LifeOwner {
    void over(const std::string&) override {}
    void bound(Origin) override {}
    void session_known(const std::string&, const SessionId&) override {}
    void session_ended(const std::string&, const SessionId&) override {}
    void session_over(const std::string&, const SessionId&) override {}
    void session_void(std::uint32_t, const std::string&) override {}
    void home_over(Origin) override {}
    bool is_ending(std::uint32_t, const std::string&) override { return false; }
    bool is_ending_of(std::uint32_t) override { return false; }
  } owner;
  NodeOptions options;
  options.machines = {"front", "gpu"};
  options.self = 1;
  options.placed = {{{1}}, {{1}}};
  MemoryNetwork network;
  ReplicaDesk desk(options.machines, 1);
  Life life(options, {1, 1}, owner, desk);
  CHECK(life.wait(0ms) == std::vector<std::string>{"front"});  // no driver is there yet
  REQUIRE(life.start({}, network.join({1, 1})).ok());
  life.port().admitted();
  CHECK(life.wait(0ms) == std::vector<std::string>{"front"});
  life.port().admitted();
  CHECK(life.wait(0ms).empty());
  const std::vector<std::string> itself{"gpu"};
  life.stop(false, "it ends");
  const auto stopped = std::chrono::steady_clock::now();
  CHECK(life.wait(20s) == itself);
  CHECK(std::chrono::steady_clock::now() - stopped < 10s);
}

TEST_CASE("over TCP, too, a machine begins another life at its address") {
  TestCluster cluster({chain_yaml}, {0, 1, 2}, chain_role, {3, over_tcp(3)});
  REQUIRE(cluster.call().first.ok);
  cluster.start(0, 9);
  REQUIRE(cluster.home().wait_for_members(10s).ok());
  CHECK(cluster.node(1).lives() == 2);
  CHECK(cluster.node(2).lives() == 2);
  CHECK(cluster.call().first.ok);
}

TEST_CASE("a life that could not begin uses no incarnation up") {
  std::atomic<int> refusals{0};
  std::atomic<std::uint32_t> last{0};
  const Connect connect = [&,
                           tcp = over_tcp(3)](Origin self) -> Result<std::unique_ptr<Transport>> {
    if (self.machine != 1) return tcp(self);
    last = self.incarnation;
    if (refusals > 0 && --refusals >= 0) return Error{ErrorCode::unavailable, "not now"};
    return tcp(self);
  };
  TestCluster cluster({chain_yaml}, {0, 1, 2}, chain_role, {3, connect});
  REQUIRE(cluster.call().first.ok);
  const std::uint32_t first = last;
  refusals = 3;
  cluster.start(0, 9);
  REQUIRE(cluster.home().wait_for_members(10s).ok());
  CHECK(refusals == 0);
  CHECK(cluster.node(1).lives() == 2);
  CHECK(last == first + 1);
}

TEST_CASE("a life that is lost names no sessions") {
  TestCluster cluster({remembering_yaml}, {0, 0, 2}, [](Activation& activation, std::uint32_t) {
    activation.yield("v", make_text(std::string(activation.session())));
    return Result<void>();
  });
  const Origin gone = cluster.network.life_of(1);
  cluster.network.silence(1, 0);
  REQUIRE(eventually([&] { return cluster.node(1).lives() == 2; }));
  REQUIRE(cluster.node(1).wait_for_members(10s).ok());
  REQUIRE(cluster.home().wait_for_members(10s).ok());
  Control control{.kind = Control::Kind::session};
  control.text = "false";  // for the number of the first session
  cluster.network.inject(gone, 2, Channel::control, encode_control(control));
  CHECK(cluster.call("true").second == "true ");
}

}  // namespace sluice
