// Each call to the system that a link to a registry makes fails: what is said, and what is left.
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <catch2/catch.hpp>
#include <cerrno>
#include <filesystem>
#include <thread>

#include "runtime/redis/redis_link.h"
#include "tests/system/failing_call.h"

using namespace sluice;
using test::FailingCall;

namespace {

constexpr auto long_enough = std::chrono::seconds(20);
const std::string hello = "*4\r\n$6\r\nserver\r\n$5\r\nredis\r\n$7\r\nversion\r\n$5\r\n7.2.4\r\n";

std::size_t descriptors() {
  const std::filesystem::directory_iterator all("/proc/self/fd");
  return static_cast<std::size_t>(std::distance(begin(all), end(all)));
}

/// A listening socket, whose one connection is taken by this thread and answered beforehand.
struct Server {
  int listener = -1, one = -1;
  RedisAddress address;
  Server() {
    listener = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in where{};
    where.sin_family = AF_INET;
    where.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof where;
    REQUIRE(::bind(listener, reinterpret_cast<sockaddr*>(&where), size) == 0);
    REQUIRE(::listen(listener, 8) == 0);
    REQUIRE(::getsockname(listener, reinterpret_cast<sockaddr*>(&where), &size) == 0);
    address = {"", "127.0.0.1", ntohs(where.sin_port)};
  }
  ~Server() {
    if (one >= 0) ::close(one);
    ::close(listener);
  }
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;
  void say(const std::string& text) const {
    REQUIRE(::send(one, text.data(), text.size(), MSG_NOSIGNAL) ==
            static_cast<ssize_t>(text.size()));
  }
  std::string read() const {
    std::array<char, 4096> part{};
    const ssize_t got = ::recv(one, part.data(), part.size(), 0);
    return got <= 0 ? "" : std::string(part.data(), static_cast<std::size_t>(got));
  }
};

RedisLink::Deadline soon() { return std::chrono::steady_clock::now() + long_enough; }

template <typename T>
std::string said(const Result<T>& result) {
  return result.ok() ? "well"
                     : std::string(to_string(result.error().code)) + ": " + result.error().message;
}

/// A link, and what its first question was.
struct Link {
  Server server;
  std::optional<RedisLink> link;
  std::string asked;
  Link() {
    std::thread answers([this] {
      server.one = ::accept(server.listener, nullptr, nullptr);
      asked = server.read();
      server.say(hello);
    });
    Result<RedisLink> made = RedisLink::connect(server.address, soon(), -1);
    answers.join();
    REQUIRE(made.ok());
    link.emplace(std::move(made).value());
  }
};

}  // namespace

TEST_CASE("a link that cannot be made says why, and leaves nothing") {
  const Server server;
  const std::size_t before = descriptors();
  const auto made_with = [&](const char* function, int error) {
    const FailingCall fails(function, error);
    return said(RedisLink::connect(server.address, soon(), -1));
  };
  CHECK(made_with("socket", EMFILE) == "unavailable: no socket: Too many open files");
  CHECK(made_with("connect", ENETUNREACH) ==
        "unavailable: it cannot be reached: Network is unreachable");
  CHECK(made_with("poll", ENOMEM) ==
        "unavailable: it cannot be waited for: Cannot allocate memory");
  CHECK(made_with("send", EPIPE) == "unavailable: the connection broke: Broken pipe");
  const auto wrong = [](RedisAddress address) {
    return said(RedisLink::connect(address, soon(), -1));
  };
  CHECK(wrong({"", "nowhere", 1}) == "invalid_argument: nowhere is no address");
  const std::string path(108, 'p');
  CHECK(wrong({path, "", 0}) ==
        "invalid_argument: " + path + ": a socket's path has at most 107 bytes");
  CHECK(wrong({path.substr(1), "", 0}) ==
        "unavailable: it cannot be reached: No such file or directory");
  CHECK(descriptors() == before);
}

