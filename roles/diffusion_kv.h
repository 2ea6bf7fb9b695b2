// The `paged_kv` of a DiT: its checkpoint and engine, and the pages in which each step of a drawing
// has its keys and values.
//
// Shared by the roles that list it, whose drawings advance together, as far as they are in one
// process. No session keeps anything in it. Thread: take a turn of the engine around every use.
#pragma once

#include <memory>
#include <string>

#include "engine/family/model.h"
#include "engine/tasks/shared_engine.h"
#include "roles/catalog.h"
#include "roles/engine_options.h"

namespace sluice {

/// The checkpoint and its engine: one for all roles and replicas over the same pages.
struct DiffusionHost {
  DiffusionHost(Model loaded, KvPool& pool, const PlannerOptions& options)
      : model(std::move(loaded)),
        step_rows(options.budget),
        text(model.diffusion().trunk(), pool),
        shared(text, options) {}
  DiffusionHost(const DiffusionHost&) = delete;
  DiffusionHost& operator=(const DiffusionHost&) = delete;

  Model model;
  std::uint32_t step_rows;
  CpuText text;
  SharedEngine shared;
};

class DiffusionKv final : public GlobalParam {
 public:
  static Result<std::unique_ptr<GlobalParam>> make(const GlobalParamMaking& making);
  /// Of a role that lists none: pages for eight guided drawings; more wait for their turn.
  static Result<std::unique_ptr<DiffusionKv>> alone(const std::string& directory);

  void end_session(std::string_view) override {}

  /// Loads the checkpoint for the first role that asks. Errors: invalid_argument (another directory
  /// than the pages are for, other options than the first role's); those of loading.
  Result<DiffusionHost*> host(const std::string& directory, const EngineOptions& options);

 private:
  static Result<std::unique_ptr<DiffusionKv>> make_for(const std::string& directory,
                                                       const GlobalParamSpec* spec, int shared);

  std::string directory_;
  std::unique_ptr<KvPool> pool_;
  std::unique_ptr<DiffusionHost> host_;
};

/// The one that the role lists; null: none.
DiffusionKv* diffusion_kv_of(const RoleMaking& making);

}  // namespace sluice
