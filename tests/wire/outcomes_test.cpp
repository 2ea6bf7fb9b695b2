// Every place of some messages and values changed, and what the reader says of each.
#include "tests/outcomes.h"

#include <catch2/catch.hpp>
#include <map>

#include "base/crc32c.h"
#include "runtime/wire/codec.h"
#include "runtime/wire/payload_codec.h"
#include "world.h"

using namespace sluice;
using sluice::testing::everything;
using sluice::testing::plan_of;
using sluice::testing::WireWorld;

namespace {

constexpr const char* kind_names[] = {"frame", "settled", "credit",    "cancel",
                                      "abort", "aborted", "call_ended"};

/// With the checksum that belongs to what stands before it.
wire::Bytes sealed(wire::Bytes body) {
  const std::uint32_t sum = crc32c(body);
  wire::ByteWriter(body).u32(sum);
  return body;
}

struct Sample {
  std::string title;
  wire::Bytes body;  // without its checksum
  NodeId from;
};

/// Two messages of each kind, of a run in which a role fails, a node is lost and a call cancelled.
std::vector<Sample> samples(const Plan& plan) {
  std::vector<Sample> all;
  std::map<std::size_t, int> of_kind;
  WireWorld world(plan, 1);
  world.sent = [&](const wire::Bytes& bytes, NodeId from, NodeId) {
    const auto kind = std::to_integer<std::size_t>(bytes[1]);
    if (of_kind[kind]++ < 2)
      all.push_back({kind_names[kind], {bytes.begin(), bytes.end() - 4}, from});
  };
  world.yields = [&](const StartActivation& start) -> std::vector<std::uint64_t> {
    const std::string& name = plan.nodes[start.node].name;
    if (name == "split") return {3, 4, 1, 2};
    return {name == "turn" && start.iteration > 3 ? 2U : 1U};
  };
  int runs = 0;
  world.fails = [&](const StartActivation&) { return ++runs == 60; };
  world.converse(plan.find("late")->id);
  REQUIRE(of_kind.size() == 7);
  return all;
}

std::string written(const Payload& payload) {
  wire::Bytes bytes;
  wire::ByteWriter out(bytes);
  const Result<void> put = wire::put_payload(payload, out);
  return put.ok() ? std::to_string(bytes.size()) + " bytes" : put.error().message;
}

}  // namespace

TEST_CASE("each place of a message that is changed is refused or read as what it says, as before") {
  const Plan plan = plan_of(everything);
  const wire::Contract contract(plan, WireWorld::own_machines(plan), {});
  wire::Limits limits;
  limits.machines = static_cast<std::uint32_t>(plan.nodes.size());
  test::Outcomes outcomes("wire_messages");
  Pools pools;
  for (const Sample& sample : samples(plan)) {
    const wire::Sender sender{{sample.from, 3}, contract};
    Pools heard;
    heard.self = pools.self;
    outcomes.change_bytes(sample.title, sample.body, [&](const wire::Bytes& body) {
      const wire::Bytes bytes = sealed(body);
      Result<Message*> any = wire::decode(plan, bytes, Instant{}, limits, pools);
      if (any.ok()) heard.self = {(*any)->to, 3};
      if (any.ok()) pools.give(*any);
      Result<Message*> message = wire::decode(plan, bytes, sender, Instant{}, limits, heard);
      if (!message.ok()) return message.error().message;
      wire::Bytes again;
      const Result<void> put = wire::encode(plan, **message, Instant{}, limits, again);
      heard.give(*message);
      if (!put.ok()) return "read, and too large to write: " + put.error().message;
      return std::string(again == bytes ? "read" : "read, and written in another way");
    });
  }
  outcomes.require_as_kept();
}

