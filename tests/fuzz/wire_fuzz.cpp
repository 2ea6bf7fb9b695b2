// Any bytes as messages between machines, by several senders, one after the other: each is refused
// with a reason, or is written the same again and taken or refused by an engine, without a failed
// check; and what honest machines make of it is never refused as if they had lied.
#include <algorithm>
#include <array>
#include <cstdint>
#include <deque>
#include <memory>
#include <span>
#include <vector>

#include "base/crc32c.h"
#include "graph/coordinator.h"
#include "graph/engine.h"
#include "runtime/wire/codec.h"
#include "tests/fuzz/fuzzed_plan.h"

using namespace sluice;
using testing::machines;

namespace {

constexpr std::size_t honest_steps = 32;  // between two messages of the input

/// Three machines in the middle of a call. What they say to each other is honest, and must be taken
/// for that, whatever the input made them believe: an honest machine does not pass on what the next
/// one would refuse.
class World {
 public:
  explicit World(const Plan& plan) : plan_(plan), contract_(plan, testing::placement_of(plan), {}) {
    for (std::uint32_t i = 0; i < machines; ++i) {
      pools_[i].self = {i, 1};
      pools_[i].waiting_max = 256;
    }
    home_ = std::make_unique<Coordinator>(plan, pools_[0]);
    for (const PlanNode& node : plan.nodes)
      engines_.push_back(node.id == entry_node
                             ? nullptr
                             : std::make_unique<Engine>(plan, node.id, pools_[node.id % machines]));
    effects_.from_wire = true;
    std::vector<PayloadRef> inputs{make_text("x"), make_text("y")};
    home_->call(1, inputs, now, effects_);
    perform(0);
  }

  /// Bytes that say to be from this machine; `machines`: from whoever may say them.
  void take(std::span<const std::byte> bytes, std::uint32_t from) {
    Result<Message*> any = wire::decode(plan_, bytes, now, limits_, postman_);
    if (!any) {
      if (any.error().message.empty()) __builtin_trap();
      return;
    }
    wire::Bytes again;
    if (!wire::encode(plan_, **any, now, limits_, again)) __builtin_trap();
    if (!std::ranges::equal(again, bytes)) __builtin_trap();
    const std::uint32_t to = machine_of(**any);
    postman_.give(*any);
    if (to >= machines) return;
    if (from < machines) {
      apply(wire::decode(plan_, bytes, {{from, 1}, contract_}, now, limits_, pools_[to]), to);
    } else {
      believes_all_ = true;
      apply(wire::decode(plan_, bytes, now, limits_, pools_[to]), to);
    }
    for (std::size_t step = 0; step < honest_steps && !flying_.empty(); ++step) deliver();
  }

  /// Memory stays within a multiple of what came.
  void check_memory(std::size_t bytes) const {
    for (const Pools& pools : pools_)
      if (pools.scopes.in_use() + pools.frames.in_use() > 20'000 + 200 * bytes) __builtin_trap();
  }

 private:
  struct Flying {
    wire::Bytes bytes;
    std::uint32_t from = 0;
  };

  std::uint32_t machine_of(const Message& message) const {
    return message.to == entry_node ? message.call.home.machine : message.to % machines;
  }
  void deliver() {
    const Flying one = std::move(flying_.front());
    flying_.pop_front();
    Result<Message*> any = wire::decode(plan_, one.bytes, now, limits_, postman_);
    if (!any) __builtin_trap();
    const std::uint32_t to = machine_of(**any);
    postman_.give(*any);
    if (to >= machines) return;
    Result<Message*> message =
        wire::decode(plan_, one.bytes, {{one.from, 1}, contract_}, now, limits_, pools_[to]);
    if (!message && !believes_all_) __builtin_trap();
    apply(std::move(message), to);
  }
  void apply(Result<Message*> message, std::uint32_t at) {
    if (!message) return;
    if ((*message)->to != entry_node)
      engines_[(*message)->to]->receive(**message, effects_);
    else if (at == 0)
      home_->receive(**message, effects_);
    pools_[at].give(*message);
    perform(at);
  }
  /// Roles answer with every field, some steps deep.
  void perform(std::uint32_t at) {
    for (int depth = 0; depth < 4; ++depth) {
      const std::vector<StartActivation> starts = effects_.starts;
      post(at);
      for (const StartActivation& start : starts) {
        const std::size_t outputs = plan_.nodes[start.node].outputs.size();
        Frame* frame = pools_[at].new_frame(start.node, outputs);
        for (std::size_t i = 0; i < outputs; ++i) frame->values[i] = value_;
        frame->mask = (std::uint64_t{1} << outputs) - 1;
        engines_[start.node]->yielded(start.activation, frame, true, effects_);
      }
    }
    post(at);
  }
  void post(std::uint32_t at) {
    for (Message* message : effects_.messages) {
      wire::Bytes bytes;
      // One that breaks a limit is its own sender's trouble; a long queue is not what is hunted.
      if (flying_.size() < 4096 && wire::encode(plan_, *message, now, limits_, bytes))
        flying_.push_back({std::move(bytes), at});
      pools_[at].give(message);
    }
    effects_.clear();
  }

  static constexpr Instant now{std::chrono::hours(1)};
  const Plan& plan_;
  const wire::Contract contract_;
  const wire::Limits limits_{.bytes_max = std::size_t{1} << 20U, .machines = 16};
  const PayloadRef value_ = make_number(1);
  Pools postman_;
  std::array<Pools, machines> pools_;
  Effects effects_;
  std::unique_ptr<Coordinator> home_;
  std::vector<std::unique_ptr<Engine>> engines_;
  std::deque<Flying> flying_;
  bool believes_all_ = false;  // something came that no sender may say
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const Plan plan = testing::fuzzed_plan();
  World world(plan);
  // Several messages, each after its length, whose upper two bits say who sends it (none: whoever
  // may); the checksum is put right, or nothing would get past.
  std::span<const std::byte> left = std::as_bytes(std::span(data, size));
  while (left.size() > 2) {
    const std::size_t wanted =
        static_cast<std::size_t>(left[0]) + ((static_cast<std::size_t>(left[1]) & 0x3fU) << 8U);
    const std::uint32_t said = static_cast<std::uint32_t>(left[1]) >> 6U;
    left = left.subspan(2);
    const std::size_t length = std::min(wanted, left.size());
    wire::Bytes bytes(left.begin(), left.begin() + static_cast<std::ptrdiff_t>(length));
    left = left.subspan(length);
    const std::uint32_t sender = said == 0 ? machines : said - 1;
    world.take(bytes, sender);
    if (bytes.size() < 5) continue;
    const std::uint32_t sum = crc32c(std::span(bytes).first(bytes.size() - 4));
    for (std::size_t i = 0; i < 4; ++i)
      bytes[bytes.size() - 4 + i] = static_cast<std::byte>(sum >> (8 * i));
    world.take(bytes, sender);
  }
  world.check_memory(size);
  return 0;
}
