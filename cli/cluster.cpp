#include "cli/cluster.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>

#include "base/sha256.h"
#include "cli/cluster_digest.h"
#include "cli/cluster_links.h"
#include "cli/cluster_pages.h"
#include "cli/file_kind.h"
#include "cli/page_secret.h"
#include "cli/registry_entry.h"
#include "graph/print.h"
#include "roles/scripted.h"
#include "runtime/redis/redis_link.h"

namespace sluice::cli {

namespace {

namespace fs = std::filesystem;

/// What else a caller could be.
std::string other_homes(const Cluster& cluster, std::uint32_t machine) {
  std::string names;
  for (const std::uint32_t home : cluster.spec().homes())
    if (home != machine)
      names += (names.empty() ? "" : ", ") + cluster.spec().machines[home].name.text;
  return names.empty() ? "" : "; `--name` takes another: " + names;
}

/// In the words of a machine that is to make it: a role that stands for one still to be written.
std::string why_not_run(const RoleSpec& role) {
  const Plugin scripted = scripted_plugin();
  if (role.plugin.text != scripted.declaration.name) return "";
  RoleMaking making;
  making.role = &role;
  const Result<RoleInstance> made = scripted.make(making);
  return made.ok() ? "" : made.error().message;
}

/// Where programs of this user may keep sockets.
std::string base_folder() {
  if (const char* given = std::getenv("XDG_RUNTIME_DIR"); given != nullptr && given[0] == '/')
    return std::string(given) + "/sluice";
  return "/tmp/sluice-" + std::to_string(::getuid());
}

Result<void> make_private(const std::string& folder) {
  if (::mkdir(folder.c_str(), 0700) != 0 && errno != EEXIST)
    return Error{ErrorCode::unavailable, folder + ": cannot be made: " + std::strerror(errno)};
  struct stat facts {};
  if (::lstat(folder.c_str(), &facts) == 0 && S_ISDIR(facts.st_mode) &&
      facts.st_uid == ::getuid() && (facts.st_mode & 077) == 0)
    return {};
  return Error{ErrorCode::unavailable,
               folder + ": must be a folder of yours with mode 0700; sockets would stand in it"};
}

/// `--set` names a place of any of the workflows: one that has it not is compiled without it, if
/// another has it. What none has stays an error.
std::vector<Result<Compiled>> compile_all(const std::vector<std::string>& files,
                                          const WorkflowOptions& options, const Catalog& catalog) {
  std::vector<Result<Compiled>> all;
  for (const std::string& file : files) all.push_back(compile_file(file, options, catalog));
  const auto lacks = [](const Result<Compiled>& compiled, const std::string& set) {
    return !compiled.ok() ||
           std::ranges::any_of(compiled->loaded.diagnostics, [&](const Diagnostic& d) {
             return d.code == "unknown-path" && d.message.starts_with("--set " + set + ": ");
           });
  };
  WorkflowOptions nowhere;  // in no workflow
  for (const std::string& set : options.set)
    if (std::ranges::all_of(all, [&](const auto& one) { return lacks(one, set); }))
      nowhere.set.push_back(set);
  for (std::size_t i = 0; i < files.size(); ++i) {
    if (!all[i].ok()) continue;
    WorkflowOptions own;
    for (const std::string& set : options.set)
      if (!lacks(all[i], set) || std::ranges::find(nowhere.set, set) != nowhere.set.end())
        own.set.push_back(set);
    if (own.set.size() < options.set.size()) all[i] = compile_file(files[i], own, catalog);
  }
  return all;
}

}  // namespace

bool Cluster::ok() const {
  return !has_errors(loaded.diagnostics) &&
         std::ranges::all_of(workflows, [](const Compiled& compiled) { return compiled.ok(); });
}

std::string Cluster::address_of(std::uint32_t machine) const {
  const auto& address = spec().machines[machine].address;
  return address ? address->text : "ipc://" + folder + "/" + std::to_string(machine);
}

Result<Cluster> load_cluster_with_workflows(const std::string& path, const WorkflowOptions& options,
                                            const Catalog& catalog) {
  if (Result<void> kind = check_is_cluster(path); !kind.ok()) return kind.error();
  Result<LoadedCluster> loaded = load_cluster_file(path);
  if (!loaded.ok()) return loaded.error();
  Cluster cluster;
  cluster.loaded = std::move(loaded).value();
  cluster.folder = cluster_folder(path);
  ClusterDigest digest;
  if (const auto& registry = cluster.spec().registry; registry && registry->text != "private")
    if (const auto address = read_redis_address(registry->text);
        !address.ok() && std::ranges::find(cluster.loaded.diagnostics, "bad-registry",
                                           &Diagnostic::code) == cluster.loaded.diagnostics.end())
      report(cluster.loaded.diagnostics,
             {Severity::error, registry->mark, "bad-registry", address.error().message, ""});
  check_links(cluster.loaded);
  std::vector<std::string> files;
  for (const Name& name : cluster.spec().workflows)
    files.push_back((fs::path(path).parent_path() / name.text).lexically_normal().string());
  std::vector<Result<Compiled>> all = compile_all(files, options, catalog);
  std::vector<const WorkflowSpec*> specs;
  const bool on_computers = std::ranges::any_of(
      cluster.spec().machines, [](const ClusterMachine& one) { return one.address.has_value(); });
  for (std::size_t i = 0; i < files.size(); ++i) {
    const Name& name = cluster.spec().workflows[i];
    Result<Compiled>& compiled = all[i];
    if (!compiled.ok()) {
      report(cluster.loaded.diagnostics,
             {Severity::error, name.mark, "bad-workflow", compiled.error().message,
              "the path of a workflow is relative to this file"});
      continue;
    }
    Compiled& kept = cluster.workflows.emplace_back(std::move(compiled).value());
    digest.add_workflow(kept.loaded, catalog);
    find_models(kept, catalog, on_computers ? Runs::on_computers : Runs::here);
    specs.push_back(&kept.loaded.spec);
    if (kept.loaded.spec.is_library)
      report(cluster.loaded.diagnostics,
             {Severity::error, name.mark, "bad-workflow",
              files[i] + " has roles for others to include, and no nodes", ""});
  }
  // What a workflow that is wrong, or could not be read, lacks says nothing of the roles.
  if (cluster.loaded.all_workflows && specs.size() == cluster.spec().workflows.size() &&
      std::ranges::all_of(cluster.workflows, &Compiled::ok))
    cluster.placed = place_roles(
        cluster.loaded, specs, why_not_shared(catalog), why_not_run,
        [&](const GlobalParamSpec& param) { return catalog.why_in_one_process(param); });
  if (!has_errors(cluster.loaded.diagnostics) && !cluster.placed.empty())
    check_folders_apart(cluster);
  cluster.digest = digest.with(cluster.spec());
  sort_diagnostics(cluster.loaded.diagnostics);
  return cluster;
}

void print_diagnostics(const Cluster& cluster) {
  std::fputs(diagnostics_text(cluster.loaded.diagnostics, cluster.spec().file, cluster.loaded.text)
                 .c_str(),
             stderr);
  for (const Compiled& compiled : cluster.workflows) print_diagnostics(compiled);
}

std::string cluster_folder(const std::string& file) {
  std::error_code ignored;
  // Absolute first: of a file that is gone the rest would be left as it is written.
  const std::string canonical = fs::weakly_canonical(fs::absolute(file, ignored), ignored).string();
  std::array<char, 17> name{};
  std::snprintf(name.data(), name.size(), "%016llx",
                static_cast<unsigned long long>(sha256_prefix(canonical)));
  return base_folder() + "/" + name.data();
}

Result<void> make_folder(const Cluster& cluster) {
  const std::string base = fs::path(cluster.folder).parent_path().string();
  if (Result<void> made = make_private(base); !made.ok())
    return Error{made.error().code,
                 made.error().message +
                     "; set XDG_RUNTIME_DIR, in which it is made, to a folder that is there and "
                     "yours alone"};
  return make_private(cluster.folder);
}

std::string lock_path(const std::string& folder, std::uint32_t machine) {
  return folder + "/" + std::to_string(machine) + ".lock";
}

Result<LockFile> lock_machine(const Cluster& cluster, std::uint32_t machine) {
  const std::string& name = cluster.spec().machines[machine].name.text;
  const std::string path = lock_path(cluster.folder, machine);
  if (is_locked(path))
    return Error{ErrorCode::unavailable,
                 "another process is machine '" + name + "' of " + cluster.spec().file +
                     (cluster.spec().machines[machine].home
                          ? " already: one `sluice run` at a time can be a home" +
                                other_homes(cluster, machine)
                          : " already")};
  return LockFile::take(path, name);
}

void leave_cluster_folder(const std::string& folder) {
  remove_page_secret(folder);
  // Each stays where something is in it still.
  if (::rmdir(folder.c_str()) == 0) ::rmdir(fs::path(folder).parent_path().c_str());
}

void remove_sockets_of(const std::string& folder, std::uint32_t machine) {
  const std::string path = folder + "/" + std::to_string(machine);
  for (const std::string& socket : {path, path + page_socket_end}) {
    ::unlink(socket.c_str());
    ::unlink((socket + ".memory").c_str());  // as in shared_memory_socket
  }
  ::unlink((path + page_socket_end + region_socket_end).c_str());
}

void leave_folder(const Cluster& cluster, std::uint32_t machine, std::optional<LockFile> lock) {
  if (!lock) return;
  if (!cluster.spec().machines[machine].address) remove_sockets_of(cluster.folder, machine);
  lock.reset();
  leave_cluster_folder(cluster.folder);
}

Result<ZmqOptions> transport_options(const Cluster& cluster, Origin self,
                                     const std::function<void(const LinkNotice&)>& notice) {
  const ClusterSpec& spec = cluster.spec();
  const std::string keys = keys_folder(spec);
  ZmqOptions options;
  options.self = self;
  options.name = spec.machines[self.machine].name.text;
  options.bind = cluster.address_of(self.machine);
  options.lease = spec.lease;
  options.workflow = cluster.digest;
  options.cluster = "sluice";
  options.notice = notice;
  if (!keys.empty()) {
    const std::string file = keys + "/" + spec.machines[self.machine].name.text + ".secret";
    if (std::error_code failed; fs::symlink_status(file, failed).type() == fs::file_type::not_found)
      return invalid_argument(file +
                              " is not there: copy it, with mode 0600, from the folder in "
                              "which `sluice keys` made it beside the " +
                              options.name + ".public that all machines have");
    Result<Keys> own = read_secret(file);
    if (!own.ok()) return own.error();
    options.keys = std::move(own).value();
  }
  for (std::uint32_t machine = 0; machine < spec.machines.size(); ++machine) {
    if (machine == self.machine) continue;
    ZmqPeer& peer = options.peers.emplace_back();
    peer.machine = machine;
    peer.name = spec.machines[machine].name.text;
    peer.address = cluster.address_of(machine);
    if (keys.empty()) continue;
    Result<std::string> key =
        read_public(keys + "/" + spec.machines[machine].name.text + ".public");
    if (!key.ok()) return key.error();
    peer.public_key = std::move(key).value();
  }
  return options;
}

Result<std::unique_ptr<Node>> make_node(const Cluster& cluster, std::uint32_t machine,
                                        const Catalog& catalog, RunnerOptions options,
                                        std::function<void(const LinkNotice&)> notice,
                                        RegistryKeeper* registry) {
  NodeOptions node;
  for (const ClusterMachine& one : cluster.spec().machines) node.machines.push_back(one.name.text);
  node.self = machine;
  node.keeper = cluster.spec().keeper();
  node.homes = cluster.spec().homes();
  node.placed = cluster.placed;
  if (registry == nullptr) {
    node.incarnation = new_incarnation();
  } else {
    const Result<std::uint32_t> given = registry->wait_for_entry({});
    if (!given.ok()) return given.error();
    node.incarnation = *given;
  }
  node.runner = std::move(options);
  std::unique_ptr<IndexPort> index;
  if (registry != nullptr && page_sharing(cluster).machines.contains(machine))
    index = begin_index(*registry, notice);
  auto pages = connect_pages(cluster, {machine, node.incarnation}, notice, std::move(index));
  if (!pages.ok()) return pages.error();
  node.runner.peers = std::move(pages).value();
  node.notice = notice;
  node.connect = [&cluster, notice, registry](Origin self) -> Result<std::unique_ptr<Transport>> {
    if (registry != nullptr) registry->raise(self.incarnation);
    Result<ZmqOptions> made = transport_options(cluster, self, notice);
    if (!made.ok()) return made.error();
    return make_zmq_transport(std::move(made).value());
  };
  std::vector<Graph> graphs;
  for (const Compiled& compiled : cluster.workflows)
    graphs.push_back({&compiled.loaded.spec, &compiled.plan});
  return Node::create(graphs, catalog, std::move(node));
}

}  // namespace sluice::cli
