// What a step of a drawing costs at the size of a published DiT, beside the rates of the same run's
// largest product, ours or oneDNN's, whichever is faster, and of the processor's tiles from
// registers; and how long a drawing takes beside three chats.
//
// Usage: bench_drawing [--steps N] [--model LANGUAGE_MODEL]
// DiT-XL/2 at 256 x 256 (28 layers, 1152 wide, 16 heads, 256 patches, 1000 classes), guided: two
// rows a patch. Weights are random, bf16, made when it starts; no file is read. A step is measured
// as a forward alone, of one drawing and of two together, and with all that surrounds it in a
// drawing of N (8) steps: the conditions of its norms, the embedding, the planner. The chats are
// three answers of one engine in the same process, on a thread of its own as a role's lane is, of a
// decoder of SmolLM2-135M's size (30 layers, 576 wide) with random weights in bf16, or of a model
// that is given. Memory is what the process has resident.
#include "engine/tasks/drawing.h"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "base/random.h"
#include "bench/peak.h"
#include "bench/usage.h"
#include "engine/family/model.h"
#include "engine/tasks/ddim_steps.h"
#include "engine/tasks/generator.h"
#include "engine/tasks/model_engine.h"

using namespace sluice;

namespace {

using Clock = std::chrono::steady_clock;

constexpr std::size_t page_tokens = 16, chats = 3, rounds = 3;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

double median(std::vector<double> values) {
  std::ranges::sort(values);
  return values[values.size() / 2];
}

double resident_bytes() {
  std::ifstream file("/proc/self/statm");
  double all = 0, resident = 0;
  file >> all >> resident;
  return resident * static_cast<double>(sysconf(_SC_PAGESIZE));
}

Model random_model(const std::string& json) {
  Architecture made = std::move(Architecture::parse(json, "bench")).value();
  return std::move(
             Model::load(std::move(made), SafetensorsFile::random(1), kernels::WeightFormat::bf16))
      .value();
}

/// Of one row through the layers, products and attention.
double row_flops(const DiffusionShape& shape) {
  const BlockShape& b = shape.trunk.block;
  const std::size_t products =
      b.width * (b.head_shape().row() + b.heads * b.head_dim) + 2 * b.width * b.mlp;
  const std::size_t attention = 2 * shape.patches() * b.heads * b.head_dim;
  return 2.0 * static_cast<double>(shape.trunk.layers * (products + attention));
}

std::vector<float> noise_of(const DiffusionShape& shape, std::uint64_t seed) {
  SplitMix64 random(seed);
  std::vector<float> noise(shape.latent());
  for (float& v : noise) v = static_cast<float>(random.normal());
  return noise;
}

/// What the machine does at best: ours or oneDNN's product, whichever is faster here.
struct Rates {
  double tiles = tile_rate(), product = std::max(product_rate(), library_rate());
};

void print(const std::string& what, double seconds, double flops, const Rates& rates) {
  const double rate = flops / seconds;
  std::printf("%-44s %8.1f ms  %6.3f TFLOP  %5.0f GFLOP/s  share of the largest product %.2f",
              what.c_str(), seconds * 1e3, flops / 1e12, rate / 1e9, rate / rates.product);
  if (rates.tiles > 0) std::printf(", of the tiles' peak %.2f", rate / rates.tiles);
  std::printf("\n");
  std::fflush(stdout);
}

/// Milliseconds of one forward of so many guided drawings.
double forward_seconds(const DiffusionTransformer& dit, KvPool& pool, std::size_t drawings) {
  std::vector<float> rows, hidden;
  dit.rows_of(noise_of(dit.shape(), 1), rows);
  const float times[] = {500, 500};
  const std::int32_t classes[] = {7, static_cast<std::int32_t>(dit.shape().classes)};
  const Conditions conditions = dit.conditions(times, classes);
  std::vector<KvSequence> sequences(2 * drawings);
  std::vector<Chunk> chunks;
  for (std::size_t i = 0; i < sequences.size(); ++i)
    chunks.push_back({&sequences[i],
                      rows,
                      Mask::block,
                      {},
                      {},
                      static_cast<std::uint32_t>(i % 2),
                      nullptr,
                      &conditions});
  std::vector<double> times_taken;
  for (std::size_t run = 0; run <= rounds; ++run) {
    const auto start = Clock::now();
    SLUICE_CHECK(dit.trunk().forward(pool, chunks, hidden).ok());
    if (run > 0) times_taken.push_back(seconds_since(start));  // the first warms up
    for (KvSequence& sequence : sequences) pool.truncate(sequence, 0);
  }
  return median(times_taken);
}

/// Seconds of a drawing from when it is asked for, in an engine of its own.
double drawing_seconds(const DiffusionTransformer& dit, KvPool& pool, std::size_t steps) {
  CpuText text(dit.trunk(), pool);
  PlannerOptions options;
  options.budget = static_cast<std::uint32_t>(2 * dit.shape().patches());
  ModelEngine engine(text, options);
  const auto start = Clock::now();
  Drawing drawing(
      std::move(DdimSteps::make(dit, 7, {steps, 4.0F}, noise_of(dit.shape(), 2))).value(),
      KvSequence(), {}, {});
  engine.add(1, drawing);
  std::vector<TaskId> advanced;
  while (!drawing.done()) engine.step(advanced);
  SLUICE_CHECK(!drawing.error().has_value(), "the drawing is made");
  engine.remove(1);
  return seconds_since(start);
}

/// Three answers that go on until they are told to end.
class Chats {
 public:
  explicit Chats(const Decoder& decoder)
      : pool_(decoder.kv_shape(page_tokens), chats * (tokens_most / page_tokens + 2)),
        generator_(decoder, pool_, nullptr, Budget{256, chats}) {
    for (std::uint64_t id = 0; id < chats; ++id) {
      Generation made;
      made.id = id;
      made.options.tokens_max = tokens_most - prompt;
      made.options.share_prefix = false;
      for (std::size_t i = 0; i < prompt; ++i)
        made.history.push_back(
            static_cast<std::int32_t>((i * 7919 + id * 104729) % decoder.shape().vocabulary));
      decoder.embed(made.history, made.rows);
      generator_.add(std::move(made));
    }
    while (generator_.find(chats - 1)->tokens.empty()) step();  // prompts are read
    made_ = 0;
  }
  /// A token of each. False: they are as long as they may be.
  bool step() {
    if (!generator_.busy()) return false;
    advanced_.clear();
    generator_.step(advanced_);
    made_ += advanced_.size();
    return true;
  }
  std::size_t made() const { return made_; }

