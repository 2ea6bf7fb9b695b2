#include "cli/line_buffer.h"

#include <catch2/catch.hpp>
#include <vector>

namespace sluice::cli {
namespace {

/// All lines of `bytes`, which come `step` at a time: "number:text", "number!" when too long.
std::vector<std::string> lines(const std::string& bytes, std::size_t step, std::size_t most = 8) {
  LineBuffer buffer(most);
  std::vector<std::string> found;
  const auto take = [&] {
    while (const auto line = buffer.take())
      found.push_back(std::to_string(line->number) + (line->too_long ? "!" : ":") + line->text);
  };
  for (std::size_t at = 0; at < bytes.size(); at += step) {
    buffer.add(std::string_view(bytes).substr(at, step));
    take();
  }
  buffer.end();
  take();
  take();
  return found;
}

using Lines = std::vector<std::string>;

TEST_CASE("Lines are the same however the bytes come") {
  for (std::size_t step = 1; step < 12; ++step) {
    CAPTURE(step);
    CHECK(lines("", step).empty());
    CHECK(lines("a", step) == Lines{"1:a"});
    CHECK(lines("a\n", step) == Lines{"1:a"});
    CHECK(lines("\n\r\na\r\n\nb c", step) == Lines{"1:", "2:", "3:a", "4:", "5:b c"});
  }
}

TEST_CASE("A line that is too long is named, and those behind it are read") {
  for (std::size_t step = 1; step < 40; ++step) {
    CAPTURE(step);
    CHECK(lines("12345678\n123456789\nb", step) == Lines{"1:12345678", "2!", "3:b"});
    CHECK(lines("a\n" + std::string(100, 'x') + "\nb\n", step) == Lines{"1:a", "2!", "3:b"});
    CHECK(lines("a\n" + std::string(100, 'x'), step) == Lines{"1:a", "2!"});
  }
}

}  // namespace
}  // namespace sluice::cli
