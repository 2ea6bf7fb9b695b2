#include <catch2/catch.hpp>
#include <cmath>
#include <cstring>

#include "base/random.h"
#include "engine/layers/convolution_codec.h"

namespace sluice {
namespace {

/// A checkpoint in memory: random values under the names that a codec asks for.
class Checkpoint {
 public:
  void add(const std::string& name, const std::vector<std::int64_t>& shape,
           const std::vector<float>& values) {
    std::string sizes;
    for (const std::int64_t size : shape)
      sizes += (sizes.empty() ? "" : ",") + std::to_string(size);
    const std::size_t begin = data_.size();
    data_.append(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float));
    header_ += (header_.empty() ? "" : ",") + ("\"" + name) + R"(":{"dtype":"F32","shape":[)" +
               sizes + R"(],"data_offsets":[)" + std::to_string(begin) + "," +
               std::to_string(data_.size()) + "]}";
  }
  void add_random(const std::string& name, const std::vector<std::int64_t>& shape, float scale) {
    std::size_t count = 1;
    for (const std::int64_t size : shape) count *= static_cast<std::size_t>(size);
    std::vector<float> values(count);
    for (float& v : values) v = scale * static_cast<float>(random_.normal());
    add(name, shape, values);
  }
  const SafetensorsFile& file() {
    const std::string header = "{" + header_ + "}";
    const std::uint64_t length = header.size();
    bytes_.assign(sizeof length, '\0');
    std::memcpy(bytes_.data(), &length, sizeof length);
    bytes_ += header + data_;
    file_ = SafetensorsFile::parse(std::as_bytes(std::span(bytes_)), "test").value();
    return file_;
  }

