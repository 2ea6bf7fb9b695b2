#include "runtime/replicas/replica_elsewhere.h"

#include <algorithm>
#include <chrono>
#include <optional>
#include <utility>
#include <vector>

namespace sluice {

namespace {

/// How long a step waits for news, while its lane may have got more activations or cancelled some:
/// twice as long each time that there was nothing. So what comes waits no longer than what is under
/// way has, and many such roles do not keep a computer busy with looking.
constexpr std::chrono::milliseconds look_soon{2}, look_late{32};

class ReplicaElsewhere final : public SteppedRole {
 public:
  ReplicaElsewhere(std::shared_ptr<ReplicaDesk> desk, std::uint32_t machine)
      : desk_(std::move(desk)), machine_(machine) {}

  void admit(Activation& activation) override {
    // Only lanes call roles of a node's engine.
    held_.push_back({static_cast<LaneActivation*>(&activation)});
    look_ = look_soon;
  }
  bool busy() const override { return !held_.empty(); }

  void step(std::vector<StepOutcome>& ended) override {
    ask_what_fits();
    std::vector<std::uint64_t> asked;
    for (Held& one : held_) {
      if (one.number == 0) continue;
      asked.push_back(one.number);
      if (one.activation->cancelled() && !std::exchange(one.told, true)) desk_->cancel(one.number);
    }
    const bool any_ended = std::ranges::any_of(held_, &Held::ended);
    if (!any_ended && !asked.empty())
      look_ = desk_->wait(*ear_, asked, look_) ? look_soon : std::min(2 * look_, look_late);
    for (Held& one : held_)
      if (one.number != 0 && !one.ended) take(one);
    for (const Held& one : held_)
      if (one.ended) ended.push_back({one.activation, one.result});
    std::erase_if(held_, &Held::ended);
  }

 private:
  struct Held {
    LaneActivation* activation = nullptr;
    std::uint64_t number = 0;  // 0: it was not asked for yet
    std::size_t weight = 0;    // of its inputs, once known
    bool told = false;         // that it is cancelled
    bool ended = false;
    Result<void> result{};
  };

  static void end(Held& one, Result<void> result) {
    one.ended = true;
    one.result = std::move(result);
  }

  /// In the order in which they came.
  void ask_what_fits() {
    for (Held& one : held_) {
      if (one.number != 0 || one.ended) continue;
      if (one.activation->cancelled()) {
        end(one, Error{ErrorCode::cancelled, "the call was cancelled before the role began"});
        continue;
      }
      std::optional<std::size_t> room;
      if (there_ != 0) room = replica_window - std::min(there_, replica_window);
      if (room && one.weight > *room) return;
      const Result<ReplicaAsked> asked = desk_->ask(machine_, *one.activation, room, ear_);
      if (!asked.ok()) {
        end(one, asked.error());
        continue;
      }
      one.weight = asked->weight;
      one.number = asked->number;
      if (one.number == 0) return;
      there_ += one.weight;
    }
  }

  /// One frame at most: between two steps the lane waits until it may yield.
  void take(Held& one) {
    std::optional<ReplicaSaid> said = desk_->take(one.number);
    if (!said) return;
    if (said->end) {
      for (std::string& warning : said->end->warnings) one.activation->warn(std::move(warning));
      there_ -= one.weight;
      return end(one, said->end->error ? Result<void>(*said->end->error) : Result<void>());
    }
    for (std::string& warning : said->warnings) one.activation->warn(std::move(warning));
    const std::vector<std::string>& outputs = one.activation->place().node->outputs;
    std::vector<FieldValue> fields;
    for (auto& [output, value] : said->values)
      fields.push_back({outputs[output], std::move(value)});
    one.activation->yield(fields);
    desk_->gone_on(one.number, said->weight);
  }

  const std::shared_ptr<ReplicaDesk> desk_;
  const std::uint32_t machine_;
  const std::shared_ptr<ReplicaEar> ear_ = std::make_shared<ReplicaEar>();
  std::chrono::milliseconds look_ = look_soon;
  std::vector<Held> held_;  // in the order in which they came
  std::size_t there_ = 0;   // bytes of inputs that the replica has
};

}  // namespace

std::unique_ptr<SteppedRole> make_replica_elsewhere(std::shared_ptr<ReplicaDesk> desk,
                                                    std::uint32_t machine) {
  return std::make_unique<ReplicaElsewhere>(std::move(desk), machine);
}

}  // namespace sluice
