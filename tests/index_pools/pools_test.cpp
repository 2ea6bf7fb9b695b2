// Pools of machines that find each other's pages by the index in a real Redis server, and go on
// without it: whatever the server says or does, no page has other content than its key's.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cstring>
#include <memory>
#include <utility>

#include "base/sha256.h"
#include "engine/storage/kept_pool.h"
#include "engine/storage/storage_clock.h"
#include "runtime/redis/index_keeper.h"
#include "tests/peer_hub.h"
#include "tests/redis_server.h"
#include "tests/scratch_folder.h"

using namespace sluice;
using namespace std::chrono_literals;

namespace {

constexpr std::size_t page_tokens = 4;
const KvShape shape{.layers = 1, .row = 4, .page_tokens = page_tokens};
const RowsOrigin origin{"a model", {}, {}, 0};

/// Tokens of `pages` pages and one more; prompts of one `kind` begin alike.
std::vector<std::int32_t> prompt(std::int32_t kind, std::size_t pages) {
  std::vector<std::int32_t> tokens(pages * page_tokens + 1, kind);
  for (std::size_t i = 0; i < tokens.size(); ++i) tokens[i] += static_cast<std::int32_t>(8 * i);
  return tokens;
}
std::vector<std::byte> content_of(std::int32_t kind, std::size_t page) {
  return std::vector<std::byte>(shape.page_bytes(),
                                static_cast<std::byte>(kind * 31 + static_cast<int>(page) + 1));
}

/// A hub's port, with an index.
class Port final : public PeerPort {
 public:
  Port(PeerPort& way, std::unique_ptr<IndexPort> index) : way_(way), index_(std::move(index)) {}
  PeerLife self() const override { return way_.self(); }
  const std::array<std::uint8_t, 32>& secret() const override { return way_.secret(); }
  bool open(std::uint64_t channel, Listener& listener) override {
    return way_.open(channel, listener);
  }
  void close(std::uint64_t channel) override { way_.close(channel); }
  using PeerPort::send;
  void send(std::uint64_t channel, PeerLife to, std::vector<std::byte> message) override {
    way_.send(channel, to, std::move(message));
  }
  void notice(std::uint32_t machine, const std::string& what) override {
    way_.notice(machine, what);
  }
  IndexPort* index() override { return index_.get(); }

 private:
  PeerPort& way_;
  std::unique_ptr<IndexPort> index_;
};

struct Machine {
  Machine(PeerHub& hub, const RealServer& server, std::uint32_t number, std::size_t pages = 64) {
    IndexOptions options;
    options.address = server.address();
    options.cluster = "laptop";
    options.lease = 1500ms;
    port = std::make_unique<Port>(hub.add(number), make_index_keeper(std::move(options)));
    kept = std::move(KeptPool::make_among(shape, pages, *port, "kv")).value();
  }
  /// As if a forward had computed them.
  void compute(std::int32_t kind, std::size_t pages) {
    const std::vector<std::int32_t> tokens = prompt(kind, pages);
    const std::vector<PageKey> keys = kept.pool->keys_of(origin, tokens);
    std::vector<std::vector<std::byte>> contents;
    std::vector<const std::byte*> bytes;
    for (std::size_t page = 0; page < keys.size(); ++page) {
      contents.push_back(content_of(kind, page));
      bytes.push_back(contents.back().data());
    }
    CHECK(kept.pool->put(keys, 0, bytes) == pages);
  }
  /// Tokens whose pages came for a prompt. All that is there is what it should be.
  std::size_t pull(std::int32_t kind, std::size_t pages) {
    const std::vector<std::int32_t> tokens = prompt(kind, pages);
    std::vector<PageSource::Ready> ready;
    // While this computer does something else no time passes: the server is not late for it.
    std::int64_t now = storage_clock(), looked = now;
    if (kept.peers->begin(++task, origin, tokens, {}, now))
      REQUIRE(until([&] {
        const std::int64_t then = std::exchange(looked, storage_clock());
        kept.peers->poll(now += std::min<std::int64_t>(looked - then, 1'000'000), ready);
        return !ready.empty();
      }));
    const KvSequence there = kept.pool->open(origin, tokens);
    for (std::size_t i = 0; i < there.tokens() / page_tokens; ++i) {
      const auto content = kept.pool->content(there.pages()[i]);
      const std::vector<std::byte> want = content_of(kind, i);
      CHECK(std::memcmp(content.data(), want.data(), want.size()) == 0);
    }
    return ready.empty() ? 0 : ready[0].tokens;
  }
  bool is_told() const {
    return until([&] { return kept.peers->index()->is_told(); });
  }
  KvIndexCounts index() const { return *kept.peers->counts().index; }

