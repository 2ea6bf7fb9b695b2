#include "roles/kv_pages.h"

#include "engine/family/memory_plan.h"

namespace sluice {

namespace {

/// Tokens for which there is room when the workflow does not say how many pages.
constexpr std::size_t default_tokens = 16384;

}  // namespace

Result<std::unique_ptr<KvPool>> make_pages(const DecoderShape& shape, const GlobalParamSpec& spec) {
  const auto page_tokens = static_cast<std::size_t>(spec.page_tokens);
  const std::size_t pages =
      spec.pages > 0 ? static_cast<std::size_t>(spec.pages) : default_tokens / page_tokens + 1;
  const MemoryPlan plan{0, kv_bytes(shape) * static_cast<double>(pages * page_tokens),
                        machine_bytes(), pages * page_tokens};
  if (Result<void> fits = plan.check(); !fits.ok()) return fits.error();
  return std::make_unique<KvPool>(
      KvShape{shape.layers, shape.block.kv_heads * shape.block.head_dim, page_tokens}, pages);
}

}  // namespace sluice
