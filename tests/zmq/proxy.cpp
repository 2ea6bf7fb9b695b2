#include "tests/zmq/proxy.h"

#include <netinet/in.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <vector>

namespace sluice::testing {

namespace {

sockaddr_in loopback(int port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<std::uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  return address;
}

}  // namespace

Proxy::Proxy(int from, int to, std::uint64_t cut_after, std::uint64_t seed)
    : to_(to), cut_after_(cut_after), random_(seed), wake_(eventfd(0, EFD_NONBLOCK)) {
  listener_ = socket(AF_INET, SOCK_STREAM, 0);
  const int yes = 1;
  setsockopt(listener_, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
  const sockaddr_in address = loopback(from);
  REQUIRE(bind(listener_, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0);
  REQUIRE(listen(listener_, 64) == 0);
  thread_ = std::thread([this] { run(); });
}

Proxy::~Proxy() {
  ask(done_, true);
  thread_.join();
  for (const Way& way : ways_) {
    close(way.a);
    close(way.b);
  }
  close(listener_);
  close(wake_);
}

void Proxy::ask(std::atomic<bool>& what, bool value) {
  what = value;
  eventfd_write(wake_, 1);
}

void Proxy::accept_one() {
  Way way;
  way.a = accept(listener_, nullptr, nullptr);
  if (way.a < 0) return;
  way.b = socket(AF_INET, SOCK_STREAM, 0);
  const sockaddr_in address = loopback(to_);
  way.dead =
      parted_ || connect(way.b, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0;
  way.left = cut_after_ == 0 ? ~std::uint64_t{0} : 1 + random_.next() % (2 * cut_after_);
  ways_.push_back(way);
}

/// What can be read is written on; the peers' own bounds keep it from waiting for ever.
void Proxy::carry(Way& way, int from, int to) {
  std::vector<char> bytes(std::size_t{64} << 10U);
  const std::size_t most =
      healed_ ? bytes.size()
              : static_cast<std::size_t>(std::min<std::uint64_t>(bytes.size(), way.left));
  const ssize_t got = recv(from, bytes.data(), most, MSG_DONTWAIT);
  if (got == 0 || (got < 0 && errno != EAGAIN)) way.dead = true;
  for (ssize_t sent = 0; sent < got;) {
    pollfd room{to, POLLOUT, 0};
    if (poll(&room, 1, 2000) != 1) break;
    const ssize_t now = send(to, bytes.data() + sent, static_cast<std::size_t>(got - sent),
                             MSG_DONTWAIT | MSG_NOSIGNAL);
    if (now <= 0) {
      way.dead = true;
      break;
    }
    sent += now;
  }
  if (got <= 0 || healed_) return;
  way.left -= static_cast<std::uint64_t>(got);
  if (way.left != 0) return;
  way.dead = true;
  ++cuts_;
}

void Proxy::run() {
  while (!done_) {
    std::vector<pollfd> polled{{wake_, POLLIN, 0}, {listener_, POLLIN, 0}};
    if (!held_)
      for (const Way& way : ways_) {
        polled.push_back({way.a, POLLIN, 0});
        polled.push_back({way.b, POLLIN, 0});
      }
    poll(polled.data(), polled.size(), -1);
    eventfd_t rung = 0;
    eventfd_read(wake_, &rung);
    if (polled[1].revents != 0) accept_one();
    std::size_t at = 2;
    for (Way& way : ways_) {
      if (at + 1 < polled.size()) {
        if (polled[at].revents != 0) carry(way, way.a, way.b);
        if (!way.dead && polled[at + 1].revents != 0) carry(way, way.b, way.a);
      }
      at += 2;
      if (parted_) way.dead = true;
    }
    ways_.remove_if([](const Way& way) {
      if (!way.dead) return false;
      close(way.a);
      close(way.b);
      return true;
    });
  }
}

}  // namespace sluice::testing
