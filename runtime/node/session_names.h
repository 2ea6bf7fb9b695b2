// The name by which roles know a session.
//
// Where calls begin on several machines it ends with the session's home. So sessions that two homes
// call alike are two, in what roles keep too, and no home can speak of another's.
// Thread: any. Source: docs/CLUSTER.md, "Several homes".
#pragma once

#include <algorithm>
#include <string>
#include <vector>

namespace sluice {

/// How the names of this home's sessions end: "" where it is the only one. `homes`: by machine.
inline std::string session_name_end(const std::vector<bool>& homes,
                                    const std::vector<std::string>& machines, std::size_t home) {
  return std::ranges::count(homes, true) > 1 ? "@" + machines[home] : "";
}

}  // namespace sluice