 private:
  std::string header_, data_, bytes_;
  SplitMix64 random_{5};
  SafetensorsFile file_;
};

CodecLayer conv(const std::string& name, std::size_t in, std::size_t out, std::size_t stride = 1) {
  CodecLayer layer;
  layer.kind = CodecLayer::Kind::conv;
  layer.name = name;
  layer.in = in;
  layer.out = out;
  layer.stride = stride;
  return layer;
}

CodecLayer of(CodecLayer::Kind kind, std::vector<CodecLayer> body = {}) {
  CodecLayer layer;
  layer.kind = kind;
  layer.body = std::move(body);
  return layer;
}

/// 8 x 8 pixels, 4 x 4 latents of 2 channels, 4 tokens of 8 values.
ConvolutionCodecShape small_shape() {
  constexpr auto silu = CodecLayer::Kind::silu;
  constexpr auto residual = CodecLayer::Kind::residual;
  constexpr auto upsample2x = CodecLayer::Kind::upsample2x;
  ConvolutionCodecShape shape;
  shape.side = 8;
  shape.channels = 2;
  shape.latent = 4;
  shape.patch = 2;
  shape.encoder = {conv("0", 3, 4, 2), of(residual, {of(silu), conv("1", 4, 4)}), conv("2", 4, 2)};
  shape.decoder = {conv("0", 2, 4), of(upsample2x), of(silu), conv("1", 4, 3)};
  return shape;
}

void fill(Checkpoint& checkpoint, float scale = 0.3F) {
  const auto add = [&](const std::string& name, std::int64_t out, std::int64_t in) {
    checkpoint.add_random(name + ".weight", {out, in, 3, 3}, scale);
    checkpoint.add_random(name + ".bias", {out}, scale);
  };
  add("codec.encoder.0", 4, 3), add("codec.encoder.1", 4, 4), add("codec.encoder.2", 2, 4);
  add("codec.decoder.0", 4, 2), add("codec.decoder.1", 3, 4);
  checkpoint.add("codec.latent_mean", {2}, {0.5F, -1});
  checkpoint.add("codec.latent_std", {2}, {2, 0.5F});
}

std::vector<float> noise_picture() {
  std::vector<float> pixels(192);
  SplitMix64 random(2);
  for (float& value : pixels) value = static_cast<float>(random.next() % 256) / 127.5F - 1.0F;
  return pixels;
}

/// The same encoder written out longhand: [2, 4, 4], before mean and deviation.
std::vector<double> encode_longhand(const SafetensorsFile& file, const std::vector<float>& pixels) {
  const auto apply = [&](const std::string& name, std::size_t in, std::size_t out, std::size_t side,
                         std::size_t stride, const std::vector<double>& x) {
    const Tensor w = file.load("codec.encoder." + name + ".weight").value();
    const Tensor b = file.load("codec.encoder." + name + ".bias").value();
    const std::size_t small = side / stride;
    std::vector<double> y;
    for (std::size_t o = 0; o < out; ++o)
      for (std::size_t row = 0; row < small; ++row)
        for (std::size_t column = 0; column < small; ++column) {
          double sum = b.f32()[o];
          for (std::size_t i = 0; i < in; ++i)
            for (std::size_t u = 0; u < 3; ++u)
              for (std::size_t v = 0; v < 3; ++v) {
                const std::size_t r = row * stride + u;  // one more than the row, for the padding
                const std::size_t c = column * stride + v;
                if (r < 1 || c < 1 || r > side || c > side) continue;
                sum += double{w.f32()[((o * in + i) * 3 + u) * 3 + v]} *
                       x[(i * side + r - 1) * side + c - 1];
              }
          y.push_back(sum);
        }
    return y;
  };
  std::vector<double> x(pixels.begin(), pixels.end());
  x = apply("0", 3, 4, 8, 2, x);
  std::vector<double> inner = x;
  for (double& v : inner) v = v / (1 + std::exp(-v));
  inner = apply("1", 4, 4, 4, 1, inner);
  for (std::size_t i = 0; i < x.size(); ++i) x[i] += inner[i];
  return apply("2", 4, 2, 4, 1, x);
}

TEST_CASE("the codec runs the layers that its configuration lists and groups latents 2 x 2") {
  Checkpoint checkpoint;
  fill(checkpoint);
  const SafetensorsFile& file = checkpoint.file();
  const Result<ConvolutionCodec> codec = ConvolutionCodec::load(small_shape(), file);
  REQUIRE(codec.ok());
  const std::vector<float> tokens = codec->encode(noise_picture());
  REQUIRE(tokens.size() == 4 * 8);
  const std::vector<double> truth = encode_longhand(file, noise_picture());
  const std::vector<double> mean{0.5, -1}, deviation{2, 0.5};
  for (std::size_t c = 0; c < 2; ++c)
    for (std::size_t row = 0; row < 4; ++row)
      for (std::size_t column = 0; column < 4; ++column) {
        const std::size_t token = row / 2 * 2 + column / 2;
        const std::size_t within = (row % 2 * 2 + column % 2) * 2 + c;
        CHECK(tokens[token * 8 + within] ==
              Approx((truth[(c * 4 + row) * 4 + column] - mean[c]) / deviation[c]).margin(1e-5));
      }
}

TEST_CASE("decoding gives planes of the picture's size") {
  Checkpoint checkpoint;
  fill(checkpoint);
  const Result<ConvolutionCodec> codec = ConvolutionCodec::load(small_shape(), checkpoint.file());
  REQUIRE(codec.ok());
  const Plane picture = codec->decode(codec->encode(noise_picture()));
  CHECK(picture.channels == 3);
  CHECK(picture.height == 8);
  CHECK(picture.width == 8);
  CHECK(picture.values.size() == 192);
}

TEST_CASE("a configuration whose layers do not fit each other is refused before it runs") {
  Checkpoint checkpoint;
  fill(checkpoint);
  const SafetensorsFile& file = checkpoint.file();
  ConvolutionCodecShape twice = small_shape();
  twice.encoder.insert(twice.encoder.begin() + 1, of(CodecLayer::Kind::upsample2x));
  CHECK_FALSE(ConvolutionCodec::load(twice, file).ok());
  ConvolutionCodecShape gap = small_shape();
  gap.decoder.erase(gap.decoder.begin());
  CHECK_FALSE(ConvolutionCodec::load(gap, file).ok());
  ConvolutionCodecShape wide = small_shape();
  wide.encoder[1].body.push_back(of(CodecLayer::Kind::upsample2x));
  const Result<ConvolutionCodec> refused = ConvolutionCodec::load(wide, file);
  REQUIRE_FALSE(refused.ok());
  CHECK_THAT(refused.error().message, Catch::Contains("residual"));
}

}  // namespace
}  // namespace sluice
