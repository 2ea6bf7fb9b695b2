#include "cli/machine_status.h"

#include <unistd.h>

#include <chrono>
#include <nlohmann/json.hpp>

#include "cli/pool_json.h"

namespace sluice::cli {

namespace {

using Json = nlohmann::ordered_json;

constexpr std::chrono::milliseconds pool_patience{250};  // less than that of who asks

std::string_view word_of(Roster::State state) {
  switch (state) {
    case Roster::State::not_seen:
      return "not_seen";
    case Roster::State::there:
      return "there";
    case Roster::State::lost:
      return "lost";
  }
  return "";
}

std::string_view word_of(RegistryStanding::Kind kind) {
  switch (kind) {
    case RegistryStanding::Kind::joining:
      return "joining";
    case RegistryStanding::Kind::current:
      return "current";
    case RegistryStanding::Kind::lapsed:
      return "lapsed";
    case RegistryStanding::Kind::fenced:
      return "fenced";
  }
  return "";
}

Json processes_of(const std::vector<Supervisor::Status>& processes) {
  Json list = Json::array();
  for (const Supervisor::Status& one : processes)
    list.push_back({{"machine", one.name},
                    {"pid", one.pid},
                    {"starts", one.starts},
                    {"ended", one.ended},
                    {"failing", one.failing},
                    {"other", one.is_other}});
  return list;
}

std::string_view word_of(hosts::HostSupervision::State state) {
  switch (state) {
    case hosts::HostSupervision::State::down:
      return "waits";
    case hosts::HostSupervision::State::begins:
      return "begins";
    case hosts::HostSupervision::State::serves:
      return "serves";
    case hosts::HostSupervision::State::refused:
      return "refused";
  }
  return "";
}

std::string_view word_of(hosts::MemoryStatus::Holder holder) {
  switch (holder) {
    case hosts::MemoryStatus::Holder::none:
      return "";
    case hosts::MemoryStatus::Holder::address_space:
      return "address_space";
    case hosts::MemoryStatus::Holder::cgroup_v1:
      return "cgroup_v1";
    case hosts::MemoryStatus::Holder::cgroup_v2:
      return "cgroup_v2";
  }
  return "";
}

Json host_row(const hosts::HostReport& report) {
  const hosts::HostStatus& status = report.status;
  return {{"name", status.name},
          {"roles", report.roles},
          {"state", word_of(status.state)},
          {"pid", std::max(status.pid, 0)},
          {"starts", status.starts},
          {"activations", status.activations},
          {"next_ms", status.next.count()},
          {"ended", status.ended},
          {"tried_again", status.tried_again},
          {"memory_by", word_of(status.memory.holder)},
          {"memory_bytes", status.memory.limit},
          {"memory_peak_bytes", status.memory.peak}};
}

Json weights_of(const std::vector<PartExchange::Report>& reports) {
  Json rows = Json::array();
  for (const PartExchange::Report& report : reports)
    rows.push_back({{"what", report.what},
                    {"bytes", report.bytes},
                    {"maker", report.maker},
                    {"holders", report.holders},
                    {"waiting", report.waiting}});
  return rows;
}

Json machine_row(const std::string& name, const NodeStatus::Machine& row, Roster::Time now) {
  using std::chrono::milliseconds;
  Json json{{"name", name}, {"state", word_of(row.known.state)}};
  json["incarnation"] = row.known.incarnation;
  json["since_ms"] = std::chrono::duration_cast<milliseconds>(now - row.known.since).count();
  json["why"] = row.known.why;
  if (!row.link) return json;
  json["connected"] = row.link->connected;
  if (row.link->life.incarnation == 0) return json;  // nothing was heard of it
  json["heard_ms"] = row.link->heard.count();
  json["owed_bytes"] = row.link->owed_bytes;
  json["window_bytes"] = row.link->window_bytes;
  const LentCounts& lent = row.link->lent;
  json["lent"] = {{"in_place", lent.in_place},
                  {"in_place_bytes", lent.in_place_bytes},
                  {"copied", lent.copied},
                  {"in_message", lent.in_message},
                  {"in_message_bytes", lent.in_message_bytes},
                  {"why", lent.why},
                  {"held_bytes", lent.held_bytes}};
  return json;
}

/// Names of files are any bytes; what is no UTF-8 is shown as U+FFFD.
std::string dump(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace

std::string status_path(const std::string& folder, std::uint32_t machine) {
  return folder + "/" + std::to_string(machine) + ".status";
}

std::string up_status_path(const std::string& folder) { return folder + "/up.status"; }

std::string launcher_json(const Supervisor& supervisor, PartExchange* weights) {
  Json json{{"processes", processes_of(supervisor.status())}};
  if (weights != nullptr) json["weights"] = weights_of(weights->report());
  return dump(json);
}

Result<std::unique_ptr<MachineStatus>> MachineStatus::show(const Cluster& cluster,
                                                           std::uint32_t machine) {
  std::unique_ptr<MachineStatus> status(new MachineStatus(cluster, machine));
  Result<StatusSocket> socket = StatusSocket::listen(status_path(cluster.folder, machine),
                                                     [raw = status.get()] { return raw->text(); });
  if (!socket.ok()) return socket.error();
  status->socket_.emplace(std::move(socket).value());
  return status;
}

void MachineStatus::set(const Node* node, const Supervisor* supervisor) {
  const std::lock_guard lock(mutex_);
  node_ = node;
  supervisor_ = supervisor;
}

void MachineStatus::set_ending() {
  const std::lock_guard lock(mutex_);
  ending_ = true;
}

void MachineStatus::show_hosts(const Hosted& hosted) {
  const std::lock_guard lock(mutex_);
  hosts_ = hosted.report;
  weights_ = hosted.weights;
}

void MachineStatus::watch(const RegistryKeeper* registry) {
  const std::lock_guard lock(mutex_);
  registry_ = registry;
}

std::string MachineStatus::text() const {
  const auto& machines = cluster_.spec().machines;
  Json json{{"machine", machines[machine_].name.text}, {"home", machines[machine_].home}};
  json["pid"] = ::getpid();
  const std::lock_guard lock(mutex_);
  json["ready"] = node_ != nullptr && !ending_;
  json["ending"] = ending_;
  if (supervisor_ != nullptr) json["processes"] = processes_of(supervisor_->status());
  if (registry_ != nullptr) {
    const RegistryStanding standing = registry_->standing();
    json["registry"] = word_of(standing.kind);
    json["registry_why"] = standing.why;
  }
  if (hosts_)
    for (const hosts::HostReport& report : hosts_()) json["hosts"].push_back(host_row(report));
  if (weights_) json["weights"] = weights_of(weights_());
  if (node_ == nullptr) return dump(json);
  const NodeStatus status = node_->status();
  json["lives"] = status.lives;
  json["incarnation"] = status.self.incarnation;
  json["calls"] = status.counts.calls;
  json["given_up"] = status.counts.given_up;
  json["activations"] = status.counts.activations;
  json["dropped"] = status.counts.dropped;
  json["refused"] = status.counts.refused;
  json["repeated"] = status.counts.repeated;
  for (const ParamCounts& param : status.params)
    for (const auto& [name, count] : param.counts) json["pages"][param.name][name] = count;
  json["pools"] = Json::array();
  for (const PoolReport& pool : node_->pools(pool_patience)) json["pools"].push_back(json_of(pool));
  json["machines"] = Json::array();
  for (std::size_t i = 0; i < status.machines.size(); ++i)
    json["machines"].push_back(machine_row(machines[i].name.text, status.machines[i], status.now));
  return dump(json);
}

}  // namespace sluice::cli
