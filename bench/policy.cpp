// What a vision tower and a robot's control step cost on the CPU, beside the rates of the same
// run's largest bf16 product and of the processor's tiles from registers.
//
// Usage: bench_policy [--full]     (--full: pi0.5 at its real size too; 7 GB of random weights)
//
// SigLIP So400m/14 at 224 px, one picture. SmolVLA (SmolVLM2-500M's first 16 layers): two views of
// 512 px, 24 words, ten flow steps of 50 actions. pi0.5: two views and 32 words, the third camera
// masked, ten flow steps of 50 actions, and the prefix with all three cameras and 200 tokens, as
// implementations that compute what is masked do. Weights are random, bf16.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <string>
#include <vector>

#include "bench/peak.h"
#include "bench/usage.h"
#include "engine/family/memory_plan.h"
#include "engine/policy/flow_policy.h"

using namespace sluice;

namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

template <typename Work>
double median_seconds(int runs, const Work& work) {
  std::vector<double> times;
  for (int run = 0; run <= runs; ++run) {
    const auto start = Clock::now();
    work();
    if (run > 0) times.push_back(seconds_since(start));  // the first warms up
  }
  std::ranges::sort(times);
  return times[times.size() / 2];
}

/// Products of one row through a layer, and of its attention to `seen` rows.
double row_flops(const BlockShape& b, double seen) {
  return 2 * parameter_count(b) + 4 * seen * static_cast<double>(b.heads * b.head_dim);
}
double tower_flops(const TowerShape& t, double pictures) {
  const auto rows = static_cast<double>(t.patches() + t.extra());
  return pictures * rows * static_cast<double>(t.layers) * row_flops(t.block, rows);
}

/// What the machine does at best; the tiles' is 0 without them.
struct Bounds {
  double tiles = tile_rate();
  double product = product_rate();
};

void print(const char* what, double seconds, double flops, const Bounds& bounds) {
  const double rate = flops / seconds;
  std::printf("%-46s %8.1f ms  %6.3f TFLOP  %5.0f GFLOP/s  share of the largest product %.2f", what,
              seconds * 1e3, flops / 1e12, rate / 1e9, rate / bounds.product);
  if (bounds.tiles > 0) std::printf(", of the tiles' peak %.2f", rate / bounds.tiles);
  std::printf("\n");
  std::fflush(stdout);
}

Architecture parse(const std::string& json) {
  return std::move(Architecture::parse(json, "bench")).value();
}
Model random_model(const std::string& json) {
  return std::move(
             Model::load(parse(json), SafetensorsFile::random(1), kernels::WeightFormat::bf16))
      .value();
}

void measure_tower(const Bounds& bounds) {
  const Model model = random_model(
      R"({"model_type": "siglip_vision_model", "hidden_size": 1152, "num_hidden_layers": 27,
          "num_attention_heads": 16, "intermediate_size": 4304, "patch_size": 14,
          "image_size": 224})");
  const std::vector<float> picture(3 * 224 * 224, 0.3F);
  std::vector<float> features;
  const double seconds = median_seconds(5, [&] { model.vision().encode(picture, features); });
  print("SigLIP So400m/14-224, one picture", seconds, tower_flops(model.vision().shape(), 1),
        bounds);
}

struct Parts {
  double embed = 0, prefill = 0, act = 0;
};

/// One control step in its three parts, and the whole beside the bound.
void measure_policy(const char* name, const Model& model, std::size_t pictures, std::size_t words,
                    bool acts, const Bounds& bounds, int runs) {
  const FlowPolicy policy = std::move(FlowPolicy::load(model)).value();
  const TowerShape& tower = model.vision().shape();
  const ActionShape& shape = policy.shape();
  const std::vector<float> pixels(pictures * 3 * tower.side * tower.side, 0.3F);
  const std::vector<std::int32_t> tokens(words, 17);
  const std::vector<float> state(shape.state_dims, 0.1F);
  const Observation observation{pixels, tokens, state};
  KvPool pool(policy.kv_shape(16), 256);
  std::vector<Parts> parts;
  std::size_t prefix = 0;
  const double whole = median_seconds(runs, [&] {
    Parts part;
    auto start = Clock::now();
    KvSequence sequence;
    const std::vector<float> rows = std::move(policy.embed(observation)).value();
    part.embed = seconds_since(start);
    start = Clock::now();
    SLUICE_CHECK(
        policy.prefill(pool, sequence, rows, policy.picture_rows(observation), nullptr).ok());
    prefix = sequence.tokens();
    part.prefill = seconds_since(start);
    start = Clock::now();
    ActionRequest request{&sequence, std::vector<float>(shape.horizon * shape.dims, 0.5F), state};
    if (acts) SLUICE_CHECK(policy.act(pool, {&request, 1}, {shape.steps, 1.0F}).ok());
    part.act = seconds_since(start);
    pool.truncate(sequence, 0);
    parts.push_back(part);
  });
  const auto n = static_cast<double>(prefix);
  const DecoderShape& text = model.text().shape();
  const double towers = tower_flops(tower, static_cast<double>(pictures));
  // The trunk's last layer ends at its keys and values.
  const double trunk =
      n * (static_cast<double>(text.layers - 1) * row_flops(text.block, n) +
           2 * static_cast<double>(text.block.width * text.block.head_shape().row()));
  const double flow = acts
                          ? static_cast<double>(shape.steps * shape.horizon * shape.expert.layers) *
                                row_flops(shape.expert.block, n)
                          : 0;
  const std::string label = std::string(name) + ", " + std::to_string(prefix) + " rows";
  print(label.c_str(), whole, towers + trunk + flow, bounds);
  const Parts& last = parts.back();
  print("  pictures", last.embed, towers, bounds);
  print("  prefix", last.prefill, trunk, bounds);
  if (acts) print("  flow steps", last.act, flow, bounds);
}

}  // namespace

int main(int argc, char** argv) {
  if (const auto status = usage_status(argc, argv, "usage: bench_policy [--full]", {"--full"}))
    return *status;
  const bool full = argc > 1 && std::string(argv[1]) == "--full";
  print_rates();
  const Bounds bounds;
  measure_tower(bounds);
  {
    const Model smolvla = random_model(R"({"type": "smolvla", "num_cameras": 2})");
    measure_policy("SmolVLA control step, 2 views", smolvla, 2, 24, true, bounds, 5);
  }
  if (!full) return 0;
  const Model pi05 = random_model(R"({"model_type": "pi05"})");
  measure_policy("pi0.5 control step, 2 views", pi05, 2, 32, true, bounds, 3);
  measure_policy("pi0.5 prefix, 3 views and all padding", pi05, 3, 200, false, bounds, 1);
  return 0;
}