  std::unique_ptr<Port> port;
  KeptPool kept;
  std::uint64_t task = 0;
};

/// Questions who has pages, on the way between machines.
struct Questions {
  explicit Questions(PeerHub& hub) {
    hub.on_way = [this](PeerLife, PeerLife, std::vector<std::byte>& message) {
      const auto read = pages::decode(message);
      if (read.has_value() && std::get_if<pages::Find>(&*read)) ++count;
      return true;
    };
  }
  std::size_t count = 0;
};

std::string owned(std::uint32_t machine) {
  return "sluice:laptop:pages:" + std::to_string(sha256_prefix("pages of kv")) +
         ":has:" + std::to_string(machine);
}
std::string name_of(const PageKey& key) {
  return {reinterpret_cast<const char*>(key.words.data()), 16};
}

}  // namespace

TEST_CASE("of many machines the one that has most of a prompt is asked for it, and no other") {
  const ScratchFolder folder;
  const RealServer server(folder.path());
  PeerHub hub;
  std::vector<std::unique_ptr<Machine>> machines;
  for (std::uint32_t number = 0; number < 12; ++number)
    machines.push_back(std::make_unique<Machine>(hub, server, number));
  machines[11]->compute(1, 6);
  machines[4]->compute(1, 3);
  for (const auto& one : machines) REQUIRE(one->is_told());
  const Questions questions(hub);
  CHECK(machines[0]->pull(1, 8) == 6 * page_tokens);
  CHECK(questions.count == 0);
  CHECK(machines[0]->index().index.found == 1);
  CHECK(machines[4]->kept.peers->counts().served.pages == 0);
  // What was pulled is found here too, and what nobody has is asked of machines as ever.
  REQUIRE(machines[0]->is_told());
  CHECK(machines[1]->pull(1, 6) == 6 * page_tokens);
  CHECK(machines[0]->kept.peers->counts().served.pages +
            machines[11]->kept.peers->counts().served.pages ==
        12);
  CHECK(questions.count == 0);
  CHECK(machines[1]->pull(2, 6) == 0);
  CHECK(questions.count == 8);
  CHECK(machines[1]->index().index.asked == 2);
  CHECK(machines[1]->index().stale == 0);
}

TEST_CASE("who has read a prompt just now is asked, and the index where that machine is gone") {
  const ScratchFolder folder;
  const RealServer server(folder.path());
  PeerHub hub;
  Machine asks(hub, server, 0), other(hub, server, 2);
  other.compute(1, 3);
  {
    Machine reader(hub, server, 1);
    REQUIRE(asks.is_told());
    REQUIRE(other.is_told());
    reader.compute(1, 6);
    asks.kept.peers->ask_first(reader.port->self());
    CHECK(asks.pull(1, 6) == 6 * page_tokens);
    CHECK(asks.index().index.asked == 0);
    CHECK(reader.kept.peers->counts().served.pages == 6);
  }
  other.compute(2, 3);
  REQUIRE(other.is_told());
  CHECK(asks.pull(2, 3) == 3 * page_tokens);
  CHECK(asks.index().index.found == 1);
}

