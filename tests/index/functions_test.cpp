// The index's functions in an embedded Lua, beside a plain model, and where the server ends amid a
// call; mistakes planted in their text are found.
#include <catch2/catch.hpp>

#include "runtime/redis/page_index.h"
#include "tests/index/history.h"
#include "tests/sanitized.h"

using namespace sluice;

namespace {

/// What differs first, by what was asked; empty: nothing does.
std::string difference(std::string_view library, std::uint64_t seed, std::size_t questions) {
  LuaServer server(library);
  IndexModel model;
  IndexHistory history(seed, {"0", "500", "2000", "3600000"}, "3000");
  SplitMix64 random(seed);
  for (std::size_t i = 0; i < questions; ++i) {
    if (random.next() % 3 == 0) server.now_ms += static_cast<std::int64_t>(random.next() % 900);
    const Words words = history.next();
    const LuaAnswer want = model.ask(words, server.now_ms);
    if (server.ask(words) != want) return words[1] + ", where it is " + want.words[0];
  }
  for (std::uint64_t machine = 0; machine < IndexHistory::machines; ++machine) {
    const auto there =
        server.data.sets.find(std::string(index_base) + ":has:" + std::to_string(machine));
    const auto want = model.owners.find(machine);
    if ((there == server.data.sets.end() ? std::set<std::string>() : there->second) !=
        (want == model.owners.end() ? std::set<std::string>() : want->second.pages))
      return "the pages of a machine";
  }
  return "";
}

std::string planted(const std::string& there, const std::string& instead) {
  std::string text(page_index_functions());
  const std::size_t at = text.find(there);
  REQUIRE(at != std::string::npos);
  REQUIRE(text.find(there, at + 1) == std::string::npos);
  return text.replace(at, there.size(), instead);
}

}  // namespace

TEST_CASE("the functions answer as a plain model does") {
  for (std::uint64_t seed = 1; seed <= testing::seeds(100); ++seed)
    CHECK(difference(page_index_functions(), seed, 400) == "");
}

TEST_CASE("mistakes that are planted in the functions are found by what they break") {
  if (testing::sanitized) return;  // they do not look at the functions' text
  struct Mistake {
    const char* there;
    const char* instead;
    const char* breaks;
  };
  const Mistake mistakes[] = {
      {"if is_there(middle) then low = middle else high = middle end",
       "if is_there(middle) then low = middle else high = middle - 1 end", "find, where it is ok"},
      {"local pages = machine ~= args[1] and", "local pages =", "find, where it is ok"},
      {"if a[2] ~= b[2] then return a[2] > b[2] end", "", "find, where it is ok"},
      {"'(' .. shown(now_ms()), '+inf'", "'-inf', '+inf'", "find, where it is ok"},
      {"had + 1 == number and args[4] == 'next'", "had < number and args[4] == 'next'",
       "tell, where it is gap"},
      {"if had_life > life then return {'fenced', shown(had_life)} end", "",
       "tell, where it is fenced"},
      {"if begins then redis.call('UNLINK', has) end", "", ""},
      {"if begins then pages = pages - redis.call('SCARD', has) end", "", "tell, where it is ok"},
      {"  in_parts('SREM', has, args, 10 + added, #args)\n", "", ""},
      {"if not is_same then\n", "if true then\n", ""},
      {"  remove_old(base, now - keep)\n", "", ""},
      {"if had_life == life or had_life == 0 then remove(", "if true then remove(", ""},
      {"if added > 0 and pages + added > most", "if pages + added > most + 1",
       "tell, where it is full"},
  };
  for (const Mistake& mistake : mistakes) {
    INFO(mistake.there);
    const std::string text = planted(mistake.there, mistake.instead);
    std::set<std::string> found;
    for (std::uint64_t seed = 1; seed <= 60; ++seed) found.insert(difference(text, seed, 400));
    found.erase("");
    CHECK_FALSE(found.empty());
    const std::string breaks = mistake.breaks;
    if (breaks.empty()) continue;  // something breaks, by the order of what is asked
    CHECK(
        std::ranges::any_of(found, [&](const std::string& one) { return one.ends_with(breaks); }));
  }
}

