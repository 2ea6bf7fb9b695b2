#include "cli/cluster_home.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "base/failpoint.h"
#include "cli/cluster_pages.h"
#include "cli/gated_runner.h"
#include "cli/isolate.h"
#include "cli/machine_status.h"
#include "cli/open_files.h"
#include "cli/refusals.h"

namespace sluice::cli {

namespace {

namespace fs = std::filesystem;

std::string processes_lock(const Cluster& cluster) { return cluster.folder + "/up.lock"; }

/// What was heard of the others while they are awaited: who is kept out is told at once, as nobody
/// else may see it; the rest nobody wants, unless one does not come.
class KeptNotices {
 public:
  void add(const LinkNotice& notice) {
    const std::lock_guard lock(mutex_);
    if (all_came_) return;
    if (const std::optional<std::string> refused = refusals_.tell(notice)) {
      if (!refused->empty()) std::fprintf(stderr, "note: %s\n", refused->c_str());
      return;
    }
    if (lines_.size() < most && std::ranges::find(lines_, notice.text) == lines_.end())
      lines_.push_back(notice.text);
  }
  void print() {
    const std::lock_guard lock(mutex_);
    for (const std::string& line : lines_) std::fprintf(stderr, "note: %s\n", line.c_str());
  }
  void all_came() {
    const std::lock_guard lock(mutex_);
    all_came_ = true;
  }

