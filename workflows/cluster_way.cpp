#include "workflows/cluster_way.h"

#include <algorithm>
#include <array>

#include "workflows/cluster_reader.h"

namespace sluice {

namespace {

using Kind = YamlNode::Kind;

constexpr std::array<std::string_view, 5> pages_part{"address", "by", "devices", "fabric",
                                                     "preload"};
constexpr std::size_t devices_bytes_max = 256;

class WayLoader : public ClusterReader {
 public:
  WayLoader(ClusterMachine& machine, Diagnostics& diagnostics)
      : ClusterReader(diagnostics), machine_(machine) {}

  /// An address, or a map that says more.
  void load(const YamlNode& node) {
    if (node.kind != Kind::map) return load_address(node);
    check_keys(node, pages_part, "the pages of machine '" + machine_.name.text + "'");
    if (const YamlNode* address = find(node, "address")) load_address(*address);
    bool by_ucx = false, is_trusted = false, preloads = false;
    if (const YamlNode* preload = find(node, "preload")) {
      if (!choice<bool>(*preload, "preload", {{"true", true}, {"false", false}}, preloads)) return;
      if (preloads) machine_.preload = preload->mark;
    }
    if (const YamlNode* by = find(node, "by")) {
      if (!choice<bool>(*by, "by", {{"message", false}, {"ucx", true}}, by_ucx)) return;
      machine_.pages_in_messages = !by_ucx;
    }
    const YamlNode* const fabric = find(node, "fabric");
    const YamlNode* const devices = find(node, "devices");
    if (fabric != nullptr && !choice<bool>(*fabric, "fabric", {{"trusted", true}}, is_trusted))
      return;
    if (!by_ucx && (fabric != nullptr || devices != nullptr))
      return wrong(node.mark, "have `devices` or `fabric`, and do not come by ucx", "by: ucx");
    if ((fabric != nullptr) != (devices != nullptr))
      return wrong(node.mark, "have one of `devices` and `fabric: trusted`",
                   "both, where whoever reaches these devices may read and write this machine's "
                   "memory; or neither, where all machines are on one computer");
    if (!by_ucx) return;
    machine_.ucx = PagesByUcx{node.mark};
    if (devices != nullptr) load_devices(*devices);
  }

 private:
  void load_address(const YamlNode& node) { machine_.pages = text(node, "an address"); }

  void load_devices(const YamlNode& node) {
    if (!expect(node, Kind::scalar, "devices")) return;
    const std::string& names = node.scalar;
    const auto is_plain = [](char c) { return c > ' ' && c <= '~'; };
    if (names.empty() || names.size() > devices_bytes_max || names == "all" ||
        !std::ranges::all_of(names, is_plain))
      return wrong(node.mark, "come over devices " + in_quotes(names),
                   "names that `ucx_info -d` prints, with commas between: devices: \"mlx5_0:1\"");
    machine_.ucx->devices = Name{names, node.mark};
  }

  void wrong(Mark mark, const std::string& what, const std::string& instead) {
    error(mark, "bad-pages", "the pages of '" + machine_.name.text + "' " + what, instead);
  }

  ClusterMachine& machine_;
};

}  // namespace

void load_pages(const YamlNode& node, ClusterMachine& machine, Diagnostics& diagnostics) {
  WayLoader(machine, diagnostics).load(node);
}

}  // namespace sluice
