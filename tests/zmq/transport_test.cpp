// Real transports in one process, over ipc and tcp, with keys and without.
#include <catch2/catch.hpp>

#include "tests/zmq/machines.h"
#include "tests/zmq/proxy.h"

using namespace sluice;
using namespace sluice::testing;
using namespace std::chrono_literals;

namespace {

/// Bytes that tell where they stand.
wire::Bytes pattern(std::size_t size, unsigned seed) {
  wire::Bytes bytes(size);
  for (std::size_t i = 0; i < size; ++i)
    bytes[i] = static_cast<std::byte>((i * 31 + (i >> 8U) + seed) & 255U);
  return bytes;
}

}  // namespace

TEST_CASE("three machines meet, and each message arrives once and in order") {
  const Way way = GENERATE(Way::ipc, Way::tcp, Way::tcp_with_keys);
  const ScratchFolder directory;
  Cluster cluster = make_cluster(3, way, directory);
  cluster.begin_all();
  REQUIRE(cluster.wait_all_connected());
  constexpr std::size_t each = 2000;
  for (std::size_t i = 0; i < each; ++i)
    for (std::uint32_t from = 1; from <= 3; ++from)
      for (std::uint32_t to = 1; to <= 3; ++to)
        if (from != to)
          cluster.at(from).transport->send({to, 1},
                                           i % 3 == 0 ? Channel::control : Channel::message,
                                           bytes_of(std::to_string(i)));
  for (std::uint32_t to = 1; to <= 3; ++to) {
    Ear& ear = *cluster.at(to).ear;
    REQUIRE(ear.wait_received(2 * each));
    std::map<std::uint32_t, std::size_t> next;
    for (const Heard& heard : ear.received_) {
      const std::size_t i = next[heard.from.machine]++;
      REQUIRE(text_of(heard.bytes) == std::to_string(i));
      REQUIRE(heard.channel == (i % 3 == 0 ? Channel::control : Channel::message));
      REQUIRE(heard.from.incarnation == 1);
    }
    CHECK(next.size() == 2);
    CHECK(ear.silent_.empty());
    CHECK(ear.notices_.empty());
  }
}

TEST_CASE("messages of every size arrive whole, none at all and the longest among them") {
  const ScratchFolder directory;
  Cluster cluster = make_cluster(2, GENERATE(Way::ipc, Way::tcp_with_keys), directory);
  cluster.begin_all();
  const std::vector<std::size_t> sizes{
      0,       1,       127,     128,      16383,    16384,   65536, 262143, 262144,
      1000003, 1064960, 1064961, 16793600, 16793601, 5000000, 0,     3,      zmq_message_bytes_max};
  for (unsigned i = 0; i < sizes.size(); ++i)
    cluster.at(2).transport->send({1, 1}, Channel::message, pattern(sizes[i], i));
  Ear& ear = *cluster.at(1).ear;
  REQUIRE(ear.wait_received(sizes.size()));
  for (unsigned i = 0; i < sizes.size(); ++i) {
    CHECK(ear.received_[i].bytes.size() == sizes[i]);
    CHECK(ear.received_[i].bytes == pattern(sizes[i], i));
  }
}

namespace {

struct ProxiedPair {
  ScratchFolder directory;
  Cluster cluster;
  int front = free_port();

  explicit ProxiedPair(Way way) : cluster(make_cluster(2, way, directory)) {
    cluster.options_at(2).peers[0].address = "tcp://127.0.0.1:" + std::to_string(front);
  }
  /// The port that machine 1 is bound to.
  int back() const {
    const std::string& bind = cluster.options[0].bind;
    return std::stoi(bind.substr(bind.rfind(':') + 1));
  }
};

}  // namespace