TEST_CASE("a change during which the server ends is made when it is repeated") {
  std::size_t ended = 0;
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    LuaServer whole(page_index_functions());
    // Where there is no room for both halves, who repeats it is told so, and leaves.
    IndexHistory history(seed, {"3600000"}, "3600000", 1000);
    for (std::size_t i = 0; i < 60; ++i) {
      const Words words = history.next();
      const LuaData before = whole.data;
      const std::uint64_t wrote = whole.writes;
      const LuaAnswer answer = whole.ask(words);
      const LuaData after = whole.data;
      for (std::uint64_t left = 0; left < whole.writes - wrote; ++left) {
        LuaServer server(page_index_functions());
        server.data = before;
        server.writes_left = left;
        REQUIRE_FALSE(server.ask(words).error.empty());
        server.writes_left = 1000;
        CHECK(server.ask(words).error.empty());
        CHECK(server.data == after);
        ++ended;
      }
      whole.data = after;
    }
  }
  CHECK(ended > 1000);
}

TEST_CASE("arguments that make no sense change nothing, whatever they are") {
  LuaServer server(page_index_functions());
  IndexHistory history(3, {"3600000"}, "3600000");
  for (std::size_t i = 0; i < 50; ++i) server.ask(history.next());
  const LuaData before = server.data;
  const std::string page = page_name(1), base = index_base;
  const std::string tell = "sluice_pages_1_tell", find = "sluice_pages_1_find",
                    leave = "sluice_pages_1_leave";
  const std::vector<Words> wrong = {
      {tell},
      {tell, "1", "1", "1", "next", "1", "1", "1", "e"},
      {tell, "01", "99", "1", "anew", "1", "1", "1", "e", "0"},
      {tell, "70000", "99", "1", "anew", "1", "1", "1", "e", "0"},
      {tell, "1", "-1", "1", "anew", "1", "1", "1", "e", "0"},
      {tell, "1", "99", "1e9", "anew", "1", "1", "1", "e", "0"},
      {tell, "1", "99", "99999999999999999999", "anew", "1", "1", "1", "e", "0"},
      {tell, "1", "99", "1", "other", "1", "1", "1", "e", "0"},
      {tell, "1", "99", "1", "anew", "1", "1", "1", "", "0"},
      {tell, "1", "99", "1", "anew", "1", "1", "1", "e", "2", page},
      {tell, "1", "99", "1", "anew", "1", "1", "9", "e", "1", page + "x"},
      {tell, "1", "99", "1", "anew", "1", "1", "9", "e", "0", "short"},
      {find, "1", "4"},
      {find, "x", "4", page},
      {find, "1", "257", page},
      {find, "1", "4", page, "short"},
      {leave, "1"},
      {leave, "x", "1"},
      {leave, "1", ""},
  };
  for (const Words& one : wrong) {
    Words words{"FCALL", one[0], "1", base};
    words.insert(words.end(), one.begin() + 1, one.end());
    const LuaAnswer answer = server.ask(words);
    CHECK(answer.error.starts_with("ERR sluice_pages: "));
    CHECK(server.data == before);
  }
  Words many{"FCALL", find, "1", base, "1", "4"};
  for (std::uint64_t i = 0; i <= 4096; ++i) many.push_back(page_name(i));
  CHECK(server.ask(many).error == "ERR sluice_pages: find: wrong arguments");
}

TEST_CASE("a question costs a number of steps that grows with the logarithm of its pages") {
  LuaServer server(page_index_functions());
  Words tell{"FCALL",   "sluice_pages_1_tell",
             "1",       index_base,
             "0",       "1",
             "1",       "anew",
             "1000000", "1000000",
             "100000",  "e",
             "3000"};
  for (std::uint64_t i = 0; i < 3000; ++i) tell.push_back(page_name(i));
  for (std::uint64_t machine = 1; machine <= 8; ++machine) {
    tell[4] = std::to_string(machine);
    REQUIRE(server.ask(tell).words[0] == "ok");
  }
  Words find{"FCALL", "sluice_pages_1_find", "1", index_base, "0", "8"};
  for (std::uint64_t i = 0; i < 4096; ++i) find.push_back(page_name(i < 3000 ? i : 1000000 + i));
  const LuaAnswer answer = server.ask(find);
  REQUIRE(answer.words.size() == 2 + 8 * 3);
  CHECK(answer.words[2] == "1");
  CHECK(answer.words[4] == "3000");
  CHECK(server.calls <= 3 + 8 * (2 + 12 + 1));
}
