// Machines over the product's keeper and a real Redis server that is killed, stopped, emptied, put
// back to an older copy, full, or forbids what is needed: the index is what the machines have
// again.
#include <atomic>
#include <catch2/catch.hpp>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>

#include "base/random.h"
#include "dataplane/page_index.h"
#include "runtime/redis/index_keeper.h"
#include "runtime/redis/page_index.h"
#include "tests/locked_index.h"
#include "tests/redis_server.h"
#include "tests/scratch_folder.h"

using namespace sluice;
using namespace std::chrono_literals;

namespace {

constexpr auto lease = 1500ms;

PageKey key_of(std::uint64_t page) {
  SplitMix64 random(page);
  return {{random.next(), random.next(), random.next(), random.next()}};
}
PageIndex::Instant now() { return std::chrono::steady_clock::now().time_since_epoch(); }

/// A machine with the pages 1, 2, ... each behind the one before.
class Machine final : private LockedIndex {
 public:
  Machine(const RealServer& server, std::uint32_t number, std::uint32_t life = 1,
          const std::string& user = "default")
      : LockedIndex({"sluice:laptop:pages:7", {number, life}, lease, "data"}) {
    IndexOptions options;
    options.address = server.address();
    options.shown = "the test's";
    options.login = RedisLogin{user, "x", "f"};
    options.cluster = "laptop";
    options.lease = lease;
    options.notice = [this](const std::string& what) {
      const std::lock_guard lock(mutex_);
      notices_.push_back(what);
    };
    keeper_ = make_index_keeper(std::move(options));
    keeper_->open(*this);
  }
  ~Machine() override { keeper_->close(*this); }

  void publish(std::uint64_t pages) {
    {
      const std::lock_guard lock(mutex_);
      for (; pages_ < pages; ++pages_) index_.published(key_of(pages_ + 1), now());
      for (; pages_ > pages; --pages_) index_.dropped(key_of(pages_), now());
    }
    keeper_->wake();
  }
  bool is_told() {
    const std::lock_guard lock(mutex_);
    return index_.is_told() && index_.down().empty();
  }
  std::string down() {
    const std::lock_guard lock(mutex_);
    return index_.down();
  }
  std::vector<std::string> notices() {
    const std::lock_guard lock(mutex_);
    return notices_;
  }
  std::uint64_t anew() {
    const std::lock_guard lock(mutex_);
    return index_.counts().anew;
  }
  /// Who has the first pages; none: no answer.
  std::optional<std::vector<PageProvider>> find(std::uint64_t pages) {
    std::vector<PageKey> keys;
    for (std::uint64_t page = 1; page <= pages; ++page) keys.push_back(key_of(page));
    {
      const std::lock_guard lock(mutex_);
      if (!index_.find(++asked_, keys, now())) return std::nullopt;
    }
    keeper_->wake();
    std::optional<PageIndex::Found> found;
    const auto began = std::chrono::steady_clock::now();
    REQUIRE(until([&] {
      const std::lock_guard lock(mutex_);
      for (PageIndex::Found& one : index_.take_found(now())) found = std::move(one);
      return found.has_value();
    }));
    slowest_ = std::max(slowest_, std::chrono::steady_clock::now() - began);
    if (!found->is_answered) return std::nullopt;
    return found->providers;
  }
  bool finds(std::uint64_t pages, const std::vector<PageProvider>& want) {
    return until([&] { return find(pages) == want; });
  }

 private:
  std::vector<std::string> notices_;
  std::uint64_t pages_ = 0, asked_ = 0;
  std::chrono::steady_clock::duration slowest_{};
  std::unique_ptr<IndexPort> keeper_;
};

/// Asks one question, which the server never answers.
class EndsAmidQuestion final : public IndexClient {
 public:
  std::optional<IndexQuestion> ask(Instant) override {
    if (std::exchange(has_asked_, true)) return std::nullopt;
    return IndexQuestion{1, {"BLPOP", "nothing", "0"}, 60s};
  }
  Instant due() const override { return Instant::max(); }
  void answered(std::uint64_t, const std::vector<std::string>&, Instant) override {}
  void refused(std::uint64_t, const std::string&, Instant) override {}
  void broke(const std::string&, Instant) override {}
  std::vector<std::string> farewell() const override { return {"SET", "farewell", "said"}; }

 private:
  bool has_asked_ = false;
};

/// Asks one question, so that there is a link, and is then quiet.
class SaysFarewell final : public IndexClient {
 public:
  explicit SaysFarewell(std::string words) : words_(std::move(words)) {}
  std::optional<IndexQuestion> ask(Instant) override {
    if (std::exchange(has_asked_, true)) return std::nullopt;
    return IndexQuestion{1, {"KEYS", "nothing"}, 60s};
  }
  Instant due() const override { return Instant::max(); }
  void answered(std::uint64_t, const std::vector<std::string>&, Instant) override {
    is_answered_ = true;
  }
  void refused(std::uint64_t, const std::string&, Instant) override {}
  void broke(const std::string&, Instant) override {}
  std::vector<std::string> farewell() const override { return {"SET", "farewell", words_}; }
  bool is_answered() const { return is_answered_; }

