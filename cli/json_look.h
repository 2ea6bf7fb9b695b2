// Looks at JSON of others while it is parsed, for what the parser itself would take: a key that
// stands twice in one object, and more depth than is taken apart without fear for the stack.
//
// Thread: one.
// Bounds: `json_depth_max` levels, `json_keys_max` keys of an object.
#pragma once

#include <cstddef>
#include <nlohmann/json.hpp>
#include <string>
#include <unordered_set>
#include <utility>
#include <vector>

namespace sluice::cli {

inline constexpr int json_depth_max = 64;
/// In order, each is looked for among those before.
inline constexpr std::size_t json_keys_max = 20'000;

/// A callback of the parser.
class JsonLook {
 public:
  /// `around`: levels that a value stands in and that do not count.
  explicit JsonLook(int around = 0) : around_(around) {}

  /// False: this part is left out of what is parsed.
  bool operator()(int depth, nlohmann::ordered_json::parse_event_t event,
                  const nlohmann::ordered_json& part) {
    const bool opens = event == nlohmann::ordered_json::parse_event_t::object_start ||
                       event == nlohmann::ordered_json::parse_event_t::array_start;
    if (opens && depth >= around_ + json_depth_max)
      return says("it nests deeper than " + std::to_string(json_depth_max));
    const auto at = static_cast<std::size_t>(depth);
    if (event == nlohmann::ordered_json::parse_event_t::object_start) {
      if (names_.size() < at + 2) names_.resize(at + 2);
      names_[at + 1].clear();
    }
    if (event != nlohmann::ordered_json::parse_event_t::key) return true;
    const std::string& name = part.get_ref<const std::string&>();
    if (!names_[at].insert(name).second)
      return says("the key '" + name.substr(0, 40) + "' stands twice in one object");
    if (names_[at].size() > json_keys_max)
      return says("one object has more than " + std::to_string(json_keys_max) + " keys");
    return true;
  }
  const std::string& problem() const { return problem_; }

 private:
  bool says(std::string problem) {
    if (problem_.empty()) problem_ = std::move(problem);
    return false;
  }

  const int around_;
  std::vector<std::unordered_set<std::string>> names_;  // of the objects around, by depth
  std::string problem_;
};

}  // namespace sluice::cli
