#include "engine/policy/flow_policy.h"

#include "base/check.h"
#include "engine/checkpoint/loaded_parts.h"

namespace sluice {

Result<FlowPolicy> FlowPolicy::load(const Model& model) {
  FlowPolicy made;
  made.model_ = &model;
  Result<ActionHead> head = ActionHead::load(model.architecture(), model.file(), model.format());
  if (!head.ok()) return head.error();
  made.head_ = std::move(head).value();
  auto expert = LoadedParts::here().get_weights<Decoder>(
      model.name_in_format("expert"), model.said("expert"), [&](WeightArena* arena) {
        return Decoder::load(made.shape().expert, made.head_.expert, model.file(), model.format(),
                             arena);
      });
  if (!expert.ok()) return expert.error();
  made.expert_ = std::move(expert).value();
  return made;
}

std::size_t FlowPolicy::picture_rows(const Observation& observation) const {
  const TowerShape& tower = model_->vision().shape();
  return observation.pictures.size() / (3 * tower.side * tower.side) * tower.patches();
}

Result<std::vector<float>> FlowPolicy::embed(const Observation& observation) const {
  if (Result<void> fits = head_.check(observation); !fits.ok()) return fits.error();
  std::vector<float> seen;
  if (!observation.pictures.empty()) {
    auto features = model_->features(observation.pictures, {});
    if (!features.ok()) return features.error();
    seen = std::move(features).value();
  }
  return embed_seen(std::move(seen), observation.tokens, observation.state);
}

Result<std::vector<float>> FlowPolicy::embed_seen(std::vector<float> features,
                                                  std::span<const std::int32_t> tokens,
                                                  std::span<const float> state) const {
  if (Result<void> fits = head_.check(Observation{{}, {}, state}); !fits.ok()) return fits.error();
  std::vector<float> rows = std::move(features);
  if (family() == Family::smolvla)
    for (float& v : rows) v *= model_->text().shape().embedding_scale;
  std::span<const float> none;
  std::span<const Grid> no_grids;
  Result<Prompt> words = model_->prompt(tokens, none, no_grids);
  if (!words.ok()) return words.error();
  rows.insert(rows.end(), words->rows.begin(), words->rows.end());
  if (family() != Family::smolvla) return rows;
  std::vector<float> state_row;
  apply(head_.state, state, state_row);
  rows.insert(rows.end(), state_row.begin(), state_row.end());
  return rows;
}

Result<void> FlowPolicy::prefill(KvPool& pool, KvSequence& sequence, std::span<const float> rows,
                                 std::size_t pictures, std::vector<float>* hidden) const {
  SLUICE_CHECK(sequence.tokens() == 0, "a prefix is written to an empty sequence");
  const auto sees = head_.prefix_sees(rows.size() / model_->text().width(), pictures);
  const Chunk chunk{&sequence, rows, Mask::block, sees};
  if (hidden == nullptr) return model_->text().fill(pool, {&chunk, 1});
  return model_->text().forward(pool, {&chunk, 1}, *hidden);
}

void FlowPolicy::suffix_rows(const ActionRequest& request, double time,
                             std::vector<float>& rows) const {
  std::vector<float> actions;
  apply(head_.action_in, request.x, actions);
  if (family() == Family::pi05) {
    rows = std::move(actions);
    return;
  }
  const std::size_t width = expert_->width();
  const std::vector<float> waves = ActionHead::time_embedding(time, width);
  std::vector<float> joined, inner, mixed;
  for (std::size_t at = 0; at < actions.size(); at += width) {
    joined.insert(joined.end(), &actions[at], &actions[at] + width);
    joined.insert(joined.end(), waves.begin(), waves.end());
  }
  apply(head_.time_in, joined, inner);
  kernels::activate_cpu(kernels::Activation::silu, inner);
  apply(head_.time_out, inner, mixed);
  rows.clear();
  if (family() == Family::pi0) apply(head_.state, request.state, rows);
  rows.insert(rows.end(), mixed.begin(), mixed.end());
}

void FlowPolicy::velocities_of(std::span<const float> hidden,
                               std::vector<float>& velocities) const {
  apply(head_.action_out, hidden.last(shape().horizon * expert_->width()), velocities);
}

Result<std::vector<float>> FlowPolicy::velocities(KvPool& pool, std::span<ActionRequest> requests,
                                                  std::span<const CrossKeys> across,
                                                  const Conditions* table, std::uint32_t step,
                                                  double time) const {
  std::vector<std::vector<float>> rows(requests.size());
  std::vector<std::vector<std::uint32_t>> visible(requests.size());
  std::vector<Chunk> chunks;
  const std::size_t width = expert_->width();
  for (std::size_t i = 0; i < requests.size(); ++i) {
    suffix_rows(requests[i], time, rows[i]);
    visible[i] = head_.suffix_sees(requests[i].prefix->tokens());
    chunks.push_back({requests[i].prefix,
                      rows[i],
                      Mask::block,
                      visible[i],
                      {},
                      step,
                      across.empty() ? nullptr : &across[i]});
  }
  std::vector<float> hidden;
  Result<void> ran = expert_->forward(pool, chunks, hidden, table);
  if (!ran.ok()) return ran.error();
  std::vector<float> actions, all;
  std::size_t at = 0;
  for (std::size_t i = 0; i < requests.size(); ++i) {
    const std::size_t count = rows[i].size() / width;
    pool.truncate(*requests[i].prefix, requests[i].prefix->tokens() - count);
    velocities_of(std::span(hidden).subspan(at * width, count * width), actions);
    all.insert(all.end(), actions.begin(), actions.end());
    at += count;
  }
  return all;
}

Result<void> FlowPolicy::act(KvPool& pool, std::span<ActionRequest> requests,
                             const FlowSchedule& schedule, const PolicyEngine::Watch& watch) const {
  if (Result<void> fits = head_.check(requests); !fits.ok()) return fits;
  const std::size_t values = shape().horizon * shape().dims;
  const std::vector<float> times = schedule.times();
  std::shared_ptr<const Conditions> table;
  if (shape().expert.block.adaptive) {
    auto made = head_.conditions(schedule);
    if (!made.ok()) return made.error();
    table = std::move(made).value();
  }
  std::vector<CrossKeys> across;  // the prefixes stay as they are through all steps
  if (expert_->attends_across())
    for (const ActionRequest& request : requests)
      across.push_back(expert_->cross_keys(pool, *request.prefix, request.prefix->tokens()));
  for (std::size_t step = 0; step < times.size(); ++step) {
    auto v = velocities(pool, requests, across, table.get(), static_cast<std::uint32_t>(step),
                        times[step]);
    if (!v.ok()) return v.error();
    if (watch) watch(step, *v);
    for (std::size_t r = 0; r < requests.size(); ++r)
      for (std::size_t i = 0; i < values; ++i)
        requests[r].x[i] += schedule.dt() * (*v)[r * values + i];
  }
  return {};
}

}  // namespace sluice
