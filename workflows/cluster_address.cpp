#include "workflows/cluster_address.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/un.h>

#include <array>
#include <charconv>
#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "workflows/cluster_reader.h"

namespace sluice {

namespace {

struct ReadAddress {
  bool is_local = false;  // nobody else reaches it: a socket of this machine
  std::string plain;      // the same however it was spelt
  std::string wrong;      // what follows the address in an error; empty: it is one
  std::string help;
};

ReadAddress no_address(std::string wrong, std::string help) {
  return {false, "", std::move(wrong), std::move(help)};
}

constexpr const char* open_to_all = " would be open to every network";
constexpr const char* one_address = "write the one address at which the others reach this machine";
constexpr const char* of_many = " is no machine's: it stands for many";
constexpr const char* numeric = ": a numeric address is needed";

ReadAddress read_ipc_address(std::string_view path) {
  constexpr const char* help = "ipc:///FOLDER/NAME, in a folder of your own with mode 0700";
  constexpr std::size_t bytes_max = sizeof(sockaddr_un::sun_path) - 1;
  if (!path.starts_with('/')) return no_address(": a path from the root is needed", help);
  if (path.size() > bytes_max)
    return no_address(": the path has " + std::to_string(path.size()) + " characters, at most " +
                          std::to_string(bytes_max) + " are possible",
                      help);
  std::string plain = std::filesystem::path(path).lexically_normal().string();
  if (plain.ends_with('/')) return no_address(": it names no file", help);
  return {true, "ipc://" + plain, "", ""};
}

ReadAddress read_ipv4(const std::string& host, const std::string& port) {
  in_addr ip{};
  if (inet_pton(AF_INET, host.c_str(), &ip) != 1) {
    in6_addr longer{};
    return no_address(numeric, inet_pton(AF_INET6, host.c_str(), &longer) == 1
                                   ? "tcp://[" + host + "]:" + port
                                   : "as in tcp://127.0.0.1:5000 or tcp://[::1]:5000");
  }
  const std::uint32_t bits = ntohl(ip.s_addr);
  if (bits == 0) return no_address(open_to_all, one_address);
  if (bits >> 28U == 0xe || bits == 0xffffffff) return no_address(of_many, one_address);
  return {bits >> 24U == 127, "tcp://" + host + ":" + port, "", ""};
}

ReadAddress read_ipv6(const std::string& host, const std::string& port) {
  in6_addr ip{};
  if (inet_pton(AF_INET6, host.c_str(), &ip) != 1)
    return no_address(numeric, "an IPv6 address in the brackets, as in tcp://[::1]:5000");
  if (IN6_IS_ADDR_UNSPECIFIED(&ip)) return no_address(open_to_all, one_address);
  if (IN6_IS_ADDR_MULTICAST(&ip)) return no_address(of_many, one_address);
  if (IN6_IS_ADDR_V4MAPPED(&ip))
    return no_address(" is an IPv4 address in IPv6", "write the IPv4 address itself");
  std::array<char, INET6_ADDRSTRLEN> plain{};
  inet_ntop(AF_INET6, &ip, plain.data(), plain.size());
  return {IN6_IS_ADDR_LOOPBACK(&ip) != 0, "tcp://[" + std::string(plain.data()) + "]:" + port, "",
          ""};
}

ReadAddress read_tcp_address(std::string_view rest) {
  const std::size_t colon = rest.rfind(':');
  if (colon == std::string_view::npos || rest.ends_with(']'))
    return no_address(": the port is missing", "tcp://HOST:PORT with the host as a number");
  const std::string host(rest.substr(0, colon));
  const std::string_view digits = rest.substr(colon + 1);
  unsigned port = 0;
  const auto [end, failed] = std::from_chars(digits.data(), digits.data() + digits.size(), port);
  if (failed != std::errc{} || end != digits.data() + digits.size() || port == 0 || port > 65535)
    return no_address(": the port must be a number from 1 to 65535",
                      "tcp://HOST:PORT with the host as a number");
  if (digits[0] == '0')
    return no_address(": the port begins with a zero",
                      "tcp://" + host + ":" + std::to_string(port));
  const bool in_brackets = host.size() > 2 && host.front() == '[' && host.back() == ']';
  return in_brackets ? read_ipv6(host.substr(1, host.size() - 2), std::to_string(port))
                     : read_ipv4(host, std::to_string(port));
}

ReadAddress read_machine_address(std::string_view text) {
  constexpr std::string_view ipc = "ipc://", tcp = "tcp://";
  if (!text.starts_with(ipc) && !text.starts_with(tcp))
    return no_address(" is no address",
                      "tcp://HOST:PORT with the host as a number, or ipc:///FOLDER/NAME");
  if (text.find('*') != std::string_view::npos) return no_address(open_to_all, one_address);
  return text.starts_with(ipc) ? read_ipc_address(text.substr(ipc.size()))
                               : read_tcp_address(text.substr(tcp.size()));
}

class AddressChecker : public ClusterReader {
 public:
  AddressChecker(const ClusterSpec& spec, const BesideAddresses& beside, Diagnostics& diagnostics)
      : ClusterReader(diagnostics), spec_(spec), beside_(beside) {}

