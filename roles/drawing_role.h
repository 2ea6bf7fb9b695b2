// What roles that draw have in common: activations become drawings of the engine that they share.
//
// Errors: cancelled, between two steps; those of a painter and of the engine.
// Thread: as every role; the engine's turn is taken in `step` only.
#pragma once

#include <memory>
#include <vector>

#include "engine/tasks/drawing.h"
#include "engine/tasks/shared_engine.h"
#include "roles/engine_options.h"
#include "roles/role.h"

namespace sluice {

/// What differs between them.
class Painter {
 public:
  virtual ~Painter() = default;
  virtual SharedEngine& engine() = 0;
  /// What an activation asks for. Called in a turn of the engine.
  virtual Result<std::unique_ptr<Drawing>> begin(const Activation& activation,
                                                 const DrawingOptions& options) = 0;
  /// Of the latents that are yielded.
  virtual std::vector<std::int64_t> shape() const = 0;
};

/// Yields `latents`. `options`: whose priority and deadline the drawings have.
std::unique_ptr<SteppedRole> make_drawing_role(std::unique_ptr<Painter> painter,
                                               const EngineOptions& options);

}  // namespace sluice
