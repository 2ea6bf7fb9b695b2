// What the machines of a cluster must agree on before they speak, as one digest: the cluster file,
// its workflows with their overrides, and what the roles' plugins declare.
//
// A machine may lack the code of another's roles, but must know the same ports of them: frames are
// checked against the plan, which follows from what plugins declare.
//
// Thread: one.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "roles/catalog.h"
#include "workflows/cluster.h"
#include "workflows/load.h"

namespace sluice::cli {

class ClusterDigest {
 public:
  /// A workflow of the cluster, in the file's order. One with errors may be added too.
  void add_workflow(const LoadedWorkflow& loaded, const Catalog& catalog);
  /// The cluster file's lease, registry, machines and places; then the digest of all.
  std::array<std::byte, 32> with(const ClusterSpec& spec) const;

 private:
  void add(std::string_view text);
  void add(std::uint64_t number) { add(std::to_string(number)); }
  void add_declaration(const PluginDeclaration& declaration);
  void add_interface(const InterfaceDeclaration& interface);
  void add_port(const Port& port);

  std::string all_ = "sluice cluster 1";
};

}  // namespace sluice::cli
