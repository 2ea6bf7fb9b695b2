#include "roles/image_codec.h"

#include <memory>

#include "engine/picture/image_resize.h"
#include "engine/scenes/codec.h"

namespace sluice {

namespace {

class ImageCodec final : public Role {
 public:
  ImageCodec(Codec codec, std::int64_t latent_values)
      : codec_(std::move(codec)), latent_values_(latent_values) {}

  Result<void> run(Activation& activation) override {
    if (activation.interface() == "encode") {
      Result<Tensor> square =
          resize_to_square(activation.input("image")->tensor, codec_.image_size());
      if (!square.ok()) return square.error();
      activation.yield("latents", make_tensor(codec_.encode(*square)));
      return {};
    }
    const Tensor& latents = activation.input("latents")->tensor;
    if (latents.dtype() != Dtype::f32 || latents.count() != latent_values_)
      return invalid_argument("the latents are " + latents.describe() + ", this model needs " +
                              std::to_string(latent_values_) + " f32 values");
    activation.yield("image", make_image(codec_.decode(latents)));
    return {};
  }

 private:
  Codec codec_;
  std::int64_t latent_values_;
};

}  // namespace

Plugin image_codec_plugin() {
  Plugin plugin;
  plugin.declaration = {
      .name = "image_codec",
      .meaning = "pictures to latents and back",
      .interfaces = {{.name = "encode",
                      .inputs = {{"image", ValueType::image, "the picture", false}},
                      .outputs = {{"latents", ValueType::tensor, "its latent tokens", false}},
                      .frames = {},
                      .yields_max = 1},
                     {.name = "decode",
                      .inputs = {{"latents", ValueType::tensor, "latent tokens", false}},
                      .outputs = {{"image", ValueType::image, "the picture they show", false}},
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
    Result<Codec> codec = Codec::load(*config, *file);
    if (!codec.ok()) return codec.error();
    const auto values =
        static_cast<std::int64_t>(config->denoiser.tokens * config->denoiser.token_dim);
    return RoleInstance(
        std::unique_ptr<Role>(std::make_unique<ImageCodec>(std::move(codec).value(), values)));
  };
  return plugin;
}

}  // namespace sluice