 private:
  static constexpr std::size_t tokens_most = 2000, prompt = 64;
  KvPool pool_;
  Generator generator_;
  std::vector<std::uint64_t> advanced_;
  std::size_t made_ = 0;
};

struct Beside {
  double seconds = 0, tokens_per_second = 0;
};

/// A drawing while the chats run on a thread of their own.
Beside beside_chats(const DiffusionTransformer& dit, KvPool& pool, std::size_t steps,
                    const Decoder& decoder) {
  Chats talking(decoder);
  std::atomic<bool> ends = false;
  std::thread lane([&] {
    while (!ends.load(std::memory_order_relaxed) && talking.step()) continue;
  });
  Beside made;
  made.seconds = drawing_seconds(dit, pool, steps);
  ends = true;
  lane.join();
  made.tokens_per_second = static_cast<double>(talking.made()) / made.seconds;
  return made;
}

double chats_alone(const Decoder& decoder) {
  Chats talking(decoder);
  const auto start = Clock::now();
  for (int i = 0; i < 100; ++i) (void)talking.step();
  return static_cast<double>(talking.made()) / seconds_since(start);
}

void measure(const DiffusionTransformer& dit, const Decoder& decoder, std::size_t steps,
             const Rates& rates) {
  const DiffusionShape& shape = dit.shape();
  const std::size_t pages = 4 * ((shape.patches() + page_tokens - 1) / page_tokens);
  KvPool pool(dit.kv_shape(page_tokens), pages);
  const double flops = 2 * static_cast<double>(shape.patches()) * row_flops(shape);
  print("DiT-XL/2, a guided step, 512 rows", forward_seconds(dit, pool, 1), flops, rates);
  print("two drawings in one forward, 1024 rows", forward_seconds(dit, pool, 2), 2 * flops, rates);
  std::vector<double> alone, beside, tokens;
  for (std::size_t run = 0; run < rounds; ++run) {
    alone.push_back(drawing_seconds(dit, pool, steps));
    const Beside made = beside_chats(dit, pool, steps, decoder);
    beside.push_back(made.seconds);
    tokens.push_back(made.tokens_per_second);
  }
  const auto count = static_cast<double>(steps);
  print("a whole drawing's step, of " + std::to_string(steps), median(alone) / count, flops, rates);
  std::printf("a drawing of %zu steps: alone %.2f s, beside three chats %.2f s (%.2f times)\n",
              steps, median(alone), median(beside), median(beside) / median(alone));
  const double talk = chats_alone(decoder);
  std::printf("the chats: alone %.1f tokens/s, beside a drawing %.1f (%.2f of it)\n", talk,
              median(tokens), median(tokens) / talk);
}

}  // namespace

int main(int argc, char** argv) {
  constexpr const char* usage = "usage: bench_drawing [--steps 1..1000] [--model LANGUAGE_MODEL]";
  if (const auto status = usage_status(argc, argv, usage, {"--steps", "--model"})) return *status;
  std::size_t steps = 8;
  std::string given;
  for (int i = 1; i + 1 < argc; i += 2) {
    if (std::string(argv[i]) == "--steps") steps = std::strtoul(argv[i + 1], nullptr, 10);
    if (std::string(argv[i]) == "--model") given = argv[i + 1];
  }
  if (argc % 2 == 0 || steps == 0 || steps > 1000) {
    std::fprintf(stderr, "%s\n", usage);
    return 2;
  }
  print_rates();
  const Rates rates;
  const double before = resident_bytes();
  const Model dit = random_model(
      R"({"_class_name": "DiTTransformer2DModel", "sample_size": 32, "out_channels": 8,
          "num_embeds_ada_norm": 1000})");
  const double weights = resident_bytes() - before;
  const Result<Model> language =
      given.empty() ? Result<Model>(random_model(
                          R"({"model_type": "llama", "hidden_size": 576, "intermediate_size": 1536,
                              "num_hidden_layers": 30, "num_attention_heads": 9,
                              "num_key_value_heads": 3, "vocab_size": 49152,
                              "max_position_embeddings": 8192, "rms_norm_eps": 1e-5,
                              "tie_word_embeddings": true})"))
                    : Model::open(given);
  if (!language.ok() || !language->architecture().text.has_value()) {
    std::fprintf(stderr, "error: %s\n",
                 language.ok() ? "the model has no decoder" : language.error().message.c_str());
    return 1;
  }
  measure(dit.diffusion(), language->text(), steps, rates);
  std::printf("resident: %.2f GB of weights of the DiT; %.2f GB in all, with the chats' model\n",
              weights / 1e9, resident_bytes() / 1e9);
  return 0;
}
