// The sockets below a transport, where the library works on a thread of its own.
#include "runtime/zmq/sockets.h"

#include <poll.h>

#include <catch2/catch.hpp>

#include "tests/scratch_folder.h"

namespace sluice::links {

namespace {

using namespace std::chrono_literals;

/// Dials until a parcel has come through; false: it never does.
bool is_served(zmq::context_t& context, const SocketSettings& settings) {
  const ScratchFolder folder;
  ParcelSocket bound(context, settings, true);
  const std::string where = "ipc://" + folder.path() + "/bound";
  bound.bind(where, false);
  ParcelSocket dials(context, settings, false);
  dials.dial(context, {}, where, "");
  const auto deadline = std::chrono::steady_clock::now() + 10s;
  Transmit parcel;
  parcel.head = wire::Bytes(8);
  const bool given = dials.give({}, parcel);
  while (given && std::chrono::steady_clock::now() < deadline) {
    if (bound.take()) return true;
    ::poll(nullptr, 0, 1);
  }
  return false;
}

}  // namespace

TEST_CASE("a connection that is let go as it fails leaves the library's thread at work") {
  // Where it fails, the library's thread cannot be ended, nor what it serves.
  auto* const context = new zmq::context_t(1);
  const SocketSettings settings{{}, 500ms};
  for (int i = 0; i < 300; ++i) {
    ParcelSocket dials(*context, settings, false);
    dials.dial(*context, {}, "ipc:///nobody/listens", "");
  }
  REQUIRE(is_served(*context, settings));
  delete context;
}

}  // namespace sluice::links
