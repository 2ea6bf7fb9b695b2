// `sluice model bench`: tokens per second of a checkpoint's decoder, on the CPU or on a GPU.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <functional>
#include <memory>

#include "cli/commands.h"
#include "cli/model_load.h"
#ifdef SLUICE_CUDA
#include "roles/device/device_decoder.h"
#endif

namespace sluice::cli {

namespace {

using Clock = std::chrono::steady_clock;

struct Options {
  std::string directory, precision = "exact", device = "cpu";
  std::size_t prompt = 512, answer = 64, batch = 1;
};

constexpr int runs = 4;
constexpr std::size_t page_tokens = 16;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

/// What is measured: each is given a run's number of tokens, and waits for its end.
struct Measured {
  std::function<Result<void>()> begin, prefill, decode;
};

/// The median of the runs, in tokens per second.
int measure(const Options& options, double stream_bytes, const Measured& measured) {
  std::vector<double> prefill, decode;
  for (int run = 0; run < runs; ++run) {
    if (const auto done = measured.begin(); !done.ok()) return fail(done.error().message);
    auto start = Clock::now();
    if (const auto done = measured.prefill(); !done.ok()) return fail(done.error().message);
    prefill.push_back(static_cast<double>(options.prompt * options.batch) / seconds_since(start));
    start = Clock::now();
    for (std::size_t i = 0; i < options.answer; ++i)
      if (const auto done = measured.decode(); !done.ok()) return fail(done.error().message);
    decode.push_back(static_cast<double>(options.answer) / seconds_since(start));
  }
  std::ranges::sort(prefill);
  std::ranges::sort(decode);
  const double steps = decode[runs / 2];
  std::printf("prefill    %zu x %zu tokens: %.1f tokens/s\n", options.batch, options.prompt,
              prefill[runs / 2]);
  std::printf("decode     %zu x %zu tokens: %.1f tokens/s, %s of weights a step: %.1f GB/s\n",
              options.batch, options.answer, steps * static_cast<double>(options.batch),
              megabytes(stream_bytes).c_str(), stream_bytes * steps / 1e9);
  return 0;
}

std::vector<std::int32_t> prompt_tokens(std::size_t count, std::size_t vocabulary) {
  std::vector<std::int32_t> tokens;
  for (std::size_t i = 0; i < count; ++i)
    tokens.push_back(static_cast<std::int32_t>(i * 7919 % vocabulary));
  return tokens;
}

std::size_t pages_of(const Options& options) {
  return options.batch * ((options.prompt + options.answer) / page_tokens + 2);
}

int bench_cpu(const Options& options) {
  const Result<Model> model =
      load_planned(options.directory, options.batch * (options.prompt + options.answer),
                   format_named(options.precision));
  if (!model.ok()) return fail(model.error().message);
  if (!model->architecture().text.has_value()) return fail("the model has no decoder to measure");
  const Decoder& text = model->text();
  KvPool pool(text.kv_shape(page_tokens), pages_of(options));
  std::vector<float> rows, row, hidden, logits;
  text.embed(prompt_tokens(options.prompt, text.shape().vocabulary), rows);
  row.assign(rows.begin(), rows.begin() + static_cast<std::ptrdiff_t>(text.width()));
  std::vector<KvSequence> sequences(options.batch);
  const auto forward = [&](std::span<const float> each) {
    std::vector<Chunk> chunks;
    for (KvSequence& sequence : sequences) chunks.push_back({&sequence, each});
    return text.forward(pool, chunks, hidden);
  };
  return measure(options, static_cast<double>(text.stream_bytes()),
                 {[&]() -> Result<void> {
                    for (KvSequence& sequence : sequences) pool.truncate(sequence, 0);
                    return {};
                  },
                  [&] { return forward(rows); },
                  [&]() -> Result<void> {
                    if (auto ran = forward(row); !ran.ok()) return ran;
                    text.logits(hidden, logits);
                    return {};
                  }});
}

#ifdef SLUICE_CUDA
int bench_cuda(const Options& options) {
  const Result<device::About> about = device::find_device();
  if (!about.ok()) return fail(about.error().message);
  std::printf("device     %s, %s free of %s\n", about->name.c_str(),
              megabytes(static_cast<double>(about->free_bytes)).c_str(),
              megabytes(static_cast<double>(about->memory_bytes)).c_str());
  Result<Architecture> architecture = Architecture::load(options.directory);
  if (!architecture.ok()) return fail(architecture.error().message);
  if (!architecture->text.has_value()) return fail("the model has no decoder to measure");
  const Result<SafetensorsFile> file = open_weights(options.directory);
  if (!file.ok()) return fail(file.error().message);
  DecoderShape shape = *architecture->text;
  const DecoderNames names = find_decoder(*file, shape);
  const bool narrow = options.precision == "bf16";
  auto decoder = DeviceDecoder::load(
      shape, names, *file,
      narrow ? DeviceDecoder::Precision::bf16 : DeviceDecoder::Precision::exact);
  if (!decoder.ok()) return fail(decoder.error().message);
  auto kv = (*decoder)->make_kv(page_tokens, pages_of(options));
  if (!kv.ok()) return fail(kv.error().message);
  const std::vector<float> rows(options.prompt * shape.block.width, 0.01F);
  std::vector<float> hidden;
  std::vector<std::int32_t> next;
  std::vector<KvSequence> sequences(options.batch);
  const double values =
      static_cast<double>(shape.layers) *
          static_cast<double>(shape.block.width * shape.block.head_shape().row() +
                              shape.block.heads * shape.block.head_dim * shape.block.width +
                              shape.block.width * shape.block.mlp * (shape.block.gated ? 3 : 2)) +
      static_cast<double>(shape.vocabulary * shape.block.width);
  return measure(options, values * (narrow ? 2 : 4),
                 {[&]() -> Result<void> {
                    for (KvSequence& sequence : sequences) kv->pages.truncate(sequence, 0);
                    return {};
                  },
                  [&] {
                    std::vector<Chunk> chunks;
                    for (KvSequence& sequence : sequences) chunks.push_back({&sequence, rows});
                    return (*decoder)->forward(*kv, chunks, hidden);
                  },
                  [&] {
                    std::vector<DecodeStep> steps;
                    for (KvSequence& sequence : sequences)
                      steps.push_back({&sequence,
                                       next.empty() ? 0 : next.front(),
                                       Position::at(static_cast<std::int32_t>(sequence.tokens)),
                                       {},
                                       {},
                                       0});
                    return (*decoder)->step(*kv, steps, next);
                  }});
}
#endif

int bench(const Options& options) {
  if (options.device == "cpu") return bench_cpu(options);
#ifdef SLUICE_CUDA
  if (options.precision == "int8") return fail("--device cuda runs exact and bf16");
  return bench_cuda(options);
#else
  return fail("this program was built without CUDA; build it where nvcc is found");
#endif
}

}  // namespace

void add_model_bench(CLI::App& model, Chosen& chosen) {
  auto options = std::make_shared<Options>();
  CLI::App* sub = model.add_subcommand("bench", "Tokens per second of its decoder on this machine");
  sub->add_option("DIR", options->directory, "config.json and safetensors")
      ->required()
      ->check(CLI::ExistingDirectory);
  sub->add_option("--prompt", options->prompt, "tokens of the prompt")
      ->check(CLI::Range(1, 1 << 16));
  sub->add_option("--tokens", options->answer, "tokens to decode")->check(CLI::Range(1, 1 << 16));
  sub->add_option("--batch", options->batch, "sequences at once")->check(CLI::Range(1, 1024));
  sub->add_option("--precision", options->precision, "exact, bf16 or int8")
      ->check(CLI::IsMember({"exact", "bf16", "int8"}));
  sub->add_option("--device", options->device, "cpu or cuda")
      ->check(CLI::IsMember({"cpu", "cuda"}));
  sub->callback([options, &chosen] { chosen = [=] { return bench(*options); }; });
}

}  // namespace sluice::cli
