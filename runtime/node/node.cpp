#include "runtime/node/node.h"

#include <algorithm>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>

#include "runtime/inproc/inproc_runner.h"
#include "runtime/node/life.h"
#include "runtime/node/wait_graphs.h"

namespace sluice {

namespace {

std::string list_of(const std::vector<std::string>& names) {
  std::string list;
  for (const std::string& name : names) list += (list.empty() ? "'" : ", '") + name + "'";
  return list;
}

struct OwnedGraph {
  std::shared_ptr<const Plan> plan;
  std::vector<NodePlace> places;
  NodeMachines machines;
  std::unique_ptr<wire::Contract> contract;
  std::vector<bool> stops;  // by edge
};

class NodeImpl final : public Node, private LifeKeeper {
 public:
  NodeImpl(const Catalog& catalog, NodeOptions options)
      : options_(std::move(options)), host_(std::make_shared<RoleHost>(catalog, options_.runner)) {}
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
  void bound(Origin home) override;
  void session_known(const std::string& session, std::uint64_t number) override;
  void session_ended(const std::string& session, std::uint64_t number) override;
  void session_over(const std::string& session, std::uint64_t number) override;
  void session_void(const std::string& session) override;
  bool is_ending(const std::string& session) override;
  bool is_ending_any() override;

  bool is_home() const { return options_.self == options_.home; }
  Result<std::shared_ptr<Life>> new_life();
  /// What takes long, one after the other: ends sessions, asks the home, begins the next life.
  void keep();
  void end_next_session(std::unique_lock<std::mutex>& lock);
  void begin_next_life(std::unique_lock<std::mutex>& lock);

  const NodeOptions options_;
  const std::shared_ptr<RoleHost> host_;
  std::vector<OwnedGraph> graphs_;
  std::size_t window_ = 0;
  const std::shared_ptr<GateWaits> waits_ = std::make_shared<GateWaits>();

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::shared_ptr<Life> life_;
  std::uint32_t incarnation_ = 0;
  std::uint32_t lived_ = 0;  // the incarnation of the last life that began
  std::uint32_t lives_ = 0;
  bool over_ = false;
  bool stop_ = false;
  Origin home_{};      // the one that the sessions are of; incarnation 0: none yet
  bool asks_ = false;  // is to be let in, as soon as no session ends
  std::set<std::pair<std::string, std::uint64_t>> sessions_;  // that others have named
  std::deque<std::string> ending_;                            // of them no more
  std::vector<std::unique_ptr<Runner>> runners_;
  std::thread keeper_;
};

Result<void> NodeImpl::begin(std::span<const Graph> graphs, const Catalog& catalog) {
  const std::vector<std::vector<bool>> stops = stopping_edges(wait_graphs(graphs));
  window_ = options_.window_bytes != 0 ? options_.window_bytes
                                       : window_for(graphs, options_.placed, options_.home);
  const auto here_of = [&](std::size_t workflow) {
    std::vector<bool> here;
    for (const std::vector<std::uint32_t>& machines : options_.placed[workflow])
      here.push_back(std::ranges::find(machines, options_.self) != machines.end());
    return here;
  };
  for (std::size_t i = 0; i < graphs.size(); ++i) host_->expect(*graphs[i].spec, here_of(i));
  for (std::size_t i = 0; i < graphs.size(); ++i) {
    OwnedGraph& graph = graphs_.emplace_back();
    graph.stops = stops[i];
    graph.plan = std::make_shared<const Plan>(*graphs[i].plan);
    Result<std::vector<NodePlace>> places = host_->add(*graphs[i].spec, *graph.plan, here_of(i));
    if (!places.ok()) return places.error();
    graph.places = std::move(places).value();
    graph.machines =
        machines_of_nodes(*graphs[i].spec, *graph.plan, options_.placed[i], options_.home);
    wire::Placement placement{graph.machines, std::vector<bool>(options_.machines.size())};
    placement.homes[options_.home] = true;
    graph.contract = std::make_unique<wire::Contract>(
        *graph.plan, std::move(placement),
        wire::ports_of(*graphs[i].spec, *graph.plan, catalog.declarations()));
  }
  host_->run();
  incarnation_ = options_.incarnation;
  Result<std::shared_ptr<Life>> made = new_life();
  if (!made.ok()) return made.error();
  if (!is_home()) {
    keeper_ = std::thread([this] { keep(); });
    return {};
  }
  const auto session_ended = [this](std::uint64_t session) {
    for (const auto& driver : life_->drivers()) driver->session_ended(session);
  };
  for (std::size_t i = 0; i < graphs.size(); ++i)
    runners_.push_back(make_runner(host_, life_->drivers()[i], graphs[i], catalog, session_ended));
  return {};
}

Result<std::shared_ptr<Life>> NodeImpl::new_life() {
  const Origin self{options_.self, incarnation_};
  Result<std::unique_ptr<Transport>> transport = options_.connect(self);
  if (!transport.ok()) return transport.error();
  auto life = std::make_shared<Life>(options_, self, static_cast<LifeKeeper&>(*this));
  std::vector<std::shared_ptr<Driver>> drivers;
  for (std::size_t i = 0; i < graphs_.size(); ++i) {
    DriverPlace place;
    place.where.self = self;
    place.where.home = options_.home;
    place.where.machines = static_cast<std::uint32_t>(options_.machines.size());
    place.where.nodes = graphs_[i].machines;
    place.where.contract = graphs_[i].contract.get();
    place.workflow = static_cast<std::uint32_t>(i);
    place.workflows = static_cast<std::uint32_t>(graphs_.size());
    place.machines = options_.machines;
    place.stops = graphs_[i].stops;
    place.window = window_;
    place.waits = waits_;
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
  }
  life->start(std::move(drivers), std::move(transport).value());
  return life;
}

NodeImpl::~NodeImpl() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
    changed_.notify_all();
  }
  if (keeper_.joinable()) keeper_.join();
  runners_.clear();
  if (life_) life_->stop(true);
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
    if (left.count() <= 0)
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
  }
  status.now = std::chrono::steady_clock::now();
  status.self = life->self();
  for (Roster::Row& row : life->roster()) status.machines.push_back({std::move(row), {}});
  for (const LinkState& link : life->links()) status.machines[link.life.machine].link = link;
  status.counts = life->counts();
  status.params = host_->param_counts();
  return status;
}

