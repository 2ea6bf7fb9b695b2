#include "engine/tasks/flow_steps.h"

namespace sluice {

double FlowSteps::time() const {
  return options_.start * (1 - static_cast<double>(step_) / static_cast<double>(options_.steps));
}

void FlowSteps::take(std::span<const float> hidden, std::span<const float> hidden_without) {
  const double t = time();
  const std::vector<float> with = flow_.velocity_of(hidden, x_, t);
  std::vector<float> without;
  if (is_guided()) without = flow_.velocity_of(hidden_without, x_, t);
  const auto guidance = static_cast<float>(options_.guidance);
  const auto dt = static_cast<float>(options_.start / static_cast<double>(options_.steps));
  for (std::size_t i = 0; i < x_.size(); ++i)
    x_[i] -= dt * (is_guided() ? without[i] + guidance * (with[i] - without[i]) : with[i]);
  ++step_;
}

}  // namespace sluice
