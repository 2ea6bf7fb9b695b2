#include "engine/check/model_check.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <string>

#include "engine/check/model_check_parts.h"
#include "engine/policy/action_tokens.h"
#include "engine/policy/flow_policy.h"

namespace sluice {

namespace {

using Shape = std::vector<std::int64_t>;

std::int64_t wide(std::size_t value) { return static_cast<std::int64_t>(value); }

constexpr std::size_t page_tokens_small = 16;

/// The rows of a batch, without padding, as sequences.
struct Batch {
  std::size_t rows = 0, longest = 0;
  std::vector<std::vector<std::int32_t>> tokens;  // of each row, what is there
  std::vector<std::vector<std::size_t>> places;   // of each token, in the padded row
};

Result<Batch> read_batch(const NamedInputs& inputs) {
  auto ids = inputs.integers("input_ids");
  if (!ids.ok()) return ids.error();
  const Shape shape = inputs.shape("input_ids");
  if (shape.size() != 2 || ids->empty())
    return invalid_argument("input_ids must be [rows, tokens], with a token at least");
  std::vector<std::int32_t> mask(ids->size(), 1);
  if (inputs.has("attention_mask")) {
    auto given = inputs.integers("attention_mask");
    if (!given.ok()) return given.error();
    if (inputs.shape("attention_mask") != shape)
      return invalid_argument("attention_mask must have the shape of input_ids");
    mask = std::move(given).value();
  }
  Batch batch;
  batch.rows = static_cast<std::size_t>(shape[0]);
  batch.longest = static_cast<std::size_t>(shape[1]);
  batch.tokens.resize(batch.rows);
  batch.places.resize(batch.rows);
  for (std::size_t row = 0; row < batch.rows; ++row) {
    for (std::size_t i = 0; i < batch.longest; ++i) {
      if (mask[row * batch.longest + i] == 0) continue;
      batch.tokens[row].push_back((*ids)[row * batch.longest + i]);
      batch.places[row].push_back(i);
    }
    if (batch.tokens[row].empty())
      return invalid_argument("row " + std::to_string(row) +
                              " of input_ids has no token that attention_mask leaves");
  }
  return batch;
}

/// OpenVLA: as many rows as patches stand behind the first token.
void insert_patches(Batch& batch, std::size_t patches) {
  for (std::size_t row = 0; row < batch.rows; ++row) {
    auto& tokens = batch.tokens[row];
    tokens.insert(tokens.begin() + (tokens.empty() ? 0 : 1), patches, patches_token);
    batch.places[row].resize(tokens.size());
    std::iota(batch.places[row].begin(), batch.places[row].end(), std::size_t{0});
  }
  batch.longest += patches;
}

/// OpenVLA's actions, for each data set with as many dimensions.
void put_actions(const Architecture& architecture, std::span<const std::int32_t> tokens,
                 std::size_t rows, NamedTensors& outputs) {
  const std::size_t count = tokens.size() / rows;
  for (const ActionStatistics& statistics : architecture.statistics) {
    if (statistics.low.size() != count) continue;
    put_floats(outputs, "actions." + statistics.dataset, {wide(rows), wide(count)},
               actions_of(architecture, statistics, tokens));
  }
}

/// Rows of a ragged forward back to [rows, longest, width].
std::vector<float> padded(const Batch& batch, std::span<const float> rows, std::size_t width) {
  std::vector<float> all(batch.rows * batch.longest * width);
  std::size_t at = 0;
  for (std::size_t row = 0; row < batch.rows; ++row)
    for (const std::size_t place : batch.places[row])
      std::copy_n(&rows[width * at++], width, &all[(row * batch.longest + place) * width]);
  return all;
}

Result<std::vector<Grid>> read_grids(const NamedInputs& inputs) {
  std::vector<Grid> grids;
  if (!inputs.has("image_grid_thw")) return grids;
  auto values = inputs.integers("image_grid_thw");
  if (!values.ok()) return values.error();
  for (std::size_t i = 0; i + 2 < values->size(); i += 3) {
    Grid grid;
    for (std::size_t j = 0; j < 3; ++j) {
      if ((*values)[i + j] < 1 || (*values)[i + j] > 1 << 14)
        return invalid_argument("image_grid_thw holds a size that is not from 1 to 16384");
      grid[j] = static_cast<std::uint32_t>((*values)[i + j]);
    }
    grids.push_back(grid);
  }
  return grids;
}

/// A language model's run: prefill of all rows together, then steps of one token each.
class LanguageRun {
 public:
  LanguageRun(const Model& model, const Batch& batch, std::size_t more, Dtype kv)
      : model_(model),
        batch_(batch),
        pool_(model.text().kv_shape(page_tokens_small, kv),
              batch.rows * ((batch.longest + more) / page_tokens_small + 1)),
        sequences_(batch.rows) {}