  void check() {
    const ClusterMachine* with = nullptr;
    const ClusterMachine* without = nullptr;
    for (const ClusterMachine& machine : spec_.machines) {
      (machine.address ? with : without) = &machine;
      if (machine.pages && !machine.address && !beside_.some_unread)
        error(machine.pages->mark, "bad-address",
              "'" + machine.name.text + "' has an address for its pages, and no `address`",
              "without addresses all machines are processes of this one, and meet by themselves");
      if (machine.address) check_machine(machine);
    }
    if (spec_.registry_forward && !spec_.registry_forward->text.starts_with("ipc://"))
      check_address(*spec_.registry_forward, "tcp://HOST:PORT with the host as a number");
    check_each_has_its_own();
    check_beside();
    if (with != nullptr && without != nullptr && !beside_.some_unread)
      error(without->name.mark, "missing-address",
            "'" + without->name.text + "' has no address, and '" + with->name.text + "' (" +
                line_of(with->name.mark) + ") has one",
            "give each machine an address, or none: then all are processes of this machine");
  }

 private:
  struct Use {
    std::string who;
    const Name* text = nullptr;
  };

  void check_machine(const ClusterMachine& machine) {
    const bool far =
        is_far(machine.address->text) || (machine.pages && is_far(machine.pages->text));
    if (machine.ucx && !machine.ucx->devices && far)
      error(machine.ucx->mark, "untrusted-fabric",
            "the pages of '" + machine.name.text +
                "' come by ucx, which proves nobody and encrypts nothing, and the machine is "
                "reached over a network",
            "fabric: trusted and devices: NAME, where whoever reaches that device may read and "
            "write this machine's memory; or leave `by` out");
    check_address(*machine.address);
    if (machine.pages) check_address(*machine.pages);
  }

  /// `form`: what it must be; empty: any address.
  void check_address(const Name& address, const std::string& form = {}) {
    const ReadAddress read = read_machine_address(address.text);
    if (!read.wrong.empty())
      return error(address.mark, "bad-address", in_quotes(address.text) + read.wrong,
                   form.empty() || address.text.starts_with("tcp://") ? read.help : form);
    // Said once: one folder is for all, however many machines have such an address.
    if (!read.is_local && !beside_.has_keys && !std::exchange(keys_missed_, true))
      error(address.mark, "missing-keys",
            in_quotes(address.text) + " can be reached from elsewhere, and there are no keys",
            "keys: FOLDER; `sluice keys FOLDER --machine NAME` makes them");
  }

  /// One error for each address that several machines have, at the second of them.
  void check_each_has_its_own() {
    std::map<std::string, std::vector<Use>> at;
    for (const ClusterMachine& machine : spec_.machines)
      for (const std::optional<Name>* said : {&machine.address, &machine.pages}) {
        if (!*said) continue;
        const ReadAddress read = read_machine_address((*said)->text);
        if (read.wrong.empty())
          at[read.plain].push_back(
              {"'" + machine.name.text + "' (" + line_of(machine.name.mark) + ")", &**said});
      }
    if (const auto& forward = spec_.registry_forward)
      if (const ReadAddress read = read_machine_address(forward->text); read.wrong.empty())
        at[read.plain].push_back({"the registry (" + line_of(forward->mark) + ")", &*forward});
    if (const auto& server = spec_.registry)
      if (const ReadAddress read = read_machine_address(server->text); read.wrong.empty())
        at[read.plain].push_back(
            {"the registry's server (" + line_of(server->mark) + ")", &*server});
    for (const auto& [plain, uses] : at) {
      if (uses.size() < 2) continue;
      if (uses.size() == 2 && uses[0].who == uses[1].who) {
        error(uses[1].text->mark, "same-address",
              uses[0].who + " has one address for its messages and its pages",
              "`pages` of its own, at another port or file");
        continue;
      }
      std::string names;
      for (const Use& use : uses)
        names += (names.empty() ? "" : &use == &uses.back() ? " and " : ", ") + use.who;
      error(uses[1].text->mark, "same-address", names + " have the same address",
            "each machine listens at one of its own");
    }
  }

  /// Beside an ipc address stands the socket of its machine's memory, and beside one of pages also
  /// that where others map them.
  void check_beside() {
    struct Beside {
      const ClusterMachine* machine = nullptr;
      std::string end, what;
    };
    std::map<std::string, Beside> taken;
    std::vector<std::pair<std::string, const Name*>> said;
    for (const ClusterMachine& machine : spec_.machines)
      for (const std::optional<Name>* one : {&machine.address, &machine.pages}) {
        if (!*one || !(*one)->text.starts_with("ipc://")) continue;
        const ReadAddress read = read_machine_address((*one)->text);
        if (!read.wrong.empty()) continue;
        taken.emplace(read.plain + ".memory", Beside{&machine, ".memory", "its memory"});
        if (one == &machine.pages && machine.maps_pages())
          taken.emplace(read.plain + ".region", Beside{&machine, ".region", "its pages"});
        said.emplace_back(read.plain, &**one);
      }
    for (const auto& [plain, name] : said)
      if (const auto other = taken.find(plain); other != taken.end()) {
        const auto& [machine, end, what] = other->second;
        error(name->mark, "same-address",
              in_quotes(name->text) + " is where '" + machine->name.text + "' (" +
                  line_of(machine->name.mark) + ") hands out " + what,
              "another name: each machine has a socket ADDRESS" + end + " beside its own" +
                  (end == ".region" ? " for pages" : ""));
      }
  }

  const ClusterSpec& spec_;
  const BesideAddresses& beside_;
  bool keys_missed_ = false;
};

}  // namespace

bool is_far(std::string_view address) {
  const ReadAddress read = read_machine_address(address);
  return read.wrong.empty() && !read.is_local;
}

void check_addresses(const ClusterSpec& spec, const BesideAddresses& beside,
                     Diagnostics& diagnostics) {
  AddressChecker(spec, beside, diagnostics).check();
}

}  // namespace sluice
