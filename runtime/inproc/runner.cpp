// `Runner` over drivers in this process: checks requests, and hands them to the workflow's driver.
#include <algorithm>
#include <optional>

#include "runtime/call_stream.h"
#include "runtime/idle_runner.h"
#include "runtime/inproc/inproc_runner.h"
#include "runtime/wire/codec.h"

namespace sluice {

namespace {

class InprocHandle final : public CallHandle {
 public:
  InprocHandle(std::weak_ptr<Driver> driver, Ref<CallState> call)
      : driver_(std::move(driver)), call_(std::move(call)) {}
  void cancel() override {
    if (const auto driver = driver_.lock(); driver && !call_->ended()) driver->cancel(call_);
  }

 private:
  std::weak_ptr<Driver> driver_;
  Ref<CallState> call_;
};

class InprocRunner final : public Runner {
 public:
  InprocRunner(std::shared_ptr<RoleHost> host, std::shared_ptr<Driver> driver, InputPorts ports,
               SessionEnded session_ended, std::string name_end)
      : host_(std::move(host)),
        driver_(std::move(driver)),
        ports_(std::move(ports)),
        session_ended_(std::move(session_ended)),
        name_end_(std::move(name_end)) {}
  ~InprocRunner() override { driver_->close(); }

  std::shared_ptr<CallHandle> start(CallRequest request, CallObserver observer) override;
  Result<void> end_session(const std::string& session) override;
  RunnerCounts counts() const override { return driver_->counts(); }
  Trace trace() const override { return driver_->trace(); }

 private:
  /// By the plan's input index.
  Result<std::vector<PayloadRef>> inputs_of(CallRequest& request) const;
  Result<void> check_session(const std::string& name) const;

