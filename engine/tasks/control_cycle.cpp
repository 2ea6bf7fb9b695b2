#include "engine/tasks/control_cycle.h"

#include <algorithm>

namespace sluice {

Result<std::unique_ptr<ControlCycle>> ControlCycle::make(const FlowPolicy& policy,
                                                         KvSequence prefix, std::vector<float> rows,
                                                         std::size_t pictures, std::vector<float> x,
                                                         std::vector<float> state,
                                                         const ControlOptions& options) {
  std::unique_ptr<ControlCycle> made(new ControlCycle(policy));
  made->prefix_ = std::move(prefix);
  made->pages_before_ = made->prefix_.pages().size();
  made->rows_ = std::move(rows);
  made->pictures_ = pictures;
  made->options_ = options;
  made->state_ = std::move(state);
  made->request_.x = std::move(x);
  made->request_.state = made->state_;
  if (options.schedule.steps == 0) return made;
  if (made->rows_.empty() && made->prefix_.tokens() == 0)
    return invalid_argument("there is nothing to act on: no picture, no instruction");
  if (Result<void> fits = policy.head().check({&made->request_, 1}); !fits.ok())
    return fits.error();
  made->times_ = options.schedule.times();
  if (policy.shape().expert.block.adaptive) {
    auto table = policy.head().conditions(options.schedule);
    if (!table.ok()) return table.error();
    made->conditions_ = std::move(table).value();
  }
  return made;
}

std::size_t ControlCycle::prefix_rows() const {
  return rows_.size() / policy_.model().text().width();
}

PagesWanted ControlCycle::pages_wanted(TextEngine& engine) const {
  const std::size_t suffix = times_.empty() ? 0 : policy_.head().suffix_rows();
  const auto pages =
      static_cast<std::uint32_t>(engine.pages().missing(prefix_, prefix_rows() + suffix));
  return {pages, pages};
}

Need ControlCycle::need(const TextEngine&) const {
  Need need;
  need.priority = options_.priority;
  if (!rows_.empty()) {  // its rows see each other
    need.kind = Need::Kind::prompt;
    need.rows = static_cast<std::uint32_t>(prefix_rows());
  } else {
    need.rows = static_cast<std::uint32_t>(policy_.head().suffix_rows());
  }
  // The prefix counts as a step.
  need.deadline = deadline_of_part(options_.began, options_.deadline, rows_.empty() ? step_ + 2 : 1,
                                   times_.size() + 1);
  return need;
}

void ControlCycle::lay_out(const TextEngine&, std::size_t, Work& work) {
  if (!rows_.empty()) {
    sees_ = policy_.head().prefix_sees(prefix_rows(), pictures_);
    work.chunks.push_back({&prefix_, rows_, Mask::block, sees_});
    return;
  }
  policy_.suffix_rows(request_, times_[step_], suffix_);
  sees_ = policy_.head().suffix_sees(prefix_.tokens());
  work.chunks.push_back({&prefix_,
                         suffix_,
                         Mask::block,
                         sees_,
                         {},
                         conditions_ != nullptr ? static_cast<std::uint32_t>(step_) : 0,
                         across_.has_value() ? &*across_ : nullptr,
                         conditions_.get()});
  work.expert = &policy_.expert();
  work.is_scratch = true;
}

void ControlCycle::take(TextEngine& engine, const StepResult& result) {
  if (!rows_.empty()) {
    rows_.clear();
    if (times_.empty()) {
      const auto last = result.hidden.last(policy_.model().text().width());
      last_row_.assign(last.begin(), last.end());
    }
  } else {
    policy_.velocities_of(result.hidden, velocities_);
    for (std::size_t i = 0; i < velocities_.size(); ++i)
      request_.x[i] += options_.schedule.dt() * velocities_[i];
    ++step_;
  }
  if (done() || across_.has_value() || !policy_.expert().attends_across()) return;
  Result<CrossKeys> keys = engine.cross_keys(policy_.expert(), prefix_);
  if (keys.ok())
    across_ = std::move(keys).value();
  else
    fail(keys.error());
}

}  // namespace sluice