TEST_CASE("a hundred thousand messages over a connection that is cut again and again") {
  ProxiedPair pair(GENERATE(Way::tcp, Way::tcp_with_keys));
  Proxy proxy(pair.front, pair.back(), 300'000, 7);
  pair.cluster.begin_all();
  constexpr std::size_t each = 50'000;
  const auto message = [](std::size_t i) {
    return bytes_of(std::to_string(i) + std::string(i % 5000 == 9 ? 100'000 : i % 97, 'x'));
  };
  for (std::size_t i = 0; i < each; ++i) {
    pair.cluster.at(1).transport->send({2, 1}, Channel::message, message(i));
    pair.cluster.at(2).transport->send({1, 1}, Channel::message, message(i));
  }
  for (const std::size_t machine : {1U, 2U}) {
    Ear& ear = *pair.cluster.at(machine).ear;
    REQUIRE(ear.wait_received(each));
    for (std::size_t i = 0; i < each; ++i) REQUIRE(ear.received_[i].bytes == message(i));
    CHECK(ear.silent_.empty());
    CHECK(ear.connected_.size() == 1);
  }
  CHECK(proxy.cuts() > 20);
}

TEST_CASE("a way that is held up or parted makes a machine silent, and heals") {
  const bool held = GENERATE(true, false);
  ProxiedPair pair(Way::tcp);
  for (ZmqOptions& options : pair.cluster.options) options.lease = 150ms;
  Proxy proxy(pair.front, pair.back(), 0, 7);
  pair.cluster.begin_all();
  REQUIRE(pair.cluster.wait_all_connected());
  held ? proxy.hold(true) : proxy.part(true);
  pair.cluster.at(1).transport->send({2, 1}, Channel::message, bytes_of("one"));
  pair.cluster.at(2).transport->send({1, 1}, Channel::message, bytes_of("two"));
  for (const std::size_t machine : {1U, 2U})
    REQUIRE(
        pair.cluster.at(machine).ear->wait([](const Ear& ear) { return !ear.silent_.empty(); }));
  held ? proxy.hold(false) : proxy.part(false);
  for (const std::size_t machine : {1U, 2U}) {
    Ear& ear = *pair.cluster.at(machine).ear;
    REQUIRE(ear.wait([](const Ear& heard) {
      return heard.connected_.size() >= 2 && heard.received_.size() == 1 &&
             heard.silent_.size() < heard.connected_.size();
    }));
  }
}

TEST_CASE("a machine whose engines have much to do with what it was sent is heard meanwhile") {
  const ScratchFolder directory;
  Cluster cluster = make_cluster(2, Way::ipc, directory);
  for (ZmqOptions& options : cluster.options) options.lease = 1500ms;
  const std::uint32_t busy = GENERATE(1U, 2U);
  cluster.begin_all();
  REQUIRE(cluster.wait_all_connected());
  cluster.at(busy).ear->on_received = [](Origin, Channel, const wire::Bytes&) {
    const auto until = std::chrono::steady_clock::now() + 300ms;
    while (std::chrono::steady_clock::now() < until) continue;
  };
  constexpr std::size_t messages = 12;  // they take more than two leases
  for (std::size_t i = 0; i < messages; ++i)
    cluster.at(3 - busy).transport->send({busy, 1}, Channel::message, bytes_of("work"));
  CHECK(cluster.at(busy).ear->wait_received(messages));
  for (const std::size_t machine : {1U, 2U}) CHECK(cluster.at(machine).ear->silent_.empty());
}

TEST_CASE("a machine that is killed is silent within its lease, and its next life is met") {
  const ScratchFolder directory;
  Cluster cluster = make_cluster(2, GENERATE(Way::ipc, Way::tcp_with_keys), directory);
  for (ZmqOptions& options : cluster.options) options.lease = 200ms;
  const std::size_t killed = GENERATE(1U, 2U);
  const std::size_t other = 3 - killed;
  cluster.begin_all();
  REQUIRE(cluster.wait_all_connected());
  cluster.end(killed);
  Ear& ear = *cluster.at(other).ear;
  const auto life = [&](std::uint32_t incarnation) {
    return Origin{static_cast<std::uint32_t>(killed), incarnation};
  };
  // A slow computer may lose and find it before.
  REQUIRE(ear.wait([&](const Ear& heard) {
    return !heard.silent_.empty() && heard.silent_.back().first == life(1) &&
           heard.silent_.size() == heard.connected_.size();
  }));
  cluster.at(other).transport->send(life(1), Channel::message, bytes_of("for the dead"));
  cluster.options_at(killed).self.incarnation = 2;
  cluster.begin(killed);
  REQUIRE(ear.wait([&](const Ear& heard) { return heard.connected_.back() == life(2); }));
  cluster.at(other).transport->send(life(2), Channel::message, bytes_of("for the living"));
  REQUIRE(cluster.at(killed).ear->wait_received(1));
  CHECK(text_of(cluster.at(killed).ear->received_[0].bytes) == "for the living");
}

TEST_CASE("a machine that is refused hears it") {
  const ScratchFolder directory;
  Cluster cluster = make_cluster(3, Way::ipc, directory);
  cluster.begin_all();
  REQUIRE(cluster.wait_all_connected());
  cluster.at(2).transport->refuse({3, 1});
  REQUIRE(cluster.at(3).ear->wait([](const Ear& ear) { return !ear.refused_.empty(); }));
  CHECK(cluster.at(3).ear->refused_ == std::vector<Origin>{{2, 1}});
  cluster.at(3).transport->send({1, 1}, Channel::message, bytes_of("still here"));
  CHECK(cluster.at(1).ear->wait_received(1));
}

TEST_CASE("what waits when a machine stops still leaves") {
  const ScratchFolder directory;
  Cluster cluster = make_cluster(2, Way::ipc, directory);
  cluster.options_at(2).linger = 5s;
  cluster.begin_all();
  REQUIRE(cluster.wait_all_connected());
  for (int i = 0; i < 200; ++i)
    cluster.at(2).transport->send({1, 1}, Channel::message, wire::Bytes(100'000));
  cluster.end(2);
  CHECK(cluster.at(1).ear->wait_received(200));
}

TEST_CASE("a machine that never takes is owed no more than the window") {
  const ScratchFolder directory;
  Cluster cluster = make_cluster(2, Way::ipc, directory);
  cluster.options_at(2).window_bytes = std::size_t{4} << 20U;
  cluster.begin(2);
  for (int i = 0; i < 100; ++i)
    cluster.at(2).transport->send({1, 1}, Channel::message, wire::Bytes(100'000));
  REQUIRE(cluster.at(2).ear->wait([](const Ear& ear) { return !ear.silent_.empty(); }));
  CHECK(cluster.at(2).ear->silent_[0].second.find("window") != std::string::npos);
}
