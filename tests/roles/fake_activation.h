// An activation without a runtime: inputs that a test gives, frames that it keeps.
#pragma once

#include <algorithm>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "roles/role.h"

namespace sluice {

class FakeActivation final : public Activation {
 public:
  explicit FakeActivation(std::string interface = "run", std::string session = "session")
      : interface_(std::move(interface)), session_(std::move(session)) {}

  void give(const std::string& field, PayloadRef value) {
    inputs_[field].push_back(std::move(value));
  }

  std::string_view node() const override { return "node"; }
  std::string_view interface() const override { return interface_; }
  std::string_view session() const override { return session_; }
  std::uint64_t call() const override { return call_number; }
  std::size_t group() const override { return 0; }
  std::span<const PayloadRef> inputs(std::string_view field) const override {
    const auto it = inputs_.find(std::string(field));
    return it == inputs_.end() ? std::span<const PayloadRef>() : std::span(it->second);
  }
  using Activation::yield;
  void yield(std::span<const FieldValue> fields) override {
    for (const FieldValue& field : fields) frames.emplace_back(field.field, field.value);
  }
  /// Holds something at first, as a role may not rely on zeros.
  Result<Tensor> make_output(std::string_view field, Dtype dtype,
                             std::vector<std::int64_t> shape) override {
    Result<Tensor> made = Tensor::zeros(dtype, std::move(shape));
    if (!made.ok()) return made;
    std::ranges::fill(made->bytes(), std::byte{0xa5});
    outputs[std::string(field)].push_back(made->buffer().get());
    return made;
  }
  void warn(std::string warning) override { warnings.push_back(std::move(warning)); }
  bool cancelled() const override { return is_cancelled; }

  bool is_cancelled = false;
  std::uint64_t call_number = 1;
  std::vector<std::pair<std::string, PayloadRef>> frames;
  std::vector<std::string> warnings;
  std::map<std::string, std::vector<const Buffer*>> outputs;  // that were asked for, by field

 private:
  std::string interface_, session_;
  std::map<std::string, std::vector<PayloadRef>> inputs_;
};

}  // namespace sluice
