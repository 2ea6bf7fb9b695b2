// `sluice pool status DIR`, `sluice pool status --cluster FILE`, `sluice pool sessions`: what a
// folder of pages, or the pools of running machines, hold now.
#include <chrono>
#include <cstdio>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "cli/pool_folder.h"
#include "cli/pool_snapshot.h"
#include "cli/pool_store.h"
#include "cli/process_answer.h"
#include "cli/watch.h"

namespace sluice::cli {
namespace {

using Json = nlohmann::ordered_json;

struct StatusCommand {
  std::string folder, cluster, format = "text";
  bool is_watched = false;

  bool json() const { return format == "json"; }
};

double seconds_now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

/// Names of files and sessions are any bytes; what is no UTF-8 is shown as U+FFFD.
std::string line_of(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
}

/// What the processes here say of their pools. Errors: as `find_running`.
Result<PoolSnapshot> ask_pools(const ClusterPlace& place) {
  const Result<std::vector<RunningProcess>> running = find_running(place);
  if (!running.ok()) return running.error();
  PoolSnapshot snapshot;
  std::string asked;
  for (const RunningProcess& process : *running) {
    if (process.machine.empty()) continue;
    asked += (asked.empty() ? "'" : ", '") + process.machine + "'";
    const ProcessAnswer answer = ask_process(process);
    if (answer.silent.empty())
      add_pools(process.machine, answer.json, snapshot);
    else
      snapshot.pools.push_back({process.machine, {}, answer.silent});
    snapshot.lacks_answers = snapshot.lacks_answers || !answer.silent.empty();
  }
  snapshot.seconds = seconds_now();
  if (snapshot.pools.empty())
    snapshot.nobody = "no machine of " + place.spec.file + " that runs here (" + asked +
                      ") has a pool: none of its roles lists a `paged_kv`; `sluice status` says "
                      "which machines do not run";
  return snapshot;
}

/// True: there is nothing more to say than was said of the file.
bool was_said(const ClusterPlace& place, const Error& error) {
  return !place.is_read() && error.code == ErrorCode::not_found;
}

int watch_cluster(const StatusCommand& options, const ClusterPlace& place) {
  std::optional<PoolSnapshot> before;
  return watch_here([&] {
    Result<PoolSnapshot> asked = ask_pools(place);
    PoolSnapshot now;
    if (asked.ok())
      now = std::move(asked).value();
    else
      now.nobody = asked.error().message;
    const PoolSnapshot* const last = before ? &*before : nullptr;
    std::string text =
        options.json() ? line_of(pool_status_json(now, last)) : pool_status_text(now, last) + "\n";
    before = std::move(now);
    return text;
  });
}

int watch_folder(const StatusCommand& options, FolderSnapshot first) {
  FolderSnapshot before, now = std::move(first);
  bool is_first = true;
  return watch_here([&]() -> std::string {
    if (!is_first) {
      Result<StoreReport> made = report_store(options.folder, false);
      // Nobody watches a folder that is gone; a segment that is gone meanwhile is a finding.
      if (!made.ok())
        return (options.json() ? line_of({{"nobody", made.error().message}})
                               : made.error().message + "\n");
      before = std::exchange(now, {seconds_now(), std::move(made).value()});
    }
    const FolderSnapshot* const last = is_first ? nullptr : &before;
    is_first = false;
    return options.json() ? line_of(folder_json(options.folder, now, last))
                          : folder_text(now, last) + "\n";
  });
}

int folder_status(const StatusCommand& options) {
  Result<StoreReport> made = report_store(options.folder, false);
  if (!made.ok()) return fail(made.error().message);
  const FolderSnapshot now{seconds_now(), std::move(made).value()};
  if (options.is_watched) return watch_folder(options, now);
  const std::string text = options.json() ? line_of(folder_json(options.folder, now, nullptr))
                                          : folder_text(now, nullptr);
  std::fputs(text.c_str(), stdout);
  return now.report.broken.empty() ? 0 : 1;
}

int status(const StatusCommand& options) {
  if (options.folder.empty() == options.cluster.empty())
    return fail_usage(
        "pool status: of which pool? Give DIR, a folder of pages, or --cluster FILE, whose "
        "machines "
        "run here");
  if (!options.folder.empty()) return folder_status(options);
  const ClusterPlace place = read_cluster_place(options.cluster);
  const Result<PoolSnapshot> now = ask_pools(place);
  if (!now.ok() && was_said(place, now.error())) return 1;
  if (!now.ok()) return fail(now.error().message);
  if (options.is_watched) return watch_cluster(options, place);
  if (!now->nobody.empty()) return fail(now->nobody);
  const std::string text =
      options.json() ? line_of(pool_status_json(*now, nullptr)) : pool_status_text(*now, nullptr);
  std::fputs(text.c_str(), stdout);
  return now->lacks_answers ? 1 : 0;
}

int sessions(const StatusCommand& options) {
  if (!options.folder.empty())
    return fail(options.folder +
                ": a folder has pages by their content and knows no sessions; `sluice pool pages " +
                options.folder +
                "` lists them, `sluice pool sessions --cluster FILE` the sessions "
                "of machines that run here");
  if (options.cluster.empty())
    return fail_usage("pool sessions: give --cluster FILE, whose machines run here");
  const ClusterPlace place = read_cluster_place(options.cluster);
  const Result<PoolSnapshot> now = ask_pools(place);
  if (!now.ok() && was_said(place, now.error())) return 1;
  if (!now.ok()) return fail(now.error().message);
  if (!now->nobody.empty()) return fail(now->nobody);
  const std::string text =
      options.json() ? line_of(pool_sessions_json(*now)) : pool_sessions_text(*now);
  std::fputs(text.c_str(), stdout);
  return now->lacks_answers ? 1 : 0;
}

void add_options(Command command, StatusCommand& options) {
  command.add_option("--cluster", options.cluster, "A cluster file (YAML), whose machines run here")
      .type_name("FILE");
  command.add_option("--format", options.format, "text or json").one_of({"text", "json"});
}

}  // namespace

void add_pool_status(Command pool, Chosen& chosen) {
  auto options = std::make_shared<StatusCommand>();
  Command command = pool.add_subcommand(
      "status",
      "Tell what pages a folder, or the pools of a cluster's machines, have; 1: some of a folder's "
      "are broken, as far as their ends tell, or a machine that runs does not answer");
  command.add_option("DIR", options->folder, "A folder of --kv-folder, or of a paged_kv's ssd");
  add_options(command, *options);
  command.add_flag("--watch", options->is_watched,
                   "Once a second until Ctrl-C, with what has happened since; json: a line each");
  command.callback([&chosen, options] { chosen = [options] { return status(*options); }; });

  auto asked = std::make_shared<StatusCommand>();
  Command list =
      pool.add_subcommand("sessions",
                          "Tell which sessions the pools of a cluster's machines hold pages of; 1: "
                          "a machine that runs does not answer");
  list.add_option("DIR", asked->folder, "A folder has none: says what to ask instead");
  add_options(list, *asked);
  list.callback([&chosen, asked] { chosen = [asked] { return sessions(*asked); }; });
}

}  // namespace sluice::cli
