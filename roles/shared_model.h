// The checkpoint and the engine that the roles over one `paged_kv` share, whatever it holds.
#pragma once

#include "engine/family/model.h"
#include "engine/tasks/shared_engine.h"
#include "roles/catalog.h"
#include "roles/engine_options.h"

namespace sluice {

struct SharedModel {
  const Model* model = nullptr;
  SharedEngine* engine = nullptr;
};

/// Of the role's `paged_kv`, which loads it for the first role that asks. Errors: invalid_argument
/// (none is listed; other options than the first role's), and those of loading.
Result<SharedModel> shared_model_of(const RoleMaking& making, const EngineOptions& options);

}  // namespace sluice
