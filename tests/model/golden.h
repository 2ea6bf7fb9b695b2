// A golden checkpoint: what tests/golden/make.py (or openpi) made, and how far our outputs are
// from its.
#pragma once

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <map>
#include <string>

#include "engine/check/model_check.h"
#include "tests/directories.h"

namespace sluice::golden {

/// Relative L2 of a stage, for an f32 engine.
inline constexpr double limit = 2e-5;

class Case {
 public:
  explicit Case(const std::string& family)
      : directory_(std::string(SLUICE_SOURCE_DIR) + "/tests/golden/" + family),
        whole_(family == "pi05"),
        inputs_(open(whole_ ? "/model.safetensors" : "/inputs.safetensors")),
        expected_(open(whole_ ? "/model.safetensors" : "/expected.safetensors")) {}

  Architecture architecture() const {
    Result<Architecture> made = Architecture::load(directory_);
    INFO((made.ok() ? "" : made.error().message));
    REQUIRE(made.ok());
    return std::move(made).value();
  }
  const SafetensorsFile& inputs() const { return inputs_; }

  /// Runs an architecture on the checkpoint's weights.
  NamedTensors run(const Architecture& architecture, Dtype kv = Dtype::f32) const {
    Result<Model> model = Model::load(architecture, weights());
    INFO((model.ok() ? "" : model.error().message));
    REQUIRE(model.ok());
    Result<NamedTensors> outputs = run_model(*model, NamedInputs(inputs_), kv);
    INFO((outputs.ok() ? "" : outputs.error().message));
    REQUIRE(outputs.ok());
    return std::move(outputs).value();
  }

  /// Relative L2 of each stage that the reference has. Token ids: 0 when all are equal,
  /// else 1. A stage that is missing: infinite.
  std::map<std::string, double> errors(const NamedTensors& got) const {
    std::map<std::string, double> all;
    for (const auto& [key, view] : expected_.tensors()) {
      const bool is_output = !whole_ || key.starts_with("out.");
      const std::string name = whole_ && is_output ? key.substr(4) : key;
      if (!is_output || name == "prefix_pad" || name == "prefix_pos") continue;
      INFO(name);
      all[name] = HUGE_VAL;
      if (!got.contains(name)) continue;
      all[name] = view.dtype == "I64" ? integers_differ(key, got.find(name)->second)
                                      : distance(key, got.find(name)->second);
    }
    REQUIRE(!all.empty());
    return all;
  }
  double worst(const NamedTensors& got) const {
    double most = 0;
    for (const auto& [name, error] : errors(got))
      if (!std::isnan(error)) most = std::max(most, error);
    return most;
  }

 private:
  SafetensorsFile weights() const {
    Result<SafetensorsFile> file = open_weights(directory_);
    REQUIRE(file.ok());
    return std::move(file).value();
  }
  SafetensorsFile open(const std::string& name) const {
    Result<SafetensorsFile> file = SafetensorsFile::open(directory_ + name);
    INFO((file.ok() ? "" : file.error().message));
    REQUIRE(file.ok());
    return std::move(file).value();
  }
  /// The rows of openpi's prefix that hold nothing are whatever its padding gave.
  bool holds(const std::string& key, std::size_t i, std::size_t count) const {
    if (!whole_) return true;
    const std::vector<std::int32_t> pad =
        std::move(NamedInputs(expected_).integers("out.prefix_pad")).value();
    const bool by_row = key.starts_with("out.k") || key.starts_with("out.v")
                            ? !key.starts_with("out.velocity")
                            : key == "out.hidden" || key == "out.prefix_embs";
    return !by_row || pad[i / (count / pad.size())] != 0;
  }
  double distance(const std::string& key, const Tensor& got) const {
    const std::vector<float> want = std::move(NamedInputs(expected_).floats(key)).value();
    REQUIRE(got.f32().size() == want.size());
    double difference = 0;
    double size = 0;
    for (std::size_t i = 0; i < want.size(); ++i) {
      if (!holds(key, i, want.size())) continue;
      difference += std::pow(double{got.f32()[i]} - double{want[i]}, 2);
      size += std::pow(double{want[i]}, 2);
    }
    return std::sqrt(difference / size);
  }
  double integers_differ(const std::string& key, const Tensor& got) const {
    const TensorView* want = expected_.find(key);
    REQUIRE(got.bytes_size() == want->bytes.size());
    return std::equal(want->bytes.begin(), want->bytes.end(), got.bytes().begin()) ? 0 : 1;
  }

  std::string directory_;
  bool whole_;  // one file holds weights, inputs and outputs
  SafetensorsFile inputs_, expected_;
};

}  // namespace sluice::golden
