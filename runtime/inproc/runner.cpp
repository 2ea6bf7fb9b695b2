// `Runner` over drivers in this process: checks requests, and hands them to the workflow's driver.
#include "runtime/runner.h"

#include <algorithm>
#include <optional>

#include "runtime/call_stream.h"
#include "runtime/inproc/driver.h"
#include "runtime/inproc/role_host.h"

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
  InprocRunner(std::shared_ptr<RoleHost> host, std::shared_ptr<Driver> driver)
      : host_(std::move(host)), driver_(std::move(driver)) {}
  ~InprocRunner() override { driver_->close(); }

  std::shared_ptr<CallHandle> start(CallRequest request, CallObserver observer) override;
  Result<void> end_session(const std::string& session) override {
    return host_->end_session(session);
  }
  RunnerCounts counts() const override { return driver_->counts(); }
  Trace trace() const override { return driver_->trace(); }

 private:
  /// By the plan's input index.
  Result<std::vector<PayloadRef>> inputs_of(CallRequest& request) const;

  std::shared_ptr<RoleHost> host_;  // outlives what its lanes run
  std::shared_ptr<Driver> driver_;
};

Result<std::vector<PayloadRef>> InprocRunner::inputs_of(CallRequest& request) const {
  const Plan& plan = driver_->plan();
  std::vector<PayloadRef> inputs(plan.inputs.size());
  for (auto& [name, value] : request.inputs) {
    const auto it = std::ranges::find(plan.inputs, name);
    if (it == plan.inputs.end())
      return invalid_argument("the workflow has no input '" + name + "'");
    const auto index = static_cast<std::size_t>(it - plan.inputs.begin());
    if (!value) return invalid_argument("input '" + name + "' has no value");
    if (const auto wrong = breach_of({name, plan.input_types[index], ""}, *value))
      return invalid_argument("the call gave " + *wrong);
    inputs[index] = std::move(value);
  }
  return inputs;
}

std::shared_ptr<CallHandle> InprocRunner::start(CallRequest request, CallObserver observer) {
  auto* const made = new CallState(std::move(observer), request.session);
  const Ref<CallState> call(made);
  auto handle = std::make_shared<InprocHandle>(driver_, call);
  Result<std::vector<PayloadRef>> inputs = inputs_of(request);
  if (!inputs.ok()) {
    call->end({false, inputs.error(), "", {}});
    return handle;
  }
  made->deadline = driver_->plan().limits.deadline;
  if (request.deadline.count() > 0) made->deadline = std::min(made->deadline, request.deadline);
  made->number = host_->sessions()->new_call_number();
  made->record = &host_->sessions()->call_begins(request.session);
  driver_->start(call, std::move(inputs).value());
  return handle;
}

}  // namespace

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
  host->run();
  std::vector<std::unique_ptr<Runner>> runners;
  for (const auto& driver : drivers) {
    driver->run();
    runners.push_back(std::make_unique<InprocRunner>(host, driver));
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
