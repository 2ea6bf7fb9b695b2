#include "roles/model/weights.h"

namespace sluice {

Tensor WeightLoader::tensor(const std::string& name, std::size_t count) {
  if (error_.has_value()) return {};
  Result<Tensor> loaded = file_.load(name);
  if (!loaded.ok()) {
    error_ = loaded.error();
    return {};
  }
  if (static_cast<std::size_t>(loaded->count()) != count ||
      (loaded->dtype() != Dtype::f32 && loaded->dtype() != Dtype::bf16)) {
    error_ = Error{ErrorCode::corrupt, "tensor '" + name + "' is " + loaded->describe() +
                                           ", the configuration needs " + std::to_string(count) +
                                           " f32 or bf16 values"};
    return {};
  }
  return std::move(loaded).value();
}

std::vector<float> WeightLoader::values(const std::string& name, std::size_t count) {
  const Tensor loaded = tensor(name, count);
  std::vector<float> values;
  if (loaded.empty()) return values;
  if (loaded.dtype() == Dtype::f32) {
    values.assign(loaded.f32().begin(), loaded.f32().end());
  } else {
    values.reserve(count);
    for (const std::uint16_t bits : loaded.bf16()) values.push_back(f32_from_bf16(bits));
  }
  return values;
}

Linear WeightLoader::linear(const std::string& name, std::size_t out, std::size_t in, bool bias) {
  Linear made;
  const Tensor loaded = tensor(name + ".weight", out * in);
  if (loaded.empty()) return made;
  Result<kernels::Weight> weight = kernels::Weight::from(loaded);
  if (!weight.ok() || weight->out() != out) {
    error_ = Error{ErrorCode::corrupt, "tensor '" + name + ".weight' is " + loaded.describe() +
                                           ", the configuration needs " + std::to_string(out) +
                                           " rows of " + std::to_string(in)};
    return made;
  }
  made.weight = std::move(weight).value();
  if (bias) made.bias = values(name + ".bias", out);
  return made;
}

Norm WeightLoader::norm(const std::string& name, std::size_t width, bool bias) {
  Norm made;
  made.weight = values(name + ".weight", width);
  if (bias) made.bias = values(name + ".bias", width);
  return made;
}

}  // namespace sluice
