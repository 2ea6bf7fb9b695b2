// Whatever wants forwards of a model: an answer, a drawing, a robot's actions, a picture's rows.
//
// A task is a state machine that owns its sequences. It is asked what its next work is (`need`),
// lays it out when it may run, and takes what came of it; a `ModelEngine` runs the works of all
// its tasks together. Thread: one at a time. Units: rows (tokens), pages. Source: omni-flow,
// section 5.2.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "engine/family/picture_forward.h"
#include "engine/plan/planner.h"
#include "engine/tasks/text_engine.h"

namespace sluice {

/// When the first `part` of so many equal parts of the time from `began` to the deadline ends.
inline Nanoseconds deadline_of_part(Nanoseconds began, Nanoseconds deadline, std::size_t part,
                                    std::size_t parts) {
  if (deadline == no_deadline) return no_deadline;
  return began +
         (deadline - began) / static_cast<Nanoseconds>(parts) * static_cast<Nanoseconds>(part);
}

/// What one task puts into one forward.
struct Work {
  std::vector<Chunk> chunks;          // what they borrow stays until `take` or `fail`
  const Decoder* expert = nullptr;    // through whose weights; null: the trunk's
  bool wants_logits = false;          // of its last row; of the trunk only
  bool is_scratch = false;            // its sequences end as they were before
  std::optional<DecodeStep> step;     // the same work, for an engine that chooses tokens itself
  PictureForward* picture = nullptr;  // instead of chunks: so many pieces of it
  std::size_t pieces = 0;

  void clear() {
    chunks.clear();
    expert = nullptr;
    wants_logits = false;
    is_scratch = false;
    step.reset();
    picture = nullptr;
    pieces = 0;
  }
};

/// What came of it: `token` where the engine chose it, else rows, and logits if they were wanted.
struct StepResult {
  std::span<const float> hidden;  // [rows of all chunks, width of its weights], normed
  std::span<const float> logits;  // [vocabulary]
  std::int32_t token = -1;
};

/// What it begins with, for who may have its pages elsewhere. Of the task, while it does not run.
struct Beginning {
  const RowsOrigin* origin = nullptr;
  std::span<const std::int32_t> tokens;
};

class Task {
 public:
  virtual ~Task() = default;
  /// None: nobody has its pages, or it has begun.
  virtual std::optional<Beginning> beginning() const { return std::nullopt; }
  /// The pages of so many tokens came for it, `of_folder` of them from a disk.
  virtual void found(std::size_t tokens, std::size_t of_folder) {
    static_cast<void>(tokens);
    static_cast<void>(of_folder);
  }
  virtual bool done() const = 0;
  /// What it takes until its end, beyond what it has now.
  virtual PagesWanted pages_wanted(TextEngine& engine) const = 0;
  /// It gets so many; with fewer than the most it ends earlier.
  virtual void grant(TextEngine&, std::size_t) {}
  /// Of those, how many it holds.
  virtual std::size_t pages_taken() const = 0;
  /// Requires: it is not done.
  virtual Need need(const TextEngine& engine) const = 0;
  /// `rows` as in its need, or fewer where that can be divided. `work` is empty.
  virtual void lay_out(const TextEngine& engine, std::size_t rows, Work& work) = 0;
  /// Of the work that was laid out last. The sequences have grown by its rows.
  virtual void take(TextEngine& engine, const StepResult& result) = 0;
  /// It is done, without what it was for: a forward that failed, pages that there never will be.
  virtual void fail(const Error& error) = 0;
};

}  // namespace sluice
