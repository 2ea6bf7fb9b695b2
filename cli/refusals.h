// Which lines of the links say that a machine is kept out by something that only people can mend.
//
// Pure; decided by the line's reason. Thread: any one at a time.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>

#include "runtime/link_refusal.h"

namespace sluice::cli {

class Refusals {
 public:
  /// The line with what to do, the first time that this machine is refused for something that is
  /// mended so. Empty: it was said. Nothing: it is no such line.
  std::optional<std::string> tell(const LinkNotice& notice);

 private:
  std::set<std::pair<std::optional<std::uint32_t>, std::string_view>> said_;  // machine, advice
};

}  // namespace sluice::cli
