#include "runtime/inproc/lane.h"

#include <algorithm>
#include <exception>
#include <utility>

namespace sluice {

LaneActivation::LaneActivation(std::shared_ptr<const PlanNode> plan_node,
                               const StartActivation& start, std::string session,
                               std::function<void(LaneEvent)> report)
    : node_(std::move(plan_node)),
      id_(start.activation),
      session_(std::move(session)),
      call_(start.call),
      group_(start.group),
      inputs_(node_->groups[start.group].fields.size()),
      report_(std::move(report)) {
  for (InputValue& input : start.inputs) inputs_[input.field].push_back(std::move(input.value));
}

std::span<const PayloadRef> LaneActivation::inputs(std::string_view field) const {
  const std::vector<std::string>& fields = node_->groups[group_].fields;
  const auto it = std::ranges::find(fields, field);
  if (it == fields.end()) return {};
  return inputs_[static_cast<std::size_t>(it - fields.begin())];
}

void LaneActivation::yield(std::span<const FieldValue> fields) {
  LaneEvent event;
  event.node = node_->id;
  event.activation = id_;
  for (const FieldValue& field : fields) {
    const auto it = std::ranges::find(node_->outputs, field.field);
    if (it == node_->outputs.end() || !field.value) {
      if (contract_error_.empty())
        contract_error_ = "the role yielded " +
                          std::string(field.value ? "the undeclared field '" : "no value in '") +
                          std::string(field.field) + "'";
      continue;
    }
    event.fields.emplace_back(static_cast<std::uint16_t>(it - node_->outputs.begin()), field.value);
  }
  report_(std::move(event));
}

void LaneActivation::end(Result<void> result) {
  LaneEvent event;
  event.node = node_->id;
  event.activation = id_;
  event.ended = true;
  if (!result.ok())
    event.error = std::make_unique<Error>(result.error());
  else if (!contract_error_.empty())
    event.error = std::make_unique<Error>(Error{ErrorCode::corrupt, contract_error_});
  report_(std::move(event));
}

Lane::~Lane() {
  if (!thread_.joinable()) return;
  mailbox_.push(nullptr);
  thread_.join();
}

std::size_t Lane::add(RoleInstance instance) {
  instances_.push_back(std::move(instance));
  return instances_.size() - 1;
}

void Lane::run() { thread_ = std::thread([this] { work(); }); }

void Lane::push(std::shared_ptr<LaneActivation> activation) {
  mailbox_.push(std::move(activation));
}

void Lane::work() {
  std::vector<std::shared_ptr<LaneActivation>> batch;
  for (bool busy = false;;) {
    if (busy)
      mailbox_.take(batch);
    else
      mailbox_.wait_and_take(batch);
    for (std::shared_ptr<LaneActivation>& activation : batch) {
      if (!activation) return;
      run_one(std::move(activation));
    }
    batch.clear();
    busy = step_all();
  }
}

void Lane::run_one(std::shared_ptr<LaneActivation> activation) {
  RoleInstance& instance = instances_[activation->instance()];
  if (auto* stepped = std::get_if<std::unique_ptr<SteppedRole>>(&instance)) {
    admitted_.push_back(activation);
    (*stepped)->admit(*activation);
    return;
  }
  // A role of somebody else may throw, and a library below ours: it fails that activation only.
  try {
    activation->end(std::get<std::unique_ptr<Role>>(instance)->run(*activation));
  } catch (const std::exception& error) {
    activation->end(Error{ErrorCode::unavailable, std::string("the role threw: ") + error.what()});
  }
}

bool Lane::step_all() {
  bool busy = false;
  for (RoleInstance& instance : instances_) {
    auto* stepped = std::get_if<std::unique_ptr<SteppedRole>>(&instance);
    if (stepped == nullptr || !(*stepped)->busy()) continue;
    outcomes_.clear();
    (*stepped)->step(outcomes_);
    for (StepOutcome& outcome : outcomes_) {
      const auto it = std::ranges::find_if(
          admitted_, [&](const auto& held) { return held.get() == outcome.activation; });
      SLUICE_CHECK(it != admitted_.end(), "a stepped role ended an activation it did not hold");
      (*it)->end(std::move(outcome.result));
      admitted_.erase(it);
    }
    busy = busy || (*stepped)->busy();
  }
  return busy;
}

}  // namespace sluice
