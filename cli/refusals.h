// Which lines of the links say that a machine is kept out by something that only people can mend.
//
// Pure; the lines are those of runtime/zmq (`Reason`). Thread: any one at a time.
#pragma once

#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>

namespace sluice::cli {

class Refusals {
 public:
  /// The line with what to do, the first time that this machine is refused for this reason. Empty:
  /// it was said. Nothing: it is no such line.
  std::optional<std::string> tell(std::string_view line);

 private:
  std::set<std::pair<std::string, std::string>> said_;  // machine and reason
};

}  // namespace sluice::cli
