// `sluice status`: what the processes of a cluster on this computer say of themselves.
#include <chrono>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <optional>

#include "cli/commands.h"
#include "cli/running.h"

namespace sluice::cli {

namespace {

using Json = nlohmann::ordered_json;
constexpr std::chrono::seconds answer_patience{1};

struct StatusCommand {
  std::string cluster;
  std::string format = "text";
};

/// A process, what it said, or why it said nothing.
struct Answer {
  std::optional<std::uint32_t> machine;
  Json json;
  std::string silent;
};

Answer ask(const RunningProcess& process) {
  Answer answer{process.machine, {}, {}};
  const Result<std::string> text =
      process.reader ? process.reader->read(answer_patience)
                     : Result<std::string>(Error{ErrorCode::unavailable, process.silent});
  if (!text.ok()) {
    answer.silent = text.error().message;
  } else {
    answer.json = Json::parse(*text, nullptr, false);
    const bool whole = process.machine ? answer.json.is_object() : answer.json.is_array();
    if (!whole) answer.silent = "what it says cannot be read: it is of another version";
  }
  return answer;
}

/// One row for each machine of the file, from its own process and from the home's list.
Json machines_of(const ClusterPlace& place, const std::vector<RunningProcess>& running,
                 const std::vector<Answer>& answers) {
  const std::uint32_t home = place.spec.home();
  const Json* list = nullptr;  // the home's
  for (const Answer& answer : answers)
    if (answer.machine == home && answer.silent.empty() && answer.json.contains("machines"))
      list = &answer.json["machines"];
  Json rows = Json::array();
  for (std::uint32_t i = 0; i < place.spec.machines.size(); ++i) {
    Json row{{"name", place.spec.machines[i].name.text}, {"home", i == home}};
    row["process"] = "none";
    for (std::size_t k = 0; k < running.size(); ++k) {
      if (answers[k].machine != i) continue;
      row["pid"] = running[k].pid;
      const bool silent = !answers[k].silent.empty();
      row["process"] = silent                                  ? "silent"
                       : answers[k].json.value("ready", false) ? "ready"
                                                               : "loading";
      if (silent) row["silent"] = answers[k].silent;
      for (const char* key :
           {"lives", "calls", "given_up", "activations", "dropped", "registry", "registry_why"})
        if (!silent && answers[k].json.contains(key)) row[key] = answers[k].json[key];
    }
    if (list != nullptr && i < list->size())
      for (const auto& [key, value] : (*list)[i].items())
        if (key != "name") row[key] = value;
    rows.push_back(std::move(row));
  }
  return rows;
}

std::string seconds(const Json& milliseconds) {
  char text[32];
  std::snprintf(text, sizeof text, "%.1f s", milliseconds.get<double>() / 1000);
  return text;
}

std::string process_words(const Json& row) {
  const std::string process = row["process"];
  if (process == "none") return "none here";
  const std::string pid = "pid " + std::to_string(row["pid"].get<int>());
  if (process == "silent") return pid + ", " + row["silent"].get<std::string>();
  return process == "loading" ? pid + ", loading" : pid;
}

/// As the home's list says.
std::string member_words(const Json& row) {
  if (!row.contains("state")) return "the home does not say";
  const std::string state = row["state"];
  const std::string since = seconds(row["since_ms"]);
  if (row["home"])
    return "home, life " + std::to_string(row["incarnation"].get<std::uint32_t>()) + ", for " +
           since;
  if (state == "not_seen") return "has not joined for " + since;
  const std::string life = "life " + std::to_string(row["incarnation"].get<std::uint32_t>());
  if (state == "lost") return life + " lost " + since + " ago: " + row["why"].get<std::string>();
  return "up, " + life + ", for " + since;
}

std::string load_words(const Json& row) {
  std::string words;
  const auto add = [&](const std::string& what) { words += (words.empty() ? "" : ", ") + what; };
  const auto count = [&](const char* key, const std::string& what) {
    if (row.contains(key)) add(std::to_string(row[key].get<std::uint64_t>()) + " " + what);
  };
  if (row["home"]) count("calls", "calls");
  count("activations", "activations");
  if (row.contains("registry") && row["registry"] != "current")
    add("registry " + row["registry"].get<std::string>() + ": " +
        row["registry_why"].get<std::string>());
  if (row.contains("heard_ms")) add("heard " + seconds(row["heard_ms"]) + " ago");
  if (row.contains("owed_bytes"))
    add(std::to_string(row["owed_bytes"].get<std::uint64_t>()) + " of " +
        std::to_string(row["window_bytes"].get<std::uint64_t>()) + " bytes owed");
  return words;
}

void print_text(const Json& status) {
  std::size_t width = 0;
  for (const Json& row : status["machines"])
    width = std::max(width, row["name"].get<std::string>().size());
  for (const Json& row : status["machines"])
    std::printf("%-*s  %s; %s%s%s\n", static_cast<int>(width),
                row["name"].get<std::string>().c_str(), process_words(row).c_str(),
                member_words(row).c_str(), load_words(row).empty() ? "" : "; ",
                load_words(row).c_str());
  const Json& up = status["up"];
  if (up.is_null()) return;
  std::printf("started here by %s, pid %d:\n", up["by"].get<std::string>().c_str(),
              up["pid"].get<int>());
  if (up.contains("silent")) std::printf("  %s\n", up["silent"].get<std::string>().c_str());
  for (const Json& one : up["processes"]) {
    const std::string ended = one["ended"];
    const int pid = one["pid"];
    std::printf("  %-*s  %s; started %u time%s%s%s\n", static_cast<int>(width),
                one["machine"].get<std::string>().c_str(),
                pid == 0 ? "does not run now" : ("pid " + std::to_string(pid)).c_str(),
                one["starts"].get<unsigned>(), one["starts"] == 1 ? "" : "s",
                ended.empty() ? "" : "; the last one ", ended.c_str());
  }
}

/// Who starts the machines again when they die.
Json supervisor_of(const std::vector<RunningProcess>& running, const std::vector<Answer>& answers) {
  for (std::size_t i = 0; i < running.size(); ++i) {
    const bool is_up = !answers[i].machine;
    const bool silent = !answers[i].silent.empty();
    if (!is_up && (silent || !answers[i].json.contains("processes"))) continue;
    Json up{{"by", is_up ? "`sluice up`" : "`sluice run`"}, {"pid", running[i].pid}};
    if (silent) up["silent"] = answers[i].silent;
    up["processes"] = silent  ? Json::array()
                      : is_up ? answers[i].json
                              : answers[i].json["processes"];
    return up;
  }
  return nullptr;
}

int status(const StatusCommand& options) {
  const std::optional<ClusterPlace> place = read_cluster_place(options.cluster);
  if (!place) return 1;
  const Result<std::vector<RunningProcess>> running = find_running(*place);
  if (!running.ok()) return fail(running.error().message);
  std::vector<Answer> answers;
  for (const RunningProcess& process : *running) answers.push_back(ask(process));
  Json all{{"cluster", options.cluster}};
  all["machines"] = machines_of(*place, *running, answers);
  all["up"] = supervisor_of(*running, answers);
  if (options.format == "json")
    std::printf("%s\n", all.dump(-1, ' ', false, Json::error_handler_t::replace).c_str());
  else
    print_text(all);
  return 0;
}

}  // namespace

void add_status(CLI::App& app, Chosen& chosen) {
  auto options = std::make_shared<StatusCommand>();
  CLI::App* command =
      app.add_subcommand("status", "Say how the machines of a cluster are, as seen from here");
  command->add_option("--cluster", options->cluster, "A cluster file (YAML)")
      ->type_name("FILE")
      ->required();
  command->add_option("--format", options->format, "text or json")
      ->check(CLI::IsMember({"text", "json"}));
  command->callback([&chosen, options] { chosen = [options] { return status(*options); }; });
}

}  // namespace sluice::cli
