// The way between machines of a cluster whose roles share pages: which do, and where they meet.
//
// Errors: with the file or address and what is wrong with it.
#pragma once

#include <functional>
#include <memory>
#include <set>
#include <string>

#include "base/peer_port.h"
#include "cli/cluster.h"

namespace sluice::cli {

/// Behind a machine's socket in the cluster's folder.
inline constexpr const char* page_socket_end = ".pages";
/// Beside the socket of pages: where their memory is handed to machines of this computer.
inline constexpr const char* region_socket_end = ".region";

/// Of a cluster: machines of which each has a role over a global parameter that another one has
/// too, and how many such parameters there are.
struct PageSharing {
  std::set<std::uint32_t> machines;
  std::size_t pools = 0;
};
PageSharing page_sharing(const Cluster& cluster);

/// Two pools whose folder (`ssd`) is the same one on a computer are an error of the later one's
/// workflow. Requires: roles are placed, models found.
void check_folders_apart(Cluster& cluster);

/// For `place_roles`. Borrows the catalog.
WhyNotShared why_not_shared(const Catalog& catalog);

/// Null: this machine shares no pages with others.
/// `index`: where machines say which pages they have; null: nowhere.
Result<std::shared_ptr<PeerPort>> connect_pages(
    const Cluster& cluster, Origin self, const std::function<void(const LinkNotice&)>& notice,
    std::shared_ptr<IndexPort> index);

}  // namespace sluice::cli
