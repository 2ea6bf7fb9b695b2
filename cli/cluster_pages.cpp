#include "cli/cluster_pages.h"

#include <algorithm>
#include <filesystem>
#include <set>

#include "cli/page_secret.h"
#include "engine/storage/page_window.h"
#include "roles/check_models.h"
#include "runtime/inproc/role_host.h"
#include "runtime/peer_channels.h"
#include "runtime/tcp/tcp_memory.h"
#include "runtime/ucx/ucx_memory.h"

namespace sluice::cli {

namespace {

namespace fs = std::filesystem;

/// Of memory that machines of one computer have together, for pages that are pulled: more than is
/// in flight to a few of them.
constexpr std::size_t shared_bytes = std::size_t{128} << 20U;

bool lists(const RoleSpec& role, const std::string& param) {
  return std::ranges::find(role.global_params, param, &Name::text) != role.global_params.end();
}

std::string address_of(const Cluster& cluster, std::uint32_t machine) {
  const ClusterMachine& one = cluster.spec().machines[machine];
  return one.pages ? one.pages->text : cluster.address_of(machine) + page_socket_end;
}

/// Of tcp://HOST:PORT, without brackets; empty: the address is another one.
std::string host_of(const std::string& address) {
  constexpr std::string_view scheme = "tcp://";
  const std::size_t colon = address.rfind(':');
  if (!address.starts_with(scheme) || colon <= scheme.size()) return "";
  std::string host = address.substr(scheme.size(), colon - scheme.size());
  if (host.starts_with('[') && host.ends_with(']')) host = host.substr(1, host.size() - 2);
  return host;
}

/// Of the keys' folder; without keys, of the folder that only this user enters.
Result<std::array<std::uint8_t, 32>> secret_of(const Cluster& cluster) {
  const ClusterSpec& spec = cluster.spec();
  if (spec.keys)
    return read_shared_secret((fs::path(spec.file).parent_path() / spec.keys->text).string());
  return page_secret(cluster.folder);
}

/// That the others read a machine's pages in; null: these come in messages, or shared memory.
Result<std::unique_ptr<RemoteMemory>> memory_of(const Cluster& cluster, std::uint32_t machine) {
  const ClusterMachine& one = cluster.spec().machines[machine];
  if (one.ucx) return make_ucx_memory({one.ucx->devices ? one.ucx->devices->text : ""});
  const std::string host = host_of(address_of(cluster, machine));
  if (host.empty() || one.pages_in_messages) return std::unique_ptr<RemoteMemory>();
  TcpMemoryOptions options;
  options.host = host;
  options.is_encrypted = cluster.spec().keys.has_value();
  return make_tcp_memory(options);
}

}  // namespace

PageSharing page_sharing(const Cluster& cluster) {
  PageSharing sharing;
  std::set<std::string> pools;
  for (std::size_t i = 0; i < cluster.workflows.size(); ++i) {
    const WorkflowSpec& spec = cluster.workflows[i].loaded.spec;
    for (const GlobalParamSpec& param : spec.global_params) {
      std::set<std::uint32_t> machines;
      for (std::size_t role = 0; role < spec.roles.size(); ++role)
        if (lists(spec.roles[role], param.name.text))
          machines.insert(cluster.placed[i][role].begin(), cluster.placed[i][role].end());
      if (machines.size() < 2) continue;
      sharing.machines.insert(machines.begin(), machines.end());
      pools.insert(identity_of(i, param.name.text, param.included_from));
    }
  }
  sharing.pools = pools.size();
  return sharing;
}

WhyNotShared why_not_shared(const Catalog& catalog) {
  return [&catalog](const RoleSpec& a, const RoleSpec& b,
                    const GlobalParamSpec& param) -> std::string {
    for (const RoleSpec* role : {&a, &b}) {
      const Plugin* plugin = catalog.find(role->plugin.text);
      if (plugin == nullptr || !plugin->shares_over_machines)
        return "roles of '" + role->plugin.text + "' share memory only";
    }
    if (param.device == EngineDevice::cuda) return "its pages are on a GPU (`device: cuda`)";
    if (param.ssd) return "its pages are kept in one folder (`ssd`)";
    const ModelCheck check = catalog.shared_check_of_kind(param.kind.text);
    if (!check || !param.model) return "a " + param.kind.text + " without a model is in memory";
    const Result<void> can = check(param.model->text);
    if (!can.ok()) return can.error().message;
    const Result<void> travel = check_pages_travel(param);
    return travel.ok() ? "" : travel.error().message;
  };
}

Result<std::shared_ptr<PeerPort>> connect_pages(
    const Cluster& cluster, Origin self, const std::function<void(const LinkNotice&)>& notice,
    std::shared_ptr<IndexPort> index) {
  const PageSharing sharing = page_sharing(cluster);
  if (!sharing.machines.contains(self.machine)) return std::shared_ptr<PeerPort>();
  Result<std::array<std::uint8_t, 32>> secret = secret_of(cluster);
  if (!secret.ok()) return secret.error();
  PeerPortOptions port;
  port.self = self;
  port.secret = *secret;
  port.notice = notice;
  port.index = std::move(index);
  for (const ClusterMachine& one : cluster.spec().machines) port.names.push_back(one.name.text);
  Result<std::unique_ptr<RemoteMemory>> memory = memory_of(cluster, self.machine);
  if (!memory.ok()) return memory.error();
  port.memory = std::move(memory).value();
  port.connect = [&cluster, sharing, notice](Origin life) -> Result<std::unique_ptr<Transport>> {
    Result<ZmqOptions> options = transport_options(cluster, life, notice);
    if (!options.ok()) return options.error();
    options->bind = address_of(cluster, life.machine);
    options->cluster = "sluice pages";
    options->window_bytes = page_window(sharing.pools);
    options->shared_bytes = shared_bytes;
    std::erase_if(options->peers,
                  [&](const ZmqPeer& peer) { return !sharing.machines.contains(peer.machine); });
    for (ZmqPeer& peer : options->peers) peer.address = address_of(cluster, peer.machine);
    return make_zmq_transport(std::move(options).value());
  };
  Result<std::unique_ptr<PeerPort>> made = make_peer_port(std::move(port));
  if (!made.ok()) return made.error();
  return std::shared_ptr<PeerPort>(std::move(made).value());
}

}  // namespace sluice::cli
