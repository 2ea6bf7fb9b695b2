// Any bytes as a message between machines: refused with a reason, or a message that is written the
// same again and that an engine takes or refuses, without a failed check.
#include <algorithm>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/crc32c.h"
#include "graph/check.h"
#include "graph/coordinator.h"
#include "graph/engine.h"
#include "runtime/wire/codec.h"
#include "tests/wire/everything.h"
#include "workflows/load.h"

using namespace sluice;

namespace {

Plan make_plan() {
  PluginDeclaration scripted;
  scripted.name = "scripted";
  scripted.any_ports = true;
  LoadedWorkflow loaded = load_workflow("fuzzed.yaml", testing::everything);
  check(loaded.spec, {scripted}, loaded.diagnostics);
  Plan plan = compile(loaded.spec, {scripted}, loaded.diagnostics);
  if (has_errors(loaded.diagnostics)) __builtin_trap();
  return plan;
}

/// One machine with every engine, in the middle of a call.
class Machine {
 public:
  explicit Machine(const Plan& plan) : plan_(plan), home_(plan, pools_) {
    for (const PlanNode& node : plan.nodes)
      engines_.push_back(node.id == entry_node ? nullptr
                                               : std::make_unique<Engine>(plan, node.id, pools_));
    effects_.from_wire = true;
    std::vector<PayloadRef> inputs{make_text("x"), make_text("y")};
    home_.call(1, inputs, now, effects_);
    perform();
  }

  void take(std::span<const std::byte> bytes) {
    Result<Message*> message = wire::decode(plan_, bytes, now, limits_, pools_);
    if (!message) {
      if (message.error().message.empty()) __builtin_trap();
      return;
    }
    wire::Bytes again;
    if (!wire::encode(plan_, **message, now, limits_, again)) __builtin_trap();
    if (!std::ranges::equal(again, bytes)) __builtin_trap();
    if ((*message)->to == entry_node)
      home_.receive(**message, effects_);
    else
      engines_[(*message)->to]->receive(**message, effects_);
    pools_.give(*message);
    perform();
  }

 private:
  /// Roles answer with every field, some steps deep.
  void perform() {
    for (int depth = 0; depth < 4; ++depth) {
      const std::vector<StartActivation> starts = effects_.starts;
      for (Message* message : effects_.messages) pools_.give(message);
      effects_.clear();
      for (const StartActivation& start : starts) {
        const std::size_t outputs = plan_.nodes[start.node].outputs.size();
        Frame* frame = pools_.new_frame(start.node, outputs);
        for (std::size_t i = 0; i < outputs; ++i) frame->values[i] = value_;
        frame->mask = (std::uint64_t{1} << outputs) - 1;
        engines_[start.node]->yielded(start.activation, frame, true, effects_);
      }
    }
    for (Message* message : effects_.messages) pools_.give(message);
    effects_.clear();
  }

  static constexpr Instant now{std::chrono::hours(1)};
  const Plan& plan_;
  const wire::Limits limits_{.bytes_max = std::size_t{1} << 20U, .machines = 16};
  const PayloadRef value_ = make_number(1);
  Pools pools_;
  Effects effects_;
  Coordinator home_;
  std::vector<std::unique_ptr<Engine>> engines_;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const Plan plan = make_plan();
  Machine machine(plan);
  // Several messages, each after its length; the checksum is put right, or nothing would get past.
  std::span<const std::byte> left = std::as_bytes(std::span(data, size));
  while (left.size() > 2) {
    const std::size_t wanted =
        static_cast<std::size_t>(left[0]) + (static_cast<std::size_t>(left[1]) << 8U);
    left = left.subspan(2);
    const std::size_t length = std::min(wanted, left.size());
    wire::Bytes bytes(left.begin(), left.begin() + static_cast<std::ptrdiff_t>(length));
    left = left.subspan(length);
    machine.take(bytes);
    if (bytes.size() < 5) continue;
    const std::uint32_t sum = crc32c(std::span(bytes).first(bytes.size() - 4));
    for (std::size_t i = 0; i < 4; ++i)
      bytes[bytes.size() - 4 + i] = static_cast<std::byte>(sum >> (8 * i));
    machine.take(bytes);
  }
  return 0;
}
