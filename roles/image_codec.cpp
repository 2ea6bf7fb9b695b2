#include "roles/image_codec.h"

#include <algorithm>
#include <cmath>
#include <memory>

#include "engine/family/model.h"
#include "engine/picture/picture_input.h"
#include "roles/contents.h"

namespace sluice {

namespace {

std::int64_t wide(std::size_t value) { return static_cast<std::int64_t>(value); }

/// Values of -1 to 1, channel by channel, to bytes, channel last.
Result<Tensor> picture_of(const Plane& pixels, Activation& activation) {
  Result<Tensor> made =
      activation.make_output("image", Dtype::u8, {wide(pixels.height), wide(pixels.width), 3});
  if (!made.ok()) return made;
  const auto bytes = made->u8();
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    const float value = pixels.values[i % 3 * pixels.pixels() + i / 3] * 127.5F + 127.5F;
    bytes[i] = static_cast<std::uint8_t>(std::clamp(std::lround(value), 0L, 255L));
  }
  return made;
}

class ImageCodec final : public Role {
 public:
  ImageCodec(Model model, PictureSteps steps)
      : model_(std::move(model)), steps_(std::move(steps)) {}

  static Result<RoleInstance> make(const RoleMaking& making) {
    const std::string& directory = making.model_directory;
    const Result<Architecture> architecture = Architecture::load(directory);
    if (!architecture.ok()) return architecture.error();
    if (!architecture->vae.has_value() && !architecture->codec.has_value())
      return invalid_argument(directory + ": there is no codec of pictures in it");
    if (architecture->vae.has_value() && architecture->vae->out_channels != 3)
      return invalid_argument(directory + ": its pictures have " +
                              std::to_string(architecture->vae->out_channels) + " channels, not 3");
    Result<PictureSteps> steps = PictureSteps();
    if (architecture->codec.has_value()) steps = PictureSteps::load(directory, *architecture);
    if (!steps.ok()) return steps.error();
    Result<Model> model = Model::open(directory, kernels::WeightFormat::exact, ModelParts::codec);
    if (!model.ok()) return model.error();
    return RoleInstance(std::unique_ptr<Role>(
        std::make_unique<ImageCodec>(std::move(model).value(), std::move(steps).value())));
  }

  Result<void> run(Activation& activation) override {
    if (activation.interface() == "encode") return encode(activation);
    const Tensor& latents = activation.input("latents")->tensor;
    const Result<Plane> pixels =
        model_.architecture().vae.has_value() ? decode_planes(latents) : decode_tokens(latents);
    if (!pixels.ok()) return pixels.error();
    Result<Tensor> image = picture_of(*pixels, activation);
    if (!image.ok()) return image.error();
    activation.yield("image", make_image(std::move(image).value()));
    return {};
  }

 private:
  static constexpr std::int64_t side_most = 1024;

  Result<void> encode(Activation& activation) {
    if (!model_.architecture().codec.has_value())
      return invalid_argument("a codec of the family " +
                              std::string(to_string(model_.architecture().family)) +
                              " has no encoder");
    const Result<PictureInput> seen =
        prepare_picture(steps_, model_.architecture(), activation.input("image")->tensor);
    if (!seen.ok()) return seen.error();
    const ConvolutionCodecShape& shape = model_.codec().shape();
    if (seen->pixels.size() != 3 * shape.side * shape.side)
      return invalid_argument("the prepared picture has " + std::to_string(seen->pixels.size()) +
                              " values, this model's codec needs 3 x " +
                              std::to_string(shape.side) + " x " + std::to_string(shape.side));
    Result<Tensor> latents =
        activation.output_of_f32("latents", {wide(shape.tokens()), wide(shape.token_values())},
                                 model_.codec().encode(seen->pixels));
    if (!latents.ok()) return latents.error();
    activation.yield("latents", make_tensor(std::move(latents).value()));
    return {};
  }

  Result<Plane> decode_tokens(const Tensor& latents) const {
    const ConvolutionCodecShape& shape = model_.codec().shape();
    const std::int64_t values = wide(shape.tokens() * shape.token_values());
    if (latents.dtype() != Dtype::f32 || latents.count() != values)
      return invalid_argument("the latents are " + latents.describe() + ", this model needs " +
                              std::to_string(values) + " f32 values");
    return model_.codec().decode(latents.f32());
  }

  Result<Plane> decode_planes(const Tensor& latents) const {
    const VaeDecoder& vae = model_.vae();
    const std::int64_t channels = wide(vae.shape().latent_channels);
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
    return vae.decode(vae.unscaled(drawn));
  }

  Model model_;
  PictureSteps steps_;  // where it encodes
};

}  // namespace

Plugin image_codec_plugin() {
  Plugin plugin;
  plugin.declaration = {
      .name = "image_codec",
      .meaning = "pictures to latents and back",
      .interfaces = {{.name = "encode",
                      .inputs = {{.name = "image",
                                  .type = ValueType::image,
                                  .meaning = "the picture",
                                  .frames = PortFrames::one}},
                      .outputs = {{.name = "latents",
                                   .type = ValueType::tensor,
                                   .meaning = "its latent tokens",
                                   .content = contents::latents}},
                      .frames = {},
                      .yields_max = 1},
                     {.name = "decode",
                      .inputs = {{.name = "latents",
                                  .type = ValueType::tensor,
                                  .meaning = "latent tokens",
                                  .frames = PortFrames::one,
                                  .content = contents::latents}},
                      .outputs = {{"image", ValueType::image, "the picture they show", false}},
                      .frames = {},
                      .yields_max = 1}},
      .session_state = false,
      .needs_model = true,
      .any_ports = false,
      .global_param_kinds = {}};
  plugin.make = ImageCodec::make;
  return plugin;
}

}  // namespace sluice
