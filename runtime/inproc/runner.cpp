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
  InprocRunner(const Plan& plan, const Catalog& catalog, RunnerOptions options)
      : plan_(plan), catalog_(catalog), options_(std::move(options)), loop_(plan_, *this) {}

  ~InprocRunner() override {
    mailbox_.push(Stop{});
    if (thread_.joinable()) thread_.join();
    lanes_.clear();
  }

  Result<void> make_roles(const WorkflowSpec& spec);
  void run() {
    for (auto& lane : lanes_) lane->run();
    thread_ = std::thread([this] { work(); });
  }

  CallOutcome call(CallRequest request, const OnOutput& on_output) override;

 private:
  /// Where a replica of a role runs.
  struct Place {
    Lane* lane = nullptr;
    std::size_t instance = 0;
  };

  Result<void> make_global_params(const WorkflowSpec& spec);
  Result<void> make_role(const WorkflowSpec& spec, std::size_t index);
  Lane& lane_for(const WorkflowSpec& spec, std::size_t role, std::uint32_t replica);
  std::string path_of(const std::optional<Name>& model) const {
    return model.has_value() ? options_.root + "/" + model->text : std::string();
  }

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

  const Plan plan_;
  const Catalog& catalog_;
  const RunnerOptions options_;
  std::map<std::string, std::unique_ptr<GlobalParam>, std::less<>> global_params_;
  std::vector<std::unique_ptr<Lane>> lanes_;
  std::vector<std::vector<Place>> places_;              // by role, then replica
  std::map<std::pair<std::string, std::uint32_t>, Lane*> lane_of_;
  std::map<std::string, std::uint64_t, std::less<>> sessions_;
  std::vector<std::string> session_names_;
  std::mutex sessions_mutex_;

  // The loop thread's.
  Loop loop_;
  std::unordered_map<CallId, std::shared_ptr<Caller>> callers_;
  std::vector<std::unordered_map<std::uint64_t, std::shared_ptr<LaneActivation>>> running_;

  Mailbox<LoopEvent> mailbox_;
  std::thread thread_;
};

Result<void> InprocRunner::make_global_params(const WorkflowSpec& spec) {
  for (const GlobalParamSpec& param : spec.global_params) {
    if (options_.progress) options_.progress("preparing " + param.name.text);
    auto made = catalog_.make_global_param({&param, path_of(param.model)});
    if (!made.ok())
      return Error{made.error().code, "global parameter '" + param.name.text +
                                          "': " + made.error().message};
    global_params_.emplace(param.name.text, std::move(made).value());
  }
  return {};
}

Lane& InprocRunner::lane_for(const WorkflowSpec& spec, std::size_t role, std::uint32_t replica) {
  const RoleSpec* at = &spec.roles[role];
  for (std::size_t hops = 0; at->colocate.has_value() && hops < spec.roles.size(); ++hops) {
    const auto it = std::ranges::find_if(
        spec.roles, [&](const RoleSpec& r) { return r.name.text == at->colocate->text; });
    if (it == spec.roles.end()) break;
    at = &*it;
  }
  Lane*& lane = lane_of_[{at->name.text, replica % at->replicas}];
  if (lane == nullptr) {
    lanes_.push_back(std::make_unique<Lane>());
    lane = lanes_.back().get();
  }
  return *lane;
}

Result<void> InprocRunner::make_role(const WorkflowSpec& spec, std::size_t index) {
  const RoleSpec& role = spec.roles[index];
  const Plugin* plugin = catalog_.find(role.plugin.text);
  if (plugin == nullptr)
    return Error{ErrorCode::not_found,
                 "role '" + role.name.text + "': no plugin '" + role.plugin.text + "'"};
  RoleMaking making;
  making.role = &role;
  making.model_directory = path_of(role.model);
  making.threads = options_.threads;
  for (const Name& name : role.global_params) {
    const auto it = global_params_.find(name.text);
    if (it == global_params_.end())
      return Error{ErrorCode::not_found, "role '" + role.name.text +
                                             "': no global parameter '" + name.text + "'"};
    making.global_params.push_back(it->second.get());
  }
  for (making.replica = 0; making.replica < role.replicas; ++making.replica) {
    if (options_.progress) options_.progress("preparing " + role.name.text);
    Result<RoleInstance> made = plugin->make(making);
    if (!made.ok())
      return Error{made.error().code,
                   "role '" + role.name.text + "': " + made.error().message};
    Lane& lane = lane_for(spec, index, making.replica);
    places_[index].push_back({&lane, lane.add(std::move(made).value())});
  }
  return {};
}

Result<void> InprocRunner::make_roles(const WorkflowSpec& spec) {
  places_.resize(spec.roles.size());
  running_.resize(plan_.nodes.size());
  if (Result<void> made = make_global_params(spec); !made.ok()) return made;
  for (std::size_t i = 0; i < spec.roles.size(); ++i)
    if (Result<void> made = make_role(spec, i); !made.ok()) return made;
  return {};
}

CallOutcome InprocRunner::call(CallRequest request, const OnOutput& on_output) {
  NewCall event;
  event.inputs.resize(plan_.inputs.size());
  for (auto& [name, value] : request.inputs) {
    const auto it = std::ranges::find(plan_.inputs, name);
    if (it == plan_.inputs.end())
      return {false, invalid_argument("the workflow has no input '" + name + "'"), "", {}};
    event.inputs[static_cast<std::size_t>(it - plan_.inputs.begin())] = std::move(value);
  }
  {
    const std::lock_guard lock(sessions_mutex_);
    const auto [it, added] = sessions_.try_emplace(request.session, session_names_.size());
    if (added) session_names_.push_back(request.session);
    event.session = it->second;
  }
  const auto caller = std::make_shared<Caller>();
  event.caller = caller;
  mailbox_.push(std::move(event));
  std::vector<CallerEvent> batch;
  for (;;) {
    caller->wait_and_take(batch);
    for (CallerEvent& told : batch) {
      if (told.outcome) return std::move(*told.outcome);
      if (on_output) on_output(plan_.outputs[told.output].name, told.value);
    }
    batch.clear();
  }
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
      mailbox_.wait_and_take(batch);
    else
      mailbox_.wait_and_take(batch, Clock::time_point(due));
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
  const CallId id = loop_.call(event.session, std::move(event.inputs), now());
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
  const PlanNode& node = plan_.nodes[start.node];
  const std::vector<Place>& places = places_[node.role];
  const Place& place = places[start.replica % places.size()];
  std::string session;
  {
    const std::lock_guard lock(sessions_mutex_);
    session = session_names_[start.session];
  }
  auto activation = std::make_shared<LaneActivation>(
      node, start, std::move(session),
      [this](LaneEvent event) { mailbox_.push(std::move(event)); });
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
    if (end.failure->node != entry_node) outcome->node = plan_.nodes[end.failure->node].name;
  }
  callers_.at(end.call)->push({0, PayloadRef(), std::move(outcome)});
  callers_.erase(end.call);
}

}  // namespace

Result<std::unique_ptr<Runner>> Runner::create(const WorkflowSpec& spec, const Plan& plan,
                                               const Catalog& catalog, RunnerOptions options) {
  auto runner = std::make_unique<InprocRunner>(plan, catalog, std::move(options));
  if (Result<void> made = runner->make_roles(spec); !made.ok()) return made.error();
  runner->run();
  return std::unique_ptr<Runner>(std::move(runner));
}

}  // namespace sluice
