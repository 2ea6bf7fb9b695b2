#include "roles/model/memory_plan.h"

#include <unistd.h>

#include <cstdio>

namespace sluice {

std::string megabytes(double bytes) {
  char text[64];
  std::snprintf(text, sizeof text, bytes < 1e7 ? "%.2f MB" : "%.0f MB", bytes / 1e6);
  return text;
}

double kv_bytes(const DecoderShape& shape) {
  return static_cast<double>(shape.layers * 2 * shape.block.kv_heads * shape.block.head_dim * 4);
}

double machine_bytes() {
  return static_cast<double>(::sysconf(_SC_PHYS_PAGES)) *
         static_cast<double>(::sysconf(_SC_PAGESIZE));
}

std::string MemoryPlan::text() const {
  return "weights " + megabytes(weights) + ", KV " + megabytes(kv) + " for " +
         std::to_string(kv_tokens) + " tokens; the machine has " + megabytes(machine);
}

Result<void> MemoryPlan::check() const {
  if (fits()) return {};
  return Error{ErrorCode::exhausted, "the model does not fit: " + text() +
                                         "; nothing was loaded. Take a narrower precision, or "
                                         "fewer pages for keys and values"};
}

MemoryPlan plan_memory(const SafetensorsFile& file, const Architecture& architecture,
                       std::size_t tokens, kernels::WeightFormat format) {
  MemoryPlan plan;
  for (const auto& [name, view] : file.tensors()) {
    double count = 1;
    for (const std::int64_t size : view.shape) count *= static_cast<double>(size);
    // What is kept: an exact bf16 matrix stays as it is and is widened for wide products.
    const double exact = view.dtype == "BF16" ? 6.0 : 4.0;
    plan.weights += count * (view.shape.size() < 2                    ? 4.0
                             : format == kernels::WeightFormat::exact ? exact
                             : format == kernels::WeightFormat::bf16  ? 2.0
                                                                      : 1.0);
  }
  if (architecture.text.has_value())
    plan.kv = kv_bytes(*architecture.text) * static_cast<double>(tokens);
  plan.kv_tokens = tokens;
  plan.machine = machine_bytes();
  return plan;
}

}  // namespace sluice