  std::shared_ptr<RoleHost> host_;  // outlives what its lanes run
  std::shared_ptr<Driver> driver_;
  InputPorts ports_;
  SessionEnded session_ended_;
  const std::string name_end_;
};

/// A name that other machines hear whole.
Result<void> InprocRunner::check_session(const std::string& name) const {
  const std::size_t most = wire::words_max - name_end_.size();
  if (name.size() <= most) return {};
  return invalid_argument("a session's name has " + std::to_string(name.size()) +
                          " bytes, at most " + std::to_string(most) + " are allowed");
}

Result<void> InprocRunner::end_session(const std::string& name) {
  if (Result<void> checked = check_session(name); !checked.ok()) return checked;
  const std::string session = name + name_end_;
  const std::optional<std::uint64_t> number = host_->sessions()->number_of(session);
  Result<void> ended = host_->end_session(session);
  if (ended.ok() && number && session_ended_) session_ended_(*number);
  return ended;
}

Result<std::vector<PayloadRef>> InprocRunner::inputs_of(CallRequest& request) const {
  const Plan& plan = driver_->plan();
  std::vector<PayloadRef> inputs(plan.inputs.size());
  for (auto& [name, value] : request.inputs) {
    const auto it = std::ranges::find(plan.inputs, name);
    if (it == plan.inputs.end())
      return invalid_argument("the workflow has no input '" + name + "'");
    const auto index = static_cast<std::size_t>(it - plan.inputs.begin());
    if (!value) return invalid_argument("input '" + name + "' has no value");
    for (const Port& port : ports_[index])
      if (const auto wrong = breach_of(port, *value))
        return invalid_argument("the call gave " + *wrong);
    inputs[index] = std::move(value);
  }
  return inputs;
}

std::shared_ptr<CallHandle> InprocRunner::start(CallRequest request, CallObserver observer) {
  const std::string session = request.session + name_end_;
  auto* const made = new CallState(std::move(observer), session);
  const Ref<CallState> call(made);
  auto handle = std::make_shared<InprocHandle>(driver_, call);
  Result<void> named = check_session(request.session);
  if (named.ok() && host_->sessions()->is_over(session))
    named = Error{ErrorCode::unavailable,
                  "session '" + session +
                      "' is to end, and a role still holds on to a call of it: it begins anew "
                      "when that has ended"};
  Result<std::vector<PayloadRef>> inputs =
      named.ok() ? inputs_of(request) : Result<std::vector<PayloadRef>>(named.error());
  if (!inputs.ok()) {
    call->end({false, inputs.error(), "", {}});
    return handle;
  }
  made->given_number = request.number;
  made->deadline = driver_->plan().limits.deadline;
  if (request.deadline.count() > 0) made->deadline = std::min(made->deadline, request.deadline);
  made->number = host_->sessions()->new_call_number();
  made->record = &host_->sessions()->call_begins(session);
  driver_->start(call, std::move(inputs).value());
  return handle;
}

}  // namespace

InputPorts input_ports(const WorkflowSpec& spec, const Plan& plan, const Catalog& catalog) {
  InputPorts ports(plan.inputs.size());
  for (std::size_t i = 0; i < plan.inputs.size(); ++i)
    ports[i].push_back({plan.inputs[i], plan.input_types[i], ""});
  for (const EdgeId id : plan.nodes[entry_node].edges) {
    const Edge& edge = plan.edges[id];
    if (edge.is_output()) continue;
    const PlanNode& node = plan.nodes[edge.to];
    const InterfaceDeclaration* interface = catalog.interface_of(spec, node);
    if (interface == nullptr) continue;
    for (const FieldMap& map : edge.fields)
      if (const Port* port = find_port(interface->inputs, node.groups[edge.group].fields[map.to])) {
        ports[map.from].push_back(*port);
        ports[map.from].back().name = plan.inputs[map.from];
      }
  }
  return ports;
}

std::unique_ptr<Runner> make_runner(std::shared_ptr<RoleHost> host, std::shared_ptr<Driver> driver,
                                    InputPorts ports, SessionEnded session_ended,
                                    std::string name_end) {
  return std::make_unique<InprocRunner>(std::move(host), std::move(driver), std::move(ports),
                                        std::move(session_ended), std::move(name_end));
}

CallOutcome Runner::call(CallRequest request, const OnOutput& on_output) {
  CallStream stream;
  const auto handle = start(std::move(request), stream.observer());
  return stream.wait(on_output);
}

Result<std::vector<std::unique_ptr<Runner>>> Runner::create_together(std::span<const Graph> graphs,
                                                                     const Catalog& catalog,
                                                                     const RunnerOptions& options) {
  const auto host = std::make_shared<RoleHost>(catalog, options);
  std::vector<std::shared_ptr<Driver>> drivers;
  for (const Graph& graph : graphs) {
    auto plan = std::make_shared<const Plan>(*graph.plan);
    auto places = host->add(*graph.spec, *plan);
    if (!places.ok()) return places.error();
    drivers.push_back(std::make_shared<Driver>(std::move(plan), host->sessions(),
                                               std::move(places).value(), options));
  }
  if (Result<void> run = host->run(); !run.ok()) return run.error();
  std::vector<std::unique_ptr<Runner>> runners;
  std::vector<IdleRule> rules;
  for (std::size_t i = 0; i < drivers.size(); ++i) {
    if (Result<void> run = drivers[i]->run(); !run.ok()) return run.error();
    rules.push_back(idle_rule(*graphs[i].spec));
    runners.push_back(make_runner(host, drivers[i],
                                  input_ports(*graphs[i].spec, *graphs[i].plan, catalog), {}, {}));
  }
  return end_idle_sessions(std::move(runners), rules);
}

Result<std::unique_ptr<Runner>> Runner::create(const WorkflowSpec& spec, const Plan& plan,
                                               const Catalog& catalog, RunnerOptions options) {
  const Graph graph{&spec, &plan};
  auto made = create_together({&graph, 1}, catalog, options);
  if (!made.ok()) return made.error();
  return std::move(made->front());
}

}  // namespace sluice
