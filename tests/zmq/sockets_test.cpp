// The sockets below a transport, where the library works on a thread of its own.
#include "runtime/zmq/sockets.h"

#include <poll.h>

#include <catch2/catch.hpp>
#include <optional>
#include <vector>

#include "tests/scratch_folder.h"

namespace sluice::links {

namespace {

using namespace std::chrono_literals;

/// A bound socket and one that dials it.
struct Ends {
  Ends(zmq::context_t& context, const SocketSettings& settings)
      : bound(context, settings, true), dials(context, settings, false) {
    const std::string where = "ipc://" + folder.path() + "/bound";
    const Address how{.local = true, .directory = folder.path()};
    bound.bind(how, where);
    dials.dial(context, how, where, "");
  }
  const ScratchFolder folder;
  ParcelSocket bound, dials;
};

/// Dials until a parcel has come through; false: it never does.
bool is_served(zmq::context_t& context, const SocketSettings& settings) {
  Ends ends(context, settings);
  const auto deadline = std::chrono::steady_clock::now() + 10s;
  Transmit parcel;
  parcel.head = wire::Bytes(8);
  const bool given = ends.dials.give({}, parcel);
  while (given && std::chrono::steady_clock::now() < deadline) {
    if (ends.bound.take()) return true;
    ::poll(nullptr, 0, 1);
  }
  return false;
}

}  // namespace

TEST_CASE("a body stays where the library has put it, after later ones and the socket itself") {
  zmq::context_t context(1);
  const SocketSettings settings{{}, 500ms};
  std::vector<MessageBytes> bodies;
  {
    Ends ends(context, settings);
    // From what the library keeps in the message itself to a piece as large as there may be.
    for (const std::size_t size :
         {std::size_t{1}, std::size_t{30}, std::size_t{5000}, body_bytes_max}) {
      Transmit parcel;
      parcel.head = wire::Bytes(8);
      parcel.body = {Ref<Shared>(new Shared(wire::Bytes(size, std::byte{7}))), 0, size};
      REQUIRE(ends.dials.give({}, parcel));
    }
    const auto deadline = std::chrono::steady_clock::now() + 10s;
    while (bodies.size() < 4 && std::chrono::steady_clock::now() < deadline) {
      if (std::optional<Arrival> arrival = ends.bound.take())
        bodies.push_back(std::move(arrival->body));
      else
        ::poll(nullptr, 0, 1);
    }
  }
  REQUIRE(bodies.size() == 4);
  std::size_t sum = 0;
  for (const MessageBytes& body : bodies)
    for (const std::byte byte : body.view()) sum += std::to_integer<std::size_t>(byte);
  CHECK(sum == 7 * (1 + 30 + 5000 + body_bytes_max));
  const std::byte* const place = bodies[3].view().data();
  const MessageBytes moved = std::move(bodies[3]);
  CHECK(moved.view().data() == place);
  CHECK(std::move(bodies[2]).take() == wire::Bytes(5000, std::byte{7}));
}

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
