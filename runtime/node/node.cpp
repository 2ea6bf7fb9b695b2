#include "runtime/node/node.h"

#include <algorithm>
#include <condition_variable>
#include <iterator>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <thread>
#include <utility>

#include "graph/replica_split.h"
#include "runtime/idle_runner.h"
#include "runtime/inproc/inproc_runner.h"
#include "runtime/node/anew_sessions.h"
#include "runtime/node/ending_sessions.h"
#include "runtime/node/home_runner.h"
#include "runtime/node/life.h"
#include "runtime/node/repeated_call.h"
#include "runtime/node/session_names.h"
#include "runtime/node/wait_graphs.h"
#include "runtime/replicas/desk.h"
#include "runtime/replicas/replica_elsewhere.h"

namespace sluice {

namespace {

std::string list_of(const std::vector<std::string>& names) {
  std::string list;
  for (const std::string& name : names) list += (list.empty() ? "'" : ", '") + name + "'";
  return list;
}

/// In which steps what a home's own roles keep of a session waits for a call of the life before to
/// let go of it.
constexpr std::chrono::milliseconds own_tries_every{20};

struct OwnedGraph {
  std::shared_ptr<const Plan> plan;
  std::vector<NodePlace> places;
  NodeMachines machines;
  std::unique_ptr<wire::Contract> contract;
  InputPorts inputs;
  std::vector<bool> stops;  // by edge
  HistoryPlaces history;
  bool repeats = false;     // its calls may begin once more
  IdleRule idle;
};

class NodeImpl final : public Node, private LifeOwner {
 public:
  NodeImpl(const Catalog& catalog, NodeOptions options)
      : options_(std::move(options)),
        homes_(options_.are_homes()),
        host_(std::make_shared<RoleHost>(catalog, options_.runner)),
        desk_(std::make_shared<ReplicaDesk>(options_.machines, options_.self)),
        ending_(
            options_.machines.size(),
            // None of its calls is under way, as the home says.
            [this](const std::string& session) { (void)host_->end_session(session); },
            [this](std::uint32_t home) { session_gone(home); }) {}
  ~NodeImpl() override;

  Result<void> begin(std::span<const Graph> graphs, const Catalog& catalog);
  Runner& runner(std::size_t workflow) override { return *runners_[workflow]; }
  Result<void> wait_for_members(std::chrono::milliseconds patience, const Look& look) override;
  std::uint32_t lives() const override {
    const std::lock_guard lock(mutex_);
    return lives_;
  }
  NodeStatus status() const override;
  std::vector<PoolReport> pools(std::chrono::milliseconds patience) const override {
    return host_->pools(patience);
  }

 private:
  void over(const std::string& why) override;
  void bound(Origin keeper) override;
  void session_known(const std::string& session, const SessionId& id) override;
  void session_ended(const std::string& session, const SessionId& id) override;
  void session_over(const std::string& session, const SessionId& id) override;
  void session_void(std::uint32_t home, const std::string& session) override;
  void home_over(Origin home) override;
  bool is_ending(std::uint32_t home, const std::string& session) override {
    return ending_.is_ending(home, session);
  }
  bool is_ending_of(std::uint32_t home) override { return ending_.is_ending_of(home); }

  bool is_home() const { return homes_[options_.self]; }
  /// Which replicas of which roles are here, and what stands for those elsewhere.
  SplitRoles split_of(const WorkflowSpec& spec, const RoleMachines& placed) const;
  /// Where the replicas run that other machines ask for: the driver has none of these nodes.
  void add_to_desk(const WorkflowSpec& spec, const Catalog& catalog, OwnedGraph& graph,
                   const RoleMachines& placed);
  Result<std::shared_ptr<Life>> new_life();
  /// Calls begin in this life.
  void set_runners(const std::shared_ptr<Life>& life);
  void make_runners(const std::string& name_end);
  /// Of sessions that others have named.
  template <typename Is>
  void end_those(Is is_over);
  /// A session of this home, which others have named, does not end any more.
  void session_gone(std::uint32_t home);
  /// What takes long, one after the other, when no session is ending: asks the keeper, begins the
  /// next life.
  void keep();
  void end_own_sessions(std::unique_lock<std::mutex>& lock);
  /// Those of which no call is under way any more.
  void end_own_over(std::unique_lock<std::mutex>& lock);
  void begin_next_life(std::unique_lock<std::mutex>& lock);
  /// Words on why the session of a call does, told once; empty: it goes on, or nothing was of it.
  std::string begins_anew(const std::string& session, const std::string& end);

