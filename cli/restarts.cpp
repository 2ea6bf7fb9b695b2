#include "cli/restarts.h"

#include <poll.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <ctime>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "cli/json_fields.h"
#include "cli/lock_file.h"
#include "cli/machine_status.h"
#include "cli/status_socket.h"
#include "graph/replica_split.h"

namespace sluice::cli {

namespace {

using std::chrono::steady_clock;
using Json = nlohmann::json;

constexpr std::chrono::milliseconds answer_patience{100};
constexpr std::chrono::milliseconds asked_every{100};

bool has_died(int process) {
  pollfd event{process, POLLIN, 0};
  return ::poll(&event, 1, 0) > 0;
}

/// The process on this computer that is the machine; -1: none.
int open_process_of(const std::string& folder, std::uint32_t machine) {
  const std::optional<LockHolder> holder = lock_holder(lock_path(folder, machine));
  return holder ? static_cast<int>(::syscall(SYS_pidfd_open, holder->pid, 0)) : -1;
}

/// What proc(5) says of a process from its state on, field 3. Empty: nothing.
std::istringstream stat_of(pid_t process) {
  std::ifstream stat("/proc/" + std::to_string(process) + "/stat");
  std::string text;
  std::getline(stat, text);
  const std::size_t name_end = text.rfind(')');
  return std::istringstream(name_end == std::string::npos ? "" : text.substr(name_end + 1));
}

/// It was stopped by a signal, or a debugger.
bool stands_still(const std::string& folder, std::uint32_t machine) {
  const std::optional<LockHolder> holder = lock_holder(lock_path(folder, machine));
  std::string state;
  return holder && stat_of(holder->pid) >> state && (state == "T" || state == "t");
}

/// One below those of all lives of this process; nothing: it is not known when it began.
std::optional<std::uint32_t> incarnation_before(pid_t process) {
  std::istringstream fields = stat_of(process);
  std::string field;
  for (int i = 3; i <= 22; ++i) fields >> field;  // when it began, in ticks
  timespec now{};
  const long ticks = ::sysconf(_SC_CLK_TCK);
  if (!fields || ticks <= 0 || ::clock_gettime(CLOCK_BOOTTIME, &now) != 0) return {};
  const double up = static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
  const double age = up - std::strtod(field.c_str(), nullptr) / static_cast<double>(ticks);
  const auto quarters = static_cast<std::uint32_t>(std::ceil(std::max(0.0, age) * 4));
  const std::uint32_t present = incarnation_now();
  return quarters < present ? present - quarters : 0;
}

/// The same, if it is known to be this life, or a later one: as it says itself, and where it does
/// not answer, since it stands still, say, by when it began.
int process_of_life(const std::string& folder, std::uint32_t machine, std::uint32_t life) {
  const std::optional<LockHolder> holder = lock_holder(lock_path(folder, machine));
  if (!holder) return -1;
  const Result<StatusReader> reader = StatusReader::connect(status_path(folder, machine));
  const Result<std::string> text =
      reader.ok() ? reader->read(answer_patience) : Result<std::string>(reader.error());
  bool is_it = false;
  if (text.ok()) {
    const Json json = Json::parse(*text, nullptr, false);
    is_it = number_of<pid_t>(json, "pid") == holder->pid &&
            number_of<std::uint32_t>(json, "incarnation") == life;
  } else {
    const std::optional<std::uint32_t> before = incarnation_before(holder->pid);
    is_it = before && life > *before;
  }
  return is_it ? static_cast<int>(::syscall(SYS_pidfd_open, holder->pid, 0)) : -1;
}

}  // namespace

std::string failing_words(unsigned ends) {
  return "it keeps failing: " + std::to_string(ends) + " ends in a row, each within " +
         std::to_string(Respawn::settled.count()) + " s of its start; it is tried again every " +
         std::to_string(Respawn::rarely.count()) + " s";
}

std::optional<std::vector<Supervisor::Status>> supervised(const Cluster& cluster,
                                                          const Supervisor* own) {
  if (own != nullptr) return own->status();
  if (!is_locked(cluster.folder + "/up.lock")) return {};
  std::vector<Supervisor::Status> processes;
  const Result<StatusReader> reader = StatusReader::connect(up_status_path(cluster.folder));
  if (!reader.ok()) return processes;
  const Result<std::string> text = reader->read(answer_patience);
  if (!text.ok()) return processes;
  const Json json = Json::parse(*text, nullptr, false);
  const Json* const said = member(json, "processes");
  if (said == nullptr || !said->is_array()) return processes;
  for (const Json& one : *said)
    processes.push_back({text_of(one, "machine"), number_of<pid_t>(one, "pid"),
                         number_of<unsigned>(one, "starts"), text_of(one, "ended"),
                         number_of<unsigned>(one, "failing"), false});
  return processes;
}

Restarts::Restarts(const Cluster& cluster, std::uint32_t self, Node& node, const Supervisor* own,
                   std::chrono::milliseconds patience)
    : cluster_(cluster),
      self_(self),
      node_(node),
      own_(own),
      hold_(cluster.spec().machines.size(), patience, cluster.spec().lease),
      processes_(cluster.spec().machines.size(), -1) {
  look(node_.status(), steady_clock::now());
}

Restarts::~Restarts() {
  for (const int process : processes_)
    if (process >= 0) ::close(process);
}

/// Takes in which lives are there, and whose processes they are.
void Restarts::look(const NodeStatus& status, RestartHold::Time now) {
  for (std::size_t i = 0; i < processes_.size(); ++i) {
    if (i == self_) continue;
    if (processes_[i] >= 0 && has_died(processes_[i])) hold_.died(i, now);
    const bool is_known = processes_[i] >= 0 && !hold_.is_dead(i);
    const Roster::Row& row = status.machines[i].known;
    // The list may still tell of a life that died, or already of one behind it that is lost: a
    // process that stands still is not being started.
    const bool is_dead = hold_.is_dead(i);
    const bool is_told =
        row.state == Roster::State::there || (is_dead && row.state == Roster::State::lost);
    if (is_known && is_told) hold_.lives(i, row.incarnation);
    if (is_known || !is_told || !hold_.may_live(i, row.incarnation)) continue;
    const int process =
        is_dead ? process_of_life(cluster_.folder, static_cast<std::uint32_t>(i), row.incarnation)
                : open_process_of(cluster_.folder, static_cast<std::uint32_t>(i));
    if (process < 0) continue;
    if (processes_[i] >= 0) ::close(processes_[i]);
    processes_[i] = process;
    hold_.lives(i, row.incarnation);
  }
}

bool Restarts::is_restarted(const std::string& machine, RestartHold::Time now) {
  if (now - said_at_ >= asked_every) {
    said_ = supervised(cluster_, own_);
    said_at_ = now;
  }
  if (!said_) return false;
  // Who does not answer in time is there all the same; nobody waits for it beyond the patience.
  return said_->empty() || std::ranges::any_of(*said_, [&](const auto& one) {
           return one.name == machine && one.failing == 0;
         });
}

bool Restarts::has_stand_ins(const NodeStatus& status, std::size_t machine) const {
  if (machine == cluster_.spec().keeper()) return false;
  const std::vector<NodeStatus::Machine>& machines = status.machines;
  const auto is_there = [&](std::uint32_t one) {
    return one == self_ ||
           (machines[one].known.state == Roster::State::there && !hold_.is_dead(one));
  };
  // Until its loss is known calls may still be sent to it.
  if (machines[machine].known.state == Roster::State::there) return false;
  for (std::size_t i = 0; i < cluster_.placed.size(); ++i)
    for (std::size_t role = 0; role < cluster_.placed[i].size(); ++role) {
      const std::vector<std::uint32_t>& on = cluster_.placed[i][role];
      if (std::ranges::find(on, machine) == on.end()) continue;
      // Of divided replicas nobody else has those of the machine.
      const bool is_divided = is_split(cluster_.workflows[i].loaded.spec.roles[role], on);
      if (is_divided || std::ranges::none_of(on, is_there)) return false;
    }
  return true;
}

bool Restarts::has_met(const NodeStatus& status, std::size_t machine) const {
  if (machine == self_) return true;
  if (machine == cluster_.spec().keeper()) return status.let_in;
  return status.machines[machine].known.state != Roster::State::not_seen;
}

std::string Restarts::waits_for() {
  bool is_news = std::ranges::count(processes_, -1) > 1;  // but for this one
  for (const int process : processes_) is_news = is_news || (process >= 0 && has_died(process));
  if (!is_news && node_.wait_for_members({}).ok()) return {};
  const RestartHold::Time now = steady_clock::now();
  const NodeStatus status = node_.status();
  // One that is not let in is about to begin its next life, or has begun it.
  const std::uint32_t life = status.lives + (status.over ? 1 : 0);
  look(status, now);
  std::string starting, meeting;
  const auto add = [](std::string& list, const std::string& name) {
    list += (list.empty() ? "'" : ", '") + name + "'";
  };
  for (std::size_t i = 0; i < processes_.size(); ++i) {
    const std::string& name = cluster_.spec().machines[i].name.text;
    const bool is_dead = hold_.is_dead(i);
    if ((!is_dead && has_met(status, i)) || has_stand_ins(status, i)) continue;
    const bool starts = is_dead && is_restarted(name, now) &&
                        !stands_still(cluster_.folder, static_cast<std::uint32_t>(i));
    if (hold_.waits(i, starts, now)) add(starting, name);
    if (!is_dead && hold_.meets(i, life, now)) add(meeting, name);
  }
  if (!starting.empty()) return "machine " + starting + " has died and is being started again";
  if (meeting.empty()) return {};
  return "this home begins anew, and has not met machine " + meeting + " yet";
}

}  // namespace sluice::cli
