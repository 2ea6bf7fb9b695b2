// Scenarios over three real processes: their scripted roles run, and say what they fired on. Calls
// begin at two homes, half of the workflows at each. Then each session is called at the other home,
// which has to say where it is.
//
//     scripted_machines SCENARIO...
//
// Prints a line for each as `sluice test --json` does; `tests/semantics/over_machines.py` compares
// it with the evaluator. All workflows run together, so the processes are started once. Workflows
// in which time decides are left out (`"timed": true`).
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <condition_variable>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <mutex>
#include <set>
#include <sstream>

#include "graph/print.h"
#include "graph/replica_split.h"
#include "graph/script.h"
#include "runtime/call_stream.h"
#include "runtime/node/node.h"
#include "runtime/sim/token.h"
#include "runtime/zmq/zmq_transport.h"
#include "workflows/load.h"
#include "workflows/load_scenario.h"

namespace sluice {
namespace {

constexpr std::uint32_t machines = 3;    // that have roles; the first is a home and the keeper
constexpr std::uint32_t other_home = 3;  // has none

struct Loaded {
  std::string file;
  std::string refused;
  bool timed = false;
  LoadedWorkflow workflow;
  Plan plan;
  Script script;
};

/// What a value carries besides its token: its call, and how often each node in a loop has run.
struct Carried {
  sim::Token token = 0;
  std::uint32_t call = 0;
  std::vector<std::uint16_t> iterations;
};

PayloadRef payload_of(const Carried& carried, std::int64_t number, ValueType type) {
  auto* payload = new Payload;
  payload->type = type;
  payload->text.resize(sizeof carried.token + sizeof carried.call + 2 * carried.iterations.size());
  char* to = payload->text.data();
  std::memcpy(to, &carried.token, sizeof carried.token);
  std::memcpy(to += sizeof carried.token, &carried.call, sizeof carried.call);
  if (!carried.iterations.empty())
    std::memcpy(to + sizeof carried.call, carried.iterations.data(), 2 * carried.iterations.size());
  payload->number = number;
  return PayloadRef(payload);
}

Carried carried_by(const Payload& payload) {
  Carried carried;
  const char* from = payload.text.data();
  std::memcpy(&carried.token, from, sizeof carried.token);
  std::memcpy(&carried.call, from += sizeof carried.token, sizeof carried.call);
  carried.iterations.resize((payload.text.size() - sizeof carried.token - sizeof carried.call) / 2);
  if (!carried.iterations.empty())
    std::memcpy(carried.iterations.data(), from + sizeof carried.call,
                2 * carried.iterations.size());
  return carried;
}

/// The call that a firing without inputs stands for: whose, its number says.
constexpr std::uint32_t no_call = 0xffffffff;

/// What fired in this process: workflow, call as its inputs say, the call's number at its home, and
/// the firing as JSON, a line each.
class Fired {
 public:
  void add(std::size_t workflow, std::uint32_t call, std::uint64_t number,
           const std::string& json) {
    const std::lock_guard lock(mutex_);
    lines_ += std::to_string(workflow) + " " + std::to_string(call) + " " + std::to_string(number) +
              " " + json + "\n";
  }
  std::string lines() {
    const std::lock_guard lock(mutex_);
    return lines_;
  }

 private:
  std::mutex mutex_;
  std::string lines_;
};

class ScriptedRole final : public Role {
 public:
  ScriptedRole(const Loaded& loaded, std::size_t workflow, std::uint32_t replica, Fired& fired)
      : loaded_(loaded), workflow_(workflow), replica_(replica), fired_(fired) {}