  const NodeOptions options_;
  const std::vector<bool> homes_;  // by machine
  const std::shared_ptr<RoleHost> host_;
  const std::shared_ptr<ReplicaDesk> desk_;
  std::vector<OwnedGraph> graphs_;
  std::size_t window_ = 0;

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::shared_ptr<Life> life_;
  std::uint32_t incarnation_ = 0;
  std::uint32_t lived_ = 0;  // the incarnation of the last life that began
  std::uint32_t lives_ = 0;
  bool over_ = false;
  bool stop_ = false;
  std::string over_why_;
  Origin keeper_{0, 0};  // the one that this machine was let in by last; incarnation 0: none yet
  bool asks_ = false;    // is to be let in, as soon as no session ends
  /// In which lives of this machine others have named a session.
  struct Named {
    std::uint32_t first = 0, last = 0;
  };
  std::map<std::pair<std::string, SessionId>, Named> sessions_;
  EndingSessions ending_;           // of them no more
  std::set<std::string> own_over_;  // at a home: its sessions of earlier lives that have not ended
  AnewSessions anew_;               // at a home: as roles know them
  std::vector<HomeRunner*> home_runners_;         // at a home; within `runners_`
  std::vector<std::unique_ptr<Runner>> runners_;  // at a home
  std::thread thread_;
};

Result<void> NodeImpl::begin(std::span<const Graph> graphs, const Catalog& catalog) {
  const std::vector<std::vector<bool>> stops = stopping_edges(wait_graphs(graphs));
  window_ = options_.window_bytes != 0 ? options_.window_bytes
                                       : window_for(graphs, options_.placed, options_.homes);
  const auto here_of = [&](std::size_t workflow) {
    std::vector<bool> here;
    for (const std::vector<std::uint32_t>& machines : options_.placed[workflow])
      here.push_back(std::ranges::find(machines, options_.self) != machines.end());
    return here;
  };
  for (std::size_t i = 0; i < graphs.size(); ++i) {
    std::vector<bool> elsewhere;
    for (const std::vector<std::uint32_t>& machines : options_.placed[i])
      elsewhere.push_back(std::ranges::any_of(
          machines, [&](std::uint32_t machine) { return machine != options_.self; }));
    host_->expect(*graphs[i].spec, here_of(i), elsewhere);
  }
  std::vector<HistoryPlaces> histories =
      history_places(graphs, options_.placed, options_.machines.size());
  for (std::size_t i = 0; i < graphs.size(); ++i) {
    OwnedGraph& graph = graphs_.emplace_back();
    graph.stops = stops[i];
    graph.history = std::move(histories[i]);
    graph.plan = std::make_shared<const Plan>(*graphs[i].plan);
    graph.repeats = is_repeatable(*graphs[i].spec, *graph.plan);
    graph.idle = idle_rule(*graphs[i].spec);
    Result<std::vector<NodePlace>> places = host_->add(
        *graphs[i].spec, *graph.plan, here_of(i), split_of(*graphs[i].spec, options_.placed[i]));
    if (!places.ok()) return places.error();
    graph.places = std::move(places).value();
    graph.machines =
        machines_of_nodes(*graphs[i].spec, *graph.plan, options_.placed[i], options_.homes.front());
    graph.inputs = input_ports(*graphs[i].spec, *graph.plan, catalog);
    graph.contract = std::make_unique<wire::Contract>(
        *graph.plan, wire::Placement{graph.machines, homes_},
        wire::ports_of(*graphs[i].spec, *graph.plan, catalog.declarations()));
    add_to_desk(*graphs[i].spec, catalog, graph, options_.placed[i]);
  }
  if (Result<void> run = host_->run(); !run.ok()) return run;
  incarnation_ = options_.incarnation;
  Result<std::shared_ptr<Life>> made = new_life();
  if (!made.ok()) return made.error();
  thread_ = std::thread([this] { keep(); });
  return {};
}

SplitRoles NodeImpl::split_of(const WorkflowSpec& spec, const RoleMachines& placed) const {
  SplitRoles split(spec.roles.size());
  for (std::size_t role = 0; role < spec.roles.size(); ++role) {
    if (!is_split(spec.roles[role], placed[role])) continue;
    const auto machine_of = split_replicas(spec.roles[role].replicas, placed[role]);
    for (const std::uint32_t machine : machine_of)
      split[role].here.push_back(machine == options_.self);
    if (placed[role].front() != options_.self) continue;
    split[role].stand_in = [desk = desk_, machine_of](std::uint32_t replica) {
      return RoleInstance(make_replica_elsewhere(desk, machine_of[replica]));
    };
  }
  return split;
}

void NodeImpl::add_to_desk(const WorkflowSpec& spec, const Catalog& catalog, OwnedGraph& graph,
                           const RoleMachines& placed) {
  ReplicaGraph known;
  known.plan = graph.plan;
  known.contract = graph.contract.get();
  known.machines.resize(graph.plan->nodes.size());
  known.places.resize(graph.plan->nodes.size());
  known.inputs.resize(graph.plan->nodes.size());
  for (const PlanNode& node : graph.plan->nodes) {
    if (node.id == entry_node || !is_split(spec.roles[node.role], placed[node.role])) continue;
    const std::vector<std::uint32_t>& machines = placed[node.role];
    known.machines[node.id] = split_replicas(spec.roles[node.role].replicas, machines);
    if (const InterfaceDeclaration* interface = catalog.interface_of(spec, node))
      known.inputs[node.id] = interface->inputs;
    if (machines.front() == options_.self) continue;
    NodePlace& here = graph.places[node.id];
    known.places[node.id] = here;
    known.places[node.id].readers.assign(node.outputs.size(), {machines.front()});
    here.replicas.clear();
    here.lanes.clear();
  }
  desk_->add(std::move(known));
}

void NodeImpl::set_runners(const std::shared_ptr<Life>& life) {
  const auto session_ended = [life](std::uint64_t session) {
    for (const auto& driver : life->drivers()) driver->session_ended(session);
  };
  const auto may_begin = [life, this] {
    if (life->is_let_in()) return std::string();
    return "no call can begin at machine '" + options_.machines[options_.self] +
           "' until it is let in by machine '" + options_.machines[options_.keeper] +
           "', which keeps the list of who is there";
  };
  const std::string end = session_name_end(homes_, options_.machines, options_.self);
  if (runners_.empty()) make_runners(end);
  for (std::size_t i = 0; i < graphs_.size(); ++i)
    home_runners_[i]->set(
        make_runner(host_, life->drivers()[i], graphs_[i].inputs, session_ended, end), may_begin,
        life->session_desk());
}

void NodeImpl::make_runners(const std::string& name_end) {
  std::vector<IdleRule> rules;
  for (const OwnedGraph& graph : graphs_) {
    auto runner = std::make_unique<HomeRunner>(
        graph.repeats, graph.plan->limits.deadline,
        [this, name_end](const std::string& session) { return begins_anew(session, name_end); });
    home_runners_.push_back(runner.get());
    runners_.push_back(std::move(runner));
    rules.push_back(graph.idle);
  }
  runners_ = end_idle_sessions(std::move(runners_), rules);
}

Result<std::shared_ptr<Life>> NodeImpl::new_life() {
  const Origin self{options_.self, incarnation_};
  Result<std::unique_ptr<Transport>> transport = options_.connect(self);
  if (!transport.ok()) return transport.error();
  auto life = std::make_shared<Life>(options_, self, static_cast<LifeOwner&>(*this), *desk_);
  std::vector<std::shared_ptr<Driver>> drivers;
  const auto histories = is_home() ? std::make_shared<HomeHistories>() : nullptr;
  for (std::size_t i = 0; i < graphs_.size(); ++i) {
    DriverPlace place;
    place.where.self = self;
    place.where.keeper = options_.keeper;
    place.where.homes = homes_;
    place.where.machines = static_cast<std::uint32_t>(options_.machines.size());
    place.where.nodes = graphs_[i].machines;
    place.where.contract = graphs_[i].contract.get();
    place.workflow = static_cast<std::uint32_t>(i);
    place.workflows = static_cast<std::uint32_t>(graphs_.size());
    place.machines = options_.machines;
    place.stops = graphs_[i].stops;
    place.window = window_;
    place.sessions_max = options_.sessions_max;
    place.history = graphs_[i].history;
    place.histories = histories;
    place.port = &life->port();
    drivers.push_back(std::make_shared<Driver>(
        graphs_[i].plan, host_->sessions(), graphs_[i].places, options_.runner,
        std::make_unique<Peers>(*graphs_[i].plan, std::move(place))));
  }
  {
    const std::lock_guard lock(mutex_);
    life_ = life;
    lived_ = self.incarnation;
    ++lives_;
    over_ = asks_ = false;
    changed_.notify_all();
  }
  Result<void> begun = life->start(std::move(drivers), std::move(transport).value());
  if (!begun.ok()) {
    const std::lock_guard lock(mutex_);
    over_ = true;  // the next one is tried for
    return begun.error();
  }
  if (is_home()) set_runners(life);
  return life;
}

NodeImpl::~NodeImpl() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
    changed_.notify_all();
  }
  if (thread_.joinable()) thread_.join();
  ending_.stop();
  runners_.clear();
  if (life_) life_->stop(true, "the machine was stopped");
}

