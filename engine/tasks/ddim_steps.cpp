#include "engine/tasks/ddim_steps.h"

#include <algorithm>
#include <cmath>
#include <string>

namespace sluice {

namespace {

/// Steps whose conditions are computed together: a product of sixteen rows, and 0.8 MB a row for
/// DiT-XL.
constexpr std::size_t steps_known = 8;

}  // namespace

Result<std::unique_ptr<DdimSteps>> DdimSteps::make(const DiffusionTransformer& transformer,
                                                   std::int64_t label, const DdimOptions& options,
                                                   std::vector<float> latents) {
  const DiffusionShape& shape = transformer.shape();
  if (Result<void> known = transformer.check_class(label); !known.ok()) return known.error();
  if (options.steps == 0 || options.steps > shape.train_steps)
    return invalid_argument("steps must be from 1 to " + std::to_string(shape.train_steps));
  if (latents.size() != shape.latent())
    return invalid_argument("the noise has " + std::to_string(latents.size()) +
                            " values, this model needs " + std::to_string(shape.latent()));
  std::unique_ptr<DdimSteps> made(new DdimSteps(transformer));
  made->label_ = static_cast<std::int32_t>(label);
  made->options_ = options;
  made->latents_ = std::move(latents);
  made->shares_ = signal_shares(shape.train_steps);
  made->stride_ = shape.train_steps / options.steps;
  made->left_ = options.steps;
  return made;
}

void DdimSteps::read_conditions() {
  std::vector<float> times;
  std::vector<std::int32_t> classes;
  step_ = 0;
  known_ = std::min(steps_known, left_);
  for (std::size_t i = 0; i < known_; ++i) {
    times.push_back(static_cast<float>(time_of(left_ - i)));
    classes.push_back(label_);
    if (!is_guided()) continue;
    times.push_back(times.back());
    classes.push_back(static_cast<std::int32_t>(transformer_.shape().classes));
  }
  conditions_ = transformer_.conditions(times, classes);
}

void DdimSteps::lay_out(DrawingRows& step) {
  if (step_ == known_) read_conditions();
  transformer_.rows_of(latents_, step.rows);
  step.conditions = &conditions_;
  step.condition = static_cast<std::uint32_t>(step_ * (is_guided() ? 2 : 1));
  step.unguided = step.condition + 1;
}

void DdimSteps::take(std::span<const float> with, std::span<const float> without) {
  const std::vector<float> noise = transformer_.predicted(with);
  std::vector<float> plain;
  if (is_guided()) plain = transformer_.predicted(without);
  const std::size_t time = time_of(left_--);
  ++step_;
  const double share = shares_[time];
  const double next = time >= stride_ ? shares_[time - stride_] : 1;
  for (std::size_t i = 0; i < latents_.size(); ++i) {
    double guided = noise[i];
    if (is_guided())
      guided = double{plain[i]} + double{options_.guidance} * (guided - double{plain[i]});
    const double picture = (double{latents_[i]} - std::sqrt(1 - share) * guided) / std::sqrt(share);
    latents_[i] = static_cast<float>(std::sqrt(next) * picture + std::sqrt(1 - next) * guided);
  }
}

}  // namespace sluice
