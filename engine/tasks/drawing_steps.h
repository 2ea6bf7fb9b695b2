// What one drawing computes: its latents become rows of the trunk, and what those became its next
// latents, a step at a time.
//
// With guidance each step asks twice, for what is wanted and without it, about the same rows.
// Shape: rows [count, width of the trunk], f32. Thread: one.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "engine/layers/decoder.h"

namespace sluice {

/// A step's rows, which see each other, and what the trunk's adaptive norms add to them.
struct DrawingRows {
  std::vector<float> rows;
  const Conditions* conditions = nullptr;     // null: the trunk's norms are not adaptive
  std::uint32_t condition = 0, unguided = 0;  // of what is wanted, and without it
};

class DrawingSteps {
 public:
  virtual ~DrawingSteps() = default;
  /// Steps to come.
  virtual std::size_t left() const = 0;
  virtual bool is_guided() const = 0;
  /// How many rows the latents are.
  virtual std::size_t rows() const = 0;
  /// What it borrows stays until `take`. Requires: a step is left.
  virtual void lay_out(DrawingRows& step) = 0;
  /// Of the step that was laid out. `without`: empty where it is not guided.
  virtual void take(std::span<const float> with, std::span<const float> without) = 0;
  /// Requires: no step is left.
  virtual std::vector<float> take_latents() = 0;
};

}  // namespace sluice
