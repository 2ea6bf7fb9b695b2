// Peers over TCP that say too little, too slowly, or half: each is ended in time, and others are
// served meanwhile. What they say wrongly is in tcp_link_test.cpp.
#include <poll.h>
#include <sys/socket.h>

#include <array>
#include <catch2/catch.hpp>
#include <optional>
#include <string>

#include "region_reads.h"
#include "runtime/tcp/tcp_key.h"
#include "runtime/tcp/tcp_link.h"
#include "runtime/tcp/tcp_memory.h"
#include "runtime/tcp/tcp_owner.h"
#include "runtime/tcp/tcp_socket.h"

using namespace sluice;

namespace {

constexpr std::chrono::milliseconds soon{500};
/// Between two bytes of who is slow: a hello or a welcome takes many times `soon`.
constexpr int pause_ms = 50;

TcpMemoryOptions options_of(bool is_encrypted) {
  TcpMemoryOptions options;
  options.host = "127.0.0.1";
  options.is_encrypted = is_encrypted;
  options.threads = 1;
  return options;
}

std::unique_ptr<RemoteMemory> made(const TcpMemoryOptions& options) {
  auto memory = make_tcp_memory(options);
  REQUIRE(memory.ok());
  return std::move(memory).value();
}

/// False: not in so many milliseconds.
bool can(short event, const OwnedFile& socket, int most_ms) {
  pollfd one{socket.get(), event, 0};
  return ::poll(&one, 1, most_ms) == 1;
}

OwnedFile dialed(std::uint16_t port) {
  OwnedFile socket = tcp::dial({"127.0.0.1", port});
  REQUIRE(socket);
  REQUIRE(can(POLLOUT, socket, 20'000));
  return socket;
}

void say(const OwnedFile& socket, std::span<const std::byte> bytes) {
  std::size_t sent = 0;
  tcp::send(socket, std::span(&bytes, 1), sent);
}

/// What comes in so many milliseconds, at most one `room`; ended: the other side has.
tcp::Moved hear(const OwnedFile& socket, std::span<std::byte> room, int most_ms,
                std::size_t& bytes) {
  bytes = 0;
  return can(POLLIN, socket, most_ms) ? tcp::receive(socket, room, bytes) : tcp::Moved::none;
}

/// Says `bytes` one by one; how many, until the other side ends it.
std::size_t said_slowly(const OwnedFile& socket, std::span<const std::byte> bytes) {
  std::array<std::byte, 4096> some{};
  std::size_t said = 0, unused = 0;
  for (; said < bytes.size(); ++said) {
    say(socket, bytes.subspan(said, 1));
    tcp::Moved moved = tcp::Moved::some;
    while (moved == tcp::Moved::some) moved = hear(socket, some, pause_ms, unused);
    if (moved == tcp::Moved::ended) break;
  }
  return said;
}

/// An owner of which each byte is said when the test says so.
struct OwnerByHand {
  std::uint16_t port = 0;
  OwnedFile listener = tcp::listen_at("127.0.0.1", port).value();
  tcp::Grants grants;
  std::shared_ptr<tcp::Region> region = tcp::Region::make(region_bytes);
  tcp::Key key;
  OwnedFile socket{};
  std::optional<tcp::Serving> serving{};

  explicit OwnerByHand(bool is_encrypted) {
    const tcp::Grants::Made made = grants.make(region);
    key = {{"127.0.0.1", port}, made.number, region_bytes, is_encrypted, made.secret};
  }
  void accept() {
    REQUIRE(can(POLLIN, listener, 20'000));
    bool can_wait = true;
    socket = tcp::accept_at(listener, can_wait);
    REQUIRE(socket);
    serving.emplace(grants, key.is_encrypted, tcp::Nonce{});
  }
  /// Until it owes something.
  void listen() {
    while (!serving->owes()) {
      std::size_t bytes = 0;
      REQUIRE(hear(socket, serving->room(), 20'000, bytes) == tcp::Moved::some);
      REQUIRE(serving->took(bytes));
    }
  }
  std::vector<std::byte> owed(std::size_t most) {
    tcp::Serving::Pieces pieces{};
    REQUIRE(serving->pieces(pieces) > 0);
    const auto first = pieces[0].first(std::min(most, pieces[0].size()));
    std::vector<std::byte> bytes(first.begin(), first.end());
    serving->sent(bytes.size());
    return bytes;
  }
};

/// The reader's side of a connection, by hand, that has proved its secret.
OwnedFile proven(const tcp::Key& key, tcp::Link& link) {
  OwnedFile socket = dialed(key.owner.port);
  while (true) {
    const auto bytes = link.to_send();
    say(socket, bytes);
    link.sent(bytes.size());
    if (link.is_open()) return socket;
    std::size_t got = 0;
    REQUIRE(hear(socket, link.room(), 20'000, got) == tcp::Moved::some);
    link.took(got);
    REQUIRE_FALSE(link.is_broken());
  }
}

}  // namespace

TEST_CASE("a stranger that says its hello, or its proof, byte by byte is ended in time") {
  TcpMemoryOptions options = options_of(true);
  options.handshake_most = soon;
  auto owner = tcp::Owner::make(options, 1);
  REQUIRE(owner.ok());
  const std::shared_ptr<tcp::Region> region = tcp::Region::make(region_bytes);
  const tcp::Key key = (*owner)->grant(region);
  const std::array<std::byte, tcp::hello_bytes> hello = encode(tcp::Hello{key.grant, true, {}});
  const OwnedFile slow = dialed(key.owner.port);
  CHECK(said_slowly(slow, hello) < hello.size() - 1);
  const OwnedFile later = dialed(key.owner.port);
  say(later, hello);
  CHECK(said_slowly(later, std::array<std::byte, tcp::proof_bytes>{}) < tcp::proof_bytes - 1);
}

TEST_CASE("reads of an owner that says its welcome byte by byte end in time") {
  for (const bool is_encrypted : {false, true}) {
    OwnerByHand owner(is_encrypted);
    TcpMemoryOptions options = options_of(is_encrypted);
    options.handshake_most = soon;
    const auto memory = made(options);
    Ended ended;
    auto reached = memory->reach(tcp::encode(owner.key), ended);
    REQUIRE(reached.ok());
    (*reached)->read(1, {0, 64}, {64, 64});
    owner.accept();
    owner.listen();
    const std::vector<std::byte> welcome = owner.owed(tcp::welcome_bytes);
    REQUIRE(welcome.size() == tcp::welcome_bytes);
    CHECK(said_slowly(owner.socket, welcome) < welcome.size() - 1);
    CHECK_FALSE(ended.wait_for(1));
    CHECK(ended.has_each_ended_once(1, 2));
  }
}

TEST_CASE("a read of which the owner says one byte after the other ends in time") {
  for (const bool is_encrypted : {false, true}) {
    OwnerByHand owner(is_encrypted);
    TcpMemoryOptions options = options_of(is_encrypted);
    options.silence_most = soon;
    const auto memory = made(options);
    Ended ended;
    auto reached = memory->reach(tcp::encode(owner.key), ended);
    REQUIRE(reached.ok());
    (*reached)->read(1, {0, 4096}, {});
    owner.accept();
    owner.listen();
    say(owner.socket, owner.owed(tcp::welcome_bytes));
    owner.listen();
    CHECK(said_slowly(owner.socket, owner.owed(4096)) < 1024);
    CHECK_FALSE(ended.wait_for(1));
    CHECK(ended.has_each_ended_once(1, 2));
  }
}

TEST_CASE("a read of which the owner says half, and then ends, has no bytes") {
  for (const bool is_encrypted : {false, true})
    for (const std::size_t lacking : {std::size_t{1}, std::size_t{30000}}) {
      OwnerByHand owner(is_encrypted);
      const auto memory = made(options_of(is_encrypted));
      Ended ended;
      auto reached = memory->reach(tcp::encode(owner.key), ended);
      REQUIRE(reached.ok());
      (*reached)->read(1, {0, 65536}, {});
      (*reached)->read(2, {0, 64}, {});
      owner.accept();
      owner.listen();
      say(owner.socket, owner.owed(tcp::welcome_bytes));
      owner.listen();
      const std::size_t all = 65536 + (is_encrypted ? tcp::tag_bytes : 0);
      say(owner.socket, owner.owed(all - lacking));
      owner.socket = OwnedFile();
      CHECK_FALSE(ended.wait_for(1));
      CHECK_FALSE(ended.wait_for(2));
      CHECK(ended.has_each_ended_once(1, 3));
    }
}

TEST_CASE("a reader that asks and does not read is ended in time, and others are served") {
  for (const bool is_encrypted : {false, true}) {
    TcpMemoryOptions options = options_of(is_encrypted);
    options.reader_silence_most = soon;
    auto owner = tcp::Owner::make(options, 1);
    REQUIRE(owner.ok());
    const std::shared_ptr<tcp::Region> region = tcp::Region::make(region_bytes);
    const tcp::Key key = (*owner)->grant(region);
    tcp::Link link(key, tcp::Nonce{}, std::make_shared<Landing>());
    const OwnedFile socket = proven(key, link);
    // More than the system keeps for a connection.
    for (std::uint64_t number = 1; number <= 64; ++number)
      link.ask(number, {{0, region_bytes}, {}});
    const auto frame = link.to_send();
    say(socket, frame);
    const auto memory = made(options_of(is_encrypted));
    Ended ended;
    auto reached = memory->reach(tcp::encode((*owner)->grant(region)), ended);
    REQUIRE(reached.ok());
    (*reached)->read(1, {0, 64}, {64, 64});
    CHECK(ended.wait_for(1));
    const auto until = std::chrono::steady_clock::now() + patience;
    while ((*owner)->connections() > 1 && std::chrono::steady_clock::now() < until)
      can(POLLRDHUP, socket, pause_ms);
    CHECK((*owner)->connections() == 1);
    (*reached)->read(2, {0, 64}, {64, 64});
    CHECK(ended.wait_for(2));
  }
}
