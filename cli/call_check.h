// Whether a call's inputs are such as its workflow's nodes can use, before anything runs: what no
// node reads would be lost, and where words are missing that a node needs it could only fail.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "cli/given_inputs.h"
#include "graph/plan.h"
#include "graph/spec.h"

namespace sluice::cli {

/// Where inputs are given, for words that say how.
enum class GivenBy : std::uint8_t { options, lines };

/// Thread: any; no state that changes. Requires: `model:`s are paths (`find_models`). What it is
/// made of outlives it.
class CallCheck {
 public:
  CallCheck(const WorkflowSpec& spec, const Plan& plan, GivenBy by)
      : spec_(spec), plan_(plan), by_(by) {}

  /// Errors: invalid_argument, with what is wrong, at which node, and how to give it.
  Result<void> check(const CallInputs& inputs) const;

 private:
  struct Reader {
    const PlanNode* node = nullptr;  // null: an output of the workflow
    const PlanGroup* group = nullptr;
    std::string_view field;  // of the group

    /// Without them the call fails.
    bool must_have_words(const CallCheck& check) const;
  };
  /// What takes a field of a node, or of the entry.
  std::vector<Reader> readers_of(const PlanNode& from, std::string_view field) const;
  Result<void> check_request(const Payload& request) const;
  Result<void> check_pictures(const std::vector<Reader>& readers, const std::string& name) const;
  Result<void> check_sight(const std::string& input) const;
  Result<void> check_text(const std::string& input, const Payload& text) const;
  const std::string& plugin_of(const PlanNode& node) const;
  std::string model_of(const PlanNode& node) const;

  const WorkflowSpec& spec_;
  const Plan& plan_;
  const GivenBy by_;
};

}  // namespace sluice::cli
