#include "workflows/cluster_registry.h"

#include <algorithm>
#include <array>
#include <string>
#include <string_view>
#include <vector>

#include "workflows/cluster_address.h"
#include "workflows/cluster_reader.h"

namespace sluice {

namespace {

constexpr std::array<std::string_view, 3> registry_part{"address", "user", "password_file"};
constexpr std::size_t user_bytes_max = 64;

class RegistryLoader : public ClusterReader {
 public:
  RegistryLoader(ClusterSpec& spec, Diagnostics& diagnostics)
      : ClusterReader(diagnostics), spec_(spec), diagnostics_(diagnostics) {}

  /// An address, or a map with a login beside it.
  void load(const YamlNode& node) {
    if (node.kind == YamlNode::Kind::map) return load_with_login(node);
    if (const auto address = text(node, "the registry")) load_address(*address);
  }

 private:
  void load_with_login(const YamlNode& map) {
    const std::size_t before = diagnostics_.size();
    check_keys(map, registry_part, "a registry");
    const bool all_known = diagnostics_.size() == before && !map.refused;
    const YamlNode* const address = find(map, "address");
    const YamlNode* const user = find(map, "user");
    const YamlNode* const file = find(map, "password_file");
    if (address != nullptr && (address->scalar == "none" || address->scalar == "private"))
      return error(address->mark, "bad-registry",
                   "a registry that is " + address->scalar + " has no user and no password",
                   "registry: " + address->scalar);
    // A key that is none may be what is missing.
    if (all_known) require_all(map);
    if (address != nullptr)
      if (const auto given = text(*address, "the registry's address")) load_address(*given);
    if (user != nullptr && expect(*user, YamlNode::Kind::scalar, "the registry's user"))
      load_user(*user);
    if (file != nullptr) spec_.registry_password = text(*file, "the registry's password_file");
  }

  void require_all(const YamlNode& map) {
    std::vector<std::string_view> missing;
    for (const std::string_view part : registry_part)
      if (find(map, part) == nullptr) missing.push_back(part);
    if (missing.empty()) return;
    std::string list;
    for (const std::string_view part : missing)
      list += (list.empty()             ? "no "
               : part == missing.back() ? " and no "
                                        : ", no ") +
              std::string(part);
    error(map.mark, "missing-key", "the registry has " + list,
          "registry: { address: unix:///PATH, user: NAME, password_file: FILE }, or the address "
          "alone where the server asks for no password");
  }

  void load_user(const YamlNode& user) {
    const auto is_plain = [](char c) { return c > ' ' && c <= '~'; };
    if (user.scalar.empty() || user.scalar.size() > user_bytes_max ||
        !std::ranges::all_of(user.scalar, is_plain))
      return error(user.mark, "bad-registry",
                   "the registry's user is " + in_quotes(user.scalar) +
                       ", it must be 1 to 64 printable characters without spaces",
                   "the name behind `ACL SETUSER` on the server");
    spec_.registry_user = Name{user.scalar, user.mark};
  }

  void load_address(const Name& address) {
    if (address.text == "none") return;
    spec_.registry = address;
    const bool is_address = address.text.starts_with("unix:///") ||
                            address.text.starts_with("tcp://127.") ||
                            address.text.starts_with("tcp://[::1]:");
    if (address.text != "private" && !is_address)
      return error(address.mark, "bad-registry",
                   "registry is " + in_quotes(address.text) +
                       ", it must be none, private or a Redis "
                       "server's address on each machine itself",
                   "unix:///PATH, tcp://127.0.0.1:PORT or tcp://[::1]:PORT; a network between is "
                   "crossed by a tunnel of yours");
    for (const ClusterMachine& machine : spec_.machines)
      if (address.text == "private" && machine.name.text == "registry")
        return error(machine.name.mark, "bad-name",
                     "machine 'registry' has the name of the private registry's process",
                     "another name, so that `sluice up` and `sluice status` tell the two apart");
    for (const ClusterMachine& machine : spec_.machines)
      if (address.text == "private" && machine.address && is_far(machine.address->text))
        return error(address.mark, "bad-registry",
                     "a private registry is reached on one computer only, and machine '" +
                         machine.name.text + "' is elsewhere",
                     "write the address at which each machine reaches a shared Redis server");
  }

  ClusterSpec& spec_;
  Diagnostics& diagnostics_;
};

}  // namespace

void load_registry(const YamlNode& node, ClusterSpec& spec, Diagnostics& diagnostics) {
  RegistryLoader(spec, diagnostics).load(node);
}

}  // namespace sluice
