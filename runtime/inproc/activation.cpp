#include "runtime/inproc/activation.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "base/failpoint.h"
#include "runtime/inproc/lane.h"

namespace sluice {

bool NodePlace::reads(std::string_view field) const {
  return std::ranges::find(inputs, field) != inputs.end();
}

void NodePlace::wake_lanes() const {
  for (const RolePlace& replica : replicas)
    if (replica.lane != nullptr) replica.lane->ear().wake();
}

namespace {

/// Of one activation that waits for its next use: a frame and an end.
constexpr int spare_events_max = 2;

void delete_all(Event* event) {
  while (event != nullptr) delete std::exchange(event, event->next);
}

}  // namespace

LaneActivation::~LaneActivation() { delete_events(); }

void LaneActivation::delete_events() {
  delete_all(std::exchange(spare_events_, nullptr));
  delete_all(returned_events_.exchange(nullptr));
  events_made_ = 0;
}

Event& LaneActivation::new_event(Event::Kind kind) {
  if (spare_events_ == nullptr && returned_events_.load(std::memory_order_relaxed) != nullptr)
    spare_events_ = returned_events_.exchange(nullptr);
  Event* event = spare_events_;
  if (event != nullptr) {
    spare_events_ = event->next;
  } else {
    event = new Event;
    ++events_made_;
  }
  event->kind = kind;
  event->activation = this;
  if (times_) event->sent = steady_now();
  if (kind == Event::Kind::yielded) {
    event->progress.store(Event::Progress::waits, std::memory_order_relaxed);
    newest_frame_ = event;
  }
  return *event;
}

void LaneActivation::give_back(Event& event) {
  event.last = event.released = false;
  event.next = returned_events_.load(std::memory_order_relaxed);
  while (!returned_events_.compare_exchange_weak(event.next, &event)) {
  }
}

void LaneActivation::begin(RoleListener& listener, const NodePlace& place,
                           const StartActivation& start, const Ref<CallState>& call) {
  listener_ = &listener;
  place_ = &place;
  call_ = call;
  id_ = start.activation;
  group_ = start.group;
  replica_ = start.replica % static_cast<std::uint32_t>(place.replicas.size());
  instance_ = place.replicas[replica_].instance;
  const std::size_t fields = place.node->groups[group_].fields.size();
  for (InputValue& input : start.inputs) {
    // Sorted by field.
    while (begins_.size() <= input.field)
      begins_.push_back(static_cast<std::uint32_t>(values_.size()));
    values_.push_back(std::move(input.value));
  }
  while (begins_.size() <= fields) begins_.push_back(static_cast<std::uint32_t>(values_.size()));
}

std::span<const PayloadRef> LaneActivation::inputs(std::string_view field) const {
  const std::vector<std::string>& fields = place_->node->groups[group_].fields;
  for (std::size_t i = 0; i < fields.size(); ++i)
    if (fields[i] == field)
      return std::span(values_).subspan(begins_[i], begins_[i + 1] - begins_[i]);
  if (!place_->reads(field))
    breach("read the field '" + std::string(field) + "', which it does not declare");
  return {};
}

const Payload* LaneActivation::absent(std::string_view field) const {
  static const PayloadRef empty(new Payload);
  return place_->reads(field) ? nullptr : empty.get();
}

void LaneActivation::breach(std::string what) const {
  if (breach_.empty()) breach_ = "the role '" + place_->role + "' " + std::move(what);
}

std::optional<std::string> LaneActivation::check_and_add(const FieldValue& field) {
  const std::vector<std::string>& outputs = place_->node->outputs;
  const auto it = std::ranges::find(outputs, field.field);
  const auto named = [&] { return "'" + std::string(field.field) + "'"; };
  if (it == outputs.end()) return "the undeclared field " + named();
  if (!field.value) return "no value in " + named();
  const auto index = static_cast<std::uint16_t>(it - outputs.begin());
  if (std::ranges::any_of(fields_, [&](const auto& before) { return before.first == index; }))
    return "the field " + named() + " twice in one frame";
  std::optional<std::string> wrong = breach_of(place_->outputs[index], *field.value);
  if (!wrong) fields_.emplace_back(index, field.value);
  return wrong;
}

void LaneActivation::yield(std::span<const FieldValue> fields) {
  failpoint("yield");
  const std::uint32_t most = place_->node->yields_max;
  if (++yields_ > most && most != 0) {
    const std::string name(fields.empty() ? std::string_view() : fields.front().field);
    return breach("yielded frame " + std::to_string(yields_) + " of '" + name +
                  "', it declares at most " + std::to_string(most) + " (yields_max)");
  }
  fields_.clear();
  // One wrong field, and nothing of the frame goes on: without the field it would be another frame.
  for (const FieldValue& field : fields)
    if (std::optional<std::string> wrong = check_and_add(field)) {
      fields_.clear();
      return breach("yielded " + std::move(*wrong));
    }
  if (!place_->hold_last) return listener_->yielded(*this, fields_, false);
  if (std::exchange(holds_, true)) listener_->yielded(*this, held_, false);
  held_.swap(fields_);
}

Result<Tensor> LaneActivation::make_output(std::string_view field, Dtype dtype,
                                           std::vector<std::int64_t> shape) {
  const auto index = static_cast<std::size_t>(std::ranges::find(place_->node->outputs, field) -
                                              place_->node->outputs.begin());
  if (index < place_->readers.size() && !place_->readers[index].empty()) {
    const Result<std::size_t> size = Tensor::bytes_of(dtype, shape);
    if (!size.ok()) return size.error();
    if (Ref<Buffer> shared = listener_->make_shared(*size, place_->readers[index]))
      return Tensor::over(dtype, std::move(shape), std::move(shared));
  }
  return Tensor::zeros(dtype, std::move(shape));
}

void LaneActivation::wait(const std::function<bool()>& done) const {
  place_->replicas[replica_].lane->ear().wait(done);
}

void LaneActivation::wake_lane() const { place_->replicas[replica_].lane->ear().wake(); }

void LaneActivation::end(Result<void> result, bool released) {
  failpoint("activation_ended");
  if (times_) times_->end = steady_now();
  std::unique_ptr<Error> error;
  if (!result.ok())
    error = std::make_unique<Error>(result.error());
  else if (!breach_.empty())
    error = std::make_unique<Error>(Error{ErrorCode::corrupt, breach_});
  if (released) drop_inputs();
  if (std::exchange(holds_, false)) {
    if (!error && released) return listener_->yielded(*this, held_, true);
    listener_->yielded(*this, held_, false);
  }
  listener_->ended(*this, std::move(error), released);
}

void LaneActivation::release() {
  drop_inputs();
  listener_->released(*this);
}

void LaneActivation::drop_inputs() {
  values_.clear();
  begins_.clear();
}

void LaneActivation::clear() {
  drop_inputs();
  fields_.clear();
  held_.clear();
  holds_ = false;
  yields_ = 0;
  newest_frame_ = nullptr;
  if (events_made_ > spare_events_max) delete_events();
  breach_.clear();
  call_ = Ref<CallState>();
  cancelled_.store(false, std::memory_order_relaxed);
  stepped = passed = false;
}

}  // namespace sluice
