#include "roles/class_denoiser.h"

#include <algorithm>
#include <memory>

#include "base/random.h"
#include "engine/tasks/ddim_steps.h"
#include "roles/contents.h"
#include "roles/diffusion_kv.h"
#include "roles/drawing_role.h"

namespace sluice {

namespace {

constexpr std::string_view option_names[] = {"precision",   "steps",    "guidance_milli", "seed",
                                             "step_tokens", "priority", "deadline_ms"};
std::int64_t wide(std::size_t value) { return static_cast<std::int64_t>(value); }

class ClassDenoiser final : public Painter {
 public:
  /// `own`: what holds the host, where no global parameter does.
  ClassDenoiser(DiffusionHost& host, std::unique_ptr<DiffusionKv> own, const EngineOptions& options)
      : own_(std::move(own)), host_(host), options_(options) {}

  SharedEngine& engine() override { return host_.shared; }
  Result<std::unique_ptr<Drawing>> begin(const Activation& activation,
                                         const DrawingOptions& options) override;
  std::vector<std::int64_t> shape() const override {
    const DiffusionShape& shape = transformer().shape();
    return {wide(shape.channels), wide(shape.side), wide(shape.side)};
  }

 private:
  const DiffusionTransformer& transformer() const { return host_.model.diffusion(); }
  Result<std::vector<float>> noise_of(const Activation& activation) const;

  std::unique_ptr<DiffusionKv> own_;
  DiffusionHost& host_;
  const EngineOptions options_;
};

Result<std::vector<float>> ClassDenoiser::noise_of(const Activation& activation) const {
  const auto given = activation.inputs("noise");
  const DiffusionShape& shape = transformer().shape();
  std::vector<float> noise(shape.latent());
  if (given.empty()) {
    SplitMix64 random(options_.seed);
    for (float& v : noise) v = static_cast<float>(random.normal());
    return noise;
  }
  const Tensor& tensor = given.front()->tensor;
  if (tensor.dtype() != Dtype::f32 || tensor.count() != wide(noise.size()))
    return invalid_argument("the noise is " + tensor.describe() + ", this model needs f32[" +
                            std::to_string(shape.channels) + ", " + std::to_string(shape.side) +
                            ", " + std::to_string(shape.side) + "]");
  std::ranges::copy(tensor.f32(), noise.begin());
  return noise;
}

Result<std::unique_ptr<Drawing>> ClassDenoiser::begin(const Activation& activation,
                                                      const DrawingOptions& asked) {
  const std::int64_t label = activation.input("label")->number;
  if (Result<void> known = transformer().check_class(label); !known.ok()) return known.error();
  DdimOptions options;
  if (options_.steps != 0) options.steps = options_.steps;
  if (options_.guidance.has_value()) options.guidance = static_cast<float>(*options_.guidance);
  Result<std::vector<float>> noise = noise_of(activation);
  if (!noise.ok()) return noise.error();
  auto steps = DdimSteps::make(transformer(), label, options, std::move(noise).value());
  if (!steps.ok()) return steps.error();
  return std::make_unique<Drawing>(std::move(steps).value(), KvSequence(),
                                   std::vector<std::int32_t>(), asked);
}

Result<RoleInstance> make(const RoleMaking& making) {
  const std::string& directory = making.model_directory;
  const Result<EngineOptions> options =
      read_engine_options(*making.role, directory, engine_options(option_names));
  if (!options.ok()) return options.error();
  std::unique_ptr<DiffusionKv> own;
  DiffusionKv* kv = diffusion_kv_of(making);
  if (kv == nullptr) {
    Result<std::unique_ptr<DiffusionKv>> made = DiffusionKv::alone(directory);
    if (!made.ok()) return made.error();
    own = std::move(made).value();
    kv = own.get();
  }
  const Result<DiffusionHost*> host = kv->host(directory, *options);
  if (!host.ok()) return host.error();
  return RoleInstance(make_drawing_role(
      std::make_unique<ClassDenoiser>(**host, std::move(own), *options), *options));
}

}  // namespace

Plugin class_denoiser_plugin() {
  const std::vector<std::int64_t> latent{any_size, any_size, any_size};
  Plugin plugin;
  plugin.declaration = {
      .name = "class_denoiser",
      .meaning = "draws latents of a class with a DiT",
      .interfaces = {{.name = "draw",
                      .inputs = {{.name = "label",
                                  .type = ValueType::number,
                                  .meaning = "the class",
                                  .frames = PortFrames::one},
                                 {"noise", ValueType::tensor, "what the drawing begins as", false,
                                  0, Dtype::f32, latent, PortFrames::at_most_one}},
                      .outputs = {{.name = "latents",
                                   .type = ValueType::tensor,
                                   .meaning = "what was drawn",
                                   .dtype = Dtype::f32,
                                   .shape = latent,
                                   .content = contents::latents}},
                      .frames = {},
                      .yields_max = 1}},
      .session_state = false,
      .needs_model = true,
      .any_ports = false,
      .global_param_kinds = {"paged_kv"},
      .options = engine_options(option_names)};
  plugin.make = make;
  return plugin;
}

}  // namespace sluice
