// The same questions to the functions in an embedded Lua and in a real Redis server: the same
// answers, and the same data at the end.
#include <catch2/catch.hpp>

#include "runtime/redis/page_index.h"
#include "tests/index/history.h"
#include "tests/redis_server.h"
#include "tests/scratch_folder.h"

using namespace sluice;

namespace {

/// The epoch's end is the server's clock.
Words without_time(Words words) {
  for (std::string& word : words)
    if (const std::size_t at = word.find('@'); word.size() < 40 && at != std::string::npos)
      word.resize(at);
  return words;
}

LuaAnswer answer_of(RedisLink& link, const Words& words) {
  const auto answer = link.ask(words, std::chrono::steady_clock::now() + std::chrono::seconds(10));
  REQUIRE(answer.ok());
  if (answer->kind == RedisValue::Kind::error) return {{}, answer->text};
  LuaAnswer read;
  for (const RedisValue& item : answer->list) {
    REQUIRE(item.kind == RedisValue::Kind::text);
    read.words.push_back(item.text);
  }
  return read;
}

std::set<std::string> texts_of(const RedisValue& list) {
  std::set<std::string> texts;
  for (const RedisValue& item : list.list) texts.insert(item.text);
  return texts;
}

}  // namespace

TEST_CASE("an embedded Lua and a real server give the same answers to the same questions") {
  const ScratchFolder folder;
  const RealServer real(folder.path());
  Result<RedisLink> link = real.link("default");  // with the rights of the product's user
  REQUIRE(link.ok());
  const auto loaded = link->ask({"FUNCTION", "LOAD", std::string(page_index_functions())},
                                std::chrono::steady_clock::now() + std::chrono::seconds(10));
  REQUIRE(loaded.ok());
  CHECK(loaded->text == "sluice_pages_1");
  std::size_t asked = 0;
  for (std::uint64_t seed = 1; seed <= 12; ++seed) {
    LuaServer embedded(page_index_functions());
    real.as_root({"FLUSHALL"});
    // Leases that are over at once, or not while this runs: the clocks differ.
    IndexHistory history(seed, {"0", "3600000"}, "3600000");
    for (std::size_t i = 0; i < 300; ++i) {
      Words words = history.next();
      if (i % 29 == 7) words.resize(5);
      if (i % 31 == 9) words.push_back("no page");
      const LuaAnswer want = embedded.ask(words), got = answer_of(*link, words);
      REQUIRE(without_time(got.words) == without_time(want.words));
      REQUIRE(got.error == want.error);
      ++asked;
    }
    for (const auto& [key, members] : embedded.data.sets)
      CHECK(texts_of(real.as_root({"SMEMBERS", key})) == members);
    for (const auto& [key, hash] : embedded.data.hashes) {
      CHECK(real.as_root({"HLEN", key}).number == static_cast<std::int64_t>(hash.size()));
      for (const auto& [field, value] : hash)
        CHECK(real.as_root({"HGET", key, field}).text == value);
    }
    const std::size_t keys = embedded.data.sets.size() + embedded.data.hashes.size() +
                             embedded.data.scores.size() + embedded.data.texts.size();
    CHECK(real.as_root({"DBSIZE"}).number == static_cast<std::int64_t>(keys));
  }
  CHECK(asked == 12 * 300);
}
