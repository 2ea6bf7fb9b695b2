// Messages as bytes: each comes back as it was, and bytes that are wrong are refused with a reason.
#include <catch2/catch.hpp>
#include <set>

#include "base/crc32c.h"
#include "tests/outcomes.h"
#include "world.h"

using namespace sluice;
using sluice::testing::everything;
using sluice::testing::plan_of;
using sluice::testing::WireWorld;

namespace {

std::vector<std::uint64_t> some_yields(const StartActivation& start, std::string_view name,
                                       SplitMix64& random) {
  if (name == "split") return {3, 4, 1, 2};  // n once
  if (name == "turn") return {start.iteration < 9 ? 1U : 2U};
  if (name == "left" && random.next() % 3 == 0) return {};
  return std::vector<std::uint64_t>(1 + random.next() % 3, 1);
}

struct Sample {
  wire::Bytes bytes;
  NodeId from = 0;
  NodeId to = 0;
};

/// What travels in runs of the workflow that end well, fail, are cancelled, and lose a node.
std::vector<Sample> conversation(const Plan& plan, std::uint64_t seed) {
  std::vector<Sample> all;
  SplitMix64 random(seed);
  WireWorld world(plan, seed);
  world.sent = [&](const wire::Bytes& bytes, NodeId from, NodeId to) {
    all.push_back({bytes, from, to});
  };
  world.yields = [&](const StartActivation& start) {
    return some_yields(start, plan.nodes[start.node].name, random);
  };
  world.fails = [&](const StartActivation&) { return random.next() % 50 == 0; };
  world.converse(plan.find("late")->id);
  for (const std::string& error : world.errors) UNSCOPED_INFO(error);
  REQUIRE(world.errors.empty());
  REQUIRE(world.refusals.empty());
  REQUIRE(world.kinds.size() == 7);
  return all;
}

/// The same body with the checksum that belongs to it.
void seal(wire::Bytes& bytes) {
  const std::uint32_t sum = crc32c(std::span(bytes).first(bytes.size() - 4));
  for (std::size_t i = 0; i < 4; ++i)
    bytes[bytes.size() - 4 + i] = static_cast<std::byte>(sum >> (8 * i));
}

}  // namespace

TEST_CASE("the checksum is CRC-32C, with and without the processor's instruction") {
  const std::string known = "123456789";
  CHECK(crc32c(std::as_bytes(std::span(known))) == 0xe3069283U);
  SplitMix64 random(1);
  for (std::size_t size = 0; size < 100; ++size) {
    wire::Bytes bytes(size);
    for (std::byte& byte : bytes) byte = static_cast<std::byte>(random.next());
    CHECK(crc32c(bytes) == crc32c(bytes, 0, Crc32cBy::table));
  }
}

TEST_CASE("a workflow whose every message is bytes comes to the same end, and nothing is left") {
  const Plan plan = plan_of(everything);
  for (std::uint64_t seed = 1; seed <= 60; ++seed) {
    INFO("seed " << seed);
    WireWorld world(plan, seed);
    world.yields = [&](const StartActivation& start) -> std::vector<std::uint64_t> {
      const std::string& name = plan.nodes[start.node].name;
      if (name == "split") return {3, 4, 3};
      if (name == "turn") return {start.iteration < 30 ? 1U : 2U};
      return {1};
    };
    for (std::uint64_t i = 0; i < 4; ++i) world.call(i % 2);
    world.run();
    CHECK(world.errors.empty());
    CHECK(world.refusals.empty());
    CHECK(world.ended_well == std::vector<bool>(4, true));
    CHECK(world.firings == std::map<std::string, int>{{"split", 4},
                                                      {"left", 8},
                                                      {"right", 4},
                                                      {"both", 4},
                                                      {"again", 124},
                                                      {"turn", 124},
                                                      {"late", 4},
                                                      {"count", 4}});
    CHECK(world.delivered == 12);
    CHECK(world.left_over() == 0);
  }
}

TEST_CASE("each message has one way to be written: what is read is written the same") {
  const Plan plan = plan_of(everything);
  Pools pools;
  wire::Limits limits;
  std::size_t count = 0;
  for (std::uint64_t seed = 1; seed <= 10; ++seed)
    for (const Sample& sample : conversation(plan, seed)) {
      const Instant now = std::chrono::hours(2);
      Result<Message*> message = wire::decode(plan, sample.bytes, now, limits, pools);
      REQUIRE(message.ok());
      CHECK((*message)->to == sample.to);
      wire::Bytes again;
      REQUIRE(wire::encode(plan, **message, now, limits, again).ok());
      CHECK(again == sample.bytes);
      pools.give(*message);
      ++count;
    }
  CHECK(count > 3000);
  CHECK(pools.frames.in_use() + pools.scopes.in_use() + pools.messages.in_use() == 0);
}

TEST_CASE("a message cut anywhere, or with any bit flipped, is refused with a reason") {
  const Plan plan = plan_of(everything);
  Pools pools;
  const wire::Limits limits;
  const std::vector<Sample> all = conversation(plan, 1);
  for (std::size_t at = 0; at < all.size(); at += 7) {
    const wire::Bytes& bytes = all[at].bytes;
    for (std::size_t size = 0; size < bytes.size(); ++size) {
      wire::Bytes part(bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(size));
      const auto cut = wire::decode(plan, part, Instant{}, limits, pools);
      REQUIRE(!cut.ok());
      CHECK(!cut.error().message.empty());
      if (part.size() < 6) continue;
      seal(part);  // though its checksum is right
      CHECK(!wire::decode(plan, part, Instant{}, limits, pools).ok());
    }
    for (std::size_t bit = 0; bit < bytes.size() * 8; ++bit) {
      wire::Bytes flipped = bytes;
      flipped[bit / 8] ^= static_cast<std::byte>(1U << bit % 8);
      const auto refused = wire::decode(plan, flipped, Instant{}, limits, pools);
      REQUIRE(!refused.ok());
      CHECK(!refused.error().message.empty());
    }
  }
  CHECK(pools.frames.in_use() + pools.scopes.in_use() + pools.messages.in_use() == 0);
}

