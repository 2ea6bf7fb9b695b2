#include "roles/image_codec.h"

#include <algorithm>
#include <cmath>
#include <memory>

#include "engine/family/model.h"
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

/// A VAE by itself, which decodes only.
class VaeCodec final : public Role {
 public:
  explicit VaeCodec(Model model) : model_(std::move(model)) {}

  static Result<RoleInstance> make(const std::string& directory) {
    Result<Model> model = Model::open(directory);
    if (!model.ok()) return model.error();
    if (!model->architecture().vae.has_value())
      return invalid_argument(directory + ": there is no VAE in it");
    if (model->architecture().vae->out_channels != 3)
      return invalid_argument(directory + ": its pictures have " +
                              std::to_string(model->architecture().vae->out_channels) +
                              " channels, not 3");
    return RoleInstance(
        std::unique_ptr<Role>(std::make_unique<VaeCodec>(std::move(model).value())));
  }

  Result<void> run(Activation& activation) override {
    if (activation.interface() != "decode")
      return invalid_argument("a VAE of this family has no encoder");
    const VaeDecoder& vae = model_.vae();
    const Tensor& latents = activation.input("latents")->tensor;
    const auto channels = static_cast<std::int64_t>(vae.shape().latent_channels);
    if (latents.dtype() != Dtype::f32 || latents.shape().size() != 3 ||
        latents.dim(0) != channels || latents.dim(1) < 1 || latents.dim(2) < 1 ||
        latents.dim(1) > side_most || latents.dim(2) > side_most)
      return invalid_argument("the latents are " + latents.describe() + ", this model needs f32[" +
                              std::to_string(channels) + ", height, width] of at most " +
                              std::to_string(side_most));
    const Plane drawn{{latents.f32().begin(), latents.f32().end()},
                      vae.shape().latent_channels,
                      static_cast<std::size_t>(latents.dim(1)),
                      static_cast<std::size_t>(latents.dim(2))};
    Result<Tensor> image = picture_of(vae.decode(vae.unscaled(drawn)));
    if (!image.ok()) return image.error();
    activation.yield("image", make_image(std::move(image).value()));
    return {};
  }

 private:
  static constexpr std::int64_t side_most = 1024;

  /// Values of -1 to 1, channel by channel, to bytes, channel last.
  static Result<Tensor> picture_of(const Plane& pixels) {
    Result<Tensor> made = Tensor::zeros(Dtype::u8, {static_cast<std::int64_t>(pixels.height),
                                                    static_cast<std::int64_t>(pixels.width), 3});
    if (!made.ok()) return made;
    const std::size_t plane = pixels.height * pixels.width;
    const auto bytes = made->u8();
    for (std::size_t i = 0; i < bytes.size(); ++i) {
      const float value = pixels.values[i % 3 * plane + i / 3] / 2 + 0.5F;
      bytes[i] = static_cast<std::uint8_t>(std::lround(std::clamp(value, 0.0F, 1.0F) * 255));
    }
    return made;
  }

  Model model_;
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
    if (!ModelConfig::load(making.model_directory).ok())
      return VaeCodec::make(making.model_directory);
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