  Result<void> prefill(std::span<const float> features, std::span<const Grid> grids,
                       NamedTensors& outputs);
  /// One more token of each row; `logits` [rows, vocabulary].
  Result<void> step(std::span<const std::int32_t> tokens, std::vector<float>& logits);
  const std::vector<float>& last_logits() const { return last_logits_; }

 private:
  const Model& model_;
  const Batch& batch_;
  KvPool pool_;
  std::vector<KvSequence> sequences_;
  std::vector<std::int32_t> next_;
  std::vector<float> last_logits_;  // of each row's last token
};

Result<void> LanguageRun::prefill(std::span<const float> features, std::span<const Grid> grids,
                                  NamedTensors& outputs) {
  const Decoder& text = model_.text();
  std::vector<Prompt> prompts;
  std::vector<Chunk> chunks;
  for (const auto& tokens : batch_.tokens) {
    Result<Prompt> prompt = model_.prompt(tokens, features, grids);
    if (!prompt.ok()) return prompt.error();
    next_.push_back(prompt->next_position);
    prompts.push_back(std::move(prompt).value());
  }
  for (std::size_t row = 0; row < prompts.size(); ++row)
    chunks.push_back(
        {&sequences_[row], prompts[row].rows, prompts[row].mask, {}, prompts[row].positions});
  const Shape hidden_shape{wide(batch_.rows), wide(batch_.longest), wide(text.width())};
  const auto watch = [&](std::size_t layer, std::span<const float> rows) {
    put_floats(outputs, "hidden_states." + std::to_string(layer), hidden_shape,
               padded(batch_, rows, text.width()));
  };
  std::vector<float> hidden, logits;
  Result<void> ran = text.forward(pool_, chunks, hidden, nullptr, watch);
  if (!ran.ok()) return ran;
  put_floats(outputs, "last_hidden_state", hidden_shape, padded(batch_, hidden, text.width()));
  text.logits(hidden, logits);
  const std::size_t vocabulary = text.shape().vocabulary;
  put_floats(outputs, "logits", {wide(batch_.rows), wide(batch_.longest), wide(vocabulary)},
             padded(batch_, logits, vocabulary));
  std::size_t at = 0;
  for (const auto& tokens : batch_.tokens) {
    at += tokens.size() * vocabulary;
    const std::size_t from = tokens.empty() ? at : at - vocabulary;
    last_logits_.insert(last_logits_.end(), logits.begin() + static_cast<std::ptrdiff_t>(from),
                        logits.begin() + static_cast<std::ptrdiff_t>(at));
  }
  return {};
}

Result<void> LanguageRun::step(std::span<const std::int32_t> tokens, std::vector<float>& logits) {
  const Decoder& text = model_.text();
  std::vector<float> rows;
  std::vector<Position> positions;
  for (std::size_t row = 0; row < tokens.size(); ++row) {
    if (tokens[row] < 0 || static_cast<std::size_t>(tokens[row]) >= text.shape().vocabulary)
      return invalid_argument("decode_ids holds token " + std::to_string(tokens[row]) +
                              ", outside the vocabulary");
    text.embed({&tokens[row], 1}, rows);
    positions.push_back(Position::at(next_[row]++));
  }
  std::vector<Chunk> chunks;
  for (std::size_t row = 0; row < tokens.size(); ++row)
    chunks.push_back({&sequences_[row],
                      std::span(rows).subspan(row * text.width(), text.width()),
                      Mask::causal,
                      {},
                      {&positions[row], 1}});
  std::vector<float> hidden;
  if (Result<void> ran = text.forward(pool_, chunks, hidden); !ran.ok()) return ran;
  text.logits(hidden, logits);
  return {};
}

std::int32_t most_likely(std::span<const float> logits) {
  return static_cast<std::int32_t>(std::ranges::max_element(logits) - logits.begin());
}

Result<void> run_steps(const Model& model, const NamedInputs& inputs, const Batch& batch,
                       LanguageRun& run, std::size_t given, std::size_t greedy,
                       NamedTensors& outputs) {
  const std::size_t vocabulary = model.text().shape().vocabulary;
  std::vector<std::int32_t> decode, made, next(batch.rows);
  if (given != 0) {
    auto ids = inputs.integers("decode_ids");
    if (!ids.ok()) return ids.error();
    decode = std::move(ids).value();
  }
  std::vector<float> logits, all(batch.rows * given * vocabulary);
  for (std::size_t i = 0; i < given; ++i) {
    for (std::size_t row = 0; row < batch.rows; ++row) next[row] = decode[row * given + i];
    if (Result<void> ran = run.step(next, logits); !ran.ok()) return ran;
    for (std::size_t row = 0; row < batch.rows; ++row)
      std::copy_n(&logits[row * vocabulary], vocabulary, &all[(row * given + i) * vocabulary]);
  }
  if (given != 0)
    put_floats(outputs, "decode_logits", {wide(batch.rows), wide(given), wide(vocabulary)},
               std::move(all));
  if (greedy == 0) return {};
  if (logits.empty()) logits = run.last_logits();
  std::vector<std::int32_t> tokens(batch.rows * greedy);
  for (std::size_t i = 0; i < greedy; ++i) {
    for (std::size_t row = 0; row < batch.rows; ++row)
      tokens[row * greedy + i] = next[row] =
          most_likely(std::span(logits).subspan(row * vocabulary, vocabulary));
    if (i + 1 == greedy) break;
    if (Result<void> ran = run.step(next, logits); !ran.ok()) return ran;
  }
  put_integers(outputs, "greedy_ids", {wide(batch.rows), wide(greedy)}, tokens);
  put_actions(model.architecture(), tokens, batch.rows, outputs);
  return {};
}

Result<NamedTensors> run_language(const Model& model, const NamedInputs& inputs, Dtype kv) {
  NamedTensors outputs;
  Result<Batch> batch = read_batch(inputs);
  if (!batch.ok()) return batch.error();
  std::size_t given = 0;
  std::size_t greedy = 0;
  if (inputs.has("decode_ids")) {
    const Shape shape = inputs.shape("decode_ids");
    if (shape.size() != 2 || shape[0] != wide(batch->rows))
      return invalid_argument("decode_ids must be [rows of input_ids, steps]");
    given = static_cast<std::size_t>(shape[1]);
  }
  if (inputs.has("max_new_tokens")) {
    auto count = inputs.integers("max_new_tokens");
    if (!count.ok()) return count.error();
    if (count->size() != 1 || count->front() < 1 || count->front() > 1 << 16)
      return invalid_argument("max_new_tokens must be one number from 1 to 65536");
    greedy = static_cast<std::size_t>(count->front());
  }
  std::vector<float> features;
  Result<std::vector<Grid>> grids = read_grids(inputs);
  if (!grids.ok()) return grids.error();
  if (inputs.has("pixel_values")) {
    auto pixels = inputs.floats("pixel_values");
    if (!pixels.ok()) return pixels.error();
    auto seen = model.features(*pixels, *grids);
    if (!seen.ok()) return seen.error();
    features = std::move(seen).value();
    const std::size_t width = model.text().width();
    put_floats(outputs, "image_features", {wide(features.size() / width), wide(width)}, features);
    if (model.architecture().image_token == patches_token)
      insert_patches(*batch, model.vision().shape().patches());
  }
  LanguageRun run(model, *batch, given + greedy, kv);
  if (Result<void> ran = run.prefill(features, *grids, outputs); !ran.ok()) return ran.error();
  Result<void> ran = run_steps(model, inputs, *batch, run, given, greedy, outputs);
  if (!ran.ok()) return ran.error();
  return outputs;
}

Result<NamedTensors> run_vision(const Model& model, const NamedInputs& inputs) {
  auto pixels = inputs.floats("pixel_values");
  if (!pixels.ok()) return pixels.error();
  const TowerShape& shape = model.vision().shape();
  const std::size_t one = 3 * shape.side * shape.side;
  if (pixels->empty() || pixels->size() % one != 0)
    return invalid_argument("pixel_values must be [pictures, 3, " + std::to_string(shape.side) +
                            ", " + std::to_string(shape.side) + "]");
  NamedTensors outputs;
  const std::size_t rows = shape.patches() + shape.extra();
  const Shape whole{wide(pixels->size() / one), wide(rows), wide(shape.block.width)};
  std::vector<float> features;
  model.vision().encode(*pixels, features, [&](std::size_t layer, std::span<const float> hidden) {
    put_floats(outputs, "hidden_states." + std::to_string(layer), whole,
               {hidden.begin(), hidden.end()});
  });
  put_floats(outputs, "last_hidden_state", whole, std::move(features));
  return outputs;
}

/// What a policy is fed, without what is masked, and where its rows stand in the padded prefix.
struct PolicyInputs {
  std::vector<float> pictures, noise, state;
  std::vector<std::int32_t> tokens;
  std::vector<std::size_t> places;
  std::size_t padded_rows = 0;
  Observation observation() const { return {pictures, tokens, state}; }
};

Error lacks_camera(std::size_t camera, std::size_t cameras) {
  const std::string count = cameras == 1 ? "1 camera, image0"
                                         : std::to_string(cameras) + " cameras, image0 to image" +
                                               std::to_string(cameras - 1);
  return invalid_argument("input 'image" + std::to_string(camera) +
                          "' is missing: this policy has " + count +
                          "; an `image_mask` with 0 in its place says that it is not there");
}

Result<PolicyInputs> read_policy(const Model& model, const NamedInputs& inputs) {
  PolicyInputs read;
  const TowerShape& tower = model.vision().shape();
  const std::size_t cameras = model.architecture().action->cameras;
  const std::size_t shuffle = model.architecture().pixel_shuffle;
  const std::size_t rows = tower.patches() / (shuffle * shuffle);
  std::vector<std::int32_t> there(cameras, 1);
  if (inputs.has("image_mask")) {
    auto mask = inputs.integers("image_mask");
    if (!mask.ok()) return mask.error();
    if (mask->size() != cameras)
      return invalid_argument("image_mask must have " + std::to_string(cameras) + " values");
    there = std::move(mask).value();
  }
  for (std::size_t camera = 0; camera < cameras; ++camera) {
    if (there[camera] == 0) continue;
    if (!inputs.has("image" + std::to_string(camera))) return lacks_camera(camera, cameras);
    auto picture = inputs.floats("image" + std::to_string(camera));
    if (!picture.ok()) return picture.error();
    if (picture->size() != 3 * tower.side * tower.side)
      return invalid_argument("image" + std::to_string(camera) + " must be [1, 3, " +
                              std::to_string(tower.side) + ", " + std::to_string(tower.side) + "]");
    read.pictures.insert(read.pictures.end(), picture->begin(), picture->end());
    for (std::size_t i = 0; i < rows; ++i) read.places.push_back(camera * rows + i);
  }
  auto tokens = inputs.integers("tokens");
  if (!tokens.ok()) return tokens.error();
  std::vector<std::int32_t> mask(tokens->size(), 1);
  if (inputs.has("token_mask")) {
    auto given = inputs.integers("token_mask");
    if (!given.ok()) return given.error();
    if (given->size() != mask.size())
      return invalid_argument("token_mask must have the shape of tokens");
    mask = std::move(given).value();
  }
  for (std::size_t i = 0; i < mask.size(); ++i) {
    if (mask[i] == 0) continue;
    read.tokens.push_back((*tokens)[i]);
    read.places.push_back(cameras * rows + i);
  }
  read.padded_rows = cameras * rows + mask.size();
  if (model.architecture().family == Family::smolvla) read.places.push_back(read.padded_rows++);
  auto noise = inputs.floats("noise");
  if (!noise.ok()) return noise.error();
  read.noise = std::move(noise).value();
  if (!inputs.has("state")) return read;
  auto state = inputs.floats("state");
  if (!state.ok()) return state.error();
  read.state = std::move(state).value();
  return read;
}

std::vector<float> spread(const PolicyInputs& in, std::span<const float> rows, std::size_t width) {
  std::vector<float> all(in.padded_rows * width);
  for (std::size_t i = 0; i < in.places.size(); ++i)
    std::copy_n(&rows[i * width], width, &all[in.places[i] * width]);
  return all;
}

void put_cache(const PolicyInputs& in, KvPool& pool, const KvSequence& sequence,
               const DecoderShape& shape, NamedTensors& outputs) {
  const std::size_t row = pool.shape().row;
  const Shape whole{1, wide(shape.block.kv_heads), wide(in.padded_rows),
                    wide(shape.block.head_dim)};
  for (std::size_t layer = 0; layer < shape.layers; ++layer) {
    std::vector<float> keys(sequence.tokens() * row), values(sequence.tokens() * row);
    pool.read(sequence, layer, keys, values);
    // One KV head in every variant, so rows are heads.
    put_floats(outputs, "k" + std::to_string(layer), whole, spread(in, keys, row));
    put_floats(outputs, "v" + std::to_string(layer), whole, spread(in, values, row));
  }
}

/// Greedy words behind the prefix.
Result<void> decode_words(const Model& model, KvPool& pool, KvSequence& sequence,
                          std::vector<float> hidden, std::size_t words, NamedTensors& outputs) {
  const Decoder& text = model.text();
  std::vector<float> logits, row;
  std::vector<std::int32_t> made;
  const auto log_probabilities = [&](const char* name) {
    double sum = 0;
    const float most = *std::ranges::max_element(logits);
    for (const float v : logits) sum += std::exp(static_cast<double>(v - most));
    std::vector<float> p = logits;
    for (float& v : p) v = static_cast<float>(static_cast<double>(v - most) - std::log(sum));
    const Shape whole{1, 1, wide(p.size())};
    put_floats(outputs, name, whole, std::move(p));
  };
  for (std::size_t i = 0; i <= words; ++i) {
    text.logits(std::span(hidden).last(text.width()), logits);
    if (i == 0) log_probabilities("text_first_logprobs");
    if (i == words) log_probabilities("text_last_logprobs");
    if (i == words) break;
    made.push_back(most_likely(logits));
    row.clear();
    text.embed({&made.back(), 1}, row);
    const Chunk chunk{&sequence, row};
    if (Result<void> ran = text.forward(pool, {&chunk, 1}, hidden); !ran.ok()) return ran;
  }
  put_integers(outputs, "text_tokens", {1, wide(made.size())}, made);
  return {};
}

Result<NamedTensors> run_policy(const Model& model, const NamedInputs& inputs, Dtype kv) {
  Result<FlowPolicy> policy = FlowPolicy::load(model);
  if (!policy.ok()) return policy.error();
  Result<PolicyInputs> in = read_policy(model, inputs);
  if (!in.ok()) return in.error();
  NamedTensors outputs;
  const std::size_t width = model.text().width();
  const ActionShape& shape = policy->shape();
  constexpr std::size_t words = 8;
  KvPool pool(policy->kv_shape(page_tokens_small, kv),
              (in->padded_rows + shape.horizon + words) / page_tokens_small + 2);
  KvSequence sequence;
  auto rows = policy->embed(in->observation());
  if (!rows.ok()) return rows.error();
  const Shape whole{1, wide(in->padded_rows), wide(width)};
  put_floats(outputs, "prefix_embs", whole, spread(*in, *rows, width));
  std::vector<float> hidden;
  Result<void> ran =
      policy->prefill(pool, sequence, *rows, policy->picture_rows(in->observation()), &hidden);
  if (!ran.ok()) return ran.error();
  put_floats(outputs, "hidden", whole, spread(*in, hidden, width));
  if (model.text().shape().block.kv_heads == 1)
    put_cache(*in, pool, sequence, model.text().shape(), outputs);
  const Shape actions{1, wide(shape.horizon), wide(shape.dims)};
  ActionRequest request{&sequence, in->noise, in->state};
  ran = policy->act(
      pool, {&request, 1}, {shape.steps, 1.0F}, [&](std::size_t step, std::span<const float> v) {
        put_floats(outputs, "velocity" + std::to_string(step), actions, {v.begin(), v.end()});
      });
  if (!ran.ok()) return ran.error();
  put_floats(outputs, "actions", actions, request.x);
  if (shape.causal_language) {
    ran = decode_words(model, pool, sequence, std::move(hidden), words, outputs);
    if (!ran.ok()) return ran.error();
  }
  return outputs;
}

}  // namespace

Result<NamedTensors> run_model(const Model& model, const NamedInputs& inputs, Dtype kv) {
  const Architecture& architecture = model.architecture();
  if (architecture.action.has_value()) return run_policy(model, inputs, kv);
  if (architecture.diffusion.has_value()) return run_diffusion(model, inputs);
  if (architecture.vae.has_value()) return run_vae(model, inputs);
  if (architecture.text.has_value()) return run_language(model, inputs, kv);
  return run_vision(model, inputs);
}

}  // namespace sluice
