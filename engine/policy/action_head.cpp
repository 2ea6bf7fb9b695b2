#include "engine/policy/action_head.h"

#include <algorithm>
#include <cmath>
#include <mutex>
#include <numbers>

#include "engine/family/model.h"

namespace sluice {

namespace {

/// Schedules whose tables are kept: 4.5 MB each for pi0.5 with ten steps.
constexpr std::size_t tables_max = 8;

constexpr std::string_view roots[] = {"", "model.", "weight."};

}  // namespace

struct ActionHead::Tables {
  struct Table {
    FlowSchedule schedule;
    std::shared_ptr<const Conditions> values;
  };
  std::mutex mutex;
  std::vector<Table> kept;
};

std::vector<float> FlowSchedule::times() const {
  std::vector<float> made;
  for (float t = start; t >= -dt() / 2; t += dt()) made.push_back(t);
  return made;
}

Result<ActionHead> ActionHead::load(const Architecture& architecture, const SafetensorsFile& file,
                                    kernels::WeightFormat format) {
  if (!architecture.action.has_value())
    return invalid_argument("the model has no action expert; pi0 and pi05 have");
  ActionHead made;
  made.family = architecture.family;
  made.shape = *architecture.action;
  made.file_ = &file;
  made.format_ = format;
  made.tables_ = std::make_shared<Tables>();
  const std::string root = find_prefix(file, roots, "action_in_proj.weight");
  const bool smolvla = architecture.family == Family::smolvla;
  made.at_ =
      root + (smolvla ? "vlm_with_expert.lm_expert." : "paligemma_with_expert.gemma_expert.model.");
  made.expert = {"", made.at_ + "layers.", made.at_ + "norm", ""};
  const std::size_t width = made.width();
  WeightLoader load(file, format);
  made.action_in = load.linear(root + "action_in_proj", width, made.shape.dims, true);
  made.action_out = load.linear(root + "action_out_proj", made.shape.dims, width, true);
  if (architecture.family == Family::pi05) {
    made.time_in = load.linear(root + "time_mlp_in", width, width, true);
    made.time_out = load.linear(root + "time_mlp_out", width, width, true);
  } else {
    made.time_in = load.linear(root + "action_time_mlp_in", width, 2 * width, true);
    made.time_out = load.linear(root + "action_time_mlp_out", width, width, true);
    made.state = load.linear(root + "state_proj", smolvla ? architecture.text->block.width : width,
                             made.shape.state_dims, true);
  }
  if (Result<void> outcome = load.outcome(); !outcome.ok()) return outcome.error();
  return made;
}

Result<void> ActionHead::check(std::span<const ActionRequest> requests) const {
  for (const ActionRequest& request : requests) {
    if (request.x.size() != shape.horizon * shape.dims)
      return invalid_argument("the noise must be " + std::to_string(shape.horizon) + " x " +
                              std::to_string(shape.dims));
    if (family == Family::pi0 && request.state.size() != shape.state_dims)
      return invalid_argument("the state must have " + std::to_string(shape.state_dims) +
                              " values");
  }
  return {};
}

Result<void> ActionHead::check(const Observation& observation) const {
  if (family != Family::smolvla || observation.state.size() == shape.state_dims) return {};
  return invalid_argument("the state must have " + std::to_string(shape.state_dims) + " values");
}

std::vector<std::uint32_t> ActionHead::prefix_sees(std::size_t count, std::size_t pictures) const {
  std::vector<std::uint32_t> sees(count, static_cast<std::uint32_t>(count));
  // Pictures and words do not see the state behind them.
  if (family == Family::smolvla && count != 0)
    std::fill(sees.begin(), sees.end() - 1, static_cast<std::uint32_t>(count - 1));
  if (shape.causal_language)
    for (std::size_t i = 0; i < count; ++i)
      sees[i] = static_cast<std::uint32_t>(i < pictures ? pictures : i + 1);
  return sees;
}

std::vector<std::uint32_t> ActionHead::suffix_sees(std::size_t before) const {
  const std::size_t count = suffix_rows();
  std::vector<std::uint32_t> sees(count, static_cast<std::uint32_t>(before + count));
  // pi0: the state does not see the actions. SmolVLA: no action sees a later one.
  if (family == Family::pi0) sees.front() = static_cast<std::uint32_t>(before + 1);
  if (family == Family::smolvla)
    for (std::size_t row = 0; row < count; ++row)
      sees[row] = static_cast<std::uint32_t>(before + row + 1);
  return sees;
}

std::vector<float> ActionHead::time_embedding(double t, std::size_t width) {
  const std::size_t half = width / 2;
  std::vector<float> waves(width);
  for (std::size_t i = 0; i < half; ++i) {
    const double place = static_cast<double>(i) / static_cast<double>(half - 1);
    const double angle = 2 * std::numbers::pi * t / (4e-3 * std::pow(4.0 / 4e-3, place));
    waves[i] = static_cast<float>(std::sin(angle));
    waves[half + i] = static_cast<float>(std::cos(angle));
  }
  return waves;
}

Result<std::shared_ptr<const Conditions>> ActionHead::conditions(
    const FlowSchedule& schedule) const {
  const std::lock_guard held(tables_->mutex);
  auto& kept = tables_->kept;
  const auto same = [&](const auto& one) {
    return one.schedule.steps == schedule.steps && one.schedule.start == schedule.start;
  };
  if (const auto it = std::ranges::find_if(kept, same); it != kept.end()) return it->values;
  Result<Conditions> made = make_conditions(schedule.times());
  if (!made.ok()) return made.error();
  if (kept.size() == tables_max) kept.erase(kept.begin());
  kept.push_back({schedule, std::make_shared<const Conditions>(std::move(made).value())});
  return kept.back().values;
}

Result<Conditions> ActionHead::make_conditions(std::span<const float> times) const {
  std::vector<float> waves, inner, condition;
  for (const float time : times) {
    const std::vector<float> one = time_embedding(time, width());
    waves.insert(waves.end(), one.begin(), one.end());
  }
  apply(time_in, waves, inner);
  kernels::activate_cpu(kernels::Activation::silu, inner);
  apply(time_out, inner, condition);
  kernels::activate_cpu(kernels::Activation::silu, condition);
  Conditions made;
  WeightLoader load(*file_, format_);
  const std::size_t three = 3 * width();
  const auto dense = [&](const std::string& name, std::vector<float>& to, std::size_t stride,
                         std::size_t offset) {
    const Linear linear = load.linear(name + ".dense", three, width(), true);
    if (!load.outcome().ok()) return;
    std::vector<float> out;
    apply(linear, condition, out);
    to.resize(times.size() * stride);
    for (std::size_t i = 0; i < times.size(); ++i)
      std::copy_n(&out[i * three], three, &to[i * stride + offset]);
  };
  for (std::size_t layer = 0; layer < shape.expert.layers; ++layer) {
    const std::string at = at_ + "layers." + std::to_string(layer) + ".";
    std::vector<float>& values = made.layers.emplace_back();
    dense(at + "input_layernorm", values, 2 * three, 0);
    dense(at + "post_attention_layernorm", values, 2 * three, three);
  }
  dense(at_ + "norm", made.last, three, 0);
  if (Result<void> outcome = load.outcome(); !outcome.ok()) return outcome.error();
  return made;
}

}  // namespace sluice
