// The keeper of an entry beside a registry that answers what it is told to: what people are told,
// who may begin, and each text, word for word; and the words of entries at their limits.
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <catch2/catch.hpp>
#include <condition_variable>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <mutex>
#include <set>
#include <thread>

#include "runtime/redis/private_server.h"
#include "runtime/redis/registry_keeper.h"
#include "runtime/registry/registration.h"
#include "runtime/registry/scripts.h"
#include "tests/redis_server.h"
#include "tests/scratch_folder.h"

using namespace sluice;
using namespace std::chrono_literals;
using Kind = RegistryStanding::Kind;
using Words = std::vector<std::string>;

namespace {

const std::string hello = "*4\r\n$6\r\nserver\r\n$5\r\nredis\r\n$7\r\nversion\r\n$5\r\n7.2.4\r\n";

std::string list(const Words& words) {
  std::string text = "*" + std::to_string(words.size()) + "\r\n";
  for (const std::string& word : words)
    text += "$" + std::to_string(word.size()) + "\r\n" + word + "\r\n";
  return text;
}

/// Answers each question with what it was told last; empty: keeps still. One connection after the
/// other.
class Registry {
 public:
  explicit Registry(std::string answer) : answer_(std::move(answer)) {
    listener_ = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in where{};
    where.sin_family = AF_INET;
    where.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof where;
    REQUIRE(::bind(listener_, reinterpret_cast<sockaddr*>(&where), size) == 0);
    REQUIRE(::listen(listener_, 4) == 0);
    REQUIRE(::getsockname(listener_, reinterpret_cast<sockaddr*>(&where), &size) == 0);
    port_ = ntohs(where.sin_port);
    thread_ = std::thread([this] { serve(); });
  }
  ~Registry() {
    ::shutdown(listener_, SHUT_RDWR);
    thread_.join();
    ::close(listener_);
  }
  Registry(const Registry&) = delete;
  Registry& operator=(const Registry&) = delete;
  int port() const { return port_; }
  void answer(std::string with) {
    const std::lock_guard lock(mutex_);
    answer_ = std::move(with);
  }

 private:
  void serve() {
    for (int one = -1; (one = ::accept(listener_, nullptr, nullptr)) >= 0; ::close(one)) {
      // Questions are short, and each waits for its answer: one read is one question.
      std::array<char, 16384> part{};
      for (ssize_t got = 0; (got = ::recv(one, part.data(), part.size(), 0)) > 0;) {
        const std::string question(part.data(), static_cast<std::size_t>(got));
        std::string answer = hello;
        if (question.find("HELLO") == std::string::npos) {
          const std::lock_guard lock(mutex_);
          answer = answer_;
        }
        if (answer == "close") break;
        if (!answer.empty()) (void)::send(one, answer.data(), answer.size(), MSG_NOSIGNAL);
      }
    }
  }
  std::mutex mutex_;
  std::string answer_;
  int listener_ = -1, port_ = 0;
  std::thread thread_;
};

/// What a keeper tells, awaited.
struct Told {
  std::mutex mutex;
  std::condition_variable changed;
  Words notices, fenced;

  RegistryOptions options(int port, std::chrono::milliseconds lease) {
    RegistryOptions made;
    made.address = {"", "127.0.0.1", port};
    made.shown = "tcp://here";
    made.entry = {"laptop", "front", "token", "abcdef0123", 5, lease};
    made.notice = [this](const std::string& line) { add(notices, line); };
    made.fenced = [this](const std::string& why) { add(fenced, why); };
    return made;
  }
  void add(Words& to, const std::string& line) {
    const std::lock_guard lock(mutex);
    to.push_back(line);
    changed.notify_all();
  }
  bool wait_for(const Words& in, const std::string& line) {
    std::unique_lock lock(mutex);
    return changed.wait_for(lock, 20s, [&] { return std::ranges::count(in, line) != 0; });
  }
  bool wait(const Words& of, std::size_t lines) {
    std::unique_lock lock(mutex);
    return changed.wait_for(lock, 20s, [&] { return of.size() >= lines; });
  }
};

template <typename T>
std::string said(const Result<T>& result) {
  return result.ok() ? "well"
                     : std::string(to_string(result.error().code)) + ": " + result.error().message;
}

}  // namespace