TEST_CASE("each place of a value that is changed is refused or read as what it says, as before") {
  Payload all;
  all.type = ValueType::tensor;
  all.text = "words";
  all.tensor = Tensor::zeros(Dtype::i32, {2, 1}).value();
  all.tensor.i32()[1] = 7;
  all.number = -3;
  all.attributes = {{"generate", -7}, {"", 1}};
  Payload scalar;
  scalar.tensor = Tensor::zeros(Dtype::bf16, {}).value();
  Payload deep;
  deep.tensor = Tensor::zeros(Dtype::u8, {1, 1, 1, 1, 1, 1, 1, 1}).value();
  Payload hollow;
  hollow.tensor = Tensor::zeros(Dtype::f32, {0, 3}).value();
  test::Outcomes outcomes("wire_values");
  for (const auto& [name, payload] : {std::pair{"all parts", &all},
                                      {"a scalar", &scalar},
                                      {"eight dimensions", &deep},
                                      {"no elements", &hollow}}) {
    wire::Bytes sample;
    wire::ByteWriter out(sample);
    REQUIRE(wire::put_payload(*payload, out).ok());
    outcomes.change_bytes(name, sample, [](const wire::Bytes& bytes) {
      wire::ByteReader in(bytes);
      const PayloadRef read = wire::read_payload(in);
      if (!read) return in.error();
      wire::Bytes again;
      wire::ByteWriter writer(again);
      REQUIRE(wire::put_payload(*read, writer).ok());
      std::string words = std::string(to_string(read->type)) + " " + read->tensor.describe();
      if (in.left() != 0) words += ", " + std::to_string(in.left()) + " bytes are left";
      again.resize(bytes.size());
      return words + (again == bytes || in.left() != 0 ? "" : ", and written in another way");
    });
  }
  for (const std::size_t count : {wire::attributes_max, wire::attributes_max + 1}) {
    Payload many;
    for (std::size_t i = 0; i < count; ++i) many.attributes.emplace_back("a", 1);
    outcomes.add("attributes", written(many));
  }
  for (const std::size_t size : {256U, 257U}) {
    Payload named;
    named.attributes = {{std::string(size, 'n'), 1}};
    outcomes.add("an attribute's name", written(named));
  }
  outcomes.require_as_kept();
}

TEST_CASE("a message is written up to its limits, and its texts are cut between letters") {
  const Plan plan = plan_of(everything);
  Pools pools;
  test::Outcomes outcomes("wire_limits");
  const auto write = [&](const std::string& title, const std::function<void(Message&)>& change,
                         std::size_t bytes_max = std::size_t{64} << 20U) {
    Message* message = pools.new_message(Message::Kind::credit, entry_node, {1, {1, 1}}, 0);
    message->credit = Credit::whole();
    change(*message);
    wire::Limits limits;
    limits.bytes_max = bytes_max;
    wire::Bytes out;
    const Result<void> put = wire::encode(plan, *message, Instant{}, limits, out);
    pools.give(message);
    std::string words = std::to_string(out.size()) + " bytes";
    if (!put.ok()) words += ": " + put.error().message;
    if (put.ok()) {
      Result<Message*> read = wire::decode(plan, out, Instant{}, limits, pools);
      words += read.ok() ? ", read" : ", " + read.error().message;
      if (read.ok()) pools.give(*read);
    }
    outcomes.add(title, words);
  };
  for (const std::size_t count : {wire::warnings_max, wire::warnings_max + 1})
    write("warnings", [&](Message& m) { m.warnings.assign(count, "w"); });
  for (const std::size_t size : {wire::words_max - 1, wire::words_max, wire::words_max + 1})
    for (const char* last : {"a", "\u00e4", "\u20ac"})
      write("a warning of letters of one, two and three bytes",
            [&](Message& m) { m.warnings.push_back(std::string(size - 1, 'w') + last + "x"); });
  for (const std::uint32_t scale : {wire::credit_scale_max, wire::credit_scale_max + 1})
    write("a scale of credit", [&](Message& m) { m.credit.scale = scale; });
  for (const std::size_t most : {12U, 13U, 14U, 15U, 16U, 17U, 18U, 19U, 20U})
    write(
        "a limit of bytes", [](Message&) {}, most);
  outcomes.require_as_kept();
}
