// Answers of a Redis server: whole, in pieces, hostile.
#include "runtime/redis/reply.h"

#include <catch2/catch.hpp>

#include "runtime/redis/redis_link.h"

namespace sluice {

namespace {

using Kind = RedisValue::Kind;

/// What is wrong with these bytes; empty: nothing.
std::string refusal(const std::string& bytes) {
  ReplyReader reader;
  if (const Result<void> fed = reader.feed(bytes); !fed.ok()) return fed.error().message;
  const auto answer = reader.next();
  return answer.ok() ? "" : answer.error().message;
}

std::string repeat(const std::string& text, std::size_t times) {
  std::string all;
  for (std::size_t i = 0; i < times; ++i) all += text;
  return all;
}

}  // namespace

TEST_CASE("an answer is read in whatever pieces it comes") {
  const std::string bytes = "*5\r\n$2\r\nok\r\n:-7\r\n$-1\r\n*1\r\n+fine\r\n-ERR no\r\n:1\r\n";
  for (std::size_t piece = 1; piece <= bytes.size(); ++piece) {
    ReplyReader reader;
    std::vector<RedisValue> answers;
    for (std::size_t at = 0; at < bytes.size(); at += piece) {
      REQUIRE(reader.feed(std::string_view(bytes).substr(at, piece)).ok());
      for (;;) {
        auto answer = reader.next();
        REQUIRE(answer.ok());
        if (!*answer) break;
        answers.push_back(std::move(**answer));
      }
    }
    REQUIRE(answers.size() == 2);
    const std::vector<RedisValue>& list = answers[0].list;
    REQUIRE(list.size() == 5);
    CHECK(list[0].text == "ok");
    CHECK(list[1].number == -7);
    CHECK(list[2].kind == Kind::nothing);
    CHECK(list[3].list.at(0).text == "fine");
    CHECK(list[4].kind == Kind::error);
    CHECK(list[4].text == "ERR no");
    CHECK(answers[1].number == 1);
  }
}

TEST_CASE("answers beyond the bounds are refused before memory is taken") {
  CHECK(refusal("*1024\r\n").empty());
  CHECK(refusal("*1025\r\n").find("more items") != std::string::npos);
  CHECK(refusal("*2147483647\r\n") != "");
  CHECK(refusal("*99999999999999999999\r\n") != "");
  CHECK(refusal("*-2\r\n") != "");
  CHECK(refusal("*3\r\n*1000\r\n" + repeat(":1\r\n", 1000) + "*1000\r\n" + repeat(":1\r\n", 1000) +
                "*1000\r\n" + repeat(":1\r\n", 1000))
            .find("more items") != std::string::npos);
  CHECK(refusal("$65536\r\n" + repeat("a", 65536) + "\r\n").empty());
  CHECK(refusal("$65537\r\n" + repeat("a", 65537) + "\r\n").find("longer texts") !=
        std::string::npos);
  CHECK(refusal("$-2\r\n") != "");
  CHECK(refusal(repeat("*1\r\n", 6) + ":1\r\n").empty());
  CHECK(refusal(repeat("*1\r\n", 100) + ":1\r\n") != "");
  CHECK(refusal("HTTP/1.1 200 OK\r\n").find("no answer of a Redis server") != std::string::npos);
  // One that never becomes whole.
  ReplyReader reader;
  Result<void> fed = reader.feed("$2000000000\r\n");
  for (int i = 0; i < 100 && fed.ok(); ++i) {
    fed = reader.feed(repeat("a", 4096));
    if (fed.ok()) fed = reader.next().ok() ? Result<void>() : Error{ErrorCode::corrupt, "next"};
  }
  REQUIRE_FALSE(fed.ok());
  CHECK(fed.error().message.find("longer than 256 KiB") != std::string::npos);
  CHECK_FALSE(reader.feed("+OK\r\n").ok());  // and stays refused
  CHECK_FALSE(reader.next().ok());
}

TEST_CASE("a registry is reached by a unix socket or a loopback address only") {
  for (const char* good : {"unix:///run/r.sock", "tcp://127.0.0.1:6379", "tcp://[::1]:6379"})
    CHECK(read_redis_address(good).ok());
  for (const char* bad :
       {"", "unix://", "unix:///", "unix://r.sock", "tcp://10.0.0.1:6379", "tcp://127.0.0.1",
        "tcp://127.0.0.1:", "tcp://127.0.0.1:0", "tcp://127.0.0.1:65536", "tcp://127.0.0.1:1x",
        "tcp://127.evil.org:6379", "tcp://[::2]:1", "redis://127.0.0.1:1"})
    CHECK_FALSE(read_redis_address(bad).ok());
  CHECK(read_redis_address("tcp://127.0.0.1:6379")->port == 6379);
}

}  // namespace sluice
