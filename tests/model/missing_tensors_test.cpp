// Each tensor of each family's checkpoint, left out or of another shape: what is needed is named,
// and what is not needed is known.
#include <catch2/catch.hpp>

#include "engine/family/model.h"
#include "engine/policy/flow_policy.h"
#include "tests/directories.h"
#include "tests/journal.h"
#include "tests/outcomes.h"

namespace sluice {
namespace {

std::string load(const Architecture& architecture, const SafetensorsFile& file,
                 std::vector<TensorView> views) {
  const Result<Model> model =
      Model::load(architecture, SafetensorsFile::of(std::move(views), file.owner()));
  if (!model.ok()) return model.error().message;
  if (!architecture.action.has_value()) return "loads";
  const Result<FlowPolicy> policy = FlowPolicy::load(*model);
  if (!policy.ok()) return policy.error().message;
  if (!policy->shape().expert.block.adaptive) return "loads";
  const auto table = policy->head().conditions({1, 1.0F});  // reads its weights when it is asked
  return table.ok() ? "loads" : "no table: " + table.error().message;
}

}  // namespace

TEST_CASE("each tensor that a checkpoint lacks is named, and those that are not needed are known") {
  test::Outcomes outcomes("missing_tensors");
  for (const std::string family :
       {"tests/golden/llama", "tests/golden/llama3", "tests/golden/gemma", "tests/golden/qwen2",
        "tests/golden/smollm3", "tests/golden/siglip", "tests/golden/dinov2",
        "tests/golden/paligemma", "tests/golden/qwen2_5_vl", "tests/golden/smolvlm",
        "tests/golden/openvla", "tests/golden/pi0", "tests/golden/pi05", "tests/golden/smolvla",
        "tests/golden/dit", "tests/golden/vae", "models/scenes"}) {
    INFO(family);
    const std::string path = std::string(SLUICE_SOURCE_DIR) + "/" + family;
    const Architecture architecture = Architecture::load(path).value();
    const SafetensorsFile file = open_weights(path).value();
    std::vector<TensorView> all;
    for (const auto& [name, view] : file.tensors())
      if (!name.starts_with("in.") && !name.starts_with("out.")) all.push_back(view);
    std::vector<std::string> journal{load(architecture, file, all)};
    std::string unneeded = "not needed:";
    for (std::size_t at = 0; at < all.size(); ++at) {
      // Of a large one its layers' tensors are those of the small ones.
      if (family == "models/scenes" && all[at].name.find(".layers.") != std::string::npos) continue;
      std::vector<TensorView> fewer = all;
      fewer.erase(fewer.begin() + static_cast<std::ptrdiff_t>(at));
      journal.push_back(all[at].name + ": " + load(architecture, file, fewer));
      if (journal.back().ends_with("loads")) unneeded += ' ' + all[at].name;
      std::vector<TensorView> other = all;
      other[at].shape = {1};
      other[at].bytes = all[at].bytes.first(all[at].dtype == "F32" ? 4 : 2);
      journal.push_back(all[at].name + " of one value: " + load(architecture, file, other));
    }
    outcomes.add(family, test::digest_of(journal));
    outcomes.add(family, unneeded);
  }
  outcomes.require_as_kept();
}

}  // namespace sluice