TEST_CASE("an address of a registry is read to its parts, or refused whole") {
  const auto parts = [](const std::string& text) {
    const Result<RedisAddress> read = read_redis_address(text);
    if (!read.ok()) return said(read);
    return read->path + " | " + read->host + " | " + std::to_string(read->port);
  };
  const auto none = [](const std::string& text) {
    return "invalid_argument: '" + text +
           "' is no address of a registry: unix:///PATH, tcp://127.0.0.1:PORT or tcp://[::1]:PORT";
  };
  CHECK(parts("unix:///a") == "/a |  | 0");
  CHECK(parts("unix:///") == none("unix:///"));
  CHECK(parts("unix://a") == none("unix://a"));
  CHECK(parts("tcp://127.0.0.1:1") == " | 127.0.0.1 | 1");
  CHECK(parts("tcp://127.255.0.9:65535") == " | 127.255.0.9 | 65535");
  CHECK(parts("tcp://[::1]:6379") == " | ::1 | 6379");
  for (const char* text :
       {"tcp://127.0.0.1:0", "tcp://127.0.0.1:65536", "tcp://127.0.0.1:", "tcp://127.0.0.1:7x",
        "tcp://127.0.0.1:99999999999", "tcp://127.0.0.1", "tcp://127.0.0:7", "tcp://[::1]:0",
        "tcp://[::1]:70000", "tcp://128.0.0.1:7", "127.0.0.1:7", ""})
    CHECK(parts(text) == none(text));
  const std::string longest = "unix://" + std::string(1, '/') + std::string(106, 'p');
  CHECK(parts(longest) == longest.substr(7) + " |  | 0");
  CHECK(parts(longest + "p") == "invalid_argument: '" + longest +
                                    "p' is no address of a registry: a socket's path has at most "
                                    "107 bytes");
}

TEST_CASE("a question goes out and its answer comes in, whatever interrupts it") {
  Link world;
  CHECK(world.asked == "*2\r\n$5\r\nHELLO\r\n$1\r\n2\r\n");
  const auto pings = [&](const char* function, int error, int times = 1) {
    const FailingCall fails(function, error, 1, times);
    world.server.say("+PONG\r\n");
    const Result<RedisValue> answer = world.link->ask({"PING", std::string("\0x", 2)}, soon());
    return answer.ok() ? answer->text : said(answer);
  };
  const std::string question("*2\r\n$4\r\nPING\r\n$2\r\n\0x\r\n", 22);
  for (const auto& [function, error] : std::vector<std::pair<const char*, int>>{
           {"none", 0}, {"poll", EINTR}, {"recv", EINTR}, {"recv", EAGAIN}}) {
    // The other side's own calls would count: it asks by another way.
    CHECK(pings(function, error, 3) == "PONG");
    std::array<char, 64> part{};
    const ssize_t got = ::read(world.server.one, part.data(), part.size());
    REQUIRE(got > 0);
    CHECK(std::string(part.data(), static_cast<std::size_t>(got)) == question);
  }
  CHECK(pings("recv", ECONNRESET) == "unavailable: the connection broke: Connection reset by peer");
}

TEST_CASE("a question that the connection does not take is sent again where that helps") {
  Link world;
  for (const int error : {EINTR, EAGAIN}) {
    REQUIRE(::write(world.server.one, "+PONG\r\n", 7) == 7);
    const FailingCall fails("send", error, 1, 2);
    const Result<RedisValue> answer = world.link->ask({"PING"}, soon());
    REQUIRE(answer.ok());
    CHECK(answer->text == "PONG");
    CHECK(fails.calls() == 3);
  }
  const FailingCall fails("send", ECONNRESET);
  CHECK(said(world.link->ask({"PING"}, soon())) ==
        "unavailable: the connection broke: Connection reset by peer");
}

TEST_CASE("a question of any size arrives whole, also where it leaves in pieces") {
  Link world;
  const std::string large(std::size_t{3} << 20U, 'q');
  const std::string question = "*2\r\n$3\r\nSET\r\n$3145728\r\n" + large + "\r\n";
  std::string got;
  std::thread reads([&] {
    std::array<char, 65536> part{};
    while (got.size() < question.size()) {
      const ssize_t size = ::recv(world.server.one, part.data(), part.size(), 0);
      if (size <= 0) break;
      got.append(part.data(), static_cast<std::size_t>(size));
    }
    world.server.say("$3\r\nyes\r\n");
  });
  const Result<RedisValue> answer = world.link->ask({"SET", large}, soon());
  reads.join();
  REQUIRE(answer.ok());
  CHECK(answer->text == "yes");
  CHECK((got == question));
}

TEST_CASE("a link that has moved closes its socket once, and not before") {
  const std::size_t before = descriptors();
  {
    Link world;
    RedisLink moved(std::move(*world.link));
    world.link.reset();
    world.server.say("+PONG\r\n");
    const Result<RedisValue> answer = moved.ask({"PING"}, soon());
    REQUIRE(answer.ok());
    CHECK(answer->text == "PONG");
  }
  CHECK(descriptors() == before);
}
