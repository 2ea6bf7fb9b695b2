// A decoder on a GPU: the same ragged forward as `Decoder`, and steps that stay on the device.
//
// Weights, pages and rows live there; the host keeps who has which page. A step of one token per
// sequence (embedding, layers, logits, choice) is recorded for each number of sequences and then
// launched as one; lengths and page tables are data, so a recording serves any. Shape: as
// `Decoder`. Errors: unavailable (no device), exhausted (its memory, pages, positions; then no
// sequence has changed), invalid_argument. Thread: one caller at a time.
// Source: omni-flow, section 5.3.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "engine/tasks/text_engine.h"
#include "kernels/cuda/kernels.h"

namespace sluice {

/// Keys and values on the device.
struct DeviceKv {
  KvPages pages;
  device::Memory store;
  device::Memory across;   // of an expert that looks across: the same pages, projected once more
  std::size_t number = 0;  // another for each that is made
};

class DeviceDecoder {
 public:
  enum class Precision : std::uint8_t {
    exact,  // f32 throughout, for comparison
    bf16,   // weights, keys, values and what goes into products; hidden rows and sums f32
  };
  static Result<std::unique_ptr<DeviceDecoder>> load(const DecoderShape& shape,
                                                     const DecoderNames& names,
                                                     const SafetensorsFile& file,
                                                     Precision precision);
  virtual ~DeviceDecoder() = default;

  virtual const DecoderShape& shape() const = 0;
  /// `secret`: of the pages' keys.
  virtual Result<DeviceKv> make_kv(std::size_t page_tokens, std::size_t pages,
                                   const PageKeys::Secret& secret = {}) const = 0;
  /// In which its work is done.
  virtual device::Stream stream() const = 0;
  /// As `Decoder::forward`: appends each chunk and leaves the normed hidden rows on the host.
  virtual Result<void> forward(DeviceKv& kv, std::span<const Chunk> chunks,
                               std::vector<float>& hidden,
                               const Conditions* conditions = nullptr) = 0;
  /// Logits [rows, vocabulary] of hidden rows, both on the host. Requires: a vocabulary, as `step`.
  virtual Result<void> logits(std::span<const float> hidden, std::vector<float>& logits) = 0;
  /// Appends each token and chooses the one after it. Histories hold each token once.
  virtual Result<void> step(DeviceKv& kv, std::span<const DecodeStep> steps,
                            std::vector<std::int32_t>& next) = 0;
};

}  // namespace sluice
