// The reasons for which machines refuse each other: their numbers on the wire.
#include "runtime/link_refusal.h"

#include <catch2/catch.hpp>
#include <string_view>
#include <vector>

namespace sluice {

TEST_CASE("a reason has the number and words that it always had, and no other number is one") {
  const std::vector<std::string_view> words{
      "malformed",       "version",   "cluster",   "workflow",   "lease",        "wrong machine",
      "unknown machine", "wrong key", "life over", "link ended", "not connected"};
  for (unsigned number = 0; number < 256; ++number) {
    INFO(number);
    const auto reason = link_refusal_of(static_cast<std::uint8_t>(number));
    REQUIRE(reason.has_value() == (number >= 1 && number <= words.size()));
    if (!reason) continue;
    CHECK(static_cast<unsigned>(*reason) == number);
    CHECK(to_string(*reason) == words[number - 1]);
  }
}

}  // namespace sluice
