// Tokens and what a report says: the same words and numbers in every build.
#include "runtime/sim/token.h"

#include <catch2/catch.hpp>
#include <set>
#include <sstream>
#include <string>

#include "base/sha256.h"
#include "runtime/sim/cluster.h"
#include "runtime/sim/simulation.h"
#include "watched.h"

using namespace sluice;
using namespace std::chrono_literals;
using sluice::testing::bind;
using sluice::testing::Bound;
using sluice::testing::three_calls;

TEST_CASE("a value's name is the digest of where it came from") {
  CHECK(sim::token_text(0x0123456789abcdef) == "0123456789abcdef");
  CHECK(sim::token_text(0xfedcba9876543210) == "fedcba9876543210");
  CHECK(sim::input_token("x", 12) == sha256_prefix("input:x:12"));
  CHECK(sim::yield_token("a|0|x=1", 3) == sha256_prefix("a|0|x=1#3"));
  const PayloadRef payload = sim::token_payload(0xfedcba9876543210, 0x89abcdef, -5);
  CHECK(sim::token_of(*payload) == 0xfedcba9876543210);
  CHECK(sim::frame_of(*payload) == 0x89abcdef);
  CHECK(payload->number == -5);
}

TEST_CASE("a firing has its fields by name and its values by token, and its order apart") {
  const Bound bound = bind(three_calls);
  const NodeId both = bound.plan.find("both")->id;
  const auto& fields = bound.plan.nodes[both].groups[0].fields;
  REQUIRE(fields.size() == 2);
  const std::uint16_t l = fields[0] == "l" ? 0 : 1, r = static_cast<std::uint16_t>(1 - l);
  const auto firing = [&](std::vector<InputValue> inputs, sim::Token& order) {
    StartActivation start;
    start.node = both;
    start.inputs = inputs;
    order = sim::order_token(start);
    return sim::firing_of(bound.plan, start, 4);
  };
  const auto value = [](std::uint16_t field, sim::Token token) {
    return InputValue{field, sim::token_payload(token, 0, 0)};
  };
  sim::Token one = 0, two = 0, three = 0;
  const sim::Firing first = firing({value(r, 9), value(l, 255), value(l, 1)}, one);
  CHECK(first.call == 4);
  CHECK(sim::identity_of(bound.plan, first) ==
        "both|0|l=0000000000000001+00000000000000ff|r=0000000000000009");
  const sim::Firing second = firing({value(r, 9), value(l, 1), value(l, 255)}, two);
  CHECK(sim::identity_of(bound.plan, second) == sim::identity_of(bound.plan, first));
  firing({value(l, 9), value(l, 255), value(l, 1)}, three);
  CHECK(std::set{one, two, three}.size() == 3);
}

TEST_CASE("a call's hash depends on all that must not depend on timing, and on nothing else") {
  const auto hash_with = [](const auto& change) {
    sim::CallReport report;
    report.outputs = {1, 2};
    report.warnings = {"ab", "c"};
    report.firings_hash = 77;
    report.failure = std::make_unique<Failure>(
        Failure{3, {ErrorCode::unavailable, "why"}, FailureKind::deadline});
    change(report);
    return report.hash();
  };
  const std::uint64_t same = hash_with([](sim::CallReport&) {});
  std::set<std::uint64_t> others{same};
  std::size_t changes = 0;
  const auto other = [&](const auto& change) {
    ++changes;
    others.insert(hash_with(change));
  };
  other([](sim::CallReport& r) { r.outputs = {2, 1}; });
  other([](sim::CallReport& r) { r.outputs = {1, 3}; });
  other([](sim::CallReport& r) { r.warnings = {"ab", "d"}; });
  other([](sim::CallReport& r) { r.warnings.pop_back(); });
  other([](sim::CallReport& r) { r.firings_hash = 78; });
  other([](sim::CallReport& r) { r.failure.reset(); });
  other([](sim::CallReport& r) { r.failure->node = 4; });
  other([](sim::CallReport& r) { r.failure->kind = FailureKind::cancelled; });
  other([](sim::CallReport& r) { r.failure->error.message = "whz"; });
  CHECK(others.size() == changes + 1);
  CHECK(hash_with([](sim::CallReport& r) {
          r.arrived = r.first_output = r.done = 5ms;
          r.ended = true;
        }) == same);
}

TEST_CASE("counts of faults add up one by one, and each has its line") {
  sim::FaultCounts one;
  std::uint64_t next = 1;
  for (std::uint64_t* count :
       {&one.role_failures,  &one.role_hangs, &one.cancels,    &one.duplicates, &one.link_breaks,
        &one.pauses,         &one.kills,      &one.resent,     &one.fenced,     &one.cuts,
        &one.cuts_one_way,   &one.suspects,   &one.homes_lost, &one.hurried,    &one.forged,
        &one.forged_refused, &one.slowed,     &one.stopped,    &one.held,       &one.refused,
        &one.dropped,        &one.moved})
    *count = next++;
  sim::FaultCounts sum = one;
  sum.add(one);
  sum.add(one);
  std::istringstream of_one(one.text()), of_sum(sum.text());
  std::string word;
  std::set<std::string> words;
  std::multiset<std::uint64_t> counts;
  for (std::uint64_t count = 0, tripled = 0; of_one >> count && of_sum >> tripled;) {
    CHECK(tripled == 3 * count);
    counts.insert(count);
    std::getline(of_one, word);
    words.insert(word);
    std::string same;
    std::getline(of_sum, same);
    CHECK(same == word);
  }
  CHECK(words.size() == 22);
  CHECK(std::set(counts.begin(), counts.end()).size() == 22);
  CHECK(one.text().starts_with("  1 roles failed\n  2 roles hung\n  3 callers gave up\n"));
}

TEST_CASE("a clock that is off and goes wrong tells when it will show a time, to a nanosecond") {
  for (const std::int64_t ppm : {0, 1, -1, 1000, -1000, 333}) {
    sim::Clock clock;
    clock.ppm = ppm;
    clock.offset = 1h + 7ns;
    for (const Instant now : {Instant(0ns), Instant(1ns), Instant(999'999ns), Instant(1'000'001ns),
                              Instant(30s), Instant(48h + 1ns)}) {
      CAPTURE(ppm, now.count());
      const Instant shown = clock.local(now);
      const Instant when = clock.when(shown);
      CHECK(when <= now + 1ns);
      CHECK(clock.local(when) >= shown);
      CHECK((when <= 1ns || clock.local(when - 2ns) < shown));
    }
  }
}