  Result<void> run(Activation& activation) override {
    const PlanNode& node = *loaded_.plan.find(activation.node());
    const PlanGroup& group = node.groups[activation.group()];
    Carried all{0, no_call, std::vector<std::uint16_t>(loaded_.plan.loop_nodes)};
    std::map<std::string, std::vector<sim::Token>> inputs;
    for (const std::string& field : group.fields)
      for (const PayloadRef& value : activation.inputs(field)) {
        const Carried one = carried_by(*value);
        all.call = std::min(all.call, one.call);
        for (std::size_t i = 0; i < one.iterations.size(); ++i)
          all.iterations[i] = std::max(all.iterations[i], one.iterations[i]);
        inputs[field].push_back(one.token);
      }
    std::string identity =
        sim::runner_text(node, replica_) + "|" + std::to_string(activation.group());
    std::string json =
        "{\"node\":\"" + node.name + "\",\"group\":" + std::to_string(activation.group());
    if (node.fan_out() > 1) json += ",\"replica\":" + std::to_string(replica_);
    json += ",\"inputs\":{";
    for (auto& [field, tokens] : inputs) {
      std::ranges::sort(tokens);
      identity += "|" + field + "=";
      json += (json.ends_with('{') ? "\"" : ",\"") + field + "\":[";
      for (std::size_t i = 0; i < tokens.size(); ++i) {
        identity += (i == 0 ? "" : "+") + sim::token_text(tokens[i]);
        json += (i == 0 ? "\"" : ",\"") + sim::token_text(tokens[i]) + "\"";
      }
      json += "]";
    }
    fired_.add(workflow_, all.call, activation.call(), json + "}}");
    const std::uint32_t turn = node.loop_index == none ? 0 : all.iterations[node.loop_index];
    if (node.loop_index != none) ++all.iterations[node.loop_index];
    const NodeScript& script = loaded_.script.nodes[node.id];
    if (script.fails(turn, replica_))
      return Error{ErrorCode::unavailable, "node '" + node.name + "' was told to fail"};
    const std::vector<std::uint64_t>& yields = script.yields(turn, replica_);
    for (std::size_t i = 0; i < yields.size(); ++i) {
      all.token = sim::yield_token(identity, i);
      std::vector<FieldValue> fields;
      for (std::size_t field = 0; field < node.outputs.size(); ++field)
        if ((yields[i] >> field & 1U) != 0)
          fields.push_back(
              {node.outputs[field], payload_of(all, script.values[field], ValueType::any)});
      activation.yield(fields);
    }
    return {};
  }

