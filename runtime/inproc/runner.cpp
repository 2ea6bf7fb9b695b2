// The in-process driver behind `Runner`: a loop thread, lanes for roles, and the callers' threads.
#include "runtime/runner.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <map>
#include <optional>
#include <thread>
#include <unordered_map>
#include <variant>

#include "runtime/inproc/lane.h"
#include "runtime/inproc/loop.h"
#include "runtime/inproc/role_host.h"
#include "runtime/mailbox.h"

namespace sluice {

namespace {

using Clock = std::chrono::steady_clock;

/// What a call's own thread is told.
struct CallerEvent {
  std::uint16_t output = 0;
  PayloadRef value;
  std::unique_ptr<CallOutcome> outcome;   // set: the last one
};
using Caller = Mailbox<CallerEvent>;

struct NewCall {
  std::uint64_t session = 0;
  std::vector<PayloadRef> inputs;
  std::shared_ptr<Caller> caller;
};
struct Stop {};
using LoopEvent = std::variant<NewCall, LaneEvent, Stop>;

class InprocRunner final : public Runner, private LoopHost {
 public:
  InprocRunner(const Plan& plan, std::shared_ptr<RoleHost> host,
               std::vector<std::vector<RolePlace>> places)
      : plan_(std::make_shared<const Plan>(plan)),
        host_(std::move(host)),
        places_(std::move(places)),
        loop_(*plan_, *this),
        running_(plan_->nodes.size()) {}

  ~InprocRunner() override {
    mailbox_->push(Stop{});
    if (thread_.joinable()) thread_.join();
    // What still runs reports to a mailbox that nobody reads, and may stop.
    for (const auto& of_node : running_)
      for (const auto& [id, activation] : of_node) activation->cancel();
  }

  void run() {
    thread_ = std::thread([this] { work(); });
  }

  CallOutcome call(CallRequest request, const OnOutput& on_output) override;
  Result<void> end_session(const std::string& session) override;

 private:
  std::uint64_t session_id(const std::string& name);
  CallOutcome wait_for(Caller& caller, const OnOutput& on_output);

  void work();
  void handle(NewCall& event);
  void handle(LaneEvent& event, bool last);
  static bool ends(const std::vector<LoopEvent>& batch, std::size_t i);

  void start(const StartActivation& start) override;
  void cancel(const CancelActivation& cancel) override;
  void deliver(const DeliverOutput& output) override;
  void end(EndCall& end) override;

  static Instant now() {
    return std::chrono::duration_cast<Instant>(Clock::now().time_since_epoch());
  }
  static std::uint64_t key(ActivationId id) {
    return static_cast<std::uint64_t>(id.generation) << 32 | id.index;
  }

  const std::shared_ptr<const Plan> plan_;
  const std::shared_ptr<RoleHost> host_;
  const std::vector<std::vector<RolePlace>> places_;  // by role, then replica
  std::map<std::string, std::uint64_t, std::less<>> sessions_;
  std::vector<std::string> session_names_;
  std::vector<std::uint64_t> sessions_free_;  // of sessions that ended: nothing of theirs is left
  std::mutex sessions_mutex_;

  // The loop thread's.
  Loop loop_;
  std::unordered_map<CallId, std::shared_ptr<Caller>> callers_;
  std::vector<std::unordered_map<std::uint64_t, std::shared_ptr<LaneActivation>>> running_;

