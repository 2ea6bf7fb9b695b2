// The plugin of bench_plugin_hop.
#include <algorithm>
#include <cstdint>
#include <sluice/role.hpp>
#include <string_view>
#include <vector>

using namespace sluice::plugin;

namespace {

constexpr std::int64_t floats = 1 << 18;  // 1 MiB

class Pass final : public Role {
 public:
  Status run(Activation activation) override {
    const auto value = activation.input("v");
    const std::string_view what = activation.interface();
    const auto of = static_cast<float>(value->number());
    const std::int64_t shape[]{floats};
    if (what == "fill") {
      const Filled<float> filled = activation.make<float>(Type::tensor, shape);
      std::ranges::fill(filled.elements, of);
      activation.yield("t", filled.value);
    } else if (what == "fill_own") {
      own_.assign(floats, of);
      activation.yield("t", Output::tensor<float>(shape, own_));
    } else {
      activation.yield("v", *value);
    }
    return {};
  }

 private:
  std::vector<float> own_;
};

}  // namespace

SLUICE_ROLE(Pass)
