#include "engine/device/device_text.h"

#include <algorithm>

#include "engine/family/model.h"

namespace sluice {

namespace {

class CudaTexts final : public TextDevice {
 public:
  Result<void> find() const override {
    const Result<device::About> about = device::find_device();
    return about.ok() ? Result<void>() : about.error();
  }
  Result<std::unique_ptr<TextEngine>> load(const Architecture& architecture,
                                           const SafetensorsFile& file,
                                           kernels::WeightFormat format,
                                           const Pages& pages) const override {
    if (format == kernels::WeightFormat::int8)
      return invalid_argument("a GPU runs the precisions exact and bf16, not int8");
    const bool narrow = format == kernels::WeightFormat::bf16;
    auto made = DeviceText::load(
        architecture, file,
        narrow ? DeviceDecoder::Precision::bf16 : DeviceDecoder::Precision::exact, pages);
    if (!made.ok()) return made.error();
    return std::unique_ptr<TextEngine>(std::move(made).value());
  }
};

}  // namespace

const TextDevice& cuda_texts() {
  static const CudaTexts texts;
  return texts;
}

Result<std::unique_ptr<DeviceText>> DeviceText::load(const Architecture& architecture,
                                                     const SafetensorsFile& file,
                                                     DeviceDecoder::Precision precision,
                                                     const TextDevice::Pages& pages) {
  if (!architecture.text.has_value()) return invalid_argument("the model has no decoder");
  DecoderShape shape = *architecture.text;
  const DecoderNames names = find_decoder(file, shape);
  auto decoder = DeviceDecoder::load(shape, names, file, precision);
  if (!decoder.ok()) return decoder.error();
  Result<DeviceKv> kv = (*decoder)->make_kv(pages.tokens, pages.count, pages.secret);
  if (!kv.ok()) return kv.error();
  auto copies = DevicePages::make((*decoder)->stream(), kv->store.as<std::byte>(),
                                  kv->pages.shape().page_bytes());
  if (!copies.ok()) return copies.error();
  const bool narrow = precision == DeviceDecoder::Precision::bf16;
  WeightLoader loader(file, narrow ? kernels::WeightFormat::bf16 : kernels::WeightFormat::exact);
  Linear embedding = load_embedding(loader, file, names, shape);
  if (Result<void> loaded = loader.outcome(); !loaded.ok()) return loaded.error();
  return std::unique_ptr<DeviceText>(
      new DeviceText(std::move(decoder).value(), std::move(kv).value(), std::move(copies).value(),
                     std::move(embedding.weight)));
}

void DeviceText::embed(std::span<const std::int32_t> tokens, std::vector<float>& rows) const {
  append_embedded(embedding_, shape().embedding_scale, tokens, rows);
}

Result<void> DeviceText::forward(std::span<const Chunk> chunks, std::vector<float>& hidden) {
  return decoder_->forward(kv_, chunks, hidden);
}

Result<void> DeviceText::logits(std::span<const float> hidden, std::vector<float>& logits) {
  return decoder_->logits(hidden, logits);
}

Result<void> DeviceText::step(std::span<const DecodeStep> steps, std::vector<std::int32_t>& next) {
  std::vector<DecodeStep> once(steps.begin(), steps.end());
  std::vector<std::vector<std::int32_t>> distinct(steps.size());
  for (std::size_t i = 0; i < steps.size(); ++i) {
    if (steps[i].sampling.repetition_penalty != 1) {
      distinct[i].assign(steps[i].history.begin(), steps[i].history.end());
      std::ranges::sort(distinct[i]);
      const auto rest = std::ranges::unique(distinct[i]);
      distinct[i].erase(rest.begin(), rest.end());
    }
    once[i].history = distinct[i];
  }
  return decoder_->step(kv_, once, next);
}

}  // namespace sluice
