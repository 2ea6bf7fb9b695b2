#include "roles/diffusion_kv.h"

#include "roles/kv_pages.h"

namespace sluice {

namespace {

/// Drawings for which a role has pages that lists none.
constexpr std::size_t together_most = 8;

}  // namespace

/// `spec`: null where nobody says how many pages. `shared`: as of `GlobalParamMaking`.
Result<std::unique_ptr<DiffusionKv>> DiffusionKv::make_for(const std::string& directory,
                                                           const GlobalParamSpec* spec,
                                                           int shared) {
  const Result<Architecture> architecture = Architecture::load(directory);
  if (!architecture.ok()) return architecture.error();
  if (!architecture->diffusion.has_value())
    return invalid_argument(directory + ": there is no DiT in it");
  const DiffusionShape& shape = *architecture->diffusion;
  GlobalParamSpec own;
  const auto page_tokens = static_cast<std::size_t>(own.page_tokens);
  own.pages = static_cast<std::int64_t>(2 * together_most *
                                        ((shape.patches() + page_tokens - 1) / page_tokens));
  Result<std::unique_ptr<KvPool>> pool =
      shared >= 0 ? attach_pages(shape.trunk, *spec, shared)
                  : make_pages(shape.trunk, spec != nullptr ? *spec : own);
  if (!pool.ok()) return pool.error();
  auto made = std::make_unique<DiffusionKv>();
  made->directory_ = directory;
  made->pool_ = std::move(pool).value();
  return made;
}

Result<std::unique_ptr<GlobalParam>> DiffusionKv::make(const GlobalParamMaking& making) {
  Result<std::unique_ptr<DiffusionKv>> made =
      make_for(making.model_directory, making.spec, making.shared);
  if (!made.ok()) return made.error();
  return std::unique_ptr<GlobalParam>(std::move(made).value());
}

Result<std::unique_ptr<DiffusionKv>> DiffusionKv::alone(const std::string& directory) {
  return make_for(directory, nullptr, -1);
}

Result<DiffusionHost*> DiffusionKv::host(const std::string& directory,
                                         const EngineOptions& options) {
  const auto make = [&](Model model) -> Result<std::unique_ptr<DiffusionHost>> {
    return std::make_unique<DiffusionHost>(std::move(model), *pool_, options.planner);
  };
  return host_over(host_, *pool_, directory_, directory, {options.format, options.planner.budget},
                   make);
}

DiffusionKv* diffusion_kv_of(const RoleMaking& making) {
  for (GlobalParam* param : making.global_params)
    if (auto* found = dynamic_cast<DiffusionKv*>(param)) return found;
  return nullptr;
}

}  // namespace sluice