Result<void> NodeImpl::wait_for_members(std::chrono::milliseconds patience, const Look& look) {
  const auto until = std::chrono::steady_clock::now() + patience;
  for (;;) {
    std::shared_ptr<Life> life;
    {
      const std::lock_guard lock(mutex_);
      life = life_;
    }
    // A life may end meanwhile, and another begin.
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(
        until - std::chrono::steady_clock::now());
    const auto step = std::clamp(left, std::chrono::milliseconds(0), std::chrono::milliseconds(50));
    const std::vector<std::string> missing = life->wait(step);
    if (missing.empty()) return {};
    if (look)
      if (Result<void> go_on = look(missing); !go_on.ok()) return go_on;
    if (left.count() > 0) {
      // One that is over has nobody to wait for.
      std::unique_lock lock(mutex_);
      if (over_) changed_.wait_for(lock, step, [&] { return life_ != life || stop_; });
    } else
      return Error{ErrorCode::deadline, (missing.size() == 1 ? "machine " : "machines ") +
                                            list_of(missing) + " did not join within " +
                                            std::to_string(patience.count()) + " ms"};
  }
}

NodeStatus NodeImpl::status() const {
  NodeStatus status;
  std::shared_ptr<Life> life;
  {
    const std::lock_guard lock(mutex_);
    life = life_;
    status.lives = lives_;
    status.over = over_;
  }
  status.let_in = life->is_let_in() && !status.over;
  status.now = std::chrono::steady_clock::now();
  status.self = life->self();
  for (Roster::Row& row : life->roster()) status.machines.push_back({std::move(row), {}});
  for (const LinkState& link : life->links()) status.machines[link.life.machine].link = link;
  status.counts = life->counts();
  for (const HomeRunner* runner : home_runners_) status.counts.repeated += runner->repeated();
  status.params = host_->param_counts();
  return status;
}