 private:
  const Loaded& loaded_;
  const std::size_t workflow_;
  const std::uint32_t replica_;
  Fired& fired_;
};

Plugin scripted(const std::vector<std::unique_ptr<Loaded>>& all, Fired& fired) {
  Plugin plugin;
  plugin.declaration.name = "scripted";
  plugin.declaration.any_ports = true;
  plugin.make = [&](const RoleMaking& making) -> Result<RoleInstance> {
    const std::size_t workflow = std::stoul(making.role->options.back().value.text);
    return RoleInstance(std::unique_ptr<Role>(
        std::make_unique<ScriptedRole>(*all[workflow], workflow, making.replica, fired)));
  };
  return plugin;
}

std::unique_ptr<Loaded> load(const std::string& file, std::size_t index,
                             const Declarations& declarations) {
  auto loaded = std::make_unique<Loaded>();
  loaded->file = file;
  Result<LoadedScenario> scenario = load_scenario_file(file);
  const auto beside = std::filesystem::path(file).parent_path();
  Result<LoadedWorkflow> workflow =
      load_workflow_file((beside / scenario->spec.workflow.text).string());
  loaded->workflow = std::move(workflow).value();
  loaded->plan = plan_workflow(loaded->workflow, declarations);
  if (has_errors(loaded->workflow.diagnostics)) {
    loaded->refused = "workflow: " + loaded->workflow.diagnostics.front().message;
    return loaded;
  }
  loaded->script = bind_scenario(scenario->spec, loaded->plan, scenario->diagnostics);
  loaded->timed = std::ranges::any_of(loaded->plan.nodes, [](const PlanNode& node) {
    return node.deadline.count() != 0 || node.max_age.count() != 0;
  });
  for (RoleSpec& role : loaded->workflow.spec.roles)
    role.options.push_back({{"workflow", {}}, {std::to_string(index), {}}});
  return loaded;
}

/// Of two workflows one has roles on two machines, or on all three; of three roles whose replicas
/// all run each set of inputs, two have them on several machines, if they are enough.
std::vector<std::uint32_t> placed_on(std::size_t workflow, std::size_t role, const RoleSpec& spec) {
  std::size_t several = workflow % 2 == 0 ? 1 : 1 + (workflow / 2 + role) % 3;
  if (spec.balance == Balance::broadcast)
    several = std::min<std::size_t>(spec.replicas, 1 + (workflow + role) % 3);
  std::vector<std::uint32_t> on;
  for (std::size_t i = 0; i < several; ++i)
    on.push_back(static_cast<std::uint32_t>((workflow + role + i) % machines));
  return on;
}

bool has_divided_role(std::size_t workflow, const Loaded& loaded) {
  const std::vector<RoleSpec>& roles = loaded.workflow.spec.roles;
  for (std::size_t role = 0; role < roles.size(); ++role)
    if (is_split(roles[role], placed_on(workflow, role, roles[role])) &&
        std::ranges::any_of(loaded.plan.nodes, [&](const PlanNode& node) {
          return node.id != entry_node && node.role == role;
        }))
      return true;
  return false;
}

Result<std::unique_ptr<Node>> make_node(std::uint32_t self, const std::string& folder,
                                        const std::vector<const Loaded*>& runs,
                                        const Catalog& catalog) {
  NodeOptions options;
  options.machines = {"m0", "m1", "m2", "m3"};
  options.homes = {0, other_home};
  options.self = self;
  for (std::size_t i = 0; i < runs.size(); ++i) {
    RoleMachines& placed = options.placed.emplace_back();
    const std::vector<RoleSpec>& roles = runs[i]->workflow.spec.roles;
    for (std::size_t role = 0; role < roles.size(); ++role)
      placed.push_back(placed_on(i, role, roles[role]));
  }
  options.connect = [self, folder](Origin life) {
    ZmqOptions zmq;
    zmq.self = life;
    zmq.bind = "ipc://" + folder + "/" + std::to_string(self);
    for (std::uint32_t machine = 0; machine <= other_home; ++machine)
      if (machine != self)
        zmq.peers.push_back({machine, "ipc://" + folder + "/" + std::to_string(machine), ""});
    return make_zmq_transport(std::move(zmq));
  };
  options.incarnation = incarnation_now();
  options.window_bytes = 1;  // one frame an edge: whoever waits for ever would do so here
  std::vector<Graph> graphs;
  for (const Loaded* one : runs) graphs.push_back({&one->workflow.spec, &one->plan});
  return Node::create(graphs, catalog, std::move(options));
}

/// One call's counts of outputs, and its end.
struct Called {
  std::mutex mutex;
  std::map<std::string, std::size_t> outputs;
  CallOutcome outcome;
};

std::string json_of(const Loaded& loaded, std::size_t index, const Called& called,
                    const std::vector<std::string>& firings) {
  const ScriptCall& call = loaded.script.calls[index];
  std::string text = "{\"index\":" + std::to_string(index) +
                     ",\"session\":" + json_quote(loaded.script.sessions[call.session]) +
                     ",\"status\":\"" + (called.outcome.ok ? "ok" : "error") + "\",\"outputs\":{";
  for (const auto& [name, count] : called.outputs)
    text += (text.ends_with('{') ? "" : ",") + json_quote(name) + ":" + std::to_string(count);
  text += "},\"warnings\":[";
  for (const std::string& warning : called.outcome.warnings)
    text += (text.ends_with('[') ? "" : ",") + json_quote(warning);
  text += "],\"firings\":[";
  for (const std::string& firing : firings) text += (text.ends_with('[') ? "" : ",") + firing;
  text += "]";
  if (!called.outcome.node.empty()) text += ",\"cause\":" + json_quote(called.outcome.node);
  if (!called.outcome.ok) text += ",\"message\":" + json_quote(called.outcome.error.message);
  return text + "}";
}

/// A session of one workflow: of all that run together one name is one session, at one home.
std::string session_of(const Loaded& loaded, std::size_t workflow, std::size_t session) {
  return loaded.script.sessions[session] + " of " + std::to_string(workflow);
}

/// At which of the two homes a workflow is called.
std::size_t home_of(std::size_t workflow) { return workflow / 3 % 2; }

/// Every session, at the home that does not have it. False: one of them did not say where it is.
bool are_elsewhere(const std::array<Node*, 2>& homes, const std::vector<const Loaded*>& runs) {
  std::size_t wrong = 0;
  for (std::size_t i = 0; i < runs.size(); ++i) {
    std::set<std::size_t> called;
    for (const ScriptCall& call : runs[i]->script.calls) called.insert(call.session);
    for (const std::size_t session : called) {
      const std::string name = session_of(*runs[i], i, session);
      const std::string want = "session '" + name + "' is at machine '" +
                               (home_of(i) == 0 ? "m0" : "m3") + "': call it there";
      const CallOutcome outcome = homes[1 - home_of(i)]->runner(i).call({name, {}, {}}, {});
      if (!outcome.ok && outcome.error.message == want) continue;
      if (wrong++ == 0)
        std::fprintf(stderr, "wanted \"%s\", got \"%s\"\n", want.c_str(),
                     outcome.ok ? "a call that went well" : outcome.error.message.c_str());
    }
  }
  return wrong == 0;
}

/// Starts all calls of all workflows, and waits until each has ended.
void call_all(const std::array<Node*, 2>& homes, const std::vector<const Loaded*>& runs,
              std::map<const Loaded*, std::vector<std::unique_ptr<Called>>>& calls) {
  std::mutex mutex;
  std::condition_variable changed;
  std::size_t open = 0;
  for (std::size_t i = 0; i < runs.size(); ++i) {
    const Loaded& loaded = *runs[i];
    for (std::size_t c = 0; c < loaded.script.calls.size(); ++c) {
      const ScriptCall& call = loaded.script.calls[c];
      CallRequest request{session_of(loaded, i, call.session), {}, {}};
      for (std::size_t in = 0; in < loaded.plan.inputs.size(); ++in) {
        if ((call.inputs >> in & 1U) == 0) continue;
        const Carried carried{sim::input_token(loaded.plan.inputs[in], c),
                              static_cast<std::uint32_t>(c),
                              std::vector<std::uint16_t>(loaded.plan.loop_nodes)};
        request.inputs.emplace_back(
            loaded.plan.inputs[in],
            payload_of(carried, call.number(in), loaded.plan.input_types[in]));
      }
      Called& called = *calls[&loaded].emplace_back(std::make_unique<Called>());
      {
        const std::lock_guard lock(mutex);
        ++open;
      }
      homes[home_of(i)]->runner(i).start(std::move(request),
                                         {[&called](std::string_view output, const PayloadRef&) {
                                            const std::lock_guard lock(called.mutex);
                                            ++called.outputs[std::string(output)];
                                          },
                                          [&](CallOutcome outcome) {
                                            const std::lock_guard lock(mutex);
                                            called.outcome = std::move(outcome);
                                            if (--open == 0) changed.notify_all();
                                          }});
    }
  }
  std::unique_lock lock(mutex);
  changed.wait(lock, [&] { return open == 0; });
}

/// A machine until `end` is closed; then it writes down what has fired.
[[noreturn]] void serve(std::uint32_t self, const std::string& folder, int end,
                        const std::vector<const Loaded*>& runs, const Catalog& catalog,
                        Fired& fired) {
  auto node = make_node(self, folder, runs, catalog);
  if (!node.ok()) std::fprintf(stderr, "m%u: %s\n", self, node.error().message.c_str());
  char nothing = 0;
  while (::read(end, &nothing, 1) > 0) continue;
  if (node.ok()) node->reset();
  std::ofstream(folder + "/fired." + std::to_string(self)) << fired.lines();
  ::_exit(node.ok() ? 0 : 1);
}

using Firings = std::map<std::pair<std::size_t, std::size_t>, std::vector<std::string>>;

/// Sorts what fired by call. Which call a number means is learnt from a firing that has inputs;
/// calls with none but firings without inputs are taken in the order of their numbers. False: one
/// number means two calls.
bool add_lines(std::istream& lines, Firings& firings) {
  struct Line {
    std::uint32_t call = no_call;
    std::uint64_t number = 0;
    std::string json;
  };
  std::map<std::size_t, std::vector<Line>> workflows;
  std::size_t workflow = 0;
  for (Line line; lines >> workflow >> line.call >> line.number >> line.json;)
    workflows[workflow].push_back(line);
  for (const auto& [index, all] : workflows) {
    std::map<std::uint64_t, std::uint32_t> calls;
    std::set<std::uint32_t> known;
    for (const Line& line : all) {
      if (line.call == no_call) continue;
      if (calls.try_emplace(line.number, line.call).first->second != line.call) return false;
      known.insert(line.call);
    }
    std::set<std::uint64_t> unknown;
    for (const Line& line : all)
      if (!calls.contains(line.number)) unknown.insert(line.number);
    std::uint32_t next = 0;
    for (const std::uint64_t number : unknown) {
      while (known.contains(next)) ++next;
      calls[number] = next++;
    }
    for (const Line& line : all) firings[{index, calls[line.number]}].push_back(line.json);
  }
  return true;
}

int main_of(int argc, char** argv) {
  std::vector<std::unique_ptr<Loaded>> all;
  Fired fired;
  Catalog catalog;
  catalog.add(scripted(all, fired));
  const Declarations declarations = catalog.declarations();
  for (int i = 1; i < argc; ++i) all.push_back(load(argv[i], all.size(), declarations));
  std::vector<const Loaded*> runs;
  for (const auto& one : all)
    if (one->refused.empty() && !one->timed) runs.push_back(one.get());

  std::string folder = (std::filesystem::temp_directory_path() / "sluice.XXXXXX").string();
  if (::mkdtemp(folder.data()) == nullptr) return 1;
  std::array<int, 2> end{};
  if (::pipe(end.data()) != 0) return 1;
  std::vector<pid_t> others;
  for (std::uint32_t self = 1; self < machines; ++self) {
    const pid_t pid = ::fork();
    if (pid == 0) {
      ::close(end[1]);
      serve(self, folder, end[0], runs, catalog, fired);
    }
    others.push_back(pid);
  }
  int status = 1;
  std::map<const Loaded*, std::vector<std::unique_ptr<Called>>> calls;
  {
    auto keeper = make_node(0, folder, runs, catalog);
    auto other = make_node(other_home, folder, runs, catalog);
    const auto joins = [](Result<std::unique_ptr<Node>>& home) {
      const Result<void> there =
          home.ok() ? (*home)->wait_for_members(std::chrono::seconds(30)) : home.error();
      if (!there.ok()) std::fprintf(stderr, "%s\n", there.error().message.c_str());
      return there.ok();
    };
    if (joins(keeper) && joins(other)) {
      call_all({keeper->get(), other->get()}, runs, calls);
      status = are_elsewhere({keeper->get(), other->get()}, runs) ? 0 : 1;
    }
    ::close(end[1]);
    for (const pid_t pid : others) {
      int ended = 0;
      ::waitpid(pid, &ended, 0);
      if (ended != 0) status = 1;
    }
  }
  Firings firings;
  std::stringstream lines(fired.lines());
  lines.seekp(0, std::ios::end);
  for (std::uint32_t self = 1; self < machines; ++self)
    if (std::ifstream more(folder + "/fired." + std::to_string(self)); more.peek() != EOF)
      lines << more.rdbuf();
  if (!add_lines(lines, firings)) {
    std::fprintf(stderr, "one number means two calls\n");
    status = 1;
  }
  std::filesystem::remove_all(folder);
  std::set<const Loaded*> divided;
  for (std::size_t i = 0; i < runs.size(); ++i)
    if (has_divided_role(i, *runs[i])) divided.insert(runs[i]);
  for (std::size_t i = 0; i < all.size(); ++i) {
    std::string text;
    for (std::size_t c = 0; c < calls[all[i].get()].size(); ++c)
      text += (c == 0 ? "" : ",") + json_of(*all[i], c, *calls[all[i].get()][c], firings[{i, c}]);
    std::printf(
        "{\"file\":%s,\"timed\":%s,\"divided\":%s,\"passed\":true,\"failures\":[%s],"
        "\"calls\":[%s]}\n",
        json_quote(all[i]->file).c_str(), all[i]->timed ? "true" : "false",
        divided.contains(all[i].get()) ? "true" : "false",
        all[i]->refused.empty() ? "" : json_quote(all[i]->refused).c_str(), text.c_str());
  }
  return status;
}

}  // namespace
}  // namespace sluice

int main(int argc, char** argv) { return sluice::main_of(argc, argv); }
