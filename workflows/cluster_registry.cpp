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

constexpr std::array<std::string_view, 5> registry_part{"address", "user", "password_file", "at",
                                                        "forward"};
constexpr std::size_t user_bytes_max = 64;

class RegistryLoader : public ClusterReader {
 public:
  RegistryLoader(bool all_machines, ClusterSpec& spec, Diagnostics& diagnostics)
      : ClusterReader(diagnostics),
        all_machines_(all_machines),
        spec_(spec),
        diagnostics_(diagnostics) {}

  /// An address, or a map with a login beside it, or with the machine that forwards it.
  void load(const YamlNode& node) {
    if (node.kind == YamlNode::Kind::map) return load_map(node);
    if (const auto address = text(node, "the registry")) load_address(*address);
  }

 private:
  void load_map(const YamlNode& map) {
    const std::size_t before = diagnostics_.size();
    check_keys(map, registry_part, "a registry");
    const bool all_known = diagnostics_.size() == before && !map.refused;
    const YamlNode* const address = find(map, "address");
    const YamlNode* const user = find(map, "user");
    const YamlNode* const file = find(map, "password_file");
    const YamlNode* const at = find(map, "at");
    const YamlNode* const forward = find(map, "forward");
    const bool is_forwarded = at != nullptr || forward != nullptr;
    const bool has_login = user != nullptr || file != nullptr || !is_forwarded;
    if (address != nullptr && (address->scalar == "none" || address->scalar == "private"))
      return error(address->mark, "bad-registry",
                   "a registry that is " + address->scalar +
                       (has_login ? " has no user and no password" : " is forwarded by no machine"),
                   "registry: " + address->scalar);
    // A key that is none may be what is missing.
    if (all_known) require_all(map, has_login, is_forwarded);
    if (address != nullptr)
      if (const auto given = text(*address, "the registry's address")) load_address(*given);
    if (user != nullptr && expect(*user, YamlNode::Kind::scalar, "the registry's user"))
      load_user(*user);
    if (file != nullptr) spec_.registry_password = text(*file, "the registry's password_file");
    if (at != nullptr) load_at(*at);
    if (forward != nullptr) load_forward(*forward);
  }

  void require_all(const YamlNode& map, bool has_login, bool is_forwarded) {
    std::vector<std::string_view> missing;
    for (const std::string_view part : registry_part) {
      const bool is_of_forwarding = part == "at" || part == "forward";
      const bool is_wanted = part == "address" || (is_of_forwarding ? is_forwarded : has_login);
      if (is_wanted && find(map, part) == nullptr) missing.push_back(part);
    }
    if (missing.empty()) return;
    std::string list;
    for (const std::string_view part : missing)
      list += (list.empty()             ? "no "
               : part == missing.back() ? " and no "
                                        : ", no ") +
              std::string(part);
    error(map.mark, "missing-key", "the registry has " + list,
          is_forwarded
              ? "registry: { address: unix:///PATH, at: MACHINE, forward: tcp://HOST:PORT }, and "
                "user: NAME with password_file: FILE where the server asks for a password"
              : "registry: { address: unix:///PATH, user: NAME, password_file: FILE }, or the "
                "address alone where the server asks for no password");
  }

  /// The machine that has the server.
  void load_at(const YamlNode& node) {
    const auto at = name(node, "the machine that has the registry");
    if (!at) return;
    spec_.registry_at = at;
    if (!all_machines_) return;
    std::vector<std::string_view> names;
    for (const ClusterMachine& machine : spec_.machines) {
      if (machine.name.text == at->text && !machine.address)
        return error(at->mark, "bad-registry",
                     "'" + at->text + "' forwards the registry, and no machine has an address",
                     "without addresses all machines are processes of this computer: `registry: "
                     "ADDRESS` is enough");
      names.push_back(machine.name.text);
    }
    if (std::ranges::find(names, at->text) != names.end()) return;
    const std::string near = nearest_name(at->text, names);
    error(at->mark, "unknown-machine", "no machine is called " + in_quotes(at->text),
          near.empty() ? "the machine on whose computer the server is"
                       : "did you mean '" + near + "'?");
  }

  /// What it says of keys, and whether others have it, is looked at with all addresses.
  void load_forward(const YamlNode& node) {
    const auto forward = text(node, "the address where the registry is forwarded");
    if (!forward) return;
    spec_.registry_forward = forward;
    if (forward->text.starts_with("ipc://"))
      return error(forward->mark, "bad-address",
                   in_quotes(forward->text) + " is reached on its own computer only",
                   "tcp://HOST:PORT, at which the other machines reach this one");
    if (!forward->text.starts_with("tcp://127.") && !forward->text.starts_with("tcp://[::1]:"))
      return;
    for (const ClusterMachine& machine : spec_.machines)
      if (machine.address && is_far(machine.address->text))
        return error(forward->mark, "bad-address",
                     in_quotes(forward->text) + " is reached on its own computer only, and '" +
                         machine.name.text + "' (" + line_of(machine.name.mark) +
                         ") is reached over a network",
                     "tcp://HOST:PORT, at which the other machines reach this one");
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
      return error(
          address.mark, "bad-registry",
          "registry is " + in_quotes(address.text) +
              ", it must be none, private or a Redis "
              "server's address on each machine itself",
          "unix:///PATH, tcp://127.0.0.1:PORT or tcp://[::1]:PORT; where other computers are "
          "to reach it: { address: unix:///PATH, at: MACHINE, forward: tcp://HOST:PORT }");
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
                     "name a shared Redis server: { address: unix:///PATH, at: MACHINE, forward: "
                     "tcp://HOST:PORT }, MACHINE being the one that has it");
  }

  const bool all_machines_;
  ClusterSpec& spec_;
  Diagnostics& diagnostics_;
};

}  // namespace

void load_registry(const YamlNode& node, bool all_machines, ClusterSpec& spec,
                   Diagnostics& diagnostics) {
  RegistryLoader(all_machines, spec, diagnostics).load(node);
}

}  // namespace sluice