void NodeImpl::over(const std::string&) {
  const std::lock_guard lock(mutex_);
  over_ = true;
  changed_.notify_all();
}

void NodeImpl::bound(Origin home) {
  const std::lock_guard lock(mutex_);
  if (home_.incarnation != 0 && home_ != home) {
    for (const auto& [session, number] : sessions_) ending_.push_back(session);
    sessions_.clear();
  }
  home_ = home;
  asks_ = true;
  changed_.notify_all();
}

void NodeImpl::session_known(const std::string& session, std::uint64_t number) {
  const std::lock_guard lock(mutex_);
  sessions_.emplace(session, number);
}

void NodeImpl::session_ended(const std::string& session, std::uint64_t number) {
  const std::lock_guard lock(mutex_);
  if (sessions_.erase({session, number}) == 0) return;
  ending_.push_back(session);
  changed_.notify_all();
}

void NodeImpl::session_over(const std::string& session, std::uint64_t number) {
  const std::lock_guard lock(mutex_);
  sessions_.erase({session, number});
}

void NodeImpl::session_void(const std::string& session) {
  const std::lock_guard lock(mutex_);
  if (std::erase_if(sessions_, [&](const auto& known) { return known.first == session; }) == 0)
    return;
  ending_.push_back(session);
  changed_.notify_all();
}

bool NodeImpl::is_ending(const std::string& session) {
  const std::lock_guard lock(mutex_);
  return std::ranges::find(ending_, session) != ending_.end();
}

bool NodeImpl::is_ending_any() {
  const std::lock_guard lock(mutex_);
  return !ending_.empty();
}

void NodeImpl::keep() {
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [this] { return stop_ || over_ || asks_ || !ending_.empty(); });
    if (stop_) return;
    if (!ending_.empty()) {
      end_next_session(lock);
    } else if (over_) {
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

void NodeImpl::end_next_session(std::unique_lock<std::mutex>& lock) {
  const std::string session = ending_.front();
  lock.unlock();
  (void)host_->end_session(session);  // none of its calls is under way, as the home says
  lock.lock();
  ending_.pop_front();
  const std::shared_ptr<Life> life = life_;
  lock.unlock();
  life->go_on();
  lock.lock();
}

void NodeImpl::begin_next_life(std::unique_lock<std::mutex>& lock) {
  const std::shared_ptr<Life> gone = life_;
  lock.unlock();
  gone->stop(false);
  lock.lock();
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
