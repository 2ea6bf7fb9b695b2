// Tensors by name: what `sluice model check` reads and writes.
//
// Thread: none of it is shared. Errors: invalid_argument (which tensor, what it must be).
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "engine/checkpoint/safetensors.h"

namespace sluice {

using NamedTensors = std::map<std::string, Tensor, std::less<>>;

/// Tensors that a model is fed, by name, or by the name behind "in.".
class NamedInputs {
 public:
  explicit NamedInputs(const SafetensorsFile& file) : file_(file) {}

  bool has(std::string_view name) const { return view(name) != nullptr; }
  std::vector<std::int64_t> shape(std::string_view name) const;
  /// F32, BF16 or F16, widened.
  Result<std::vector<float>> floats(std::string_view name) const;
  /// I64, I32, U8 or BOOL. Values fit 32 bits.
  Result<std::vector<std::int32_t>> integers(std::string_view name) const;
  /// Names that nobody has asked for so far. Not those of other stages, `out.logits`, which stand
  /// in one file with inputs.
  std::vector<std::string> unread() const;

 private:
  const TensorView* view(std::string_view name) const;
  const SafetensorsFile& file_;
  mutable std::set<std::string, std::less<>> read_;
};

void put_floats(NamedTensors& to, const std::string& name, std::vector<std::int64_t> shape,
                std::vector<float> values);
void put_integers(NamedTensors& to, const std::string& name, std::vector<std::int64_t> shape,
                  const std::vector<std::int32_t>& values);

/// Errors: unavailable (the file cannot be written).
Result<void> save_safetensors(const std::string& path, const NamedTensors& tensors);

}  // namespace sluice
