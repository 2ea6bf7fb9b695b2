// The product's private Redis server as a test's own process, with a second user who may do
// anything, and words of the test's own.
#pragma once

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <chrono>
#include <string>
#include <vector>

#include "runtime/redis/private_server.h"
#include "runtime/redis/redis_link.h"

namespace sluice {

template <typename Condition>
bool until(const Condition& condition,
           std::chrono::steady_clock::duration patience = std::chrono::seconds(30)) {
  const auto deadline = std::chrono::steady_clock::now() + patience;
  while (!condition()) {
    if (std::chrono::steady_clock::now() > deadline) return false;
    ::poll(nullptr, 0, 2);
  }
  return true;
}

class RealServer {
 public:
  /// `more`: words behind the private server's. A shared one has not its user `default`.
  explicit RealServer(std::string folder, std::vector<std::string> more = {},
                      bool is_shared = false)
      : folder_(std::move(folder)), more_(std::move(more)), is_shared_(is_shared) {
    start();
  }
  ~RealServer() { end(); }
  RealServer(const RealServer&) = delete;
  RealServer& operator=(const RealServer&) = delete;

  void start() {
    auto command = private_redis_command(folder_, "laptop");
    REQUIRE(command.ok());
    for (const char* word : {"--user", "root", "on", "nopass", "~*", "+@all"})
      command->emplace_back(word);
    if (is_shared_) {
      const auto user = std::ranges::find(*command, "default");
      REQUIRE(user != command->end());
      command->erase(user - 1, std::ranges::find(*command, "root") - 1);
    }
    command->insert(command->end(), more_.begin(), more_.end());
    std::vector<char*> words;
    for (std::string& word : *command) words.push_back(word.data());
    words.push_back(nullptr);
    pid_ = ::fork();
    if (pid_ == 0) {
      const int nothing = ::open("/dev/null", O_RDWR);
      ::dup2(nothing, STDOUT_FILENO);
      ::execv(words[0], words.data());
      ::_exit(127);
    }
    REQUIRE(until([&] { return link().ok(); }));
  }
  void end() {
    if (pid_ <= 0) return;
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
    pid_ = -1;
  }
  /// Told to stand still, it does when this comes back.
  void signal(int number) const {
    ::kill(pid_, number);
    if (number == SIGSTOP) REQUIRE(::waitpid(pid_, nullptr, WUNTRACED) == pid_);
  }
  RedisAddress address() const { return {private_redis_socket(folder_), "", 0}; }
  Result<RedisLink> link(const std::string& user = "root") const {
    return RedisLink::connect(address(), std::chrono::steady_clock::now() + std::chrono::seconds(5),
                              -1, RedisLogin{user, "x", ""});
  }
  RedisValue as_root(const std::vector<std::string>& words) const {
    Result<RedisLink> root = link();
    REQUIRE(root.ok());
    Result<RedisValue> answer =
        root->ask(words, std::chrono::steady_clock::now() + std::chrono::seconds(5));
    REQUIRE(answer.ok());
    INFO(answer->text);
    REQUIRE(answer->kind != RedisValue::Kind::error);
    return std::move(answer).value();
  }

 private:
  std::string folder_;
  std::vector<std::string> more_;
  bool is_shared_ = false;
  pid_t pid_ = -1;
};

}  // namespace sluice