TEST_CASE("where an index is wrong the machines are asked, and nothing wrong is taken") {
  const ScratchFolder folder;
  const RealServer server(folder.path());
  PeerHub hub;
  Machine liar(hub, server, 0), owner(hub, server, 1), asks(hub, server, 2);
  owner.compute(1, 6);
  owner.compute(2, 6);
  liar.compute(2, 2);
  for (const Machine* one : {&liar, &owner, &asks}) REQUIRE(one->is_told());
  // The index says that machine 0 has all, and forgets machine 1.
  for (const std::int32_t kind : {1, 2})
    for (const PageKey& key : asks.kept.pool->keys_of(origin, prompt(kind, 6)))
      server.as_root({"SADD", owned(0), name_of(key)});
  server.as_root({"UNLINK", owned(1)});
  const Questions questions(hub);
  CHECK(asks.pull(1, 6) == 6 * page_tokens);  // from machine 1, which was asked
  CHECK(questions.count == 2);
  CHECK(asks.index().stale == 1);
  CHECK(asks.pull(2, 6) == 2 * page_tokens);  // what came counts, the rest is computed
  CHECK(questions.count == 2);
  // Of a machine that there is not, and of a later life.
  Machine late(hub, server, 3);
  REQUIRE(late.is_told());
  server.as_root({"RENAME", owned(0), owned(77)});
  server.as_root(
      {"ZADD", owned(0).substr(0, owned(0).size() - 6) + ":leases", "9000000000000", "77"});
  CHECK(late.pull(1, 6) == 6 * page_tokens);
  CHECK(late.index().stale == 0);
}

TEST_CASE("pages that were given up are withdrawn, and a machine that goes takes its pages along") {
  const ScratchFolder folder;
  const RealServer server(folder.path());
  PeerHub hub;
  Machine asks(hub, server, 0);
  {
    Machine owner(hub, server, 1, 8);
    owner.compute(1, 6);
    owner.compute(2, 6);  // there is no room for both
    REQUIRE(owner.is_told());
    CHECK(server.as_root({"SCARD", owned(1)}).number ==
          static_cast<std::int64_t>(owner.kept.pool->pages_cached()));
    REQUIRE(asks.is_told());
    CHECK(asks.pull(2, 6) == 6 * page_tokens);
    CHECK(asks.index().index.found == 1);
  }
  CHECK(until([&] { return server.as_root({"EXISTS", owned(1)}).number == 0; }));
  CHECK(asks.pull(1, 6) == 0);
}

TEST_CASE("a server that is killed, stopped or emptied costs no prompt anything but its answer") {
  const ScratchFolder folder;
  RealServer server(folder.path());
  PeerHub hub;
  Machine owner(hub, server, 1), asks(hub, server, 2);
  std::int32_t kind = 0;
  const Questions questions(hub);
  constexpr std::int32_t pages = 5;  // of fewer the content would be asked for at once
  const auto pull_anew = [&] {
    owner.compute(++kind, pages);
    const std::size_t before = questions.count;
    CHECK(asks.pull(kind, pages) == pages * page_tokens);
    return questions.count - before;
  };
  const auto is_used_again = [&] {
    return until([&] {
      owner.compute(++kind, pages);
      if (!owner.is_told() || !asks.is_told()) return false;
      const std::size_t before = questions.count;
      // On a slow machine an answer may come too late, and the prompt is computed.
      return asks.pull(kind, pages) == pages * page_tokens && questions.count == before;
    });
  };
  REQUIRE(is_used_again());
  server.end();
  CHECK(pull_anew() == 1);
  CHECK(pull_anew() == 1);
  server.start();
  CHECK(is_used_again());
  server.signal(SIGSTOP);
  CHECK(pull_anew() == 1);
  CHECK(pull_anew() == 1);
  server.signal(SIGCONT);
  CHECK(is_used_again());
  server.as_root({"FLUSHALL"});
  (void)pull_anew();
  CHECK(is_used_again());
}
