// A decoder together with the pages it writes, wherever both are: what a generator drives.
//
// Shape: rows and hidden [tokens, width], logits [rows, vocabulary], f32 on the host.
// Thread: one caller at a time. Errors: as `Decoder`; a device's failures.
#pragma once

#include <span>
#include <vector>

#include "engine/layers/decoder.h"
#include "engine/layers/page_copies.h"
#include "kernels/sample.h"

namespace sluice {

/// A sequence that advances by one token, and how the next one is chosen.
struct DecodeStep {
  KvSequence* sequence = nullptr;
  std::int32_t token = 0;
  Position position;
  kernels::SampleOptions sampling;
  std::span<const std::int32_t> history = {};  // for the penalty
  float uniform = 0;
};

class TextEngine {
 public:
  virtual ~TextEngine() = default;
  virtual const DecoderShape& shape() const = 0;
  /// Whose pages they are; where their bytes lie is another's matter.
  virtual KvPages& pages() = 0;
  /// Between these pages and the host's memory; null: they are there already.
  virtual PageCopies* copies() { return nullptr; }
  virtual void embed(std::span<const std::int32_t> tokens, std::vector<float>& rows) const = 0;
  virtual Result<void> forward(std::span<const Chunk> chunks, std::vector<float>& hidden) = 0;
  virtual Result<void> logits(std::span<const float> hidden, std::vector<float>& logits) = 0;

  /// Through weights other than the trunk's, of the same KV shape, over its pages: an action
  /// expert's. Hidden has its width. Errors: invalid_argument where the engine runs none.
  virtual Result<void> forward_expert(const Decoder&, std::span<const Chunk>, std::vector<float>&) {
    return Error{ErrorCode::invalid_argument, "this engine runs no action expert"};
  }
  /// What an expert that attends across reads of all tokens of a sequence.
  virtual Result<CrossKeys> cross_keys(const Decoder&, const KvSequence&) {
    return Error{ErrorCode::invalid_argument, "this engine runs no action expert"};
  }

  /// Whether `step` does what the others do, faster: a device, on which tokens are chosen too.
  virtual bool steps(const kernels::SampleOptions&) const { return false; }
  virtual Result<void> step(std::span<const DecodeStep>, std::vector<std::int32_t>&) {
    return Error{ErrorCode::invalid_argument, "this engine does not choose tokens"};
  }
};

/// The CPU's. Borrows both.
class CpuText final : public TextEngine {
 public:
  CpuText(const Decoder& decoder, KvPool& pool) : decoder_(decoder), pool_(pool) {}

  const DecoderShape& shape() const override { return decoder_.shape(); }
  KvPages& pages() override { return pool_; }
  void embed(std::span<const std::int32_t> tokens, std::vector<float>& rows) const override {
    decoder_.embed(tokens, rows);
  }
  Result<void> forward(std::span<const Chunk> chunks, std::vector<float>& hidden) override {
    return decoder_.forward(pool_, chunks, hidden);
  }
  Result<void> forward_expert(const Decoder& expert, std::span<const Chunk> chunks,
                              std::vector<float>& hidden) override {
    return expert.forward(pool_, chunks, hidden);
  }
  Result<CrossKeys> cross_keys(const Decoder& expert, const KvSequence& sequence) override {
    return expert.cross_keys(pool_, sequence, sequence.tokens());
  }
  Result<void> logits(std::span<const float> hidden, std::vector<float>& logits) override {
    decoder_.logits(hidden, logits);
    return {};
  }

 private:
  const Decoder& decoder_;
  KvPool& pool_;
};

}  // namespace sluice
