// Which machines share memory, and that what one lends is read by the other and comes back.
#include <catch2/catch.hpp>
#include <cstring>
#include <filesystem>
#include <thread>

#include "tests/zmq/machines.h"

using namespace sluice;
using namespace sluice::testing;

namespace {

constexpr std::size_t size = std::size_t{1} << 20U;

LentCounts lent_to(const Transport& transport, std::uint32_t machine) {
  for (const LinkState& link : transport.links())
    if (link.life.machine == machine) return link.lent;
  return {};
}

/// Once the other has mapped the memory; within twenty seconds.
std::optional<wire::Handle> lend(wire::Lender& lender, Origin to, const Ref<Buffer>& bytes) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  while (std::chrono::steady_clock::now() < end) {
    if (const auto handle = lender.lend(to, bytes)) return handle;
    std::this_thread::yield();
  }
  return std::nullopt;
}

}  // namespace

TEST_CASE("machines on ipc sockets read each other's values in place") {
  const ScratchFolder directory;
  Cluster cluster = make_cluster(2, Way::ipc, directory);
  cluster.begin_all();
  REQUIRE(cluster.wait_all_connected());
  wire::Lender* const one = cluster.at(1).transport->lender();
  wire::Lender* const two = cluster.at(2).transport->lender();
  REQUIRE((one != nullptr && two != nullptr));
  const Ref<Buffer> bytes = Buffer::zeros(size);
  std::memset(bytes->data(), 7, size);
  const std::optional<wire::Handle> handle = lend(*one, {2, 1}, bytes);
  REQUIRE(handle);
  Result<Ref<Buffer>> read = two->borrow({1, 1}, *handle, size);
  REQUIRE(read.ok());
  CHECK(std::memcmp((*read)->data(), bytes->data(), size) == 0);
  CHECK(lent_to(*cluster.at(1).transport, 2).in_place == 1);
  CHECK(lent_to(*cluster.at(1).transport, 2).held_bytes == size);
}

TEST_CASE("machines on tcp share nothing, and neither do those that are told not to") {
  const ScratchFolder directory;
  const Way way = GENERATE(Way::ipc, Way::tcp);
  Cluster cluster = make_cluster(2, way, directory);
  for (ZmqOptions& options : cluster.options) options.shared_bytes = 0;
  if (way == Way::tcp)
    for (ZmqOptions& options : cluster.options) options.shared_bytes = std::size_t{256} << 20U;
  cluster.begin_all();
  REQUIRE(cluster.wait_all_connected());
  CHECK(cluster.at(1).transport->lender() == nullptr);
  CHECK_FALSE(std::filesystem::exists(directory.path() + "/1.memory"));
}

TEST_CASE("the socket of shared memory is closed to others, and gone with its machine") {
  namespace fs = std::filesystem;
  const ScratchFolder directory;
  Cluster cluster = make_cluster(2, Way::ipc, directory);
  cluster.begin_all();
  const std::string socket = directory.path() + "/1.memory";
  REQUIRE(fs::is_socket(socket));
  CHECK(fs::status(socket).permissions() == (fs::perms::owner_read | fs::perms::owner_write));
  cluster.end(1);
  CHECK_FALSE(fs::exists(socket));
}
