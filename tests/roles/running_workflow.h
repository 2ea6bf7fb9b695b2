// A shipped workflow, running over the checkpoints that it names.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/payload.h"

namespace sluice {

class TextDevice;

using Inputs = std::vector<std::pair<std::string, PayloadRef>>;
using Outputs = std::map<std::string, std::vector<PayloadRef>>;

class RunningWorkflow {
 public:
  /// `name`: of a file under workflows/; each change replaces a text in it, wherever it stands.
  /// `cuda`: as `add_builtin_plugins`.
  explicit RunningWorkflow(const std::string& name,
                           const std::vector<std::pair<std::string, std::string>>& changes = {},
                           const TextDevice* cuda = nullptr);
  ~RunningWorkflow();

  /// A call that ends well.
  Outputs call(Inputs inputs, const std::string& session = "a");
  /// Why a call does not.
  std::string error_of(Inputs inputs, const std::string& session = "a");
  void end_session(const std::string& session);

 private:
  struct Parts;
  std::string run(Inputs inputs, const std::string& session, Outputs& outputs);
  std::unique_ptr<Parts> parts_;
};

}  // namespace sluice
