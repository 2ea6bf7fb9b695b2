#include "roles/vision_encoder.h"

#include <memory>

#include "engine/picture/image_resize.h"
#include "engine/scenes/vision.h"

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

}  // namespace

Plugin vision_encoder_plugin() {
  Plugin plugin;
  plugin.declaration = {
      .name = "vision_encoder",
      .meaning = "looks at a picture of any size",
      .interfaces = {{.name = "encode",
                      .inputs = {{"image", ValueType::image, "the picture", false}},
                      .outputs = {{"features", ValueType::tensor, "its feature tokens", false}},
                      .frames = {},
                      .yields_max = 1}},
      .session_state = false,
      .needs_model = true,
      .any_ports = false,
      .global_param_kinds = {}};
  plugin.make = [](const RoleMaking& making) -> Result<RoleInstance> {
    Result<ModelConfig> config = ModelConfig::load(making.model_directory);
    if (!config.ok()) return config.error();
    Result<SafetensorsFile> file =
        SafetensorsFile::open(making.model_directory + "/model.safetensors");
    if (!file.ok()) return file.error();
    Result<Vision> vision = Vision::load(*config, *file);
    if (!vision.ok()) return vision.error();
    return RoleInstance(
        std::unique_ptr<Role>(std::make_unique<VisionEncoder>(std::move(vision).value())));
  };
  return plugin;
}

}  // namespace sluice
