// Traces as files hold them: whole, cut anywhere, and wrong in every way that has a message.
#include "dataplane/trace.h"

#include <catch2/catch.hpp>

#include "base/random.h"

using namespace sluice;

namespace {

std::string error_of(std::string_view text) {
  TraceReader reader;
  const auto none = [](const TraceRequest&) {};
  const auto fed = reader.feed(text, none);
  if (!fed) return fed.error().message;
  const auto ended = reader.end(none);
  return ended ? "" : ended.error().message;
}

}  // namespace

TEST_CASE("a trace is read whatever pieces it comes in") {
  const std::string text =
      "{\"timestamp\": 12.9, \"input_length\": 3, \"hash_ids\": [1, 2,18446744073709551615]}\r\n\n"
      "{\"hash_ids\":[],\"x\":{\"a\":[1,-2.5e3,\"}]\\\"\",null,true]},\"timestamp\":27000}";
  for (std::size_t piece = 1; piece <= text.size(); ++piece) {
    std::vector<TraceRequest> requests;
    const auto take = [&](const TraceRequest& request) { requests.push_back(request); };
    TraceReader reader;
    for (std::size_t at = 0; at < text.size(); at += piece)
      REQUIRE(reader.feed(std::string_view(text).substr(at, piece), take));
    REQUIRE(reader.end(take));
    REQUIRE(requests.size() == 2);
    CHECK(requests[0].timestamp_ms == 12);
    CHECK(requests[0].blocks == std::vector<std::uint64_t>{1, 2, 18446744073709551615ULL});
    CHECK(requests[1].timestamp_ms == 27000);
    CHECK(requests[1].blocks.empty());
  }
}

TEST_CASE("what is wrong with a trace is said with its line") {
  const std::string good = "{\"timestamp\": 1, \"hash_ids\": [1]}\n";
  const auto third = [&](const std::string& line) { return error_of(good + good + line); };
  CHECK(third("[1]") == "line 3: expected '{' at column 1, found '['");
  CHECK(third("{\"timestamp\": 1}") == "line 3: it has no hash_ids");
  CHECK(third("{\"hash_ids\": [1]}\n") == "line 3: it has no timestamp");
  CHECK(third("{\"timestamp\": -1, \"hash_ids\": []}").find("milliseconds from 0") !=
        std::string::npos);
  CHECK(third("{\"timestamp\": 1, \"hash_ids\": [1.5]}").find("whole number") != std::string::npos);
  CHECK(third("{\"timestamp\": 1, \"hash_ids\": [-1]}").find("whole number") != std::string::npos);
  CHECK(third("{\"timestamp\": 1, \"hash_ids\": [4, 7, 4]}").find("block 4 twice") !=
        std::string::npos);
  CHECK(third("{\"timestamp\": 1, \"timestamp\": 1, \"hash_ids\": []}").find("timestamp twice") !=
        std::string::npos);
  CHECK(third("{\"timestamp\": 1, \"hash_ids\": [1").find("found the end") != std::string::npos);
  CHECK(third("{\"timestamp\": 1, \"hash_ids\": [1]} 2").find("nothing behind") !=
        std::string::npos);
  CHECK(third("{\"a\": " + std::string(1000, '[')).find("32 deep") != std::string::npos);
  CHECK(third("{\"a\": \"\\").find("the end of a string") != std::string::npos);
  std::string many = "{\"timestamp\": 1, \"hash_ids\": [0";
  for (std::size_t i = 1; i <= most_trace_blocks; ++i) many += "," + std::to_string(i);
  CHECK(third(many + "]}").find("more than 65536 blocks") != std::string::npos);
  CHECK(error_of(std::string(most_trace_line + 1, ' ')).find("line 1: longer than") == 0);
  CHECK(third("{\"timestamp\": 0, \"hash_ids\": []}") ==
        "line 3: its timestamp, 0, is before that of the request before it, 1: sort the requests "
        "by time");
  CHECK(error_of("\xEF\xBB\xBF" + good).empty());  // a byte order mark
  CHECK(third("\xEF\xBB\xBF" + good).find("line 3: expected '{'") == 0);
}

TEST_CASE("no change of a few bytes in a line does more than be refused") {
  const std::string line = "{\"timestamp\": 12, \"a\": [\"b\", {}], \"hash_ids\": [1, 2, 3]}";
  SplitMix64 random(9);
  int refused = 0;
  for (int round = 0; round < 20000; ++round) {
    std::string changed = line;
    for (std::uint64_t i = 1 + random.next() % 3; i > 0; --i)
      changed[random.next() % changed.size()] = "{}[]\",:0-e\\. n\0x"[random.next() % 16];
    changed.resize(changed.size() - random.next() % 3);
    refused += parse_trace_line(changed).ok() ? 0 : 1;
  }
  CHECK(refused > 10000);
  CHECK(refused < 20000);
}
