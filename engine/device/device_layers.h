// A decoder's layers on the device, and the rows that go through them.
//
// A caller places rows (their pages, positions and what they see), brings them to `hidden`, runs
// the layers over them, and takes them through the last norm. All that differs between two forwards
// of one size is data on the device: work that was recorded serves them all, until `moves` changes.
// Shape: hidden [rows, width], f32; T is float or Bf16. Errors: exhausted (pages, positions, the
// device's memory); then no sequence has changed. Thread: as `DeviceWork`.
// Source: omni-flow, sections 5.2 and 5.3.
#pragma once

#include <span>
#include <vector>

#include "engine/device/device_decoder.h"
#include "engine/device/device_tables.h"
#include "engine/device/device_work.h"

namespace sluice {

/// New tokens of one sequence: as `Chunk`, but for their rows.
struct DeviceChunk {
  KvSequence* sequence = nullptr;
  std::size_t count = 0;
  Mask mask = Mask::causal;
  std::span<const std::uint32_t> visible{};
  std::span<const Position> positions{};
  std::uint32_t condition = 0;
};

enum class Until : std::uint8_t {
  keys,  // the last layer ends when its keys and values are written
  rows,
};

/// What rows need on their way through the layers.
struct DeviceRows {
  device::Memory hidden, normed, qkv, q, mixed, branch, inner, activated;
  DeviceTable cosine, sine, sequence, place, visible, condition;  // where each row stands
  DeviceTable cross_cosine, cross_sine, before;  // the same for layers that look across
  device::Memory gathered, projected;            // of a sequence's tokens, for the same
  device::Memory modulation;  // of adaptive norms: layer by layer, then the last norm's
  DeviceTable runs, pages;
  device::Memory scratch;
};

template <typename T>
class DeviceLayers {
 public:
  /// Borrows `work`.
  DeviceLayers(const DecoderShape& shape, DeviceWork& work) : shape_(shape), work_(work) {}
  /// Layer by layer: the host never holds the whole model. `normed`: has a last norm.
  void load(const DecoderNames& names, WeightLoader& load, Uploader& up, bool normed = true);

  const DecoderShape& shape() const { return shape_; }
  /// `layers`: how many have keys of their own; 0: all. With one, each overwrites the last one's,
  /// which does where nobody attends to them afterwards.
  Result<DeviceKv> make_kv(std::size_t page_tokens, std::size_t pages, std::size_t layers = 0,
                           const PageKeys::Secret& secret = {}) const;

  Result<void> place(DeviceKv& kv, std::span<const DeviceChunk> chunks);
  std::size_t rows() const { return rows_; }
  /// Of the rows that were placed last.
  float* hidden() const { return b_.hidden.as<float>(); }
  /// What adaptive norms add, for the conditions that chunks name. Requires: `place` before.
  Result<void> bring(const Conditions& conditions);
  /// Keys and values that cross layers read of what stood in the sequences before they were placed.
  Result<void> look_across(DeviceKv& kv, std::span<const DeviceChunk> chunks);

  /// `condition`: of each row, instead of the chunks'; null: theirs.
  Result<void> run(DeviceKv& kv, Until until, const std::uint32_t* condition = nullptr);
  /// The last norm of the rows.
  device::Norm last_norm(const std::uint32_t* condition = nullptr) const;
  /// To [rows, width], which may be `hidden`.
  template <typename U>
  void norm(U* to, const std::uint32_t* condition = nullptr) {
    device::norm_rows(last_norm(condition), rows_, shape_.block.width, to, work_.stream());
  }

  /// Grows when something has another address or size: recordings are void then.
  std::size_t moves() const { return moves_ + tables_.moves(); }

 private:
  struct Staging;

  const BlockShape& block() const { return shape_.block; }
  Result<void> extend(DeviceKv& kv, std::span<const DeviceChunk> chunks) const;
  void copy_pages(DeviceKv& kv, std::span<const CopyPage> copies) const;
  void stage(std::span<const DeviceChunk> chunks, Staging& staging);
  Result<void> make_room();
  Result<void> upload(const Staging& staging);
  device::Places places(bool across) const;
  device::Pages<T> pages(const DeviceKv& kv, bool across) const;
  device::Modulated modulated(std::size_t layer, std::size_t norm,
                              const std::uint32_t* condition) const;
  device::Norm norm_of(const DeviceNorm& norm, float eps, const device::Modulated& modulated) const;
  void attend(DeviceKv& kv, std::size_t layer, const float* bias, bool mixes);
  Result<const float*> multiply_normed(const DeviceLinear& linear, const device::Norm& norm,
                                       const device::Memory& to);
  Result<void> project_up(const DeviceBlock& weights, const device::Norm& norm);
  Result<void> add(const DeviceLinear& linear, const device::Memory& x, const device::Memory& scale,
                   const device::Modulated& modulated);
  Result<void> run_layer(DeviceKv& kv, std::size_t layer, Until until,
                         const std::uint32_t* condition);

  DecoderShape shape_;
  DeviceWork& work_;
  std::vector<DeviceBlock> blocks_;
  DeviceNorm norm_;
  DeviceRows b_;
  DeviceTables tables_;                                 // of the rows
  std::size_t rows_ = 0, runs_ = 0, run_rows_max_ = 0;  // that are placed
  std::size_t pages_max_ = 1;                           // of a sequence; only grows
  std::size_t conditions_ = 0;
  device::Branch<T> waiting_;  // not yet added to the hidden rows
  std::size_t moves_ = 0;
};

}  // namespace sluice
