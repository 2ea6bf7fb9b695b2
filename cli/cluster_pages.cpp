#include "cli/cluster_pages.h"

#include <algorithm>
#include <filesystem>
#include <optional>
#include <set>

#include "cli/page_secret.h"
#include "engine/storage/page_window.h"
#include "engine/storage/store_folder.h"
#include "graph/print.h"
#include "roles/check_model.h"
#include "roles/check_models.h"
#include "runtime/inproc/role_host.h"
#include "runtime/peer_channels.h"
#include "runtime/shm/mapped_memory.h"
#include "runtime/tcp/tcp_memory.h"
#include "runtime/ucx/ucx_memory.h"
#include "runtime/zmq/address.h"
#include "runtime/zmq/ipc_socket.h"

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

/// At an ipc address.
Result<std::unique_ptr<RemoteMemory>> mapped_memory_at(const std::string& address) {
  const Result<links::Address> read = links::read_address(address);
  if (!read.ok()) return read.error();
  if (Result<void> closed = links::check_directory(read->directory); !closed.ok())
    return closed.error();
  MappedMemoryOptions options;
  options.socket = links::ipc_path(address) + region_socket_end;
  return make_mapped_memory(options);
}

/// That the others read a machine's pages in; null: these come in messages, or are copied into
/// memory that both have.
Result<std::unique_ptr<RemoteMemory>> memory_of(
    const Cluster& cluster, std::uint32_t machine,
    const std::function<void(const LinkNotice&)>& notice) {
  const ClusterMachine& one = cluster.spec().machines[machine];
  if (one.ucx) return make_ucx_memory({one.ucx->devices ? one.ucx->devices->text : ""});
  if (one.pages_in_messages) return std::unique_ptr<RemoteMemory>();
  const std::string address = address_of(cluster, machine);
  const std::string host = host_of(address);
  if (host.empty()) {
    Result<std::unique_ptr<RemoteMemory>> mapped = mapped_memory_at(address);
    if (mapped.ok()) return mapped;
    if (notice)
      notice(LinkNotice("pages: none are read where they stand, they are copied for each reader: " +
                        mapped.error().message));
    return std::unique_ptr<RemoteMemory>();
  }
  TcpMemoryOptions options;
  options.host = host;
  options.is_encrypted = cluster.spec().keys.has_value();
  return make_tcp_memory(options);
}

/// Those that have a role of the workflow over the parameter.
std::set<std::uint32_t> machines_of(const Cluster& cluster, std::size_t workflow,
                                    const GlobalParamSpec& param) {
  const std::vector<RoleSpec>& roles = cluster.workflows[workflow].loaded.spec.roles;
  std::set<std::uint32_t> machines;
  for (std::size_t role = 0; role < roles.size(); ++role)
    if (lists(roles[role], param.name.text))
      machines.insert(cluster.placed[workflow][role].begin(), cluster.placed[workflow][role].end());
  return machines;
}

/// Where a machine keeps pages of a pool.
struct PoolFolder {
  std::size_t workflow = 0;
  const GlobalParamSpec* param = nullptr;
  std::string identity;
  std::uint32_t machine = 0;
  bool is_shared = false;  // other machines have the pool too
  fs::path path;
};

std::vector<PoolFolder> pool_folders(const Cluster& cluster) {
  std::vector<PoolFolder> folders;
  std::error_code failed;
  for (std::size_t i = 0; i < cluster.workflows.size(); ++i)
    for (const GlobalParamSpec& param : cluster.workflows[i].loaded.spec.global_params) {
      if (!param.ssd) continue;
      const std::set<std::uint32_t> machines = machines_of(cluster, i, param);
      const bool is_shared = machines.size() > 1;
      const fs::path folder = fs::weakly_canonical(fs::absolute(param.ssd->text, failed), failed);
      for (const std::uint32_t machine : machines) {
        const std::string& name = cluster.spec().machines[machine].name.text;
        const std::string path =
            is_shared ? StoreFolder::of_machine(folder.string(), name) : folder.string();
        folders.push_back({i, &param, identity_of(i, param.name.text, param.included_from), machine,
                           is_shared, fs::path(path) / ""});
      }
    }
  return folders;
}

