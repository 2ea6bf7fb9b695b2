// One connection, by each way there is to a server, beside a peer that says what it is told to.
#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <array>
#include <catch2/catch.hpp>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <thread>

#include "runtime/redis/redis_link.h"
#include "tests/outcomes.h"
#include "tests/scratch_folder.h"

namespace sluice {

namespace {

using namespace std::chrono_literals;

const std::string wants_password =
    "it asks for a password: add `user: NAME, password_file: FILE` to the cluster file's "
    "`registry: { address: ADDRESS }`";
const std::string hello = "*4\r\n$6\r\nserver\r\n$5\r\nredis\r\n$7\r\nversion\r\n$5\r\n7.2.4\r\n";

/// Takes one connection, sends `says` at once, and reads until the other side has closed.
class Peer {
 public:
  /// Of AF_INET, AF_INET6, or AF_UNIX at `path`.
  Peer(int family, std::string says, std::string path = "", bool closes = false)
      : says_(std::move(says)), closes_(closes) {
    socket_ = ::socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    REQUIRE(socket_ >= 0);
    sockaddr_storage where{};
    socklen_t size = sizeof where;
    where.ss_family = static_cast<sa_family_t>(family);
    if (family == AF_UNIX) {
      auto* const local = reinterpret_cast<sockaddr_un*>(&where);
      REQUIRE(path.size() < sizeof local->sun_path);
      path.copy(local->sun_path, path.size());
      size = sizeof *local;
    } else if (family == AF_INET) {
      reinterpret_cast<sockaddr_in*>(&where)->sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    } else {
      reinterpret_cast<sockaddr_in6*>(&where)->sin6_addr = in6addr_loopback;
    }
    bound_ = ::bind(socket_, reinterpret_cast<sockaddr*>(&where), size) == 0;
    if (!bound_) return;
    REQUIRE(::listen(socket_, 1) == 0);
    size = sizeof where;
    REQUIRE(::getsockname(socket_, reinterpret_cast<sockaddr*>(&where), &size) == 0);
    port_ = ntohs(reinterpret_cast<sockaddr_in*>(&where)->sin_port);  // the same place in both
    thread_ = std::thread([this] { serve(); });
  }
  ~Peer() {
    ::shutdown(socket_, SHUT_RDWR);  // wakes who accepts
    if (thread_.joinable()) thread_.join();
    ::close(socket_);
  }
  Peer(const Peer&) = delete;
  Peer& operator=(const Peer&) = delete;

  bool bound() const { return bound_; }
  std::string port() const { return std::to_string(port_); }

 private:
  void serve() {
    const int one = ::accept(socket_, nullptr, nullptr);
    if (one < 0) return;
    (void)::send(one, says_.data(), says_.size(), MSG_NOSIGNAL);
    if (closes_) ::shutdown(one, SHUT_WR);
    std::array<char, 256> part{};
    while (::recv(one, part.data(), part.size(), 0) > 0) continue;
    ::close(one);
  }

