#include "cli/refusals.h"

#include <array>

namespace sluice::cli {

namespace {

struct Known {
  std::string_view words;  // of the line
  std::string_view reason;
  std::string_view advice;
};

constexpr std::string_view keys_advice =
    "compare the .public file of each machine in the folders of keys on both sides, and copy those "
    "that differ";
constexpr std::string_view same_files =
    "start both with the same cluster file, workflows and --set";
constexpr std::string_view addresses = "look at the addresses in the cluster file";

// Not `life over`, `link ended` and `not connected`: machines mend these themselves.
constexpr std::array<Known, 11> all_known{{
    {"(malformed)", "malformed", "something else than sluice is at that address"},
    {"(version)", "version", "install the same version of sluice on both"},
    {"(cluster)", "cluster", addresses},
    {"(workflow)", "workflow", same_files},
    {"(lease)", "workflow", same_files},
    {"(wrong machine)", "address", addresses},
    {"(unknown machine)", "address", addresses},
    {"(wrong key)", "key", keys_advice},
    {"was refused: its key is nobody's", "key", keys_advice},
    {"it does not know this machine's key", "key", keys_advice},
    {"no handshake could be made", "key", keys_advice},
}};

/// Of whom it is said; empty: of nobody with a name.
std::string machine_of(std::string_view line) {
  constexpr std::string_view before = "machine '";
  if (!line.starts_with(before)) return "";
  line.remove_prefix(before.size());
  return std::string(line.substr(0, line.find('\'')));
}

}  // namespace

std::optional<std::string> Refusals::tell(std::string_view line) {
  for (const Known& known : all_known) {
    if (line.find(known.words) == std::string_view::npos) continue;
    if (!said_.emplace(machine_of(line), known.reason).second) return "";
    return std::string(line) + "; " + std::string(known.advice);
  }
  return std::nullopt;
}

}  // namespace sluice::cli
