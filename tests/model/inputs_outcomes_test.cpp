// A check's inputs, each left out, cut, of another shape, type or value: what every family says of
// it, and the names and shapes of what it makes.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cstdio>
#include <cstring>
#include <limits>
#include <string>

#include "engine/check/model_check.h"
#include "tests/directories.h"
#include "tests/outcomes.h"

namespace sluice {
namespace {

const std::string golden = std::string(SLUICE_SOURCE_DIR) + "/tests/golden/";

NamedTensors inputs_of(const std::string& family) {
  const bool whole = family == "pi05";  // one file holds weights, inputs and outputs
  const auto file = SafetensorsFile::open(golden + family +
                                          (whole ? "/model.safetensors" : "/inputs.safetensors"));
  REQUIRE(file.ok());
  NamedTensors inputs;
  for (const auto& [name, view] : file->tensors()) {
    if (whole && !name.starts_with("in.")) continue;
    const NamedInputs all(*file);
    const std::string key = whole ? name.substr(3) : name;
    if (view.dtype == "BOOL" || view.dtype == "I64" || view.dtype == "I32" || view.dtype == "U8")
      put_integers(inputs, key, view.shape, std::move(all.integers(key)).value());
    else
      put_floats(inputs, key, view.shape, std::move(all.floats(key)).value());
  }
  return inputs;
}

std::string run(const Model& model, const NamedTensors& inputs) {
  const std::string path = std::tmpnam(nullptr);
  REQUIRE(save_safetensors(path, inputs).ok());
  const Result<SafetensorsFile> file = SafetensorsFile::open(path);
  std::remove(path.c_str());
  if (!file.ok()) return "not written";
  const Result<NamedTensors> outputs = run_model(model, NamedInputs(*file));
  if (!outputs.ok()) return outputs.error().message;
  std::string words;
  for (const auto& [name, tensor] : *outputs)
    words += (words.empty() ? "" : ", ") + name + " " + tensor.describe();
  return words;
}

/// All values of a tensor as that one.
Tensor filled(const Tensor& like, std::int64_t value) {
  Tensor made = Tensor::zeros(like.dtype(), like.shape()).value();
  if (made.dtype() == Dtype::f32)
    for (float& one : made.f32()) one = static_cast<float>(value);
  else
    for (std::size_t i = 0; i + sizeof value <= made.bytes_size(); i += sizeof value)
      std::memcpy(made.bytes().data() + i, &value, sizeof value);
  return made;
}

/// The first values of a tensor in another shape; zeros behind them.
Tensor shaped(const Tensor& like, std::vector<std::int64_t> shape) {
  Tensor made = Tensor::zeros(like.dtype(), std::move(shape)).value();
  const std::size_t bytes = std::min(made.bytes_size(), like.bytes_size());
  if (bytes != 0) std::memcpy(made.bytes().data(), like.bytes().data(), bytes);
  return made;
}

Tensor of_other_type(const Tensor& like) {
  return Tensor::zeros(like.dtype() == Dtype::f32 ? Dtype::i64 : Dtype::f32, like.shape()).value();
}

}  // namespace

TEST_CASE("each input of a check that is changed is refused or run, as before") {
  test::Outcomes outcomes("check_inputs");
  for (const char* family : {"llama", "gemma", "siglip", "dinov2", "paligemma", "qwen2_5_vl",
                             "smolvlm", "pi05", "pi0", "openvla", "smolvla", "dit", "vae"}) {
    const Result<Model> model = Model::open(golden + family);
    INFO(family << (model.ok() ? "" : model.error().message));
    REQUIRE(model.ok());
    const NamedTensors sound = inputs_of(family);
    const std::string whole = run(*model, sound);
    outcomes.add(family, whole);
    const auto add = [&](const std::string& what, const NamedTensors& inputs) {
      const std::string made = run(*model, inputs);
      outcomes.add(family, what + ": " + (made == whole ? "the same" : made));
    };
    for (const auto& [name, tensor] : sound) {
      NamedTensors some = sound;
      some.erase(name);
      add("without " + name, some);
      const auto with = [&](const char* what, const Tensor& other) {
        some.insert_or_assign(name, other);
        add(name + " " + what, some);
      };
      std::vector<std::int64_t> shape = tensor.shape();
      with("in one row", shaped(tensor, {tensor.count()}));
      with("with one more", shaped(tensor, {tensor.count() + 1}));
      with("in one more dimension", shaped(tensor, [&] {
             auto longer = shape;
             longer.insert(longer.begin(), 1);
             return longer;
           }()));
      if (!shape.empty() && shape.back() > 0) {
        --shape.back();
        with("with its last row less", shaped(tensor, shape));
      }
      with("of another type", of_other_type(tensor));
      with("of zeros", filled(tensor, 0));
      with("below zero", filled(tensor, -1));
      if (tensor.dtype() != Dtype::f32) with("too large", filled(tensor, 1 << 20));
    }
  }
  outcomes.require_as_kept();
}

}  // namespace sluice