  const std::string says_;
  const bool closes_;
  int socket_ = -1;
  int port_ = 0;
  bool bound_ = false;
  std::thread thread_;
};

RedisLink::Deadline soon() { return std::chrono::steady_clock::now() + 20s; }

Result<RedisLink> connect(const std::string& address, int stop = -1) {
  const Result<RedisAddress> read = read_redis_address(address);
  REQUIRE(read.ok());
  return RedisLink::connect(*read, soon(), stop);
}

/// What `PING` brings over a new connection, or the error.
std::string pinged(const std::string& address) {
  Result<RedisLink> link = connect(address);
  if (!link.ok()) return link.error().message;
  const Result<RedisValue> answer = link->ask({"PING"}, soon());
  return answer.ok() ? answer->text : answer.error().message;
}

std::string said_by(const std::string& says, bool closes = false) {
  const Peer peer(AF_INET, says, "", closes);
  return pinged("tcp://127.0.0.1:" + peer.port());
}

}  // namespace

TEST_CASE("a registry answers over each kind of address") {
  const std::string says = hello + "+PONG\r\n";
  CHECK(said_by(says) == "PONG");
  {
    const Peer peer(AF_INET6, says);
    if (peer.bound())
      CHECK(pinged("tcp://[::1]:" + peer.port()) == "PONG");
    else
      WARN("this machine has no IPv6 loopback: not tested");
  }
  const ScratchFolder folder;
  const std::string most = folder.path() + "/" + std::string(107 - folder.path().size() - 1, 's');
  const Peer peer(AF_UNIX, says, most);
  REQUIRE(peer.bound());
  CHECK(pinged("unix://" + most) == "PONG");
  CHECK(read_redis_address("unix://" + most + "s").error().message.find("at most 107 bytes") !=
        std::string::npos);
}

TEST_CASE("a registry that is not there is said to be that, over each kind of address") {
  std::string port;
  {
    const Peer gone(AF_INET, "");
    port = gone.port();
  }
  CHECK(pinged("tcp://127.0.0.1:" + port) == "it cannot be reached: Connection refused");
  const ScratchFolder folder;
  CHECK(pinged("unix://" + folder.path() + "/none") ==
        "it cannot be reached: No such file or directory");
}

TEST_CASE("what answers and is no registry of version 7 is named as what it is") {
  const auto version = [](const std::string& text) {
    return "*2\r\n$7\r\nversion\r\n$" + std::to_string(text.size()) + "\r\n" + text + "\r\n";
  };
  CHECK(said_by(version("7.0.0") + "+PONG\r\n") == "PONG");
  CHECK(said_by(version("10.1") + "+PONG\r\n") == "PONG");
  CHECK(said_by(version("6.2.14")) == "it is Redis 6.2.14, 7 or later is needed");
  CHECK(said_by(version("old")) == "it is Redis 5 or older, 7 or later is needed");
  CHECK(said_by("*0\r\n") == "it is Redis 5 or older, 7 or later is needed");
  CHECK(said_by("*1\r\n$7\r\nversion\r\n") == "it is Redis 5 or older, 7 or later is needed");
  CHECK(said_by("-ERR unknown command `HELLO`\r\n") ==
        "it is Redis 5 or older, 7 or later is needed");
  CHECK(said_by("-NOAUTH who are you\r\n") == wants_password);
  CHECK(said_by("", true) == "it closed the connection");
  CHECK(said_by(hello, true) == "it closed the connection");
}

TEST_CASE("what a server says that it is decides whether it is the registry, as before") {
  test::Outcomes outcomes("registry_versions");
  const auto with = [](const std::string& key, const std::string& text) {
    return "*4\r\n$6\r\nserver\r\n$5\r\nredis\r\n$" + std::to_string(key.size()) + "\r\n" + key +
           "\r\n$" + std::to_string(text.size()) + "\r\n" + text + "\r\n+PONG\r\n";
  };
  for (const char* version : {"0.9",
                              "1.0",
                              "1",
                              "2.8.24",
                              "5.0.14",
                              "6",
                              "6.9.9",
                              "7",
                              "7.0.0",
                              "70",
                              "8",
                              " 7",
                              "v7",
                              "-7",
                              "+7",
                              "99999999999999999999",
                              "",
                              "6.\x1b[2J",
                              "6.345678901234567",
                              "6.3456789012345678",
                              "6.34567890123456789",
                              "6.345678901234567890",
                              "6.3456789012345678901"})
    outcomes.add(std::string("version '") + version + "'", said_by(with("version", version)));
  for (const char* key : {"Version", "versio", "versions", ""})
    outcomes.add(std::string("key '") + key + "'", said_by(with(key, "7.2.4")));
  for (const char* says : {"+OK\r\n", ":7\r\n", "$-1\r\n", "-ERR\r\n", "-ERR unknown command\r\n",
                           "-unknown comman\r\n", "-\x1b[2J\r\n", "?\r\n", "*1\r\n"})
    outcomes.add("another answer", said_by(std::string(says) + "+PONG\r\n", true));
  outcomes.require_as_kept();
}

TEST_CASE("a login comes before all else, and what a server says to it is never repeated") {
  const auto answered = [](const std::string& says) {
    const Peer peer(AF_INET, says);
    const Result<RedisAddress> address = read_redis_address("tcp://127.0.0.1:" + peer.port());
    REQUIRE(address.ok());
    Result<RedisLink> link =
        RedisLink::connect(*address, soon(), -1, RedisLogin{"lab", "open sesame", "keys/redis"});
    if (!link.ok()) return link.error().message;
    const Result<RedisValue> answer = link->ask({"PING"}, soon());
    return answer.ok() ? answer->text : answer.error().message;
  };
  CHECK(answered("+OK\r\n" + hello + "+PONG\r\n") == "PONG");
  CHECK(
      answered("-WRONGPASS 'open sesame' is wrong\r\n") ==
      "it does not take user 'lab' with the password in keys/redis: write the one there that `ACL "
      "SETUSER lab on >PASSWORD` gave this user");
  for (const char* says : {"-ERR wrong: open sesame\r\n", "+open sesame\r\n", ":1\r\n", "*0\r\n",
                           "$-1\r\n", "-OK\r\n"})
    CHECK(answered(says) == "it does not take AUTH with a user and a password, which Redis 7 does");
}

TEST_CASE("whoever waits for a registry stops when nobody wants the answer, or it is late") {
  const Peer silent(AF_INET, hello);
  const int stop = ::eventfd(0, EFD_CLOEXEC);
  {
    Result<RedisLink> link = connect("tcp://127.0.0.1:" + silent.port(), stop);
    REQUIRE(link.ok());
    const Result<RedisValue> late = link->ask({"PING"}, std::chrono::steady_clock::now());
    REQUIRE_FALSE(late.ok());
    CHECK(late.error().code == ErrorCode::deadline);
    CHECK(late.error().message == "it does not answer");
    const std::uint64_t one = 1;
    REQUIRE(::write(stop, &one, sizeof one) == sizeof one);
    const Result<RedisValue> stopped = link->ask({"PING"}, soon());
    REQUIRE_FALSE(stopped.ok());
    CHECK(stopped.error().code == ErrorCode::cancelled);
  }
  ::close(stop);
}

}  // namespace sluice
