// Real transports in one process, over ipc and tcp, with keys and without.
#include <catch2/catch.hpp>

#include "tests/zmq/machines.h"

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
  const PrivateDirectory directory;
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
  const PrivateDirectory directory;
  Cluster cluster = make_cluster(2, GENERATE(Way::ipc, Way::tcp_with_keys), directory);
  cluster.begin_all();
  const std::vector<std::size_t> sizes{
      0,      1,      127,    128,     16383,   16384, 65536, 262143,
      262144, 262145, 524288, 1000003, 5000000, 0,     3,     zmq_message_bytes_max};
  for (unsigned i = 0; i < sizes.size(); ++i)
    cluster.at(2).transport->send({1, 1}, Channel::message, pattern(sizes[i], i));
  Ear& ear = *cluster.at(1).ear;
  REQUIRE(ear.wait_received(sizes.size()));
  for (unsigned i = 0; i < sizes.size(); ++i) {
    CHECK(ear.received_[i].bytes.size() == sizes[i]);
    CHECK(ear.received_[i].bytes == pattern(sizes[i], i));
  }
}