bool on_one_computer(const Cluster& cluster, std::uint32_t a, std::uint32_t b) {
  const auto has_address = [&](std::uint32_t machine) {
    return cluster.spec().machines[machine].address.has_value();
  };
  return a == b || (!has_address(a) && !has_address(b));
}

std::string told(const Cluster& cluster, const PoolFolder& folder) {
  return "'" + folder.param->name.text + "' of " +
         cluster.workflows[folder.workflow].loaded.spec.file + " (machine '" +
         cluster.spec().machines[folder.machine].name.text + "')";
}

/// Under which pages of this cluster were kept before: of the first folder that is there. None:
/// there is none.
std::optional<std::array<std::uint8_t, 32>> kept_secret(const Cluster& cluster) {
  for (const PoolFolder& one : pool_folders(cluster)) {
    if (!one.is_shared) continue;
    const Result<StoreFolder> folder = StoreFolder::look(one.path.parent_path().string());
    if (folder.ok()) return folder->secret();
  }
  return std::nullopt;
}

/// Of the keys' folder; without keys, of the folder that only this user enters.
Result<std::array<std::uint8_t, 32>> secret_of(const Cluster& cluster) {
  const ClusterSpec& spec = cluster.spec();
  if (spec.keys) {
    const fs::path folder = fs::path(spec.file).parent_path() / spec.keys->text;
    const std::string file = (folder / shared_secret_name).string();
    if (std::error_code failed; fs::symlink_status(file, failed).type() == fs::file_type::not_found)
      return invalid_argument(file +
                              " is not there, by which machines that share pages know each other: "
                              "copy it, with mode 0600, from the folder in which `sluice keys` "
                              "made it; where it is gone, the same `sluice keys` makes it anew");
    return read_shared_secret(folder.string());
  }
  return page_secret(cluster.folder, std::chrono::seconds(10),
                     [&] { return kept_secret(cluster); });
}

}  // namespace

void check_folders_apart(Cluster& cluster) {
  const std::vector<PoolFolder> folders = pool_folders(cluster);
  const GlobalParamSpec* said = nullptr;
  for (std::size_t i = 0; i < folders.size(); ++i)
    for (std::size_t j = 0; j < i; ++j) {
      const PoolFolder &later = folders[i], &former = folders[j];
      // Of one workflow that is an error already.
      if (later.param == said || later.workflow == former.workflow ||
          later.identity == former.identity || later.path != former.path ||
          !on_one_computer(cluster, former.machine, later.machine))
        continue;
      said = later.param;
      Diagnostics& diagnostics = cluster.workflows[later.workflow].loaded.diagnostics;
      report(diagnostics, {Severity::error, later.param->ssd->mark, "same-folder",
                           told(cluster, former) + " and " + told(cluster, later) +
                               " keep pages in one folder, " + later.param->ssd->text +
                               "; a folder is of one of them",
                           "another folder for one of them, or one file that both include"});
      sort_diagnostics(diagnostics);
      break;
    }
}

PageSharing page_sharing(const Cluster& cluster) {
  PageSharing sharing;
  std::set<std::string> pools;
  for (std::size_t i = 0; i < cluster.workflows.size(); ++i) {
    const WorkflowSpec& spec = cluster.workflows[i].loaded.spec;
    for (const GlobalParamSpec& param : spec.global_params) {
      const std::set<std::uint32_t> machines = machines_of(cluster, i, param);
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
    if (param.host_bytes == 0)
      return "its pages are on a GPU alone (`device: cuda`, and `host_bytes: 0`)";
    const ModelCheck check = catalog.shared_check_of_kind(param.kind.text);
    if (!check || !param.model) return "a " + param.kind.text + " without a model is in memory";
    const Result<void> can = check(param.model->text);
    if (!can.ok()) return can.error().message;
    const Result<ModelKind> kind = kind_of_model(param.model->text);
    if (&a != &b && kind.ok() && *kind == ModelKind::drawing)
      return "what a session has said to a model that draws is in the memory of one machine";
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
  port.preloads = cluster.spec().machines[self.machine].preload.has_value();
  for (const ClusterMachine& one : cluster.spec().machines) port.names.push_back(one.name.text);
  Result<std::unique_ptr<RemoteMemory>> memory = memory_of(cluster, self.machine, notice);
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
