#include "roles/model/flow_policy.h"

#include <algorithm>
#include <cmath>
#include <mutex>
#include <numbers>

#include "base/check.h"

namespace sluice {

namespace {

/// Schedules whose tables are kept: 4.5 MB each for pi0.5 with ten steps.
constexpr std::size_t tables_max = 8;

constexpr std::string_view roots[] = {"", "model.", "weight."};

}  // namespace

struct FlowPolicy::Tables {
  struct Table {
    FlowSchedule schedule;
    std::shared_ptr<const Conditions> values;
  };
  std::mutex mutex;
  std::vector<Table> kept;
};

Result<FlowPolicy> FlowPolicy::load(const Model& model) {
  const Architecture& architecture = model.architecture();
  if (!architecture.action.has_value())
    return invalid_argument("the model has no action expert; pi0 and pi05 have");
  FlowPolicy made;
  made.model_ = &model;
  made.tables_ = std::make_shared<Tables>();
  made.root_ = model.prefix(roots, "action_in_proj.weight");
  made.prefix_ = made.root_ + (architecture.family == Family::smolvla
                                   ? "vlm_with_expert.lm_expert."
                                   : "paligemma_with_expert.gemma_expert.model.");
  const ActionShape& shape = *architecture.action;
  const std::string& at = made.prefix_;
  Result<Decoder> expert = Decoder::load(shape.expert, {"", at + "layers.", at + "norm", ""},
                                         model.file(), model.format());
  if (!expert.ok()) return expert.error();
  made.expert_ = std::move(expert).value();
  const std::size_t width = shape.expert.block.width;
  WeightLoader load(model.file(), model.format());
  const std::string& root = made.root_;
  made.action_in_ = load.linear(root + "action_in_proj", width, shape.dims, true);
  made.action_out_ = load.linear(root + "action_out_proj", shape.dims, width, true);
  if (architecture.family == Family::pi05) {
    made.time_in_ = load.linear(root + "time_mlp_in", width, width, true);
    made.time_out_ = load.linear(root + "time_mlp_out", width, width, true);
  } else {
    made.time_in_ = load.linear(root + "action_time_mlp_in", width, 2 * width, true);
    made.time_out_ = load.linear(root + "action_time_mlp_out", width, width, true);
    const bool in_prefix = architecture.family == Family::smolvla;
    made.state_ = load.linear(root + "state_proj", in_prefix ? model.text().width() : width,
                              shape.state_dims, true);
  }
  if (Result<void> outcome = load.outcome(); !outcome.ok()) return outcome.error();
  return made;
}

std::size_t FlowPolicy::picture_rows(const Observation& observation) const {
  const TowerShape& tower = model_->vision().shape();
  return observation.pictures.size() / (3 * tower.side * tower.side) * tower.patches();
}

Result<std::vector<float>> FlowPolicy::embed(const Observation& observation) const {
  std::vector<float> rows;
  if (!observation.pictures.empty()) {
    auto seen = model_->features(observation.pictures, {});
    if (!seen.ok()) return seen.error();
    rows = std::move(seen).value();
    if (family() == Family::smolvla)
      for (float& v : rows) v *= model_->text().shape().embedding_scale;
  }
  std::span<const float> none;
  std::span<const Grid> no_grids;
  Result<Prompt> words = model_->prompt(observation.tokens, none, no_grids);
  if (!words.ok()) return words.error();
  rows.insert(rows.end(), words->rows.begin(), words->rows.end());
  if (family() != Family::smolvla) return rows;
  if (observation.state.size() != shape().state_dims)
    return invalid_argument("the state must have " + std::to_string(shape().state_dims) +
                            " values");
  std::vector<float> state;
  apply(state_, observation.state, state);
  rows.insert(rows.end(), state.begin(), state.end());
  return rows;
}

Result<void> FlowPolicy::prefill(KvPool& pool, KvSequence& sequence, std::span<const float> rows,
                                 std::size_t pictures, std::vector<float>& hidden) const {
  SLUICE_CHECK(sequence.tokens == 0, "a prefix is written to an empty sequence");
  const std::size_t count = rows.size() / model_->text().width();
  std::vector<std::uint32_t> visible(count, static_cast<std::uint32_t>(count));
  // Pictures and words do not see the state behind them.
  if (family() == Family::smolvla)
    std::fill(visible.begin(), visible.end() - 1, static_cast<std::uint32_t>(count - 1));
  if (shape().causal_language)
    for (std::size_t i = 0; i < count; ++i)
      visible[i] = static_cast<std::uint32_t>(i < pictures ? pictures : i + 1);
  const Chunk chunk{&sequence, rows, Mask::block, visible};
  return model_->text().forward(pool, {&chunk, 1}, hidden);
}

std::vector<float> FlowPolicy::time_embedding(double t, std::size_t width) {
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

Result<std::shared_ptr<const Conditions>> FlowPolicy::conditions(
    const FlowSchedule& schedule, std::span<const float> times) const {
  const std::lock_guard held(tables_->mutex);
  auto& kept = tables_->kept;
  const auto same = [&](const auto& one) {
    return one.schedule.steps == schedule.steps && one.schedule.start == schedule.start;
  };
  if (const auto it = std::ranges::find_if(kept, same); it != kept.end()) return it->values;
  Result<Conditions> made = make_conditions(times);
  if (!made.ok()) return made.error();
  if (kept.size() == tables_max) kept.erase(kept.begin());
  kept.push_back({schedule, std::make_shared<const Conditions>(std::move(made).value())});
  return kept.back().values;
}

Result<Conditions> FlowPolicy::make_conditions(std::span<const float> times) const {
  const std::size_t width = expert_.width();
  std::vector<float> waves, inner, condition;
  for (const float time : times) {
    const std::vector<float> one = time_embedding(time, width);
    waves.insert(waves.end(), one.begin(), one.end());
  }
  apply(time_in_, waves, inner);
  kernels::activate_cpu(kernels::Activation::silu, inner);
  apply(time_out_, inner, condition);
  kernels::activate_cpu(kernels::Activation::silu, condition);
  Conditions made;
  WeightLoader load(model_->file(), model_->format());
  const auto dense = [&](const std::string& name, std::vector<float>& to, std::size_t stride,
                         std::size_t offset) {
    const Linear linear = load.linear(name + ".dense", 3 * width, width, true);
    if (!load.outcome().ok()) return;
    std::vector<float> out;
    apply(linear, condition, out);
    to.resize(times.size() * stride);
    for (std::size_t i = 0; i < times.size(); ++i)
      std::copy_n(&out[i * 3 * width], 3 * width, &to[i * stride + offset]);
  };
  for (std::size_t layer = 0; layer < shape().expert.layers; ++layer) {
    const std::string at = prefix_ + "layers." + std::to_string(layer) + ".";
    std::vector<float>& values = made.layers.emplace_back();
    dense(at + "input_layernorm", values, 6 * width, 0);
    dense(at + "post_attention_layernorm", values, 6 * width, 3 * width);
  }
  dense(prefix_ + "norm", made.last, 3 * width, 0);
  if (Result<void> outcome = load.outcome(); !outcome.ok()) return outcome.error();
  return made;
}

void FlowPolicy::suffix_rows(const ActionRequest& request, double time,
                             std::vector<float>& rows) const {
  std::vector<float> actions;
  apply(action_in_, request.x, actions);
  if (family() == Family::pi05) {
    rows = std::move(actions);
    return;
  }
  const std::size_t width = expert_.width();
  const std::vector<float> waves = time_embedding(time, width);
  std::vector<float> joined, inner, mixed;
  for (std::size_t at = 0; at < actions.size(); at += width) {
    joined.insert(joined.end(), &actions[at], &actions[at] + width);
    joined.insert(joined.end(), waves.begin(), waves.end());
  }
  apply(time_in_, joined, inner);
  kernels::activate_cpu(kernels::Activation::silu, inner);
  apply(time_out_, inner, mixed);
  rows.clear();
  if (family() == Family::pi0) apply(state_, request.state, rows);
  rows.insert(rows.end(), mixed.begin(), mixed.end());
}

Result<std::vector<float>> FlowPolicy::velocities(KvPool& pool, std::span<ActionRequest> requests,
                                                  std::span<const CrossKeys> across,
                                                  const Conditions* table, std::uint32_t step,
                                                  double time) const {
  std::vector<std::vector<float>> rows(requests.size());
  std::vector<std::vector<std::uint32_t>> visible(requests.size());
  std::vector<Chunk> chunks;
  const std::size_t width = expert_.width();
  for (std::size_t i = 0; i < requests.size(); ++i) {
    suffix_rows(requests[i], time, rows[i]);
    const std::size_t before = requests[i].prefix->tokens;
    visible[i].assign(rows[i].size() / width,
                      static_cast<std::uint32_t>(before + rows[i].size() / width));
    // pi0: the state does not see the actions. SmolVLA: no action sees a later one.
    if (family() == Family::pi0) visible[i].front() = static_cast<std::uint32_t>(before + 1);
    if (family() == Family::smolvla)
      for (std::size_t row = 0; row < visible[i].size(); ++row)
        visible[i][row] = static_cast<std::uint32_t>(before + row + 1);
    chunks.push_back({requests[i].prefix,
                      rows[i],
                      Mask::block,
                      visible[i],
                      {},
                      step,
                      across.empty() ? nullptr : &across[i]});
  }
  std::vector<float> hidden;
  Result<void> ran = expert_.forward(pool, chunks, hidden, table);
  if (!ran.ok()) return ran.error();
  std::vector<float> actions, all;
  std::size_t at = 0;
  for (std::size_t i = 0; i < requests.size(); ++i) {
    const std::size_t count = rows[i].size() / width;
    pool.truncate(*requests[i].prefix, requests[i].prefix->tokens - count);
    const std::size_t skip = count - shape().horizon;
    apply(action_out_, std::span(hidden).subspan((at + skip) * width, shape().horizon * width),
          actions);
    all.insert(all.end(), actions.begin(), actions.end());
    at += count;
  }
  return all;
}

Result<void> FlowPolicy::act(KvPool& pool, std::span<ActionRequest> requests,
                             const FlowSchedule& schedule, const Watch& watch) const {
  const std::size_t values = shape().horizon * shape().dims;
  const bool pi05 = family() == Family::pi05;
  for (const ActionRequest& request : requests) {
    if (request.x.size() != values)
      return invalid_argument("the noise must be " + std::to_string(shape().horizon) + " x " +
                              std::to_string(shape().dims));
    if (family() == Family::pi0 && request.state.size() != shape().state_dims)
      return invalid_argument("the state must have " + std::to_string(shape().state_dims) +
                              " values");
  }
  // Added up in f32, as openpi does: the last bits of t are part of the numerics.
  const float dt = -schedule.start / static_cast<float>(schedule.steps);
  std::vector<float> times;
  for (float t = schedule.start; t >= -dt / 2; t += dt) times.push_back(t);
  std::shared_ptr<const Conditions> table;
  if (pi05) {
    auto made = conditions(schedule, times);
    if (!made.ok()) return made.error();
    table = std::move(made).value();
  }
  std::vector<CrossKeys> across;  // the prefixes stay as they are through all steps
  if (expert_.attends_across())
    for (const ActionRequest& request : requests)
      across.push_back(expert_.cross_keys(pool, *request.prefix, request.prefix->tokens));
  for (std::size_t step = 0; step < times.size(); ++step) {
    auto v = velocities(pool, requests, across, table.get(), static_cast<std::uint32_t>(step),
                        times[step]);
    if (!v.ok()) return v.error();
    if (watch) watch(step, *v);
    for (std::size_t r = 0; r < requests.size(); ++r)
      for (std::size_t i = 0; i < values; ++i) requests[r].x[i] += dt * (*v)[r * values + i];
  }
  return {};
}

}  // namespace sluice
