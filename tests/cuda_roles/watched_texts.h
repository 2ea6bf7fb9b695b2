// The GPU, with what roles ask of it counted.
#pragma once

#include <algorithm>
#include <catch2/catch.hpp>
#include <iostream>
#include <memory>
#include <utility>
#include <vector>

#include "engine/device/device_text.h"

namespace sluice {

/// What engines on it have done since somebody looked.
struct Asked {
  std::size_t rows = 0;            // of prompts
  std::size_t logits = 0;          // rows whose token the host chose
  std::vector<std::size_t> steps;  // how many sequences were in each
};

class WatchedText final : public TextEngine {
 public:
  WatchedText(std::unique_ptr<TextEngine> text, Asked& asked)
      : text_(std::move(text)), asked_(asked) {}

  const DecoderShape& shape() const override { return text_->shape(); }
  KvPages& pages() override { return text_->pages(); }
  PageCopies* copies() override { return text_->copies(); }
  void embed(std::span<const std::int32_t> tokens, std::vector<float>& rows) const override {
    text_->embed(tokens, rows);
  }
  Result<void> forward(std::span<const Chunk> chunks, std::vector<float>& hidden) override {
    for (const Chunk& chunk : chunks) asked_.rows += chunk.embeddings.size() / shape().block.width;
    return text_->forward(chunks, hidden);
  }
  Result<void> logits(std::span<const float> hidden, std::vector<float>& logits) override {
    asked_.logits += hidden.size() / shape().block.width;
    return text_->logits(hidden, logits);
  }
  bool steps(const kernels::SampleOptions& options) const override { return text_->steps(options); }
  Result<void> step(std::span<const DecodeStep> steps, std::vector<std::int32_t>& next) override {
    asked_.steps.push_back(steps.size());
    return text_->step(steps, next);
  }

 private:
  std::unique_ptr<TextEngine> text_;
  Asked& asked_;
};

class WatchedTexts final : public TextDevice {
 public:
  Result<void> find() const override { return cuda_texts().find(); }
  Result<std::unique_ptr<TextEngine>> load(const Architecture& architecture,
                                           const SafetensorsFile& file,
                                           kernels::WeightFormat format,
                                           const Pages& pages) const override {
    formats.push_back(format);
    auto made = cuda_texts().load(architecture, file, format, pages);
    if (!made.ok()) return made;
    return std::unique_ptr<TextEngine>(
        std::make_unique<WatchedText>(std::move(made).value(), asked));
  }
  Asked take() const { return std::exchange(asked, {}); }

  mutable Asked asked;
  mutable std::vector<kernels::WeightFormat> formats;  // that were loaded
};

/// False, and says so: a build for a GPU on a machine that has none.
inline bool cuda_is_there() {
  static const Result<void> found = cuda_texts().find();
  if (!found.ok()) std::cout << "no device: skipped (" << found.error().message << ")\n";
  return found.ok();
}

}  // namespace sluice