 private:
  static constexpr std::size_t most = 16;
  std::mutex mutex_;
  std::vector<std::string> lines_;
  Refusals refusals_;
  bool all_came_ = false;
};

constexpr const char* registry_process = "registry";  // beside the machines
constexpr std::chrono::milliseconds step{200};  // in which a wait looks for what else there is

Error ended() { return {ErrorCode::cancelled, "told to end"}; }

/// Neither there nor about to be: no process is this machine.
bool is_away(const Cluster& cluster, const std::string& name,
             const std::vector<std::string>& missing) {
  if (name == registry_process) return true;
  if (std::ranges::find(missing, name) == missing.end()) return false;
  const auto& machines = cluster.spec().machines;
  for (std::uint32_t i = 0; i < machines.size(); ++i)
    if (machines[i].name.text == name) return !is_locked(lock_path(cluster.folder, i));
  return false;
}

/// Each machine is a process that may be started here.
bool is_of_this_computer(const Cluster& cluster) { return !cluster.spec().machines[0].address; }

/// Why machines that are missed may not come, where the registry has entries of their names: of one
/// of another cluster file that is called the same. Empty: it has none, or there is no registry.
std::string registered_elsewhere(const RegistryKeeper* registry,
                                 const std::vector<std::string>& missing) {
  if (registry == nullptr) return "";
  const std::vector<std::string> present = registry->standing().present;
  std::string names;
  for (const std::string& name : missing)
    if (std::ranges::find(present, name) != present.end())
      names += (names.empty() ? "" : ", ") + in_quotes(name);
  if (names.empty()) return "";
  const RegistryOptions& options = registry->options();
  return "; the registry at " + options.shown + " knows " + names + " of cluster " +
         in_quotes(options.entry.cluster) +
         ": perhaps of another cluster file of this name, which is up; give one of the two files "
         "another name";
}

/// What to do about machines that do not come: "" where a run starts them.
std::string what_to_do(const Cluster& cluster, std::uint32_t self) {
  const ClusterSpec& spec = cluster.spec();
  if (!is_of_this_computer(cluster))
    return "; start each with `sluice node --cluster " + spec.file +
           " --name MACHINE`; one that runs says itself, or in what `sluice up` prints, what keeps "
           "it out: other keys, another address or other workflows";
  if (spec.homes().size() == 1) return "";
  std::string help = "; where calls begin on several machines, ";
  if (spec.homes().size() < spec.machines.size())
    help += "`sluice up " + spec.file + "` starts those that are no homes, and ";
  std::string homes;
  for (const std::uint32_t home : spec.homes()) {
    if (home == self) continue;
    homes += (homes.empty() ? "" : ", ");
    homes += "`sluice run --cluster " + spec.file + " --name ";
    homes += spec.machines[home].name.text + "`";
    if (home == spec.keeper()) homes += " (which keeps the list of who is there)";
  }
  return help + "each other home is a process of yours: " + homes;
}

}  // namespace

Result<std::vector<Supervisor::Machine>> processes_of(const Cluster& cluster,
                                                      const WorkflowOptions& options,
                                                      const std::vector<std::string>& plugins,
                                                      const SharedWeights& weights, bool quiet) {
  std::vector<Supervisor::Machine> machines;
  Result<std::vector<std::string>> server = registry_command(cluster);
  if (!server.ok()) return server.error();
  // A Redis server that ends in order removes its socket's path, which may be its successor's by
  // then; this one keeps nothing, so it need not end in order.
  if (!server->empty())
    machines.push_back({registry_process, std::move(server).value(), "", SIGKILL});
  for (std::uint32_t i = 0; i < cluster.spec().machines.size(); ++i) {
    const ClusterMachine& one = cluster.spec().machines[i];
    if (one.home) continue;
    if (Result<void> cores = check_cores_of(cluster, i); !cores.ok()) return cores.error();
    Supervisor::Machine& machine = machines.emplace_back();
    machine.name = one.name.text;
    machine.lock = lock_path(cluster.folder, i);
    machine.command = {own_program(),       "node",   "--cluster",
                       cluster.spec().file, "--name", one.name.text};
    for (const std::string& set : options.set)
      machine.command.insert(machine.command.end(), {"--set", set});
    for (const std::string& folder : plugins)
      machine.command.insert(machine.command.end(), {"--plugins", folder});
    if (quiet) machine.command.emplace_back("--quiet");
    if (weights.machines.contains(i))
      machine.weights = [weights, &cluster, i] { return join(weights, cluster, i); };
  }
  return machines;
}

Result<LockFile> lock_processes(const Cluster& cluster) {
  if (is_locked(processes_lock(cluster)))
    return Error{ErrorCode::unavailable,
                 "the machines of " + cluster.spec().file + " are up already"};
  return LockFile::take(processes_lock(cluster));
}

void remove_sockets(const Cluster& cluster) {
  for (std::uint32_t i = 0; i < cluster.spec().machines.size(); ++i)
    if (!cluster.spec().machines[i].home) {
      // Whoever holds the lock lives, and was not started by this process.
      if (const Result<LockFile> lock = LockFile::take(lock_path(cluster.folder, i)); lock.ok()) {
        remove_sockets_of(cluster.folder, i);
        ::unlink(status_path(cluster.folder, i).c_str());
        ::unlink(lock_path(cluster.folder, i).c_str());
      }
    }
  ::unlink(registry_socket(cluster).c_str());
  leave_cluster_folder(cluster.folder);
}

Result<std::unique_ptr<ClusterHome>> ClusterHome::begin(
    const Cluster& cluster, std::uint32_t self, const Catalog& catalog,
    const WorkflowOptions& options, const std::vector<std::string>& plugins, RunnerOptions runner,
    std::chrono::milliseconds patience, const std::function<bool()>& told_to_end) {
  if (Result<void> cores = check_cores_of(cluster, self); !cores.ok()) return cores.error();
  if (Result<void> made = make_folder(cluster); !made.ok()) return made.error();
  std::unique_ptr<ClusterHome> home(new ClusterHome(cluster, self));
  name_for_failpoints(cluster.spec().machines[self].name.text);
  Result<LockFile> lock = lock_machine(cluster, self);
  if (!lock.ok()) return lock.error();
  home->machine_lock_.emplace(std::move(lock).value());
  allow_many_open_files();
  Result<std::unique_ptr<MachineStatus>> shown = MachineStatus::show(cluster, self);
  if (!shown.ok()) return shown.error();
  home->status_ = std::move(shown).value();
  const auto progress = runner.progress;
  const auto kept = std::make_shared<KeptNotices>();
  const auto notice = [quiet = &home->quiet_, kept](const LinkNotice& heard) {
    if (*quiet)
      kept->add(heard);
    else
      std::fprintf(stderr, "note: %s\n", heard.text.c_str());
  };
  if (Result<void> started = home->start_processes(options, plugins); !started.ok())
    return started.error();
  auto forwarder = begin_forwarding(cluster, self, notice);
  if (!forwarder.ok()) return forwarder.error();
  home->forwarder_ = std::move(forwarder).value();
  auto entry = begin_entry(cluster, self, {}, notice);
  if (!entry.ok()) return entry.error();
  home->registry_ = std::move(entry).value();
  home->status_->watch(home->registry_.get());
  if (home->registry_) {
    if (progress) progress("waiting for the registry");
    if (const Result<void> entered = wait_for_entry(*home->registry_, patience, told_to_end);
        !entered.ok())
      return entered.error();
  }
  if (told_to_end()) return ended();
  home->prepare_hosts(catalog, plugins);
  auto node = make_node(cluster, self, home->hosted_.catalog, std::move(runner), notice,
                        home->registry_.get());
  if (!node.ok()) return node.error();
  home->node_ = std::move(node).value();
  home->show_status();
  if (Result<void> all = home->wait_for_members(patience, told_to_end, progress); !all.ok()) {
    if (all.error().code == ErrorCode::cancelled) return all.error();
    kept->print();
    return Error{all.error().code, all.error().message + what_to_do(cluster, self)};
  }
  home->restarts_ = std::make_unique<Restarts>(
      cluster, self, *home->node_, home->supervisor_ ? &*home->supervisor_ : nullptr, patience);
  kept->all_came();
  home->quiet_ = false;
  failpoint("ready");
  return home;
}

/// Where nobody has, and no other home would miss them.
Result<void> ClusterHome::start_processes(const WorkflowOptions& options,
                                          const std::vector<std::string>& plugins) {
  if (!is_of_this_computer(cluster_) || cluster_.spec().homes().size() > 1) return {};
  Result<LockFile> first = lock_processes(cluster_);
  if (!first.ok()) return {};
  processes_lock_.emplace(std::move(first).value());
  weights_ = shared_weights_of(cluster_, self_);
  Result<std::vector<Supervisor::Machine>> machines =
      processes_of(cluster_, options, plugins, weights_, true);
  if (!machines.ok()) return machines.error();
  cgroups_ = cgroups_of(cluster_);
  supervisor_.emplace(std::move(machines).value(), true, [](const std::string& line) {
    std::fprintf(stderr, "note: %s\n", line.c_str());
  });
  show_status();
  return {};
}

/// They and this process share weights with the machines that it has started.
void ClusterHome::prepare_hosts(const Catalog& catalog, const std::vector<std::string>& plugins) {
  Result<OwnedFile> launcher = join(weights_, cluster_, self_);
  if (!launcher.ok())
    std::fprintf(stderr, "note: this home does not share weights with the machines: %s\n",
                 launcher.error().message.c_str());
  hosted_ = with_hosts_of(cluster_, self_, catalog, plugins,
                          launcher.ok() ? std::move(launcher).value() : OwnedFile());
  if (const auto exchange = weights_.exchange; exchange && !hosted_.weights)
    hosted_.weights = [exchange] { return exchange->report(); };
  status_->show_hosts(hosted_);
}

/// Nobody waits for a machine of which whoever starts it says that it keeps failing.
Result<void> ClusterHome::wait_for_members(std::chrono::milliseconds patience,
                                           const std::function<bool()>& told_to_end,
                                           const ShowProgress& progress) {
  using std::chrono::steady_clock;
  auto asked = steady_clock::now();
  std::vector<std::string> missed;
  Result<void> all = node_->wait_for_members(
      patience, [&](const std::vector<std::string>& missing) -> Result<void> {
        if (progress && missed != missing) {
          std::string who;
          for (const std::string& name : missing) who += (who.empty() ? "'" : ", '") + name + "'";
          progress((missing.size() == 1 ? "waiting for machine " : "waiting for machines ") + who);
        }
        missed = missing;
        if (told_to_end()) return ended();
        if (steady_clock::now() - asked < step) return {};
        const auto processes = supervised(cluster_, supervisor_ ? &*supervisor_ : nullptr);
        asked = steady_clock::now();
        if (!processes) return {};
        for (const Supervisor::Status& one : *processes)
          if (one.failing != 0 && is_away(cluster_, one.name, missing))
            return Error{ErrorCode::unavailable, "machine '" + one.name + "' " + one.ended + "; " +
                                                     failing_words(one.failing)};
        return {};
      });
  if (all.ok() || all.error().code != ErrorCode::deadline) return all;
  return Error{ErrorCode::deadline,
               all.error().message + registered_elsewhere(registry_.get(), missed)};
}

Runner& ClusterHome::runner(std::size_t workflow) {
  Runner& direct = node_->runner(workflow);
  if (!registry_) return direct;
  gates_.resize(std::max(gates_.size(), workflow + 1));
  if (!gates_[workflow])
    gates_[workflow] = std::make_unique<GatedRunner>(
        direct, [registry = registry_.get()] { return registry->may_begin(); });
  return *gates_[workflow];
}

void ClusterHome::show_status() {
  status_->set(node_.get(), supervisor_ ? &*supervisor_ : nullptr);
}

void ClusterHome::end_processes() {
  quiet_ = true;
  if (!supervisor_) return;
  status_->set_ending();
  restarts_.reset();
  status_->set(node_.get(), nullptr);
  supervisor_.reset();
  remove_sockets(cluster_);
  processes_lock_.reset();
}

ClusterHome::~ClusterHome() {
  quiet_ = true;
  restarts_.reset();
  if (status_) status_->set_ending();
  if (status_) status_->watch(nullptr);
  if (supervisor_) supervisor_->stop();
  if (status_) status_->set(nullptr, supervisor_ ? &*supervisor_ : nullptr);
  node_.reset();
  end_processes();
  status_.reset();
  registry_.reset();
  forwarder_.reset();
  processes_lock_.reset();
  leave_folder(cluster_, self_, std::move(machine_lock_));
}

}  // namespace sluice::cli
