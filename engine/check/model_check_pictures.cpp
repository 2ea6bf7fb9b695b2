#include <memory>
#include <string>

#include "engine/check/model_check_parts.h"
#include "engine/tasks/ddim_steps.h"
#include "engine/tasks/drawing.h"
#include "engine/tasks/model_engine.h"

namespace sluice {

namespace {

using Shape = std::vector<std::int64_t>;

std::int64_t wide(std::size_t value) { return static_cast<std::int64_t>(value); }

constexpr std::size_t page_tokens_small = 16;

Result<float> read_number(const NamedInputs& inputs, const char* name, float otherwise) {
  if (!inputs.has(name)) return otherwise;
  auto value = inputs.floats(name);
  if (!value.ok()) return value.error();
  if (value->size() != 1) return invalid_argument(std::string(name) + " must be one number");
  return value->front();
}

/// I64 or floats, one for each picture.
Result<std::vector<float>> read_times(const NamedInputs& inputs, std::size_t pictures) {
  auto times = inputs.floats("timestep");
  if (!times.ok()) {
    auto whole = inputs.integers("timestep");
    if (!whole.ok()) return whole.error();
    times = std::vector<float>(whole->begin(), whole->end());
  }
  if (times->size() != pictures)
    return invalid_argument("timestep must have a value for each picture");
  return times;
}

/// Noise to a latent picture for each class; `latents` is both.
Result<void> draw(const DiffusionTransformer& denoiser, KvPool& pool,
                  std::span<const std::int32_t> classes, const DdimOptions& options,
                  std::vector<float>& latents) {
  CpuText text(denoiser.trunk(), pool);
  ModelEngine engine(text, {});
  std::vector<std::unique_ptr<Drawing>> drawings;
  const std::size_t one = denoiser.shape().latent();
  for (std::size_t i = 0; i < classes.size(); ++i) {
    const auto from = latents.begin() + static_cast<std::ptrdiff_t>(i * one);
    auto steps = DdimSteps::make(denoiser, classes[i], options,
                                 {from, from + static_cast<std::ptrdiff_t>(one)});
    if (!steps.ok()) return steps.error();
    drawings.push_back(std::make_unique<Drawing>(std::move(steps).value(), KvSequence(),
                                                 std::vector<std::int32_t>(), DrawingOptions()));
    engine.add(i, *drawings.back());
  }
  std::vector<TaskId> advanced;
  while (engine.step(advanced)) advanced.clear();
  latents.clear();
  for (const auto& drawing : drawings) {
    if (drawing->error().has_value()) return *drawing->error();
    const std::vector<float> drawn = drawing->take_latents();
    latents.insert(latents.end(), drawn.begin(), drawn.end());
  }
  return {};
}

}  // namespace

Result<NamedTensors> run_diffusion(const Model& model, const NamedInputs& inputs) {
  const DiffusionTransformer& denoiser = model.diffusion();
  const DiffusionShape& shape = denoiser.shape();
  auto classes = inputs.integers("class_labels");
  if (!classes.ok()) return classes.error();
  const std::size_t pictures = classes->size();
  const auto read_latents = [&](const char* name) -> Result<std::vector<float>> {
    auto values = inputs.floats(name);
    if (!values.ok() || values->size() == pictures * shape.latent()) return values;
    const std::string side = std::to_string(shape.side);
    return invalid_argument(std::string(name) + " must be [class_labels, " +
                            std::to_string(shape.channels) + ", " + side + ", " + side + "]");
  };
  KvPool pool(denoiser.kv_shape(page_tokens_small),
              2 * pictures * (shape.patches() / page_tokens_small + 1));
  NamedTensors outputs;
  if (inputs.has("noise")) {
    auto latents = read_latents("noise");
    if (!latents.ok()) return latents.error();
    const Result<float> steps = read_number(inputs, "num_inference_steps", 50);
    const Result<float> guidance = read_number(inputs, "guidance_scale", 4);
    if (!steps.ok()) return steps.error();
    if (!guidance.ok()) return guidance.error();
    if (!(*steps >= 1 && *steps <= 1e6F))
      return invalid_argument("num_inference_steps must be at least 1");
    const DdimOptions options{static_cast<std::size_t>(*steps), *guidance};
    if (auto ran = draw(denoiser, pool, *classes, options, *latents); !ran.ok()) return ran.error();
    put_floats(outputs, "latents",
               {wide(pictures), wide(shape.channels), wide(shape.side), wide(shape.side)},
               std::move(latents).value());
    if (!inputs.has("hidden_states")) return outputs;
  }
  auto latents = read_latents("hidden_states");
  if (!latents.ok()) return latents.error();
  auto times = read_times(inputs, pictures);
  if (!times.ok()) return times.error();
  std::vector<float> predicted;
  auto ran = denoiser.predict(pool, *latents, *times, *classes, predicted);
  if (!ran.ok()) return ran.error();
  put_floats(outputs, "sample",
             {wide(pictures), wide(shape.out_channels), wide(shape.side), wide(shape.side)},
             std::move(predicted));
  return outputs;
}

Result<NamedTensors> run_vae(const Model& model, const NamedInputs& inputs) {
  const VaeShape& shape = model.vae().shape();
  auto latents = inputs.floats("latents");
  if (!latents.ok()) return latents.error();
  const Shape size = inputs.shape("latents");
  if (size.size() != 4 || size[1] != wide(shape.latent_channels) || size[2] < 1 || size[3] < 1 ||
      size[2] > 1024 || size[3] > 1024)
    return invalid_argument("latents must be [pictures, " + std::to_string(shape.latent_channels) +
                            ", height, width] of at most 1024");
  const auto height = static_cast<std::size_t>(size[2]);
  const auto width = static_cast<std::size_t>(size[3]);
  const std::size_t one = shape.latent_channels * height * width;
  std::vector<float> pixels;
  for (std::size_t at = 0; at < latents->size(); at += one) {
    const auto from = latents->begin() + static_cast<std::ptrdiff_t>(at);
    const Plane plane{
        {from, from + static_cast<std::ptrdiff_t>(one)}, shape.latent_channels, height, width};
    const Plane made = model.vae().decode(plane);
    pixels.insert(pixels.end(), made.values.begin(), made.values.end());
  }
  NamedTensors outputs;
  put_floats(outputs, "sample",
             {size[0], wide(shape.out_channels), wide(height * shape.growth()),
              wide(width * shape.growth())},
             std::move(pixels));
  return outputs;
}

}  // namespace sluice