TEST_CASE("an entry that is refused says why to who waits for it") {
  for (const auto& [answer, why] : std::vector<std::pair<std::string, std::string>>{
           {list({"held", "7", "300"}),
            "another process is machine 'front', in life 7; its lease lasts for 300 ms more"},
           {list({"young", "900"}),
            "it is new or was emptied, and lets in who was there before it lets newcomers in, in "
            "900 ms"},
           {list({"differs", "eyes", "0123456789"}),
            "machine 'eyes' has other workflows, plugins, overrides or places: digest 01234567..., "
            "machine "
            "'front' has abcdef01...; there both are cluster 'laptop', by the name of the cluster "
            "file: give another cluster's file another name"},
           {list({"ok", "e", "4", "front"}), "its answer makes no sense"},
           {"*2\r\n$2\r\nok\r\n:7\r\n", "its answer makes no sense"},
           {"-ERR not you\x1b\r\n", "it says: ERR not you?"},
           {"-NOPERM not you\x1b\r\n",
            "it says: NOPERM not you?; what this cluster needs there is `ACL SETUSER default "
            "+hello +eval +time +get +set +hget +hset +zadd +zrem +zscore +zrangebyscore "
            "~sluice:laptop:*`"},
           {"?\r\n", "its answer is refused: it is no answer of a Redis server"},
           {"close", "it closed the connection"}}) {
    const Registry registry(answer);
    Told told;
    const auto keeper = RegistryKeeper::create(told.options(registry.port(), 20s));
    const std::string expected =
        "deadline: the registry at tcp://here has not let machine 'front' in: " + why;
    std::string got;
    const auto end = std::chrono::steady_clock::now() + 20s;
    while (got != expected && std::chrono::steady_clock::now() < end)
      got = said(keeper->wait_for_entry(1ms));
    CHECK(got == expected);
    CHECK(said(keeper->may_begin()) ==
          "unavailable: no call can begin while the registry at tcp://here does not confirm this "
          "machine: " +
              why);
    CHECK(told.notices.empty());
    CHECK(told.fenced.empty());
  }
}

TEST_CASE("an entry that holds, lapses and is fenced is told") {
  const std::string ok = list({"ok", "e", "6", "front"});
  Told told;
  {
    Registry registry(ok);
    const auto keeper = RegistryKeeper::create(told.options(registry.port(), 2s));
    const Result<std::uint32_t> life = keeper->wait_for_entry(20s);
    REQUIRE(life.ok());
    CHECK(*life == 6);
    REQUIRE(told.wait_for(told.notices, "the registry at tcp://here confirms this machine"));
    registry.answer("");
    const std::string lost = "the registry at tcp://here is lost: it does not answer";
    REQUIRE(told.wait_for(told.notices, lost));
    REQUIRE(until([&] { return keeper->standing().kind == RegistryStanding::Kind::lapsed; }));
    CHECK(said(keeper->may_begin()) ==
          "unavailable: no call can begin while the registry at tcp://here does not confirm this "
          "machine: it does not answer");
    CHECK(said(keeper->wait_for_entry(0ms)) ==
          "deadline: the registry at tcp://here has not let machine 'front' in: it does not "
          "answer");
    CHECK(told.fenced.empty());
    registry.answer(list({"fenced", "9"}));
    REQUIRE(told.wait(told.fenced, 1));
    const std::string why = "another process has become machine 'front', in life 9";
    CHECK(told.fenced == Words{why});
    CHECK(said(keeper->wait_for_entry(20s)) == "stale: " + why);
    CHECK(said(keeper->may_begin()) == "stale: " + why);
    CHECK(keeper->standing().kind == Kind::fenced);
  }
  CHECK(told.fenced.size() == 1);
}