void NodeImpl::over(const std::string& why) {
  const std::lock_guard lock(mutex_);
  over_ = true;
  over_why_ = why;
  changed_.notify_all();
}

template <typename Is>
void NodeImpl::end_those(Is is_over) {
  std::set<std::pair<std::uint32_t, std::string>> names;
  std::erase_if(sessions_, [&](const auto& known) {
    if (!is_over(known)) return false;
    names.insert({known.first.second.home.machine, known.first.first});
    return true;
  });
  for (const auto& [home, name] : names) ending_.add(home, name);
}

void NodeImpl::bound(Origin keeper) {
  const std::lock_guard lock(mutex_);
  // All homes begin anew with it.
  if (keeper_.incarnation != 0 && keeper_ != keeper) end_those([](const auto&) { return true; });
  keeper_ = keeper;
  asks_ = true;
  changed_.notify_all();
}

void NodeImpl::session_known(const std::string& session, const SessionId& id) {
  const std::lock_guard lock(mutex_);
  sessions_.try_emplace({session, id}, Named{lived_, lived_}).first->second.last = lived_;
}

void NodeImpl::session_ended(const std::string& session, const SessionId& id) {
  const std::lock_guard lock(mutex_);
  if (sessions_.erase({session, id}) == 0) return;
  ending_.add(id.home.machine, session);
}

void NodeImpl::session_over(const std::string& session, const SessionId& id) {
  const std::lock_guard lock(mutex_);
  sessions_.erase({session, id});
}

void NodeImpl::session_void(std::uint32_t home, const std::string& session) {
  const std::lock_guard lock(mutex_);
  bool any = false;
  for (auto known = sessions_.lower_bound({session, {0, {0, 0}}});
       known != sessions_.end() && known->first.first == session;) {
    Named& named = known->second;
    any = any || named.first != lived_;
    named.first = lived_;
    // It may have been named in this life already, in which nothing of it has run here yet.
    known = named.last == lived_ ? std::next(known) : sessions_.erase(known);
  }
  if (any) ending_.add(home, session);
}

void NodeImpl::home_over(Origin home) {
  const std::lock_guard lock(mutex_);
  end_those([&](const auto& known) {
    const Origin of = known.first.second.home;
    return of.machine == home.machine && of.incarnation <= home.incarnation;
  });
}

