#include "roles/vision_encoder.h"

#include <memory>

#include "engine/picture/image_resize.h"
#include "engine/picture/picture_cache.h"
#include "engine/scenes/vision.h"
#include "roles/engine_options.h"
#include "roles/picture_features.h"
#include "roles/policy_role.h"

namespace sluice {

namespace {

class VisionEncoder final : public Role {
 public:
  explicit VisionEncoder(Vision vision) : vision_(std::move(vision)) {}

  Result<void> run(Activation& activation) override {
    const Payload* image = activation.input("image");
    Result<Tensor> square = resize_to_square(image->tensor, vision_.image_size());
    if (!square.ok()) return square.error();
    activation.yield("features", make_tensor(vision_.encode(*square)));
    return {};
  }

 private:
  Vision vision_;
};

constexpr std::string_view option_names[] = {"precision"};
constexpr std::size_t seen_bytes_max = std::size_t{64} << 20U;

/// The tower of any other checkpoint, and its projector where it has a decoder.
class CheckpointEncoder final : public Role {
 public:
  CheckpointEncoder(Model model, PictureSteps steps)
      : model_(std::move(model)), steps_(std::move(steps)) {}

  static Result<RoleInstance> make(const RoleMaking& making) {
    const Result<EngineOptions> options =
        read_engine_options(*making.role, making.model_directory, engine_options(option_names));
    if (!options.ok()) return options.error();
    Result<Architecture> architecture = Architecture::load(making.model_directory);
    if (!architecture.ok()) return architecture.error();
    Result<PictureSteps> steps = PictureSteps::load(making.model_directory, *architecture);
    if (!steps.ok()) return steps.error();
    Result<SafetensorsFile> file = open_weights(making.model_directory);
    if (!file.ok()) return file.error();
    Result<Model> model = Model::load(std::move(architecture).value(), std::move(file).value(),
                                      options->format, ModelParts::pictures);
    if (!model.ok()) return model.error();
    return RoleInstance(std::unique_ptr<Role>(
        std::make_unique<CheckpointEncoder>(std::move(model).value(), std::move(steps).value())));
  }

  Result<void> run(Activation& activation) override {
    return activation.interface() == "encode" ? encode(activation) : encode_cameras(activation);
  }

 private:
  /// Of the rows: the decoder's where there is one.
  std::size_t width() const {
    const Architecture& model = model_.architecture();
    return model.text.has_value() ? model.text->block.width : model.vision->block.width;
  }

  Result<void> encode(Activation& activation) {
    const Tensor& image = activation.input("image")->tensor;
    const std::string content = picture_content(image);
    if (const PictureInput* seen = seen_.find(content)) {
      activation.yield("features", features_payload(*seen, width()));
      return {};
    }
    Result<PictureInput> made = prepare_picture(steps_, model_.architecture(), image);
    if (!made.ok()) return made.error();
    Result<std::vector<float>> features = model_.features(made->pixels, made->grids);
    if (!features.ok()) return features.error();
    made->features = std::move(features).value();
    made->pixels = {};
    made->content = content;
    seen_.keep(*made);
    activation.yield("features", features_payload(*made, width()));
    return {};
  }

  Result<void> encode_cameras(Activation& activation) {
    const Result<std::vector<float>> pixels =
        read_cameras(activation, steps_, model_.architecture());
    if (!pixels.ok()) return pixels.error();
    if (pixels->empty()) return invalid_argument("there is no camera's picture");
    PictureInput seen;
    Result<std::vector<float>> features = model_.features(*pixels, {});
    if (!features.ok()) return features.error();
    seen.features = std::move(features).value();
    activation.yield("features", features_payload(seen, width()));
    return {};
  }

  Model model_;
  PictureSteps steps_;
  PictureCache seen_{seen_bytes_max};
};

Result<RoleInstance> make_scenes(const RoleMaking& making) {
  if (!making.role->options.empty())
    return invalid_argument("role '" + making.role->name.text +
                            "': a vision_encoder of models/scenes takes no options");
  Result<ModelConfig> config = ModelConfig::load(making.model_directory);
  if (!config.ok()) return config.error();
  Result<SafetensorsFile> file =
      SafetensorsFile::open(making.model_directory + "/model.safetensors");
  if (!file.ok()) return file.error();
  Result<Vision> vision = Vision::load(*config, *file);
  if (!vision.ok()) return vision.error();
  return RoleInstance(
      std::unique_ptr<Role>(std::make_unique<VisionEncoder>(std::move(vision).value())));
}

std::vector<Port> cameras() {
  std::vector<Port> ports;
  for (const std::string_view camera : camera_ports)
    ports.push_back({std::string(camera), ValueType::image, "what a camera sees", false});
  return ports;
}

}  // namespace

Plugin vision_encoder_plugin() {
  Plugin plugin;
  plugin.declaration = {
      .name = "vision_encoder",
      .meaning = "looks at a picture of any size",
      .interfaces = {{.name = "encode",
                      .inputs = {{"image", ValueType::image, "the picture", false}},
                      .outputs = {{"features",
                                   ValueType::tensor,
                                   "its feature tokens",
                                   false,
                                   0,
                                   Dtype::f32,
                                   {any_size, any_size}}},
                      .frames = {},
                      .yields_max = 1},
                     {.name = "encode_cameras",
                      .inputs = cameras(),
                      .outputs = {{"features",
                                   ValueType::tensor,
                                   "what a robot sees",
                                   false,
                                   0,
                                   Dtype::f32,
                                   {any_size, any_size}}},
                      .frames = {},
                      .yields_max = 1}},
      .session_state = false,
      .needs_model = true,
      .any_ports = false,
      .global_param_kinds = {},
      .options = engine_options(option_names)};
  plugin.make = [](const RoleMaking& making) {
    return ModelConfig::load(making.model_directory).ok() ? make_scenes(making)
                                                          : CheckpointEncoder::make(making);
  };
  return plugin;
}

}  // namespace sluice
