#include "roles/class_denoiser.h"

#include <algorithm>
#include <memory>

#include "base/random.h"
#include "engine/family/model.h"
#include "roles/engine_options.h"

namespace sluice {

namespace {

constexpr std::string_view option_names[] = {"precision", "steps", "guidance_milli", "seed"};
constexpr std::size_t page_tokens = 16;
/// Drawings of one forward; more wait for their turn.
constexpr std::size_t together_most = 8;

std::int64_t wide(std::size_t value) { return static_cast<std::int64_t>(value); }

struct Asked {
  Activation* activation = nullptr;
  std::optional<DdimDrawing> drawing;  // none: not begun
  std::int32_t label = 0;
};

class ClassDenoiser final : public SteppedRole {
 public:
  ClassDenoiser(Model model, const EngineOptions& options)
      : model_(std::move(model)),
        options_(options),
        pool_(model_.diffusion().kv_shape(page_tokens),
              2 * together_most * (shape().patches() / page_tokens + 1)) {}

  void admit(Activation& activation) override { asked_.emplace_back().activation = &activation; }
  bool busy() const override { return !asked_.empty(); }
  void step(std::vector<StepOutcome>& ended) override;

 private:
  const DiffusionShape& shape() const { return model_.diffusion().shape(); }
  Result<void> begin(Asked& asked) const;
  Result<std::vector<float>> noise_of(const Activation& activation) const;
  void end(Asked& asked, Result<void> outcome, std::vector<StepOutcome>& ended);

  Model model_;
  const EngineOptions options_;
  KvPool pool_;
  std::vector<Asked> asked_;
};

Result<std::vector<float>> ClassDenoiser::noise_of(const Activation& activation) const {
  const auto given = activation.inputs("noise");
  std::vector<float> noise(shape().latent());
  if (given.empty()) {
    SplitMix64 random(options_.seed);
    for (float& v : noise) v = static_cast<float>(random.normal());
    return noise;
  }
  const Tensor& tensor = given.front()->tensor;
  if (tensor.dtype() != Dtype::f32 || tensor.count() != wide(noise.size()))
    return invalid_argument("the noise is " + tensor.describe() + ", this model needs f32[" +
                            std::to_string(shape().channels) + ", " + std::to_string(shape().side) +
                            ", " + std::to_string(shape().side) + "]");
  std::ranges::copy(tensor.f32(), noise.begin());
  return noise;
}

Result<void> ClassDenoiser::begin(Asked& asked) const {
  const std::int64_t label = asked.activation->input("label")->number;
  if (label < 0 || label > wide(shape().classes))
    return invalid_argument("class " + std::to_string(label) + " is not from 0 to " +
                            std::to_string(shape().classes));
  asked.label = static_cast<std::int32_t>(label);
  DrawingOptions options;
  if (options_.steps != 0) options.steps = options_.steps;
  if (options_.guidance.has_value()) options.guidance = static_cast<float>(*options_.guidance);
  Result<std::vector<float>> noise = noise_of(*asked.activation);
  if (!noise.ok()) return noise.error();
  Result<DdimDrawing> drawing = DdimDrawing::make(shape(), options, std::move(noise).value());
  if (!drawing.ok()) return drawing.error();
  asked.drawing = std::move(drawing).value();
  return {};
}

void ClassDenoiser::end(Asked& asked, Result<void> outcome, std::vector<StepOutcome>& ended) {
  if (outcome.ok())
    asked.activation->yield(
        "latents",
        make_tensor(Tensor::of_f32({wide(shape().channels), wide(shape().side), wide(shape().side)},
                                   asked.drawing->take_latents())));
  ended.push_back({asked.activation, std::move(outcome)});
  asked.activation = nullptr;
}

void ClassDenoiser::step(std::vector<StepOutcome>& ended) {
  std::vector<Asked*> batch;
  std::vector<DdimDrawing*> drawings;
  std::vector<std::int32_t> classes;
  for (Asked& asked : asked_) {
    Result<void> begun;
    if (asked.activation->cancelled())
      begun = Error{ErrorCode::cancelled, "the drawing was cancelled"};
    else if (!asked.drawing.has_value())
      begun = begin(asked);
    if (!begun.ok()) {
      end(asked, std::move(begun), ended);
    } else if (batch.size() < together_most) {
      batch.push_back(&asked);
      drawings.push_back(&*asked.drawing);
      classes.push_back(asked.label);
    }
  }
  if (!batch.empty()) {
    const Result<void> ran = model_.diffusion().advance(pool_, drawings, classes);
    for (Asked* asked : batch)
      if (!ran.ok() || asked->drawing->done()) end(*asked, ran, ended);
  }
  std::erase_if(asked_, [](const Asked& asked) { return asked.activation == nullptr; });
}

Result<RoleInstance> make(const RoleMaking& making) {
  const Result<EngineOptions> options =
      read_engine_options(*making.role, making.model_directory, engine_options(option_names));
  if (!options.ok()) return options.error();
  Result<Model> model = Model::open(making.model_directory, options->format);
  if (!model.ok()) return model.error();
  if (!model->architecture().diffusion.has_value())
    return invalid_argument(making.model_directory + ": there is no DiT in it");
  return RoleInstance(std::unique_ptr<SteppedRole>(
      std::make_unique<ClassDenoiser>(std::move(model).value(), *options)));
}

}  // namespace

Plugin class_denoiser_plugin() {
  const std::vector<std::int64_t> latent{any_size, any_size, any_size};
  Plugin plugin;
  plugin.declaration = {
      .name = "class_denoiser",
      .meaning = "draws latents of a class with a DiT",
      .interfaces = {{.name = "draw",
                      .inputs = {{"label", ValueType::number, "the class", false},
                                 {"noise", ValueType::tensor, "what the drawing begins as", false,
                                  0, Dtype::f32, latent}},
                      .outputs = {{"latents", ValueType::tensor, "what was drawn", false, 0,
                                   Dtype::f32, latent}},
                      .frames = {},
                      .yields_max = 1}},
      .session_state = false,
      .needs_model = true,
      .any_ports = false,
      .global_param_kinds = {},
      .options = engine_options(option_names)};
  plugin.make = make;
  return plugin;
}

}  // namespace sluice
