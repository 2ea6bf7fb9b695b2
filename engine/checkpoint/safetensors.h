// Reads a safetensors file without copying it: names, dtypes, shapes and bytes of each tensor.
//
// Nothing in the file is trusted: header length, offsets, overlaps, shapes and sizes are checked
// before a tensor can be asked for. Thread: immutable after `open`. Owns: the mapping.
// Errors: not_found (no such file), corrupt (what is wrong and where), exhausted (header too long).
#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/tensor.h"

namespace sluice {

struct TensorView {
  std::string name;
  std::string dtype;  // as written: "F32", "BF16", "U8", ...; of a GGUF file also "Q4_1", ...
  std::vector<std::int64_t> shape;
  std::span<const std::byte> bytes;
  bool in_place = false;        // a matrix is multiplied where it lies (kernels/quant.h)
  std::size_t interleaved = 0;  // as `kernels::BlockRows`
};

class SafetensorsFile {
 public:
  static constexpr std::size_t header_bytes_max = std::size_t{100} << 20;

  static Result<SafetensorsFile> open(const std::string& path);
  /// All shards that a `model.safetensors.index.json` names, as one file. A shard is a plain file
  /// name beside the index, and must hold the tensors that the index says it holds.
  static Result<SafetensorsFile> open_index(const std::string& path);
  /// The same checks over bytes in memory, which must outlive the result.
  static Result<SafetensorsFile> parse(std::span<const std::byte> file, const std::string& name);

  /// Tensors that another kind of file holds, in the same words; `owner` keeps their bytes.
  static SafetensorsFile of(std::vector<TensorView> tensors, std::shared_ptr<const void> owner);

  /// For benchmarks: a checkpoint that has whatever is asked for, with random weights. `find` knows
  /// no tensor of it; `WeightLoader` makes them.
  static SafetensorsFile random(std::uint64_t seed);
  bool is_random() const { return random_; }
  std::uint64_t seed() const { return seed_; }

  const TensorView* find(std::string_view name) const;
  const std::map<std::string, TensorView, std::less<>>& tensors() const { return tensors_; }

  /// Of one mapping; what keeps the bytes of all views.
  std::shared_ptr<const void> owner() const {
    return mappings_.empty() ? nullptr : mappings_.front();
  }

  /// A copy as f32 (F16 and blocks are widened), bf16, u8, i32 or i64. Errors: not_found,
  /// invalid_argument (another dtype).
  Result<Tensor> load(std::string_view name) const;

 private:
  std::vector<std::shared_ptr<const void>> mappings_;
  std::map<std::string, TensorView, std::less<>> tensors_;
  bool random_ = false;
  std::uint64_t seed_ = 0;
};

}  // namespace sluice
