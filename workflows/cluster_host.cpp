#include "workflows/cluster_host.h"

#include <algorithm>
#include <array>

#include "base/byte_size.h"
#include "workflows/yaml_reader.h"

namespace sluice {

namespace {

using Kind = YamlNode::Kind;

constexpr std::array<std::string_view, 4> host_part{"roles", "memory", "hang_after", "cores"};
constexpr std::chrono::milliseconds hang_after_least{10};
constexpr std::chrono::hours hang_after_most{1};

class HostLoader : public YamlReader {
 public:
  HostLoader(ClusterMachine& machine, Diagnostics& diagnostics)
      : YamlReader(diagnostics), machine_(machine) {}

  void load(const YamlNode& node) {
    if (!expect(node, Kind::map, "hosts")) return;
    for (const auto& [key, value] : node.entries) load_host(key, value);
  }

 private:
  void load_host(const YamlNode& key, const YamlNode& node) {
    auto host_name = name(key, "a host's name");
    if (!host_name || node.refused) return;
    const std::string what = "host '" + key.scalar + "'";
    if (node.kind != Kind::list && node.kind != Kind::map)
      return error(
          node.mark, "wrong-kind",
          what + " must be a list of roles or a map, this is " + std::string(kind_name(node.kind)),
          key.scalar + ": [ ROLE ], or " + key.scalar + ": { roles: [ ROLE ], memory: 4GiB }");
    ClusterHost host;
    host.name = std::move(*host_name);
    const YamlNode* roles = &node;
    if (node.kind == Kind::map) {
      check_keys(node, host_part, what);
      roles = find(node, "roles");
      load_limits(node, host, what);
      if (roles != nullptr && !expect(*roles, Kind::list, "roles")) return;
    }
    if (roles == nullptr || roles->items.empty())
      return error(roles == nullptr ? node.mark : roles->mark, "no-roles", what + " has no roles",
                   "name roles of machine '" + machine_.name.text + "', or leave the host out");
    for (const YamlNode& item : roles->items)
      // Whether it can be a name is said where the machine has it.
      if (expect(item, Kind::scalar, "a role's name"))
        if (Name role{item.scalar, item.mark}; check_hosted(host, role))
          host.roles.push_back(std::move(role));
    machine_.hosts.push_back(std::move(host));
  }

  void load_limits(const YamlNode& node, ClusterHost& host, const std::string& what) {
    if (const YamlNode* memory = find(node, "memory");
        memory && expect(*memory, Kind::scalar, "memory"))
      load_memory(*memory, host, what);
    if (const YamlNode* hang_after = find(node, "hang_after"))
      load_hang_after(*hang_after, host, what);
    if (const YamlNode* cores = find(node, "cores")) load_cores(*cores, host, what);
  }

  void load_memory(const YamlNode& node, ClusterHost& host, const std::string& what) {
    const auto bytes = parse_byte_size(node.scalar);
    if (bytes && *bytes >= host_memory_least) {
      host.memory = *bytes;
      return;
    }
    error(node.mark, "bad-memory",
          "memory of " + what + " is " + in_quotes(node.scalar) + ", " +
              (bytes ? "it must be 256MiB or more"
                     : "which " + std::string(byte_size_fault(node.scalar))),
          "a whole number and MiB, GiB or TiB, as in memory: 4GiB; without a cgroup address space "
          "is counted, which is more than what is used of it");
  }

  void load_hang_after(const YamlNode& node, ClusterHost& host, const std::string& what) {
    const auto given = duration(node, "hang_after", 0, "60m");
    if (!given) return;
    if (*given < hang_after_least || *given > hang_after_most)
      return error(node.mark, "bad-hang-after",
                   "hang_after of " + what + " is " + in_quotes(node.scalar) +
                       ", it must be from 10ms to 60m",
                   "longer than its roles need to notice that they are cancelled: hang_after: 5s");
    host.hang_after = *given;
  }

  void load_cores(const YamlNode& node, ClusterHost& host, const std::string& what) {
    if (node.refused) return;
    const std::string help = "cores by their numbers, from 0: cores: [ 0, 1 ]";
    if (node.kind != Kind::list)
      return error(
          node.mark, "wrong-kind",
          "cores of " + what + " must be a list, this is " + std::string(kind_name(node.kind)),
          help);
    if (node.items.empty())
      return error(node.mark, "no-cores", what + " is bound to no core",
                   help + "; without `cores` it runs on any");
    for (const YamlNode& item : node.items) {
      const auto core = number(item, "a core", 0, host_cores_max - 1);
      if (!core) continue;
      if (std::ranges::find(host.cores, *core) == host.cores.end())
        host.cores.push_back(static_cast<std::uint32_t>(*core));
      else
        error(item.mark, "same-core", what + " has the core " + std::to_string(*core) + " already",
              "name each core once");
    }
  }

  bool check_hosted(const ClusterHost& host, const Name& role) {
    std::vector<std::string_view> here;
    for (const Name& known : machine_.roles) here.push_back(known.text);
    if (std::ranges::find(here, role.text) == here.end()) {
      const std::string near = nearest_name(role.text, here);
      error(role.mark, "not-here",
            "host '" + host.name.text + "' has the role " + in_quotes(role.text) +
                ", which is not on machine '" + machine_.name.text + "'",
            !near.empty()        ? "did you mean '" + near + "'?"
            : is_name(role.text) ? "name it in the machine's `roles` too"
                                 : "names are lower-case letters, digits and _");
      return false;
    }
    const auto is_in = [&](const ClusterHost& other) {
      return std::ranges::find(other.roles, role.text, &Name::text) != other.roles.end();
    };
    const auto other = std::ranges::find_if(machine_.hosts, is_in);
    if (other == machine_.hosts.end() && !is_in(host)) return true;
    const std::string& in = other == machine_.hosts.end() ? host.name.text : other->name.text;
    error(role.mark, "hosted-twice", "role '" + role.text + "' is in host '" + in + "' already",
          "each role runs in one process");
    return false;
  }

  ClusterMachine& machine_;
};

}  // namespace

void load_hosts(const YamlNode& node, ClusterMachine& machine, Diagnostics& diagnostics) {
  HostLoader(machine, diagnostics).load(node);
}

}  // namespace sluice