TEST_CASE("what is asked of a registry is these words and no others") {
  const RegistrationSettings settings{"laptop", "front", "token", "abcdef0123", 5, 1000ms, 70ms};
  Registration entry(settings);
  const Words keys{
      "3", "sluice:laptop:lives", "sluice:laptop:leases", "sluice:laptop:epoch", "front", "token"};
  const auto with = [&](const std::string& script, const Words& more) {
    Words words{"EVAL", script};
    words.insert(words.end(), keys.begin(), keys.end());
    words.insert(words.end(), more.begin(), more.end());
    return words;
  };
  CHECK(entry.farewell() == with(registry::leave, {}));
  auto question = entry.ask(0ms);
  REQUIRE(question);
  CHECK(question->number == 1);
  CHECK(question->words ==
        with(registry::enter, {"5", "abcdef0123", "1000", "token", "new", "70"}));
  CHECK(entry.due() == 250ms);
  CHECK_FALSE(entry.ask(10s));  // one at a time
  entry.answered(1, {"ok", "epoch", "8", "front"}, 10ms);
  CHECK(entry.due() == 260ms);
  CHECK_FALSE(entry.ask(260ms - 1ns));
  question = entry.ask(260ms);
  REQUIRE(question);
  CHECK(question->words ==
        with(registry::renew, {"8", "abcdef0123", "1000", "epoch", "again", "70"}));
  entry.answered(2, {"replaced"}, 300ms);
  CHECK(entry.due() == 300ms);
  question = entry.ask(300ms);
  REQUIRE(question);
  CHECK(question->words ==
        with(registry::enter, {"8", "abcdef0123", "1000", "token", "again", "70"}));
  entry.raise(8);
  entry.raise(11);
  CHECK(entry.incarnation() == 11);
  entry.broke("gone", 310ms);
  CHECK(entry.due() == 310ms + 62ms);
  question = entry.ask(entry.due());
  REQUIRE(question);
  CHECK(question->words[8] == "11");
  CHECK(question->number == 4);
}

TEST_CASE("an entry asks again a sixteenth of a lease after a break, and after 20 ms at least") {
  using Pauses = std::vector<std::pair<std::chrono::milliseconds, Registration::Instant>>;
  for (const auto& [lease, pause] :
       Pauses{{16ms, 20ms}, {319ms, 20ms}, {320ms, 20ms}, {336ms, 21ms}, {3200ms, 200ms}}) {
    Registration entry({"laptop", "front", "token", "w", 1, lease});
    entry.broke("gone", 1s);
    CHECK(entry.due() == 1s + pause);
    CHECK(entry.patience() == lease / 4);
  }
}

TEST_CASE("an answer names 256 machines, this one among them, and no more") {
  const auto stands = [](const Words& words) {
    Registration entry({"laptop", "front", "token", "w", 5, 1000ms});
    REQUIRE(entry.ask(0ms));
    entry.answered(1, words, 1ms);
    const RegistryStanding standing = entry.standing(1ms);
    return standing.kind == Kind::current ? std::to_string(entry.present().size()) : standing.why;
  };
  const auto answer = [](std::size_t machines) {
    Words words{"ok", "e", "5"};
    for (std::size_t i = 1; i < machines; ++i) words.push_back("m" + std::to_string(i));
    words.emplace_back("front");
    return words;
  };
  const std::string nonsense = "its answer makes no sense";
  CHECK(stands(answer(1)) == "1");
  CHECK(stands(answer(256)) == "256");
  CHECK(stands(answer(257)) == nonsense);
  CHECK(stands({"ok", "e", "5"}) == nonsense);
  CHECK(stands({"ok", "front", "5"}) == nonsense);
  CHECK(stands({"ok", "e"}) == nonsense);
  CHECK(stands({"ok", "", "5", "front"}) == nonsense);
  CHECK(stands({"ok", "e", "4", "front"}) == nonsense);
  CHECK(stands({"ok", "e", "5x", "front"}) == nonsense);
  CHECK(stands({"ok", "e", "", "front"}) == nonsense);
  CHECK(stands({"ok", "e", "4294967296", "front"}) == nonsense);
  CHECK(stands({"ok", "e", "4294967295", "front"}) == "1");
  CHECK(stands({}) == nonsense);
  CHECK(stands({"replaced"}) == nonsense);
  CHECK(stands({"fenced", "7"}) == nonsense);
  CHECK(stands({"held", "7"}) == nonsense);
  CHECK(stands({"young"}) == nonsense);
  CHECK(stands({"differs", "eyes"}) == nonsense);
}

