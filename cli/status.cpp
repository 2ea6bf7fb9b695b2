// `sluice status`: what the processes of a cluster on this computer say of themselves.
#include <algorithm>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/count_text.h"
#include "cli/commands.h"
#include "cli/json_fields.h"
#include "cli/process_answer.h"
#include "cli/restarts.h"
#include "cli/running.h"
#include "runtime/registry/registration.h"

namespace sluice::cli {

namespace {

using Json = nlohmann::ordered_json;

struct StatusCommand {
  std::string cluster;
  std::string format = "text";
};

using Answer = ProcessAnswer;

/// What a machine's process says of itself.
Json process_row(const std::string& name, bool home, bool keeper, const RunningProcess* process,
                 const Answer* answer) {
  Json row{{"name", name}, {"home", home}, {"keeper", keeper}, {"process", "none"}};
  if (process == nullptr) return row;
  row["pid"] = process->pid;
  if (!answer->silent.empty()) {
    row["process"] = "silent";
    row["silent"] = answer->silent;
    return row;
  }
  const auto says = [&](const char* key) {
    const Json* const said = member(answer->json, key);
    return said != nullptr && *said == true;
  };
  row["process"] = says("ending") ? "ending" : says("ready") ? "ready" : "loading";
  for (const char* key :
       {"lives", "calls", "given_up", "activations", "dropped", "refused", "repeated", "pages",
        "pools", "hosts", "weights", "registry", "registry_why"})
    if (const Json* value = member(answer->json, key)) row[key] = *value;
  return row;
}

/// What the keeper's list says of a machine, by its name: the file may have changed since.
void add_membership(const Json* list, Json& row) {
  if (list == nullptr || !list->is_array()) return;
  for (const Json& one : *list)
    if (one.is_object() && text_of(one, "name") == row["name"].get<std::string>())
      for (const auto& [key, value] : one.items())
        if (key != "name") row[key] = value;
}

/// One row for each machine of the file, and into `others` the machines that it does not have.
Json machines_of(const ClusterPlace& place, const std::vector<RunningProcess>& running,
                 const std::vector<Answer>& answers, Json& others) {
  const std::string keeper =
      place.is_read() ? place.spec.machines[place.spec.keeper()].name.text : std::string();
  const Json* list = nullptr;  // the keeper's
  for (std::size_t k = 0; k < running.size(); ++k)
    if (!keeper.empty() && running[k].machine == keeper && answers[k].silent.empty())
      list = member(answers[k].json, "machines");
  std::vector<bool> shown(running.size());
  Json rows = Json::array();
  for (const ClusterMachine& machine : place.spec.machines) {
    const std::string& name = machine.name.text;
    std::size_t k = 0;
    while (k < running.size() && (shown[k] || running[k].machine != name)) ++k;
    const bool is_there = k < running.size();
    if (is_there) shown[k] = true;
    Json& row = rows.emplace_back(process_row(name, machine.home, name == keeper,
                                              is_there ? &running[k] : nullptr,
                                              is_there ? &answers[k] : nullptr));
    add_membership(list, row);
  }
  others = Json::array();
  for (std::size_t k = 0; k < running.size(); ++k)
    if (!shown[k] && !running[k].machine.empty())
      others.push_back(process_row(running[k].machine, false, false, &running[k], &answers[k]));
  return rows;
}

/// As it was said, without what a terminal would act on.
std::string shown_text(const Json& row, const char* key) { return printable(text_of(row, key)); }

std::string seconds(const Json& row, const char* key) {
  char text[32];
  std::snprintf(text, sizeof text, "%.1f s", number_of<double>(row, key) / 1000);
  return text;
}

std::string process_words(const Json& row) {
  const std::string process = text_of(row, "process");
  if (process == "none") return "none here";
  const std::string pid = "pid " + std::to_string(number_of<int>(row, "pid"));
  if (process == "silent") return pid + ", " + shown_text(row, "silent");
  return process == "ready" ? pid : pid + ", " + process;
}

/// As the keeper's list says. `no_list`: why there is none.
std::string member_words(const Json& row, const std::string& no_list) {
  const std::string state = text_of(row, "state");
  if (state.empty()) return no_list;
  const std::string since = seconds(row, "since_ms");
  const std::string life = "life " + std::to_string(number_of<std::uint32_t>(row, "incarnation"));
  if (row["home"] == true && row["keeper"] == true) return "home, " + life + ", for " + since;
  if (row["keeper"] == true) return "keeps the list, " + life + ", for " + since;
  if (state == "not_seen") return "has not joined for " + since;
  if (state == "lost") return life + " lost " + since + " ago: " + shown_text(row, "why");
  return (row["home"] == true ? "home, " : "up, ") + life + ", for " + since;
}

std::string load_words(const Json& row) {
  std::string words;
  const auto add = [&](const std::string& what) { words += (words.empty() ? "" : ", ") + what; };
  const auto count = [&](const char* key) {
    return std::to_string(number_of<std::uint64_t>(row, key));
  };
  if (row["home"] == true && row.contains("calls"))
    add(count_text(number_of<std::uint64_t>(row, "calls"), "call"));
  if (number_of<std::uint64_t>(row, "refused") > 0) add(count("refused") + " refused");
  if (number_of<std::uint64_t>(row, "repeated") > 0) add(count("repeated") + " begun once more");
  if (row.contains("activations"))
    add(count_text(number_of<std::uint64_t>(row, "activations"), "activation"));
  if (row.contains("registry") && row["registry"] != "current")
    add("registry " + shown_text(row, "registry") + ": " + shown_text(row, "registry_why"));
  if (row.contains("heard_ms")) add("heard " + seconds(row, "heard_ms") + " ago");
  if (row.contains("owed_bytes"))
    add(count("owed_bytes") + " of " + count("window_bytes") + " bytes owed");
  if (row.contains("lent") && row["lent"].is_object()) {
    const Json& lent = row["lent"];
    const auto many = number_of<std::uint64_t>(lent, "in_message");
    if (const auto values = number_of<std::uint64_t>(lent, "in_place"); values + many > 0)
      add(std::to_string(values) + " large values in place, " + std::to_string(many) +
          " in messages" + (many > 0 ? ": " + shown_text(lent, "why") : ""));
  }
  return words;
}

/// "; memory: 1024 MiB at most, by a cgroup (200 MiB so far)", of a host that has a limit.
std::string memory_words(const Json& host) {
  const std::string by = text_of(host, "memory_by");
  if (by.empty()) return "";
  const auto mib = [&](const char* key) {
    return std::to_string(number_of<std::uint64_t>(host, key) >> 20U) + " MiB";
  };
  const std::string most = "; memory: " + mib("memory_bytes") + " at most, ";
  if (by == "address_space") return most + "of address space";
  const bool known = number_of<std::uint64_t>(host, "memory_peak_bytes") > 0;
  return most + "by a cgroup" + (known ? " (" + mib("memory_peak_bytes") + " so far)" : "");
}

/// "talks; 2 activations", of a host of a machine's roles.
std::string host_words(const Json& host) {
  const std::string state = text_of(host, "state");
  const auto many = [&](const char* key, const char* what) {
    return count_text(number_of<std::uint64_t>(host, key), what);
  };
  std::string words = "pid " + std::to_string(number_of<int>(host, "pid"));
  if (state == "waits")
    words = "is started again in " + seconds(host, "next_ms");
  else if (state == "refused")
    words = "refused, for it dies too often: is started again in " + seconds(host, "next_ms");
  else if (state == "begins")
    words += ", loading";
  if (state == "serves") words += "; " + many("activations", "activation");
  words += "; started " + many("starts", "time");
  if (number_of<std::uint64_t>(host, "tried_again") > 0)
    words += "; tried again: " + many("tried_again", "activation");
  words += memory_words(host);
  if (const std::string ended = shown_text(host, "ended"); !ended.empty())
    words += "; the last one: " + ended;
  return words;
}

void print_hosts(const Json& row) {
  const Json* const hosts = member(row, "hosts");
  if (hosts == nullptr || !hosts->is_array()) return;
  for (const Json& host : *hosts) {
    std::string roles;
    if (const Json* list = member(host, "roles"); list != nullptr && list->is_array())
      for (const Json& role : *list)
        if (role.is_string())
          roles += (roles.empty() ? "" : ", ") + printable(role.get<std::string>());
    std::printf("  host '%s' of %s: %s\n", shown_text(host, "name").c_str(), roles.c_str(),
                host_words(host).c_str());
  }
}

/// "text of models/chat: 301 MiB in memory once for host 'a', host 'b'".
void print_weights(const Json& row) {
  const Json* const weights = member(row, "weights");
  if (weights == nullptr || !weights->is_array()) return;
  const auto names = [](const Json& one, const char* key) {
    std::string all;
    if (const Json* list = member(one, key); list != nullptr && list->is_array())
      for (const Json& name : *list)
        if (name.is_string()) all += (all.empty() ? "" : ", ") + printable(name.get<std::string>());
    return all;
  };
  for (const Json& one : *weights) {
    std::string words = "is loaded by " + shown_text(one, "maker");
    if (const std::string waiting = names(one, "waiting"); !waiting.empty())
      words += "; it is waited for by " + waiting;
    if (const std::string holders = names(one, "holders"); !holders.empty())
      words = std::to_string(number_of<std::uint64_t>(one, "bytes") >> 20U) +
              " MiB in memory once for " + holders;
    std::printf("  %s: %s\n", shown_text(one, "what").c_str(), words.c_str());
  }
}

void print_up(const Json& up, int width) {
  std::printf("started here by %s, pid %d:\n", text_of(up, "by").c_str(),
              number_of<int>(up, "pid"));
  if (up.contains("silent")) std::printf("  %s\n", shown_text(up, "silent").c_str());
  for (const Json& one : up["processes"]) {
    const std::string ended = shown_text(one, "ended");
    const int pid = number_of<int>(one, "pid");
    if (const Json* other = member(one, "other"); other != nullptr && *other == true) {
      std::printf("  %-*s  pid %d; started by something else\n", width,
                  shown_text(one, "machine").c_str(), pid);
      continue;
    }
    const auto starts = number_of<unsigned>(one, "starts");
    const auto failing = number_of<unsigned>(one, "failing");
    std::printf("  %-*s  %s; started %s%s%s%s\n", width, shown_text(one, "machine").c_str(),
                pid == 0 ? "does not run now" : ("pid " + std::to_string(pid)).c_str(),
                count_text(starts, "time").c_str(), ended.empty() ? "" : "; the last one ",
                ended.c_str(), failing == 0 ? "" : ("; " + failing_words(failing)).c_str());
  }
  print_weights(up);
}

std::string keeper_of(const Json& row) {
  return row["home"] == true ? "the home" : "machine '" + shown_text(row, "name") + "'";
}

/// Why nobody says who is lost, and since when.
std::string why_no_list(const Json& machines) {
  for (const Json& row : machines) {
    if (row["keeper"] != true) continue;
    if (row["process"] == "none")
      return keeper_of(row) + " does not run here, so nobody says whether it is lost";
    if (row["process"] == "silent")
      return keeper_of(row) + " does not answer, so nobody says whether it is lost";
    return keeper_of(row) + " does not say";
  }
  return "nobody says whether it is lost";
}

void print_text(const Json& status) {
  std::size_t width = 0;
  for (const char* list : {"machines", "others"})
    for (const Json& row : status[list]) width = std::max(width, shown_text(row, "name").size());
  const int columns = static_cast<int>(width);
  const std::string no_list = why_no_list(status["machines"]);
  for (const Json& row : status["machines"]) {
    const std::string load = load_words(row);
    std::printf("%-*s  %s; %s%s%s\n", columns, shown_text(row, "name").c_str(),
                process_words(row).c_str(),
                member_words(row, row["home"] == true     ? "calls begin here"
                                  : row["keeper"] == true ? "keeps the list of who is there"
                                                          : no_list)
                    .c_str(),
                load.empty() ? "" : "; ", load.c_str());
    print_hosts(row);
    print_weights(row);
  }
  for (const Json& row : status["others"])
    std::printf("%-*s  %s; %s\n", columns, shown_text(row, "name").c_str(),
                process_words(row).c_str(),
                status["machines"].empty() ? "the file cannot be read"
                                           : "not a machine of the file as it is now");
  if (!status["up"].is_null()) print_up(status["up"], columns);
}

/// Who starts the machines again when they die.
Json supervisor_of(const std::vector<RunningProcess>& running, const std::vector<Answer>& answers) {
  for (std::size_t i = 0; i < running.size(); ++i) {
    const bool is_up = running[i].machine.empty();
    const bool silent = !answers[i].silent.empty();
    const Json* processes = member(answers[i].json, "processes");
    if (!is_up && (silent || processes == nullptr)) continue;
    Json up{{"by", is_up ? "`sluice up`" : "`sluice run`"}, {"pid", running[i].pid}};
    if (silent) up["silent"] = answers[i].silent;
    up["processes"] = !silent && processes->is_array() ? *processes : Json::array();
    // Those of a home stand in its own row.
    if (const Json* weights = is_up ? member(answers[i].json, "weights") : nullptr)
      up["weights"] = *weights;
    return up;
  }
  return nullptr;
}

int status(const StatusCommand& options) {
  const ClusterPlace place = read_cluster_place(options.cluster);
  const Result<std::vector<RunningProcess>> running = find_running(place);
  if (!running.ok()) {
    const bool said = !place.is_read() && running.error().code == ErrorCode::not_found;
    return said ? 1 : fail(running.error().message);
  }
  std::vector<Answer> answers;
  for (const RunningProcess& process : *running) answers.push_back(ask_process(process));
  Json all{{"cluster", options.cluster}};
  Json others;
  all["machines"] = machines_of(place, *running, answers, others);
  all["others"] = std::move(others);
  all["up"] = supervisor_of(*running, answers);
  if (options.format == "json")
    std::printf("%s\n", all.dump(-1, ' ', false, Json::error_handler_t::replace).c_str());
  else
    print_text(all);
  return 0;
}

}  // namespace

void add_status(Command app, Chosen& chosen) {
  auto options = std::make_shared<StatusCommand>();
  Command command =
      app.add_subcommand("status", "Say how the machines of a cluster are, as seen from here");
  command.add_option("--cluster", options->cluster, "A cluster file (YAML)")
      .type_name("FILE")
      .required();
  command.add_option("--format", options->format, "text or json").one_of({"text", "json"});
  command.callback([&chosen, options] { chosen = [options] { return status(*options); }; });
}

}  // namespace sluice::cli
