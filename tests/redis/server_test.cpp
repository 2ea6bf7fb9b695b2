// Entries in a real Redis server: killed, stopped, emptied, started again empty, of another
// version.
#include <signal.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <atomic>
#include <catch2/catch.hpp>
#include <cstring>
#include <filesystem>
#include <memory>
#include <optional>
#include <thread>

#include "runtime/redis/private_server.h"
#include "runtime/redis/registry_keeper.h"
#include "tests/redis_server.h"
#include "tests/scratch_folder.h"

namespace sluice {

namespace {

using namespace std::chrono_literals;
using Kind = RegistryStanding::Kind;
constexpr auto patience = 20s;
constexpr auto lease = 2s;

class Server : public RealServer {
 public:
  explicit Server(const ScratchFolder& folder) : RealServer(folder.path()) {}
  /// A shared one: its `default` needs another password, and `lab` may do what the rule says.
  Server(const ScratchFolder& folder, const std::string& password,
         const std::vector<std::string>& rule)
      : RealServer(folder.path(), words(password, rule), true) {}

  Result<RedisLink> connect() const {
    return RedisLink::connect(address(), std::chrono::steady_clock::now() + 5s, -1);
  }

  std::unique_ptr<RegistryKeeper> keeper(const std::string& machine,
                                         const std::string& workflow = "aaaaaaaaaa",
                                         std::uint32_t least = 5,
                                         std::chrono::milliseconds young = 0ms,
                                         std::optional<RedisLogin> login = std::nullopt) const {
    RegistryOptions options;
    options.login = std::move(login);
    options.address.path = address().path;
    options.shown = "unix://" + options.address.path;
    options.entry = {"laptop", machine, new_registry_token(), workflow, least, lease, young};
    return RegistryKeeper::create(std::move(options));
  }

