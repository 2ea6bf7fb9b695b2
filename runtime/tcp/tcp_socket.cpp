#include "runtime/tcp/tcp_socket.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <thread>

namespace sluice::tcp {

namespace {

constexpr int backlog = 128;
constexpr std::size_t pieces_most = 16;

struct Address {
  sockaddr_storage bytes{};
  socklen_t size = 0;
  sockaddr* any() { return reinterpret_cast<sockaddr*>(&bytes); }
};

/// Size 0: it is no numeric address.
Address address_of(const Endpoint& endpoint) {
  Address made;
  auto* const four = reinterpret_cast<sockaddr_in*>(&made.bytes);
  auto* const six = reinterpret_cast<sockaddr_in6*>(&made.bytes);
  if (::inet_pton(AF_INET, endpoint.host.c_str(), &four->sin_addr) == 1) {
    four->sin_family = AF_INET;
    four->sin_port = htons(endpoint.port);
    made.size = sizeof *four;
  } else if (::inet_pton(AF_INET6, endpoint.host.c_str(), &six->sin6_addr) == 1) {
    six->sin6_family = AF_INET6;
    six->sin6_port = htons(endpoint.port);
    made.size = sizeof *six;
  }
  return made;
}

bool is_wildcard(const Address& address) {
  const auto* const four = reinterpret_cast<const sockaddr_in*>(&address.bytes);
  const auto* const six = reinterpret_cast<const sockaddr_in6*>(&address.bytes);
  return address.bytes.ss_family == AF_INET ? four->sin_addr.s_addr == INADDR_ANY
                                            : IN6_IS_ADDR_UNSPECIFIED(&six->sin6_addr) != 0;
}

/// What is said leaves at once, and a machine that has gone is noticed where nothing is said.
void set_up(const OwnedFile& one) {
  const auto set = [&](int level, int option, int value) {
    ::setsockopt(one.get(), level, option, &value, sizeof value);
  };
  set(IPPROTO_TCP, TCP_NODELAY, 1);
  set(SOL_SOCKET, SO_KEEPALIVE, 1);
  set(IPPROTO_TCP, TCP_KEEPIDLE, 10);
  set(IPPROTO_TCP, TCP_KEEPINTVL, 5);
  set(IPPROTO_TCP, TCP_KEEPCNT, 3);
}

Error failure(const std::string& what) {
  return {ErrorCode::unavailable, what + ": " + std::strerror(errno)};
}

Moved moved(ssize_t result, std::size_t& bytes) {
  bytes = result > 0 ? static_cast<std::size_t>(result) : 0;
  if (result > 0) return Moved::some;
  const bool again = result < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR);
  return again ? Moved::none : Moved::ended;
}

std::uint32_t events_of(bool reads, bool writes) {
  return (reads ? EPOLLIN : 0U) | (writes ? EPOLLOUT : 0U);
}

}  // namespace

