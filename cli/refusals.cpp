#include "cli/refusals.h"

namespace sluice::cli {

namespace {

/// Nothing: machines mend it themselves.
std::optional<std::string_view> advice_for(LinkRefusal reason) {
  switch (reason) {
    case LinkRefusal::malformed:
      return "something else than sluice is at that address";
    case LinkRefusal::version:
      return "install the same version of sluice on both";
    case LinkRefusal::workflow:
    case LinkRefusal::lease:
      return "start both with the same cluster file, workflows and --set";
    case LinkRefusal::cluster:
    case LinkRefusal::wrong_machine:
    case LinkRefusal::unknown:
      return "look at the addresses in the cluster file";
    case LinkRefusal::key:
      return "compare the .public file of each machine in the folders of keys on both sides, and "
             "copy those that differ";
    case LinkRefusal::over:
    case LinkRefusal::ended:
    case LinkRefusal::not_connected:
      break;
  }
  return std::nullopt;
}

}  // namespace

std::optional<std::string> Refusals::tell(const LinkNotice& notice) {
  if (!notice.refused) return std::nullopt;
  const std::optional<std::string_view> advice = advice_for(*notice.refused);
  if (!advice) return std::nullopt;
  if (!said_.emplace(notice.machine, *advice).second) return "";
  return notice.text + "; " + std::string(*advice);
}

}  // namespace sluice::cli