 private:
  const std::string words_;
  bool has_asked_ = false;
  std::atomic<bool> is_answered_ = false;
};

std::vector<PageProvider> has(std::uint32_t machine, std::size_t pages, std::uint32_t life = 1) {
  return {{{machine, life}, pages}};
}

}  // namespace

TEST_CASE("what a machine publishes another finds, until it is withdrawn or the machine leaves") {
  const ScratchFolder folder;
  const RealServer server(folder.path());
  Machine asks(server, 1);
  {
    Machine owner(server, 0);
    owner.publish(2000);
    CHECK(asks.finds(40, has(0, 40)));
    CHECK(asks.finds(3000, has(0, 2000)));
    owner.publish(10);
    CHECK(asks.finds(40, has(0, 10)));
  }
  // Its keeper says so before a lease is over.
  CHECK(server.as_root({"EXISTS", "sluice:laptop:pages:7:has:0"}).number == 0);
  CHECK(asks.finds(40, {}));
  CHECK(asks.notices().empty());
}

TEST_CASE("a pool that ends while a question of it is open takes its leave nevertheless") {
  const ScratchFolder folder;
  const RealServer server(folder.path());
  EndsAmidQuestion client;
  IndexOptions options;
  options.address = server.address();
  options.login = RedisLogin{"root", "x", "f"};
  std::unique_ptr<IndexPort> keeper = make_index_keeper(std::move(options));
  keeper->open(client);
  REQUIRE(until([&] {
    return server.as_root({"INFO", "clients"}).text.find("blocked_clients:1") != std::string::npos;
  }));
  keeper->close(client);
  keeper.reset();
  CHECK(server.as_root({"GET", "farewell"}).text == "said");
}

TEST_CASE("a keeper that ends while a farewell is on its way says it again") {
  const ScratchFolder folder;
  const RealServer server(folder.path());
  int said = 0;
  for (int round = 0; round < 200; ++round) {
    SaysFarewell client("farewell " + std::to_string(round));
    IndexOptions options;
    options.address = server.address();
    options.login = RedisLogin{"root", "x", "f"};
    std::unique_ptr<IndexPort> keeper = make_index_keeper(std::move(options));
    keeper->open(client);
    REQUIRE(until([&] { return client.is_answered(); }));
    keeper->close(client);  // wakes the keeper, which is told to end at different moments then
    for (int turn = 0; turn < round; ++turn) std::this_thread::yield();
    keeper.reset();
    said += server.as_root({"GET", "farewell"}).text == client.farewell()[2];
  }
  CHECK(said == 200);
}

TEST_CASE("a server that is killed, emptied or put back to a copy has all pages again") {
  const ScratchFolder folder;
  RealServer server(folder.path());
  Machine asks(server, 1), owner(server, 0);
  owner.publish(30);
  REQUIRE(asks.finds(40, has(0, 30)));
  for (int round = 0; round < 2; ++round) {
    server.end();
    REQUIRE(until([&] { return !owner.down().empty() && !asks.down().empty(); }));
    CHECK_FALSE(asks.find(40).has_value());
    owner.publish(31 + static_cast<std::uint64_t>(round));
    server.start();  // without the functions too
    CHECK(asks.finds(40, has(0, 31 + static_cast<std::size_t>(round))));
  }
  const std::uint64_t before = owner.anew();
  server.as_root({"FLUSHALL"});
  CHECK(asks.finds(40, has(0, 32)));
  CHECK(owner.anew() > before);
  server.as_root({"FUNCTION", "FLUSH"});
  CHECK(asks.finds(40, has(0, 32)));
  // A copy of the data with its leases; what came later is not there.
  const std::string set = "sluice:laptop:pages:7:has:0", owners = "sluice:laptop:pages:7:owners";
  const std::string old = server.as_root({"HGET", owners, "0"}).text;
  server.as_root({"COPY", set, "copy"});
  owner.publish(36);
  REQUIRE(asks.finds(40, has(0, 36)));
  server.as_root({"COPY", "copy", set, "REPLACE"});
  server.as_root({"HSET", owners, "0", old});
  CHECK(asks.finds(40, has(0, 36)));
}

TEST_CASE("a server that stands still is not waited for, and goes on afterwards") {
  const ScratchFolder folder;
  const RealServer server(folder.path());
  Machine asks(server, 1), owner(server, 0);
  owner.publish(30);
  REQUIRE(asks.finds(40, has(0, 30)));
  server.signal(SIGSTOP);
  for (int i = 0; i < 5; ++i) CHECK_FALSE(asks.find(40).has_value());
  owner.publish(20);
  REQUIRE(until([&] { return !owner.down().empty(); }));
  server.signal(SIGCONT);
  CHECK(asks.finds(40, has(0, 20)));
}

