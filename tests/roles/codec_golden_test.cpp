// The codec and the tokenizer against values that the training code wrote.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <filesystem>

#include "engine/family/architecture.h"
#include "engine/picture/picture_input.h"
#include "engine/text/tokenizer.h"
#include "tests/directories.h"

namespace sluice {
namespace {

const std::string model = std::string(SLUICE_SOURCE_DIR) + "/models/scenes";
const std::string golden = std::string(SLUICE_SOURCE_DIR) + "/tests/data/scenes_golden.safetensors";

double relative_error(std::span<const float> ours, std::span<const float> truth) {
  double wrong = 0;
  double whole = 0;
  REQUIRE(ours.size() == truth.size());
  for (std::size_t i = 0; i < ours.size(); ++i) {
    wrong += std::pow(double{ours[i]} - double{truth[i]}, 2);
    whole += std::pow(double{truth[i]}, 2);
  }
  return std::sqrt(wrong / whole);
}

TEST_CASE("the codec gives the latents and pixels that the training code gives") {
  const SafetensorsFile truth = SafetensorsFile::open(golden).value();
  const Architecture architecture = Architecture::load(model).value();
  const ConvolutionCodecShape& shape = *architecture.codec;
  const SafetensorsFile weights = SafetensorsFile::open(model + "/model.safetensors").value();
  const ConvolutionCodec codec = ConvolutionCodec::load(shape, weights).value();
  const PictureSteps steps = PictureSteps::load(model, architecture).value();
  const PictureInput picture =
      prepare_picture(steps, architecture, truth.load("vision.in").value()).value();
  const Tensor expected = truth.load("codec.latents").value();
  const double encoded = relative_error(codec.encode(picture.pixels), expected.f32());
  const std::vector<float> pixels = codec.decode(expected.f32()).values;
  const double decoded = relative_error(pixels, truth.load("codec.out")->f32());
  const std::vector<float> shown = codec.decode(truth.load("draw.latents")->f32()).values;
  const double drawn = relative_error(shown, truth.load("draw.image")->f32());
  INFO("relative error: encode " << encoded << ", decode " << decoded << ", drawing " << drawn);
  CHECK(encoded <= 2e-5);
  CHECK(decoded <= 2e-5);
  CHECK(drawn <= 2e-5);

  // The same check sees planted mistakes: a convolution's stride, a lost activation, a lost
  // normalisation of the latents.
  ConvolutionCodecShape mute = shape;
  std::erase_if(mute.decoder,
                [](const CodecLayer& layer) { return layer.kind == CodecLayer::Kind::silu; });
  const ConvolutionCodec mutant = ConvolutionCodec::load(mute, weights).value();
  CHECK(relative_error(mutant.decode(expected.f32()).values, truth.load("codec.out")->f32()) >
        2e-4);
  Tensor swapped = expected;
  std::swap_ranges(swapped.f32().begin(), swapped.f32().begin() + shape.channels,
                   swapped.f32().begin() + shape.channels);
  CHECK(relative_error(codec.decode(swapped.f32()).values, truth.load("codec.out")->f32()) > 2e-4);
}

TEST_CASE("the tokenizer gives the ids that the training code gives") {
  const Tokenizer tokenizer = std::move(Tokenizer::load(model + "/tokenizer.json")).value();
  const Tensor ids = SafetensorsFile::open(golden)->load("words.ids").value();
  const std::vector<std::int32_t> expected(ids.i32().begin(), ids.i32().end());
  CHECK(tokenizer.encode("what color is the zebra") == expected);
  CHECK(tokenizer.decode(expected) == "what color is the <unk>");
  CHECK(tokenizer.word(0) == "<pad>");
  CHECK(tokenizer.word(7) == "<draw>");
}

}  // namespace
}  // namespace sluice