Result<OwnedFile> listen_at(const std::string& host, std::uint16_t& port) {
  Address at = address_of({host, 0});
  if (at.size == 0 || is_wildcard(at))
    return invalid_argument("pages are read at the numeric address of one interface, and '" + host +
                            "' is none");
  OwnedFile made(::socket(at.bytes.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  const std::string what = "no socket at " + host + " for reads of pages";
  if (!made || ::bind(made.get(), at.any(), at.size) != 0 || ::listen(made.get(), backlog) != 0 ||
      ::getsockname(made.get(), at.any(), &at.size) != 0)
    return failure(what);
  port = ntohs(at.bytes.ss_family == AF_INET
                   ? reinterpret_cast<const sockaddr_in*>(&at.bytes)->sin_port
                   : reinterpret_cast<const sockaddr_in6*>(&at.bytes)->sin6_port);
  return made;
}

OwnedFile accept_at(const OwnedFile& listener, bool& can_wait) {
  OwnedFile made(::accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
  can_wait = errno != EMFILE && errno != ENFILE && errno != ENOBUFS && errno != ENOMEM;
  if (made) set_up(made);
  return made;
}

OwnedFile dial(const Endpoint& to) {
  Address at = address_of(to);
  if (at.size == 0) return OwnedFile();
  OwnedFile made(::socket(at.bytes.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!made) return made;
  set_up(made);
  if (::connect(made.get(), at.any(), at.size) != 0 && errno != EINPROGRESS) return OwnedFile();
  return made;
}

Moved receive(const OwnedFile& from, std::span<std::byte> to, std::size_t& bytes) {
  return moved(::recv(from.get(), to.data(), to.size(), 0), bytes);
}

Moved receive(const OwnedFile& from, std::span<const std::span<std::byte>> to, std::size_t& bytes) {
  std::array<iovec, pieces_most> places{};
  const std::size_t count = std::min(to.size(), places.size());
  for (std::size_t i = 0; i < count; ++i) places[i] = {to[i].data(), to[i].size()};
  return moved(::readv(from.get(), places.data(), static_cast<int>(count)), bytes);
}

Moved send(const OwnedFile& to, std::span<const std::span<const std::byte>> pieces,
           std::size_t& bytes) {
  std::array<iovec, pieces_most> places{};
  const std::size_t count = std::min(pieces.size(), places.size());
  for (std::size_t i = 0; i < count; ++i)
    places[i] = {const_cast<std::byte*>(pieces[i].data()), pieces[i].size()};
  msghdr message{};
  message.msg_iov = places.data();
  message.msg_iovlen = count;
  return moved(::sendmsg(to.get(), &message, MSG_NOSIGNAL), bytes);
}

Result<std::unique_ptr<Waiter>> Waiter::make() {
  OwnedFile all(::epoll_create1(EPOLL_CLOEXEC));
  OwnedFile bell(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  epoll_event event{EPOLLIN, {.u64 = 0}};
  if (!all || !bell || ::epoll_ctl(all.get(), EPOLL_CTL_ADD, bell.get(), &event) != 0)
    return failure("no descriptors for reads of pages");
  return std::make_unique<Waiter>(std::move(all), std::move(bell));
}

bool Waiter::add(const OwnedFile& one, std::uint64_t number, bool reads, bool writes) {
  epoll_event event{events_of(reads, writes), {.u64 = number}};
  return ::epoll_ctl(all_.get(), EPOLL_CTL_ADD, one.get(), &event) == 0;
}

void Waiter::change(const OwnedFile& one, std::uint64_t number, bool reads, bool writes) {
  epoll_event event{events_of(reads, writes), {.u64 = number}};
  ::epoll_ctl(all_.get(), EPOLL_CTL_MOD, one.get(), &event);
}

std::vector<Waiter::Event> Waiter::wait(std::chrono::nanoseconds most,
                                        std::chrono::nanoseconds looks) {
  using Clock = std::chrono::steady_clock;
  std::array<epoll_event, 64> some{};
  const auto take = [&](int milliseconds) {
    return ::epoll_wait(all_.get(), some.data(), static_cast<int>(some.size()), milliseconds);
  };
  int count = 0;
  if (looks.count() > 0) {
    const Clock::time_point until = Clock::now() + looks;
    while ((count = take(0)) == 0 && Clock::now() < until) std::this_thread::yield();
  }
  const auto milliseconds = std::chrono::ceil<std::chrono::milliseconds>(most).count();
  if (count == 0) count = take(most.count() < 0 ? -1 : static_cast<int>(milliseconds));
  std::vector<Event> events;
  for (int i = 0; i < count; ++i) {
    const epoll_event& one = some[static_cast<std::size_t>(i)];
    eventfd_t rung = 0;
    if (one.data.u64 == 0) {
      ::eventfd_read(bell_.get(), &rung);
      continue;
    }
    const bool is_over = (one.events & (EPOLLERR | EPOLLHUP)) != 0;
    events.push_back({one.data.u64, is_over || (one.events & EPOLLIN) != 0,
                      is_over || (one.events & EPOLLOUT) != 0});
  }
  return events;
}

void Waiter::wait_for_bell(std::chrono::nanoseconds most) {
  pollfd bell{bell_.get(), POLLIN, 0};
  const timespec time{most.count() / 1'000'000'000, most.count() % 1'000'000'000};
  ::ppoll(&bell, 1, &time, nullptr);
}

void Waiter::ring() { ::eventfd_write(bell_.get(), 1); }

}  // namespace sluice::tcp
