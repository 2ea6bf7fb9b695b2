// `sluice model bench`: tokens per second of a checkpoint's decoder, or a policy's control step, on
// the CPU or on a GPU.
#include "cli/model_bench.h"

#include <algorithm>
#include <cstdio>
#include <functional>
#include <memory>

#include "cli/commands.h"
#include "cli/model_load.h"
#ifdef SLUICE_CUDA
#include "engine/device/device_decoder.h"
#endif

namespace sluice::cli {

namespace {

constexpr int runs = 4;

/// What is measured: each is given a run's number of tokens, and waits for its end.
struct Measured {
  std::function<Result<void>()> begin, prefill, decode;
};

/// The median of the runs, in tokens per second.
int measure(const BenchOptions& options, double stream_bytes, const Measured& measured) {
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

std::size_t pages_of(const BenchOptions& options) {
  return options.batch * ((options.prompt + options.answer) / bench_page_tokens + 2);
}

int bench_cpu(const BenchOptions& options, const Architecture& architecture, SafetensorsFile file) {
  const kernels::WeightFormat format = format_named(options.precision);
  const Result<void> fits =
      show_plan(plan_memory(file, architecture, options.batch * (options.prompt + options.answer),
                            format, options.kept.dtype()));
  if (!fits.ok()) return fail(fits.error().message);
  const Result<Model> model = Model::load(architecture, std::move(file), format);
  if (!model.ok()) return fail(model.error().message);
  const Decoder& text = model->text();
  KvPool pool(text.kv_shape(bench_page_tokens, options.kept.dtype()), pages_of(options));
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
int bench_cuda(const BenchOptions& options, const Architecture& architecture,
               const SafetensorsFile& file) {
  DecoderShape shape = *architecture.text;
  const DecoderNames names = find_decoder(file, shape);
  auto decoder = DeviceDecoder::load(
      shape, names, file,
      options.narrow() ? DeviceDecoder::Precision::bf16 : DeviceDecoder::Precision::exact);
  if (!decoder.ok()) return fail(decoder.error().message);
  auto kv = (*decoder)->make_kv(bench_page_tokens, pages_of(options));
  if (!kv.ok()) return fail(kv.error().message);
  const std::vector<float> rows(options.prompt * shape.block.width, 0.01F);
  std::vector<float> hidden;
  std::vector<std::int32_t> next;
  std::vector<KvSequence> sequences(options.batch);
  // A step reads one row of an embedding that is not also the head.
  const double values =
      parameter_count(shape) -
      (shape.tied ? 0 : static_cast<double>(shape.vocabulary * shape.block.width));
  return measure(options, values * (options.narrow() ? 2 : 4),
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
                                       Position::at(static_cast<std::int32_t>(sequence.tokens())),
                                       {},
                                       {},
                                       0});
                    return (*decoder)->step(*kv, steps, next);
                  }});
}
#endif

#ifdef SLUICE_CUDA
int say_device() {
  const Result<device::About> about = device::find_device();
  if (!about.ok()) return fail(about.error().message);
  std::printf("device     %s, %s free of %s\n", about->name.c_str(),
              megabytes(static_cast<double>(about->free_bytes)).c_str(),
              megabytes(static_cast<double>(about->memory_bytes)).c_str());
  return 0;
}
#else
int say_device() {
  return fail("this program was built without CUDA; build it where nvcc is found");
}
#endif

/// The prompt where none was said: what the positions leave beside the answer, 512 at most.
/// Returns what is wrong with the command line; empty: nothing.
std::string fit_prompt(BenchOptions& options, std::size_t positions) {
  const std::size_t room = positions > options.answer ? positions - options.answer : 0;
  if (room == 0 || options.prompt > room)
    return "--prompt " + std::to_string(std::max<std::size_t>(options.prompt, 1)) +
           " and --tokens " + std::to_string(options.answer) + " are more than the " +
           std::to_string(positions) + " positions that the model has; ask for fewer";
  if (options.prompt == 0) options.prompt = std::min(BenchOptions::prompt_usual, room);
  return "";
}

int bench(BenchOptions options) {
  std::setvbuf(stdout, nullptr, _IOLBF, 0);  // what is known is told while the rest is measured
  const bool on_device = options.device == "cuda";
  if (on_device && options.precision == "int8") return fail("--device cuda runs exact and bf16");
  if (on_device && options.kept.dtype() == Dtype::bf16)
    return fail("--kv-dtype is of pages of the CPU: leave --device cuda out");
  if (on_device)
    if (const int failed = say_device(); failed != 0) return failed;
  const Result<Architecture> architecture = load_architecture(options.directory);
  if (!architecture.ok()) return fail(architecture.error().message);
  if (architecture->action.has_value()) return bench_policy(options, *architecture);
  if (options.views != 0 || options.words != 0)
    return fail_usage("--views and --words are of a policy, and the model is none");
  if (!architecture->text.has_value()) return fail("the model has no decoder to measure");
  if (const std::string wrong = fit_prompt(options, architecture->text->positions_max);
      !wrong.empty())
    return fail_usage(wrong);
  Result<SafetensorsFile> file = bench_weights(options);
  if (!file.ok()) return fail(file.error().message);
#ifdef SLUICE_CUDA
  if (on_device) return bench_cuda(options, *architecture, *file);
#endif
  return bench_cpu(options, *architecture, std::move(file).value());
}

}  // namespace

Result<SafetensorsFile> bench_weights(const BenchOptions& options) {
  if (options.random) return SafetensorsFile::random(1);
  return open_weights(options.directory);
}

void add_model_bench(Command model, Chosen& chosen) {
  auto options = std::make_shared<BenchOptions>();
  Command sub =
      model.add_subcommand("bench", "Its tokens per second, or its control step, on this machine");
  sub.add_option("DIR", options->directory,
                 "a GGUF file, or a directory with config.json and safetensors")
      .required();
  sub.add_option("--prompt", options->prompt, "tokens of the prompt; 512, or what fits")
      .check(Range(1, 1 << 16))
      .shown_default("");
  sub.add_option("--tokens", options->answer, "tokens to decode").check(Range(1, 1 << 16));
  sub.add_option("--batch", options->batch, "sequences or robots at once").check(Range(1, 1024));
  sub.add_option("--views", options->views, "a policy's cameras that are there; all")
      .check(Range(1, 16));
  sub.add_option("--words", options->words, "tokens of a policy's prompt")
      .check(Range(1, 1024))
      .shown_default(std::to_string(BenchOptions::words_usual));
  sub.add_flag("--random", options->random, "draw the weights: DIR needs config.json only");
  sub.add_option("--precision", options->precision, "exact, bf16 or int8")
      .one_of({"exact", "bf16", "int8"});
  add_kv_dtype(sub, options->kept);
  sub.add_option("--device", options->device, "cpu or cuda").one_of({"cpu", "cuda"});
  sub.callback([options, &chosen] { chosen = [=] { return bench(*options); }; });
}

}  // namespace sluice::cli