TEST_CASE(
    "a server whose memory is full takes no more, finds what it has, and a leave makes room") {
  const ScratchFolder folder;
  const RealServer server(folder.path());
  Machine asks(server, 1), owner(server, 0);
  owner.publish(30);
  REQUIRE(asks.finds(40, has(0, 30)));
  server.as_root({"CONFIG", "SET", "maxmemory", "1"});
  CHECK(until([&] { return asks.find(40).has_value(); }));
  owner.publish(35);
  CHECK(asks.finds(40, {}));  // it has left
  server.as_root({"CONFIG", "SET", "maxmemory", "0"});
  CHECK(asks.finds(40, has(0, 35)));
}

TEST_CASE(
    "a server that gives up keys, or forbids what is needed, is not used, and people hear why") {
  const ScratchFolder folder;
  const auto reason = [&](const RealServer& server, const std::string& user) {
    Machine one(server, 0, 1, user);
    REQUIRE(until([&] { return !one.notices().empty(); }));
    CHECK_FALSE(one.find(4).has_value());
    REQUIRE(one.notices().size() == 1);
    return one.notices()[0];
  };
  std::vector<std::string> rule = registry_acl("laptop");
  std::vector<std::string> more{"--user", "before", "on", "nopass"};
  more.insert(more.end(), rule.begin(), rule.end());
  more.insert(more.end(), {"--user", "lab", "on", "nopass"});
  for (const std::vector<std::string>& words : {rule, page_index_acl()})
    more.insert(more.end(), words.begin(), words.end());
  // One that may not do what stands within a function.
  more.insert(more.end(), {"--user", "short", "on", "nopass"});
  more.insert(more.end(), rule.begin(), rule.end());
  for (const std::string& word : page_index_acl())
    if (word != "+hkeys") more.push_back(word);
  const RealServer server(folder.path(), more);
  CHECK(reason(server, "before").find("ACL") != std::string::npos);
  CHECK(reason(server, "before").find("+fcall") != std::string::npos);
  CHECK(reason(server, "lab").find("`sluice pool functions | redis-cli -x FUNCTION LOAD`") !=
        std::string::npos);
  server.as_root({"FUNCTION", "LOAD", std::string(page_index_functions())});
  CHECK(reason(server, "short").find("+hkeys") != std::string::npos);
  Machine lab(server, 0, 1, "lab"), other(server, 1, 1, "lab");
  lab.publish(3);
  CHECK(other.finds(4, has(0, 3)));
  CHECK(lab.notices().empty());
  server.as_root({"CONFIG", "SET", "maxmemory-policy", "allkeys-lru"});
  CHECK(reason(server, "lab").find("maxmemory-policy is allkeys-lru") != std::string::npos);
}

TEST_CASE("the index's user can do nothing else, nothing to other keys, and no function may") {
  const ScratchFolder folder;
  const RealServer server(folder.path());
  Result<RedisLink> link = server.link("default");
  REQUIRE(link.ok());
  const auto ask = [&](const std::vector<std::string>& words) {
    const auto answer = link->ask(words, std::chrono::steady_clock::now() + 5s);
    REQUIRE(answer.ok());
    return *answer;
  };
  REQUIRE(ask({"FUNCTION", "LOAD", std::string(page_index_functions())}).kind ==
          RedisValue::Kind::text);
  const auto call = [&](const std::string& base) {
    return ask({"FCALL", "sluice_pages_1_leave", "1", base, "0", "1"});
  };
  CHECK(call("sluice:laptop:pages:1").kind == RedisValue::Kind::list);
  CHECK(call("sluice:other:pages:1").text.starts_with("NOPERM"));
  CHECK(call("other").text.starts_with("NOPERM"));
  const std::vector<std::vector<std::string>> forbidden{
      {"FUNCTION", "FLUSH"},
      {"FUNCTION", "DELETE", "sluice_pages_1"},
      {"FUNCTION", "LIST"},
      {"FUNCTION", "DUMP"},
      {"FUNCTION", "KILL"},
      {"FCALL_RO", "sluice_pages_1_find", "1", "sluice:laptop:pages:1"},
      {"SMEMBERS", "sluice:laptop:pages:1:has:0"},
      {"DEL", "sluice:laptop:pages:1:has:0"},
      {"UNLINK", "sluice:other:pages:1:has:0"},
      {"SADD", "other", "x"},
      {"CONFIG", "GET", "maxmemory-policy"},
      {"DEBUG", "JMAP"},
      {"SAVE"},
      {"MONITOR"},
      {"SUBSCRIBE", "x"},
      {"PUBLISH", "x", "y"},
      {"EVAL", "return redis.call('UNLINK', 'other')", "0"}};
  for (const auto& words : forbidden) {
    const RedisValue answer = ask(words);
    INFO(words[0] << ": " << answer.text);
    CHECK(answer.kind == RedisValue::Kind::error);
  }
}
