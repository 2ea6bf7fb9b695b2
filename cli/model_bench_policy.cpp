// `sluice model bench` of a robot's policy: how long a control step takes.
#include <algorithm>
#include <cstdio>

#include "cli/commands.h"
#include "cli/model_bench.h"
#include "cli/model_load.h"
#include "engine/policy/flow_policy.h"
#ifdef SLUICE_CUDA
#include "engine/device/device_policy.h"
#endif

namespace sluice::cli {

namespace {

constexpr int runs = 7;  // and one before them that is not counted

std::size_t prefix_rows(const BenchOptions& options, const Architecture& architecture) {
  const std::size_t shuffle = architecture.pixel_shuffle;
  return options.views * architecture.vision->patches() / (shuffle * shuffle) + options.words +
         (architecture.family == Family::smolvla ? 1 : 0);
}

std::size_t pages_of(const BenchOptions& options, const Architecture& architecture) {
  const std::size_t tokens = prefix_rows(options, architecture) + architecture.action->horizon + 1;
  return options.batch * (tokens / bench_page_tokens + 1);
}

struct Times {
  std::vector<double> prefill, act, step;
};

double median(std::vector<double> values) {
  std::ranges::sort(values);
  return values[values.size() / 2];
}

Result<void> step(PolicyEngine& engine, const BenchOptions& options, const Observation& observation,
                  std::span<const float> noise, Times& times) {
  std::vector<KvSequence> prefixes(options.batch);
  std::vector<ActionRequest> requests;
  const auto start = Clock::now();
  for (KvSequence& prefix : prefixes) {
    if (Result<void> seen = engine.prefill(prefix, observation, nullptr); !seen.ok()) return seen;
    requests.push_back({&prefix, {noise.begin(), noise.end()}, observation.state});
  }
  times.prefill.push_back(seconds_since(start));
  Result<void> acted = engine.act(requests, {engine.head().shape.steps, 1.0F}, {});
  times.step.push_back(seconds_since(start));
  times.act.push_back(times.step.back() - times.prefill.back());
  for (KvSequence& prefix : prefixes) engine.pages().truncate(prefix, 0);
  return acted;
}

int measure(PolicyEngine& engine, const BenchOptions& options, const Architecture& architecture) {
  const ActionShape& shape = *architecture.action;
  const std::size_t side = architecture.vision->side;
  const std::vector<float> pixels(options.views * 3 * side * side, 0.3F);
  const std::vector<std::int32_t> words(options.words, 17);
  const std::vector<float> state(shape.state_dims, 0.1F);
  const std::vector<float> noise(shape.horizon * shape.dims, 0.5F);
  Times times;
  for (int run = 0; run <= runs; ++run) {
    if (run == 1) times = Times();
    const Result<void> ran = step(engine, options, {pixels, words, state}, noise, times);
    if (!ran.ok()) return fail(ran.error().message);
  }
  std::printf("step       %zu robots, %zu views and %zu words (%zu rows): %.1f ms, %.1f a second\n",
              options.batch, options.views, options.words, prefix_rows(options, architecture),
              median(times.step) * 1e3, 1 / median(times.step));
  std::printf("           prefix %.1f ms, %zu flow steps of %zu actions %.1f ms\n",
              median(times.prefill) * 1e3, shape.steps, shape.horizon, median(times.act) * 1e3);
  return 0;
}

int bench_cpu(const BenchOptions& options, const Architecture& architecture, SafetensorsFile file) {
  const std::size_t tokens = pages_of(options, architecture) * bench_page_tokens;
  const kernels::WeightFormat format = format_named(options.precision);
  const Result<void> fits =
      show_plan(plan_memory(file, architecture, tokens, format, options.kept.dtype()));
  if (!fits.ok()) return fail(fits.error().message);
  const Result<Model> model = Model::load(architecture, std::move(file), format);
  if (!model.ok()) return fail(model.error().message);
  const Result<FlowPolicy> policy = FlowPolicy::load(*model);
  if (!policy.ok()) return fail(policy.error().message);
  KvPool pool(policy->kv_shape(bench_page_tokens, options.kept.dtype()),
              pages_of(options, architecture));
  CpuPolicy engine(*policy, pool);
  return measure(engine, options, architecture);
}

#ifdef SLUICE_CUDA
int bench_cuda(const BenchOptions& options, const Architecture& architecture,
               const SafetensorsFile& file) {
  const auto engine = load_device_policy(
      architecture, file,
      options.narrow() ? DeviceDecoder::Precision::bf16 : DeviceDecoder::Precision::exact,
      bench_page_tokens, pages_of(options, architecture));
  if (!engine.ok()) return fail(engine.error().message);
  return measure(**engine, options, architecture);
}
#endif

}  // namespace

int bench_policy(const BenchOptions& given, const Architecture& architecture) {
  BenchOptions options = given;
  if (options.views == 0) options.views = architecture.action->cameras;
  if (options.words == 0) options.words = BenchOptions::words_usual;
  Result<SafetensorsFile> file = bench_weights(options);
  if (!file.ok()) return fail(file.error().message);
#ifdef SLUICE_CUDA
  if (options.device == "cuda") return bench_cuda(options, architecture, *file);
#endif
  return bench_cpu(options, architecture, std::move(file).value());
}

}  // namespace sluice::cli
