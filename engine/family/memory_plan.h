// What a model takes of the machine's memory, before anything is allocated.
//
// Bytes. `machine` is all the memory there is, or the limit of the cgroup that this process is in:
// a plan that does not fit it is refused, for an allocation that fails later would end the program.
#pragma once

#include <cstddef>
#include <string>

#include "engine/family/architecture.h"

namespace sluice {

struct MemoryPlan {
  double weights = 0, kv = 0, machine = 0;  // no weights: of keys and values alone
  std::size_t kv_tokens = 0;

  bool fits() const { return weights + kv <= 0.95 * machine; }
  /// "weights 14 GB, KV 57 MB for 4096 tokens; the machine has 25 GB"
  std::string text() const;
  /// Errors: exhausted, with the numbers.
  Result<void> check() const;
};

/// Of keys and values, for one token.
double kv_bytes(const DecoderShape& shape, Dtype dtype = Dtype::f32);
/// Of matrices: what a forward of one token multiplies by, and an embedding of its own.
double parameter_count(const BlockShape& layer);
double parameter_count(const DecoderShape& shape);
double parameter_count(const Architecture& architecture);
std::string megabytes(double bytes);
double machine_bytes();

/// Of random weights: by the parts' shapes.
MemoryPlan plan_memory(const SafetensorsFile& file, const Architecture& architecture,
                       std::size_t tokens, kernels::WeightFormat format,
                       Dtype kv = Dtype::f32);

}  // namespace sluice