TEST_CASE("bytes that are changed behind their checksum never reach a check in an engine") {
  const Plan plan = plan_of(everything);
  std::size_t accepted = 0;
  std::set<std::string> errors;
  std::set<std::string> refusals;
  test::Outcomes outcomes("wire_refusals");
  for (std::uint64_t seed = 1; seed <= 40; ++seed) {
    SplitMix64 random(seed * 77);
    std::vector<Sample> heard;
    WireWorld world(plan, seed);
    world.sent = [&](const wire::Bytes& bytes, NodeId from, NodeId to) {
      heard.push_back({bytes, from, to});
    };
    world.yields = [&](const StartActivation& start) {
      return some_yields(start, plan.nodes[start.node].name, random);
    };
    for (std::uint64_t i = 0; i < 4; ++i) world.call(i % 2);
    for (int i = 0; i < 4000 && world.step(); ++i) {
      // Between what is right: something heard before, as it was or changed in a few places.
      // Mostly by who might say it, sometimes by somebody else.
      const Sample& before = heard[random.next() % heard.size()];
      wire::Bytes bytes = before.bytes;
      for (std::uint64_t n = random.next() % 4; n > 0; --n)
        bytes[random.next() % bytes.size()] = static_cast<std::byte>(random.next());
      bytes[0] = static_cast<std::byte>(wire::version);
      seal(bytes);
      const NodeId from = random.next() % 4 != 0
                              ? before.from
                              : static_cast<NodeId>(random.next() % plan.nodes.size());
      accepted += world.arrive(bytes, from) ? 1 : 0;
    }
    errors.insert(world.errors.begin(), world.errors.end());
    refusals.insert(world.refusals.begin(), world.refusals.end());
    for (const std::string& refusal : world.refusals) outcomes.add("engines refuse", refusal);
    for (const auto& [node, times] : world.firings)
      outcomes.add("fired", node + " " + std::to_string(times));
  }
  outcomes.require_as_kept();
  CHECK(accepted > 10'000);
  CHECK(errors.size() > 100);
  CHECK(refusals.contains("a share came back twice"));
  CHECK(refusals.contains("a position was settled twice"));
  CHECK(refusals.contains("more credit came back than went out"));
}

TEST_CASE("a length that the bytes do not hold takes no memory") {
  const Plan plan = plan_of(everything);
  Pools pools;
  wire::Limits limits;
  SECTION("more bytes than the limit are not looked at") {
    limits.bytes_max = 100;
    const auto refused = wire::decode(plan, wire::Bytes(101), Instant{}, limits, pools);
    REQUIRE(!refused.ok());
    CHECK(refused.error().code == ErrorCode::exhausted);
    CHECK(refused.error().message == "a message of 101 bytes; the limit is 100");
  }
  SECTION("a text of 2^60 bytes") {
    wire::Bytes bytes;
    wire::ByteWriter writer(bytes);
    writer.number(std::uint64_t{1} << 60U);
    writer.u8('x');
    wire::ByteReader reader(bytes);
    CHECK(reader.text("a text", ~std::uint64_t{0}).empty());
    CHECK(reader.error() == "byte 9: a text: more than the message holds");
  }
  SECTION("a number with a longer way to write it, or more than 64 bits") {
    const wire::Bytes longer{std::byte{0x81}, std::byte{0}};
    wire::ByteReader reader(longer);
    reader.number("it", 100);
    CHECK(!reader.ok());
    const wire::Bytes all_ones(11, std::byte{0xff});
    wire::ByteReader wide(all_ones);
    wide.number("it", ~std::uint64_t{0});
    CHECK(!wide.ok());
  }
  SECTION("a message too large to be sent is the sender's error, and nothing is written") {
    limits.bytes_max = 200;
    Frame* frame = pools.new_frame(entry_node, 2);
    frame->mask = 1;
    frame->values[0] = make_text(std::string(1000, 'x'));
    frame->iterations.assign(plan.loop_nodes, 0);
    Message* message = pools.new_message(Message::Kind::frame, 1, {1, {}}, 0);
    message->frame = FrameRef(frame);
    for (const Edge& edge : plan.edges)
      if (edge.from == entry_node && edge.mask == 1) message->target = edge.id;
    const Edge& edge = plan.edges[message->target];
    message->shares.resize(edge.shares.size());
    for (std::size_t i = 0; i < edge.shares.size(); ++i) {
      Scope* scope = pools.new_scope(edge.shares[i], message->call);
      message->shares[i] = {ScopeRef(scope), 1, 64};
    }
    message->credit = Credit::whole();
    wire::Bytes out(3);
    const Result<void> encoded = wire::encode(plan, *message, Instant{}, limits, out);
    REQUIRE(!encoded.ok());
    CHECK(encoded.error().code == ErrorCode::exhausted);
    CHECK(out.size() == 3);
    pools.give(message);
  }
}

TEST_CASE("what a message says of another version is said") {
  const Plan plan = plan_of(everything);
  Pools pools;
  const auto refused = wire::decode(plan, wire::Bytes(40, std::byte{9}), Instant{}, {}, pools);
  REQUIRE(!refused.ok());
  CHECK(refused.error().message == "a message of version 9; this is version 3");
}