void NodeImpl::session_gone(std::uint32_t home) {
  std::shared_ptr<Life> life;
  {
    const std::lock_guard lock(mutex_);
    life = life_;
    changed_.notify_all();
  }
  life->go_on(home);
}

void NodeImpl::keep() {
  std::unique_lock lock(mutex_);
  for (;;) {
    const auto is_due = [this] { return (over_ || asks_) && !ending_.is_ending_any(); };
    const auto has_news = [&] { return stop_ || is_due(); };
    if (own_over_.empty())
      changed_.wait(lock, has_news);
    else
      changed_.wait_for(lock, own_tries_every, has_news);
    if (stop_) return;
    if (!own_over_.empty()) end_own_over(lock);
    if (!is_due()) continue;
    if (over_) {
      begin_next_life(lock);
    } else {
      asks_ = false;
      const std::shared_ptr<Life> life = life_;
      lock.unlock();
      life->ask();
      lock.lock();
    }
  }
}

/// What roles here keep of this home's sessions: others drop theirs, for its life is over. A call
/// of that life may take a while to let go, for which the next life waits no longer than a caller.
void NodeImpl::end_own_sessions(std::unique_lock<std::mutex>& lock) {
  const auto names = host_->sessions()->names();
  for (const std::string& name : names) host_->sessions()->set_over(name);
  own_over_.insert(names.begin(), names.end());
  for (const std::string& name : names)
    if (!is_own_session(name.substr(0, name.rfind('@')))) anew_.add(name);
  const auto until = std::chrono::steady_clock::now() + options_.runner.grace;
  for (;;) {
    end_own_over(lock);
    if (own_over_.empty() || stop_ || std::chrono::steady_clock::now() >= until) break;
    changed_.wait_for(lock, own_tries_every, [this] { return stop_; });
  }
  for (const std::string& name : own_over_)
    if (options_.notice)
      options_.notice("session '" + name + "' has a call of the life before that a role holds on " +
                      "to: it ends when the role lets go, and no call of it begins until then");
}

std::string NodeImpl::begins_anew(const std::string& session, const std::string& end) {
  if (!anew_.take(session + end)) return {};
  const std::string line = "session '" + session + "' was lost with an earlier life of machine '" +
                           options_.machines[options_.self] + "', where its calls begin: it " +
                           "begins anew";
  if (options_.notice) options_.notice(line);
  return line;
}

void NodeImpl::end_own_over(std::unique_lock<std::mutex>& lock) {
  const std::set<std::string> names = own_over_;
  std::set<std::string> left;
  lock.unlock();
  for (const std::string& name : names)
    if (host_->sessions()->is_over(name) && !host_->end_session(name).ok()) left.insert(name);
  lock.lock();
  own_over_ = std::move(left);  // nobody else changes it
}

void NodeImpl::begin_next_life(std::unique_lock<std::mutex>& lock) {
  const std::shared_ptr<Life> gone = life_;
  const std::string why = "machine '" + options_.machines[options_.self] +
                          "', where the call began, begins anew: " + over_why_;
  lock.unlock();
  gone->stop(false, why);
  lock.lock();
  if (is_home()) end_own_sessions(lock);
  incarnation_ = std::max(lived_ + 1, options_.incarnation);  // one that never began is not used up
  lock.unlock();
  Result<std::shared_ptr<Life>> made = new_life();
  lock.lock();
  if (made.ok()) return;
  if (options_.notice) options_.notice("cannot meet the others: " + made.error().message);
  // Whoever has its address may let go of it.
  changed_.wait_for(lock, std::chrono::milliseconds(100), [this] { return stop_; });
}

}  // namespace

Result<std::unique_ptr<Node>> Node::create(std::span<const Graph> graphs, const Catalog& catalog,
                                           NodeOptions options) {
  auto node = std::make_unique<NodeImpl>(catalog, std::move(options));
  if (Result<void> begun = node->begin(graphs, catalog); !begun.ok()) return begun.error();
  return std::unique_ptr<Node>(std::move(node));
}

std::uint32_t incarnation_now() {
  constexpr std::chrono::seconds begin{1'735'689'600};  // 2025
  const auto since = std::chrono::system_clock::now().time_since_epoch() - begin;
  return static_cast<std::uint32_t>(since / std::chrono::milliseconds(250));
}

std::uint32_t new_incarnation() {
  const std::uint32_t before = incarnation_now();
  std::mutex mutex;
  std::condition_variable never;
  std::unique_lock lock(mutex);
  while (incarnation_now() == before) never.wait_for(lock, std::chrono::milliseconds(2));
  return incarnation_now();
}

}  // namespace sluice