TEST_CASE("of a text 200 bytes are shown, without what a terminal would act on") {
  CHECK(printable("") == "");
  CHECK(printable(std::string(200, 'x')) == std::string(200, 'x'));
  CHECK(printable(std::string(200, 'x') + 'y') == std::string(200, 'x'));
  for (int code = 0; code < 256; ++code) {
    const std::string one(1, static_cast<char>(code));
    CHECK(printable(one) == (code < 32 || code == 127 ? "?" : one));
  }
}

TEST_CASE("a token is 32 digits, and no two are one") {
  std::set<std::string> tokens;
  std::set<char> digits;
  for (int i = 0; i < 64; ++i) {
    const std::string token = new_registry_token();
    CHECK(token.size() == 32);
    CHECK(token.find_first_not_of("0123456789abcdef") == std::string::npos);
    digits.insert(token.begin(), token.end());
    tokens.insert(token);
  }
  CHECK(tokens.size() == 64);
  CHECK(digits.size() == 16);
}

TEST_CASE("a registry of one's own is started by these words, from a folder of the path") {
  const ScratchFolder folder;
  const std::string program = folder.path() + "/redis-server";
  struct Path {
    const std::string before = std::getenv("PATH");
    ~Path() { ::setenv("PATH", before.c_str(), 1); }
  } const path;
  const auto command_with = [&](const std::string& folders) {
    ::setenv("PATH", folders.c_str(), 1);
    return private_redis_command("/f", "laptop");
  };
  CHECK(said(command_with(folder.path())) ==
        "not_found: `registry: private` needs redis-server 7, which is not installed: `apt-get "
        "install redis-server`, or write `registry: none`");
  std::ofstream(program) << "#!/bin/sh\n";
  CHECK_FALSE(command_with(folder.path()).ok());  // nobody may run it
  std::filesystem::permissions(program, std::filesystem::perms::owner_all);
  CHECK_FALSE(command_with("relative:" + folder.path().substr(1)).ok());
  for (const std::string& folders :
       {folder.path(), "/none:" + folder.path(), "::" + folder.path() + ":/none"}) {
    const Result<Words> command = command_with(folders);
    REQUIRE(command.ok());
    CHECK(*command == Words{program,
                            "--port",
                            "0",
                            "--unixsocket",
                            "/f/registry.socket",
                            "--unixsocketperm",
                            "600",
                            "--dir",
                            "/f",
                            "--save",
                            "",
                            "--appendonly",
                            "no",
                            "--daemonize",
                            "no",
                            "--maxmemory",
                            "256mb",
                            "--maxmemory-policy",
                            "noeviction",
                            "--loglevel",
                            "warning",
                            "--crash-log-enabled",
                            "no",
                            "--crash-memcheck-enabled",
                            "no",
                            "--user",
                            "default",
                            "reset",
                            "on",
                            "nopass",
                            "resetchannels",
                            "-@all",
                            "+hello",
                            "+eval",
                            "+time",
                            "+get",
                            "+set",
                            "+hget",
                            "+hset",
                            "+zadd",
                            "+zrem",
                            "+zscore",
                            "+zrangebyscore",
                            "~sluice:laptop:*",
                            "+info",
                            "+fcall",
                            "+hdel",
                            "+hkeys",
                            "+hlen",
                            "+sadd",
                            "+srem",
                            "+scard",
                            "+sismember",
                            "+unlink",
                            "+function|load"});
  }
}
