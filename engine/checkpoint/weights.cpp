#include "engine/checkpoint/weights.h"

#include <cmath>
#include <cstring>
#include <functional>

namespace sluice {

/// Matrices of a random checkpoint keep the size of their inputs, norms are one.
Tensor WeightLoader::random_tensor(const std::string& name, std::size_t count, std::size_t in) {
  std::uint64_t state = file_.seed() + std::hash<std::string>()(name);
  const auto columns = static_cast<std::int64_t>(in);
  const auto rows = static_cast<std::int64_t>(count / in);
  Tensor made = std::move(Tensor::zeros(Dtype::bf16, {rows, columns})).value();
  const float scale = 3.4F / std::sqrt(static_cast<float>(in));
  for (std::uint16_t& value : made.bf16()) {
    state = state * 6364136223846793005ULL + 1442695040888963407ULL;
    value = bf16_from_f32(in == 1 ? 1.0F
                                  : (static_cast<float>(state >> 40) / 16777216.0F - 0.5F) * scale);
  }
  return made;
}

Tensor WeightLoader::tensor(const std::string& name, std::size_t count, std::size_t in) {
  if (error_.has_value()) return {};
  if (file_.is_random()) return random_tensor(name, count, in);
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
  const Tensor loaded = tensor(name, count, 1);
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

bool WeightLoader::in_place(const std::vector<std::string>& names,
                            const std::vector<std::size_t>& outs, std::size_t in,
                            kernels::Weight& weight) {
  if (format_ != kernels::WeightFormat::exact) return false;
  std::vector<kernels::BlockRows> parts;
  for (std::size_t i = 0; i < names.size(); ++i) {
    const TensorView* view = file_.find(names[i] + ".weight");
    if (view == nullptr || !view->in_place) return false;
    const std::vector<std::int64_t> wanted{static_cast<std::int64_t>(outs[i]),
                                           static_cast<std::int64_t>(in)};
    if (view->shape != wanted || (view->interleaved != 0 && outs[i] % view->interleaved != 0)) {
      std::string shape;
      for (const std::int64_t size : view->shape)
        shape += (shape.empty() ? "" : ", ") + std::to_string(size);
      error_ =
          Error{ErrorCode::corrupt, "tensor '" + names[i] + ".weight' is " + view->dtype + "[" +
                                        shape + "], the configuration needs " +
                                        std::to_string(outs[i]) + " rows of " + std::to_string(in)};
      return true;
    }
    parts.push_back({*kernels::block_type_named(view->dtype),
                     reinterpret_cast<const std::uint8_t*>(view->bytes.data()), outs[i], in,
                     view->interleaved, file_.owner()});
  }
  weight = kernels::Weight::of_blocks(std::move(parts));
  return true;
}

namespace {

/// Of layers as one: no tensor's name has a line end, for names are of the program.
std::string name_of(const std::vector<std::string>& names) {
  std::string joined;
  for (const std::string& name : names) joined += name + '\n';
  return joined;
}

}  // namespace

bool WeightLoader::is_shared(const std::vector<std::string>& names,
                             const std::vector<std::size_t>& outs, std::size_t in,
                             kernels::Weight& weight) const {
  if (arena_ == nullptr) return false;
  std::size_t rows = 0;
  for (const std::size_t out : outs) rows += out;
  std::optional<kernels::Weight> found = arena_->find(name_of(names), rows, in, format_);
  if (found.has_value()) weight = std::move(*found);
  return found.has_value();
}

kernels::Weight WeightLoader::kept(const std::vector<std::string>& names,
                                   kernels::Weight weight) const {
  if (arena_ == nullptr || arena_->is_sealed()) return weight;
  return arena_->keep(name_of(names), std::move(weight));
}

Linear WeightLoader::linear(const std::string& name, std::size_t out, std::size_t in, bool bias) {
  Linear made;
  if (error_.has_value()) return made;
  if (in_place({name}, {out}, in, made.weight) || is_shared({name}, {out}, in, made.weight)) {
    if (bias) made.bias = values(name + ".bias", out);
    return made;
  }
  const Tensor loaded = tensor(name + ".weight", out * in, in);
  if (loaded.empty()) return made;
  Result<kernels::Weight> weight = kernels::Weight::from(loaded, format_);
  if (!weight.ok() || weight->out() != out) {
    error_ = Error{ErrorCode::corrupt, "tensor '" + name + ".weight' is " + loaded.describe() +
                                           ", the configuration needs " + std::to_string(out) +
                                           " rows of " + std::to_string(in)};
    return made;
  }
  made.weight = kept({name}, std::move(weight).value());
  if (bias) made.bias = values(name + ".bias", out);
  return made;
}

Linear WeightLoader::stacked(const std::vector<std::string>& names,
                             const std::vector<std::size_t>& outs, std::size_t in, bool bias) {
  Linear made;
  if (error_.has_value()) return made;
  const auto add_bias = [&] {
    for (std::size_t i = 0; bias && i < names.size(); ++i) {
      const std::vector<float> part = values(names[i] + ".bias", outs[i]);
      made.bias.insert(made.bias.end(), part.begin(), part.end());
    }
    return std::move(made);
  };
  if (in_place(names, outs, in, made.weight) || is_shared(names, outs, in, made.weight))
    return add_bias();
  Tensor all;
  std::size_t rows = 0;
  for (const std::size_t out : outs) rows += out;
  std::size_t at = 0;
  for (std::size_t i = 0; i < names.size() && !error_.has_value(); ++i) {
    const Tensor part = tensor(names[i] + ".weight", outs[i] * in, in);
    if (part.empty()) break;
    if (at == 0) {
      Result<Tensor> made_all = Tensor::zeros(
          part.dtype(), {static_cast<std::int64_t>(rows), static_cast<std::int64_t>(in)});
      if (!made_all.ok()) error_ = made_all.error();
      if (made_all.ok()) all = std::move(made_all).value();
    }
    if (part.dtype() != all.dtype() || part.shape().size() < 2 ||
        static_cast<std::size_t>(part.dim(0)) != outs[i]) {
      error_ =
          Error{ErrorCode::corrupt, "tensor '" + names[i] + ".weight' is " + part.describe() +
                                        ", the configuration needs " + std::to_string(outs[i]) +
                                        " rows of " + std::to_string(in) + ", all of one type"};
      break;
    }
    std::memcpy(all.bytes().data() + at, part.bytes().data(), part.bytes_size());
    at += part.bytes_size();
  }
  if (error_.has_value()) return made;
  made.weight = kept(names, std::move(kernels::Weight::from(all, format_)).value());
  return add_bias();
}

Norm WeightLoader::norm(const std::string& name, std::size_t width, bool bias, bool plus_one) {
  Norm made;
  made.weight = values(name + ".weight", width);
  if (plus_one)
    for (float& value : made.weight) value += 1.0F;
  if (bias) made.bias = values(name + ".bias", width);
  return made;
}

}  // namespace sluice