 private:
  static std::vector<std::string> words(const std::string& password,
                                        const std::vector<std::string>& rule) {
    std::vector<std::string> more{"--requirepass", "another", "--user",
                                  "lab",           "on",      ">" + password};
    more.insert(more.end(), rule.begin(), rule.end());
    return more;
  }
};

bool is(const RegistryKeeper& keeper, Kind kind) { return keeper.standing().kind == kind; }

/// Why it is not in, as soon as that begins so.
bool is_refused(const RegistryKeeper& keeper, const std::string& why) {
  return until([&] { return keeper.standing().why.starts_with(why); });
}

}  // namespace

TEST_CASE("processes enter, are told of each other's workflows and names, and leave") {
  const ScratchFolder folder;
  const Server server(folder);
  const auto front = server.keeper("front");
  REQUIRE(front->wait_for_entry(patience).ok());
  CHECK(front->may_begin().ok());
  {
    const auto other = server.keeper("eyes", "bbbbbbbbbb");
    REQUIRE(is_refused(*other,
                       "machine 'front' has other workflows, plugins, overrides or places: digest "
                       "aaaaaaaa..., machine 'eyes' has bbbbbbbb..."));
    const auto refused = other->wait_for_entry(0ms);
    REQUIRE_FALSE(refused.ok());
    CHECK(refused.error().code == ErrorCode::deadline);
    CHECK(refused.error().message.find("has not let machine 'eyes' in: machine "
                                       "'front' has other") != std::string::npos);
  }
  auto eyes = server.keeper("eyes");
  REQUIRE(*eyes->wait_for_entry(patience) == 5);
  eyes->raise(8);
  {
    const auto again = server.keeper("eyes");
    REQUIRE(is_refused(*again, "another process is machine 'eyes', in life"));
    CHECK_FALSE(again->wait_for_entry(0ms).ok());
  }
  REQUIRE(until([&] {
    return server.as_root({"HGET", "sluice:laptop:lives", "eyes"}).text.starts_with("8 ");
  }));
  eyes.reset();  // gives the name back: the next need not wait for the lease
  REQUIRE(until([&] {
    return server.as_root({"ZSCORE", "sluice:laptop:leases", "eyes"}).kind ==
           RedisValue::Kind::nothing;
  }));
  eyes = server.keeper("eyes");
  CHECK(*eyes->wait_for_entry(patience) == 9);
}

TEST_CASE("a server that is killed, or started again empty, fences nobody") {
  const ScratchFolder folder;
  Server server(folder);
  const auto front = server.keeper("front");
  REQUIRE(*front->wait_for_entry(patience) == 5);
  for (int round = 0; round < 3; ++round) {
    server.end();
    REQUIRE(until([&] { return is(*front, Kind::lapsed); }));
    const Result<void> refused = front->may_begin();
    REQUIRE_FALSE(refused.ok());
    CHECK(refused.error().code == ErrorCode::unavailable);
    CHECK(refused.error().message.find("no call can begin while the registry at unix://") == 0);
    server.start();
    REQUIRE(until([&] { return is(*front, Kind::current); }));
    CHECK(front->wait_for_entry(patience).value() == 5);
  }
}

TEST_CASE("a server that stands still, and one that is emptied, fence nobody") {
  const ScratchFolder folder;
  const Server server(folder);
  const auto front = server.keeper("front");
  const auto eyes = server.keeper("eyes");
  REQUIRE(front->wait_for_entry(patience).ok());
  REQUIRE(eyes->wait_for_entry(patience).ok());
  server.signal(SIGSTOP);
  REQUIRE(until([&] { return is(*front, Kind::lapsed) && is(*eyes, Kind::lapsed); }));
  CHECK(front->standing().why == "it does not answer");
  server.signal(SIGCONT);
  REQUIRE(until([&] { return is(*front, Kind::current) && is(*eyes, Kind::current); }));
  for (int round = 0; round < 5; ++round) {
    server.as_root({"FLUSHALL"});
    REQUIRE(until([&] { return server.as_root({"ZCARD", "sluice:laptop:leases"}).number == 2; }));
    REQUIRE(until([&] { return is(*front, Kind::current) && is(*eyes, Kind::current); }));
  }
  CHECK(front->wait_for_entry(patience).value() == 5);
}

TEST_CASE("an emptied server lets the living holder in again before one that waits") {
  const ScratchFolder folder;
  const Server server(folder);
  const auto first = server.keeper("eyes", "aaaaaaaaaa", 5, lease);
  CHECK(is_refused(*first, "it is new or was emptied"));
  REQUIRE(until([&] { return is(*first, Kind::current); }));
  const auto second = server.keeper("eyes", "aaaaaaaaaa", 5, lease);
  REQUIRE(is_refused(*second, "another process is machine 'eyes'"));
  for (int round = 0; round < 3; ++round) {
    server.as_root({"FLUSHALL"});
    // The one that waits asks first, as the other would at a later moment.
    REQUIRE(until([&] {
      const RedisValue life = server.as_root({"HGET", "sluice:laptop:lives", "eyes"});
      return life.kind != RedisValue::Kind::nothing;
    }));
    REQUIRE(is_refused(*second, "another process is machine 'eyes', in life 5"));
    CHECK(is(*first, Kind::current));
    CHECK(is(*second, Kind::joining));
  }
}

TEST_CASE("a process whose name another took while its entry was gone is fenced, once") {
  const ScratchFolder folder;
  const Server server(folder);
  std::atomic<int> told{0};
  RegistryOptions options;
  options.address.path = private_redis_socket(folder.path());
  options.shown = "the test's";
  options.entry = {"laptop", "eyes", new_registry_token(), "aaaaaaaaaa", 5, lease};
  options.fenced = [&](const std::string&) { ++told; };
  const auto first = RegistryKeeper::create(std::move(options));
  REQUIRE(first->wait_for_entry(patience).ok());
  // As after a partition of a lease: the server has forgotten the first.
  server.as_root({"HSET", "sluice:laptop:lives", "eyes", "7 somebodyelse aaaaaaaaaa"});
  REQUIRE(until([&] { return is(*first, Kind::fenced); }));
  CHECK(first->may_begin().error().code == ErrorCode::stale);
  CHECK(first->may_begin().error().message ==
        "another process has become machine 'eyes', in life 7");
  REQUIRE(until([&] { return told > 0; }));
  CHECK(told == 1);
}

TEST_CASE("the registry's user can do nothing else, and nothing to other keys") {
  const ScratchFolder folder;
  const Server server(folder);
  Result<RedisLink> link = server.connect();
  REQUIRE(link.ok());
  const std::vector<std::vector<std::string>> forbidden{
      {"FLUSHALL"},
      {"CONFIG", "GET", "*"},
      {"KEYS", "*"},
      {"GET", "other"},
      {"ACL", "WHOAMI"},
      {"SCRIPT", "FLUSH"},
      {"SHUTDOWN"},
      {"MODULE", "LIST"},
      {"EVAL", "return redis.call('FLUSHALL')", "0"},
      {"SET", "sluice:other:epoch", "x"},
      {"EVAL", "return redis.call('GET', 'other')", "0"}};
  for (const auto& words : forbidden) {
    const auto answer = link->ask(words, std::chrono::steady_clock::now() + 5s);
    REQUIRE(answer.ok());
    INFO(words[0] << ": " << answer->text);
    CHECK(answer->kind == RedisValue::Kind::error);
  }
  struct stat facts {};
  REQUIRE(::lstat(private_redis_socket(folder.path()).c_str(), &facts) == 0);
  CHECK((facts.st_mode & 0777) == 0600);
}

TEST_CASE("a user with the rule that is written down, and nothing more, is enough for an entry") {
  const ScratchFolder folder;
  const Server server(folder, "open sesame", registry_acl("laptop"));
  const auto with = [&](std::optional<RedisLogin> login) {
    return server.keeper("front", "aaaaaaaaaa", 5, 0ms, std::move(login));
  };
  CHECK(is_refused(*with(std::nullopt), "it asks for a password: add `user: NAME"));
  CHECK(is_refused(*with(RedisLogin{"lab", "sesame", "keys/redis"}),
                   "it does not take user 'lab' with the password in keys/redis"));
  CHECK(is_refused(*with(RedisLogin{"nobody", "open sesame", "keys/redis"}),
                   "it does not take user 'nobody' with"));
  const RedisLogin lab{"lab", "open sesame", "keys/redis"};
  auto front = with(lab);
  REQUIRE(*front->wait_for_entry(patience) == 5);
  CHECK(front->may_begin().ok());
  front->raise(8);  // renewed, in a later life
  REQUIRE(until([&] {
    return server.as_root({"HGET", "sluice:laptop:lives", "front"}).text.starts_with("8 ");
  }));
  front.reset();  // and given back
  REQUIRE(until([&] {
    return server.as_root({"ZSCORE", "sluice:laptop:leases", "front"}).kind ==
           RedisValue::Kind::nothing;
  }));
}

TEST_CASE("a user whose rule lacks a command is not let in, and what the server says is told") {
  const ScratchFolder folder;
  std::vector<std::string> rule = registry_acl("laptop");
  std::erase(rule, "+hset");
  const Server server(folder, "open sesame", rule);
  const auto front =
      server.keeper("front", "aaaaaaaaaa", 5, 0ms, RedisLogin{"lab", "open sesame", "f"});
  CHECK(is_refused(*front, "it says: "));
  CHECK(front->standing().kind != Kind::current);
}

TEST_CASE("servers that are too old, hostile or nobody are named as such") {
  const ScratchFolder folder;
  const std::string path = folder.path() + "/s";
  const auto connect = [&] {
    return RedisLink::connect({path, "", 0}, std::chrono::steady_clock::now() + 2s, -1);
  };
  CHECK(connect().error().message.find("it cannot be reached") == 0);
  const int listener = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::strcpy(address.sun_path, path.c_str());
  REQUIRE(::bind(listener, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0);
  REQUIRE(::listen(listener, 8) == 0);
  const auto says = [&](const std::string& answer) {
    std::thread peer([&] {
      const int reader = ::accept(listener, nullptr, nullptr);
      char hello[256];
      (void)!::read(reader, hello, sizeof hello);
      (void)!::send(reader, answer.data(), answer.size(), MSG_NOSIGNAL);
      ::shutdown(reader, SHUT_WR);
      while (::read(reader, hello, sizeof hello) > 0) continue;
      ::close(reader);
    });
    std::string words;
    if (const auto made = connect(); !made.ok()) words = made.error().message;
    peer.join();  // it reads until the connection is closed
    return words;
  };
  const auto version = [](const std::string& text) {
    return "*4\r\n$6\r\nserver\r\n$5\r\nredis\r\n$7\r\nversion\r\n$" + std::to_string(text.size()) +
           "\r\n" + text + "\r\n";
  };
  CHECK(says(version("6.2.7")) == "it is Redis 6.2.7, 7 or later is needed");
  CHECK(says("-ERR unknown command `HELLO`\r\n") == "it is Redis 5 or older, 7 or later is needed");
  CHECK(says("-NOAUTH Authentication required.\r\n") ==
        "it asks for a password: add `user: NAME, password_file: FILE` to the cluster file's "
        "`registry: { address: ADDRESS }`");
  CHECK(says("HTTP/1.1 400 Bad Request\r\n\r\n").find("no answer of a Redis server") !=
        std::string::npos);
  CHECK(says("*2000000000\r\n").find("its answer is refused") == 0);
  CHECK(says("*4\r\n") == "it closed the connection");
  ::close(listener);
}

}  // namespace sluice