  /// Outlives the runner where a role still reports to it.
  const std::shared_ptr<Mailbox<LoopEvent>> mailbox_ = std::make_shared<Mailbox<LoopEvent>>();
  std::thread thread_;
};

CallOutcome InprocRunner::call(CallRequest request, const OnOutput& on_output) {
  NewCall event;
  event.inputs.resize(plan_->inputs.size());
  for (auto& [name, value] : request.inputs) {
    const auto it = std::ranges::find(plan_->inputs, name);
    if (it == plan_->inputs.end())
      return {false, invalid_argument("the workflow has no input '" + name + "'"), "", {}};
    event.inputs[static_cast<std::size_t>(it - plan_->inputs.begin())] = std::move(value);
  }
  host_->call_begins(request.session);
  event.session = session_id(request.session);
  const auto caller = std::make_shared<Caller>();
  event.caller = caller;
  mailbox_->push(std::move(event));
  CallOutcome outcome = wait_for(*caller, on_output);
  host_->call_ended(request.session);
  return outcome;
}

CallOutcome InprocRunner::wait_for(Caller& caller, const OnOutput& on_output) {
  std::vector<CallerEvent> batch;
  for (;;) {
    caller.wait_and_take(batch);
    for (CallerEvent& told : batch) {
      if (told.outcome) return std::move(*told.outcome);
      if (on_output) on_output(plan_->outputs[told.output].name, told.value);
    }
    batch.clear();
  }
}

std::uint64_t InprocRunner::session_id(const std::string& name) {
  const std::lock_guard lock(sessions_mutex_);
  const auto [it, added] = sessions_.try_emplace(name, session_names_.size());
  if (!added) return it->second;
  if (sessions_free_.empty()) {
    session_names_.push_back(name);
  } else {
    it->second = sessions_free_.back();
    sessions_free_.pop_back();
    session_names_[it->second] = name;
  }
  return it->second;
}

Result<void> InprocRunner::end_session(const std::string& session) {
  if (Result<void> ended = host_->end_session(session); !ended.ok()) return ended;
  const std::lock_guard lock(sessions_mutex_);
  const auto it = sessions_.find(session);
  if (it == sessions_.end()) return {};
  session_names_[it->second].clear();
  sessions_free_.push_back(it->second);
  sessions_.erase(it);
  return {};
}

bool InprocRunner::ends(const std::vector<LoopEvent>& batch, std::size_t i) {
  if (i >= batch.size()) return false;
  const auto* first = std::get_if<LaneEvent>(&batch[i - 1]);
  const auto* next = std::get_if<LaneEvent>(&batch[i]);
  return first != nullptr && next != nullptr && !first->ended && next->ended && !next->error &&
         next->node == first->node && next->activation == first->activation;
}

void InprocRunner::work() {
  std::vector<LoopEvent> batch;
  for (;;) {
    const Instant due = loop_.next_deadline();
    if (due == Instant::max())
      mailbox_->wait_and_take(batch);
    else
      mailbox_->wait_and_take(batch, Clock::time_point(due));
    for (std::size_t i = 0; i < batch.size(); ++i) {
      if (std::holds_alternative<Stop>(batch[i])) return;
      if (loop_.timed()) loop_.advance(now());
      if (auto* call = std::get_if<NewCall>(&batch[i]))
        handle(*call);
      else
        handle(std::get<LaneEvent>(batch[i]), ends(batch, i + 1));
      loop_.run();
    }
    batch.clear();
    if (due != Instant::max() && due <= now()) {
      loop_.tick(now());
      loop_.run();
    }
  }
}

void InprocRunner::handle(NewCall& event) {
  // Nothing of the call runs before `Loop::run`, so its caller is known in time.
  const CallId id = loop_.call(event.session, event.inputs, now());
  callers_.emplace(id, std::move(event.caller));
}

void InprocRunner::handle(LaneEvent& event, bool last) {
  if (!event.ended) {
    Frame* frame = loop_.new_frame(event.node);
    for (auto& [field, value] : event.fields) {
      frame->values[field] = std::move(value);
      frame->mask |= std::uint64_t{1} << field;
    }
    loop_.yielded(event.node, event.activation, frame, last);
    return;
  }
  running_[event.node].erase(key(event.activation));
  std::unique_ptr<Failure> failure;
  if (event.error) failure = std::make_unique<Failure>(Failure{event.node, *event.error});
  loop_.ended(event.node, event.activation, std::move(failure));
}

void InprocRunner::start(const StartActivation& start) {
  const std::shared_ptr<const PlanNode> node(plan_, &plan_->nodes[start.node]);
  const std::vector<RolePlace>& places = places_[node->role];
  const RolePlace& place = places[start.replica % places.size()];
  std::string session;
  {
    const std::lock_guard lock(sessions_mutex_);
    session = session_names_[start.session];
  }
  auto activation = std::make_shared<LaneActivation>(
      node, start, std::move(session),
      [mailbox = mailbox_](LaneEvent event) { mailbox->push(std::move(event)); });
  activation->set_instance(place.instance);
  running_[start.node].emplace(key(start.activation), activation);
  place.lane->push(std::move(activation));
}

void InprocRunner::cancel(const CancelActivation& cancel) {
  const auto it = running_[cancel.node].find(key(cancel.activation));
  if (it != running_[cancel.node].end()) it->second->cancel();
}

void InprocRunner::deliver(const DeliverOutput& output) {
  callers_.at(output.call)->push({output.output, output.value, nullptr});
}

void InprocRunner::end(EndCall& end) {
  auto outcome = std::make_unique<CallOutcome>();
  outcome->ok = end.failure == nullptr;
  outcome->warnings = std::move(end.warnings);
  if (end.failure) {
    outcome->error = std::move(end.failure->error);
    if (end.failure->node != entry_node) outcome->node = plan_->nodes[end.failure->node].name;
  }
  callers_.at(end.call)->push({0, PayloadRef(), std::move(outcome)});
  callers_.erase(end.call);
}

}  // namespace

Result<std::vector<std::unique_ptr<Runner>>> Runner::create_together(
    std::span<const Graph> graphs, const Catalog& catalog, const RunnerOptions& options) {
  const auto host = std::make_shared<RoleHost>(catalog, options);
  std::vector<std::unique_ptr<InprocRunner>> made;
  for (const Graph& graph : graphs) {
    auto places = host->add(*graph.spec);
    if (!places.ok()) return places.error();
    made.push_back(std::make_unique<InprocRunner>(*graph.plan, host, std::move(places).value()));
  }
  host->run();
  std::vector<std::unique_ptr<Runner>> runners;
  for (auto& runner : made) {
    runner->run();
    runners.push_back(std::move(runner));
  }
  return runners;
}

Result<std::unique_ptr<Runner>> Runner::create(const WorkflowSpec& spec, const Plan& plan,
                                               const Catalog& catalog, RunnerOptions options) {
  const Graph graph{&spec, &plan};
  auto made = create_together({&graph, 1}, catalog, options);
  if (!made.ok()) return made.error();
  return std::move(made->front());
}

}  // namespace sluice
