// A language model on a GPU, as a generator drives it.
//
// The embedding also stays on the host, where prompts are put together with pictures; steps of one
// token use the device's. Errors: as `DeviceDecoder`. Thread: one caller at a time.
// Source: omni-flow, section 5.1 (the embedding layer is kept on the CPU).
#pragma once

#include <memory>

#include "engine/device/device_decoder.h"
#include "engine/device/device_pages.h"
#include "engine/family/architecture.h"
#include "engine/tasks/text_device.h"

namespace sluice {

class DeviceText final : public TextEngine {
 public:
  static Result<std::unique_ptr<DeviceText>> load(const Architecture& architecture,
                                                  const SafetensorsFile& file,
                                                  DeviceDecoder::Precision precision,
                                                  const TextDevice::Pages& pages);

  const DecoderShape& shape() const override { return decoder_->shape(); }
  void embed(std::span<const std::int32_t> tokens, std::vector<float>& rows) const override;
  Result<void> forward(std::span<const Chunk> chunks, std::vector<float>& hidden) override;
  Result<void> logits(std::span<const float> hidden, std::vector<float>& logits) override;
  bool steps(const kernels::SampleOptions& options) const override { return options.bias.empty(); }
  Result<void> step(std::span<const DecodeStep> steps, std::vector<std::int32_t>& next) override;

  KvPages& pages() override { return kv_.pages; }
  PageCopies* copies() override { return copies_.get(); }

 private:
  DeviceText(std::unique_ptr<DeviceDecoder> decoder, DeviceKv kv,
             std::unique_ptr<DevicePages> copies, kernels::Weight embedding)
      : decoder_(std::move(decoder)),
        kv_(std::move(kv)),
        copies_(std::move(copies)),
        embedding_(std::move(embedding)) {}

  std::unique_ptr<DeviceDecoder> decoder_;
  DeviceKv kv_;
  std::unique_ptr<DevicePages> copies_;  // of those
  kernels::Weight embedding_;
};

/// The first GPU, for roles.
const TextDevice& cuda_texts();

}  // namespace sluice
