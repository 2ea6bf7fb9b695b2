#include "runtime/hosts/host_child.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <exception>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <thread>
#include <vector>

#include "base/file_packets.h"
#include "base/worker_pool.h"
#include "runtime/hosts/channel.h"
#include "runtime/hosts/hosted_activation.h"

namespace sluice::hosts {

namespace {

/// As the lanes of a process say it.
template <typename Work>
std::optional<Error> thrown_by(Work work) {
  try {
    work();
    return {};
  } catch (const std::exception& error) {
    return Error{ErrorCode::unavailable, std::string("the role threw: ") + error.what()};
  } catch (...) {
    return Error{ErrorCode::unavailable, "the role threw something that is no std::exception"};
  }
}

std::optional<Error> error_of(const Result<void>& result) {
  return result.ok() ? std::nullopt : std::optional(result.error());
}

/// Which activations of a process are cancelled. Thread: any.
class Cancels {
 public:
  void begins(std::uint32_t channel, HostedActivation& activation) {
    const std::lock_guard lock(mutex_);
    running_[{channel, activation.id()}] = &activation;
    if (early_.erase({channel, activation.id()}) != 0) activation.cancel();
  }
  void ends(std::uint32_t channel, const HostedActivation& activation) {
    const std::lock_guard lock(mutex_);
    running_.erase({channel, activation.id()});
    newest_[channel] = std::max(newest_[channel], activation.id());
  }
  void cancel(const Cancel& cancel) {
    const std::lock_guard lock(mutex_);
    const std::pair key(cancel.channel, cancel.activation);
    if (const auto it = running_.find(key); it != running_.end()) return it->second->cancel();
    // It may be on its way on the channel still, or have ended.
    if (cancel.activation > newest_[cancel.channel] && early_.size() < early_max)
      early_.insert(key);
  }
  void cancel_all() {
    const std::lock_guard lock(mutex_);
    for (const auto& [key, activation] : running_) activation->cancel();
  }

 private:
  static constexpr std::size_t early_max = 4096;
  using Key = std::pair<std::uint32_t, std::uint64_t>;
  std::mutex mutex_;
  std::map<Key, HostedActivation*> running_;
  std::map<std::uint32_t, std::uint64_t> newest_;  // that has ended, by channel
  std::set<Key> early_;
};

/// What the threads of a host share. Thread: any.
struct Shared {
  const Catalog& catalog;
  Cancels cancels;
  std::mutex mutex;
  std::map<std::uint32_t, GlobalParam*> params;  // by channel
};

/// A channel, its thread, and the role instance or parameter that it runs.
class Worker {
 public:
  /// `common`: what the parameter that it makes attaches by; none: it is of this process alone.
  Worker(Shared& shared, std::uint32_t number, OwnedFile socket, OwnedFile common)
      : shared_(shared), number_(number), channel_(std::move(socket)), common_(std::move(common)) {
    thread_ = std::thread([this] { work(); });
  }
  ~Worker() { join(); }
  /// Requires: the other side has closed it.
  void join() {
    if (thread_.joinable()) thread_.join();
  }
  void drop_role() {
    stop_holding();
    instance_.reset();
  }

 private:
  void work() {
    for (;;) {
      const Result<wire::Bytes> bytes = channel_.receive();
      if (!bytes.ok() && bytes.error().code == ErrorCode::unavailable) return;
      const Result<Request> request =
          bytes.ok() ? decode_request(*bytes) : Result<Request>(bytes.error());
      if (!request.ok()) {
        std::fprintf(stderr, "error: role host: %s\n", request.error().message.c_str());
        ::_exit(1);
      }
      std::visit([this](const auto& one) { handle(one); }, *request);
    }
  }

  void reply(const Reply& message) {
    Result<wire::Bytes> bytes = encode(message);
    if (!bytes.ok()) return refuse(message, bytes.error());
    if (!channel_.send(*bytes).ok()) ::_exit(lost_connection);
  }
  /// A value that cannot travel: its activation fails, as it would on the way to a machine.
  void refuse(const Reply& message, const Error& error) {
    if (const auto* yielded = std::get_if<Yielded>(&message)) failed_.emplace(yielded->id, error);
  }

  void handle(const MakeParam& make) {
    spec_ = make.spec;
    Made made;
    std::optional<Error> thrown = thrown_by([&] {
      GlobalParamMaking making{&spec_, make.model_directory};
      making.shared = common_.release();
      auto param = shared_.catalog.make_global_param(making);
      if (param.ok())
        param_ = std::move(param).value();
      else
        made.error = param.error();
    });
    if (thrown) made.error = thrown;
    if (param_ != nullptr) {
      const std::lock_guard lock(shared_.mutex);
      shared_.params[number_] = param_.get();
    }
    reply(made);
  }

  Result<void> make(const MakeRole& make) {
    const Plugin* plugin = shared_.catalog.find(make.role.plugin.text);
    if (plugin == nullptr)
      return Error{ErrorCode::not_found, "no plugin '" + make.role.plugin.text + "'"};
    role_ = make.role;
    RoleMaking making{&role_, make.replica, make.model_directory, {}, make.threads};
    for (const std::uint32_t channel : make.params) {
      const std::lock_guard lock(shared_.mutex);
      const auto it = shared_.params.find(channel);
      if (it == shared_.params.end())
        return Error{ErrorCode::corrupt, "a parameter that is not there"};
      making.global_params.push_back(it->second);
    }
    limit_threads(make.threads);
    Result<RoleInstance> made = plugin->make(making);
    if (!made.ok()) return made.error();
    instance_.emplace(std::move(made).value());
    return {};
  }
  void handle(const MakeRole& request) {
    Result<void> done;
    std::optional<Error> thrown = thrown_by([&] { done = make(request); });
    Made made{stepped() != nullptr, thrown ? thrown : error_of(done)};
    reply(made);
  }

  SteppedRole* stepped() {
    auto* held = instance_ ? std::get_if<std::unique_ptr<SteppedRole>>(&*instance_) : nullptr;
    return held == nullptr ? nullptr : held->get();
  }
  [[noreturn]] static void misused(const char* what) {
    std::fprintf(stderr, "error: role host: %s\n", what);
    ::_exit(1);
  }

  HostedActivation& hold(const HostedWork& work) {
    auto made =
        std::make_unique<HostedActivation>(work, [this](const Reply& message) { reply(message); });
    HostedActivation& activation = *held_.emplace_back(std::move(made));
    shared_.cancels.begins(number_, activation);
    return activation;
  }
  /// What the role has let go of.
  void let_go(const HostedActivation& activation) {
    shared_.cancels.ends(number_, activation);
    std::erase_if(failed_, [&](const auto& one) { return one.first == activation.id(); });
    std::erase(given_up_, activation.id());
    std::erase_if(held_, [&](const auto& one) { return one.get() == &activation; });
  }
  void stop_holding() {
    while (!held_.empty()) let_go(*held_.back());
  }
  void end(HostedActivation& activation, std::optional<Error> error) {
    if (const auto it = failed_.find(activation.id()); it != failed_.end() && !error)
      error = it->second;
    activation.end(std::move(error));
  }

  void handle(const HostedWork& work) {
    if (!instance_ || work.admit != (stepped() != nullptr)) misused("work for no such role");
    HostedActivation& activation = hold(work);
    if (work.admit) return admit(activation);
    Result<void> result;
    std::optional<Error> thrown =
        thrown_by([&] { result = std::get<std::unique_ptr<Role>>(*instance_)->run(activation); });
    end(activation, thrown ? thrown : error_of(result));
    let_go(activation);
  }
  void admit(HostedActivation& activation) {
    if (std::optional<Error> thrown = thrown_by([&] { stepped()->admit(activation); }))
      give_up(activation, *thrown);
    reply(Stepped{stepped()->busy()});
  }
  /// It has ended for its caller; the role may hold it still.
  void give_up(HostedActivation& activation, const Error& error) {
    activation.cancel();
    end(activation, error);
    given_up_.push_back(activation.id());
  }
  bool is_given_up(const HostedActivation& activation) const {
    return std::ranges::find(given_up_, activation.id()) != given_up_.end();
  }

  void handle(const StepRequest& request) {
    SteppedRole* const role = stepped();
    if (role == nullptr) misused("a step of no stepped role");
    for (const std::uint64_t id : request.cancelled)
      for (const auto& activation : held_)
        if (activation->id() == id) activation->cancel();
    std::vector<StepOutcome> ended;
    const std::optional<Error> thrown = thrown_by([&] { role->step(ended); });
    for (StepOutcome& outcome : ended) returned(outcome);
    if (thrown)
      for (const auto& activation : held_)
        if (!is_given_up(*activation)) give_up(*activation, *thrown);
    const bool busy = role->busy();
    // Whoever has not ended has failed: its role does not know it any more.
    if (!busy)
      for (const auto& activation : held_)
        if (!is_given_up(*activation))
          give_up(*activation, {ErrorCode::unavailable, "the role forgot the activation"});
    if (!busy) stop_holding();
    reply(Stepped{busy});
  }
  void returned(StepOutcome& outcome) {
    const auto it = std::ranges::find_if(
        held_, [&](const auto& one) { return one.get() == outcome.activation; });
    if (it == held_.end()) misused("a stepped role ended an activation it did not hold");
    HostedActivation& activation = **it;
    if (!is_given_up(activation)) end(activation, error_of(outcome.result));
    let_go(activation);
  }

  void handle(const EndSession& end) {
    if (param_ == nullptr) misused("the end of a session of no parameter");
    reply(Made{false, thrown_by([&] { param_->end_session(end.session); })});
  }

  void handle(const LookAtPool& look) {
    if (param_ == nullptr) misused("a look at the pool of no parameter");
    PoolSeen seen;
    // Of one that throws nothing is seen.
    (void)thrown_by(
        [&] { seen.report = param_->pool_report(std::chrono::milliseconds(look.patience_ms)); });
    reply(seen);
  }

  Shared& shared_;
  const std::uint32_t number_;
  Channel channel_;
  OwnedFile common_;
  GlobalParamSpec spec_;
  RoleSpec role_;
  std::unique_ptr<GlobalParam> param_;
  std::optional<RoleInstance> instance_;
  std::vector<std::unique_ptr<HostedActivation>> held_;
  std::map<std::uint64_t, Error> failed_;  // yielded what cannot travel
  std::vector<std::uint64_t> given_up_;
  std::thread thread_;  // last: it uses all of the above
};

struct Received {
  Control control;
  OwnedFile socket, common;
};

/// Nothing: the other side is gone.
std::optional<Received> receive(int control) {
  std::array<std::byte, control_max> bytes{};
  PacketWithFiles came = receive_with_files(control, bytes, 0);
  if (came.bytes <= 0) return {};
  Received received;
  if (!came.files.empty()) received.socket = std::move(came.files[0]);
  if (came.files.size() > 1) received.common = std::move(came.files[1]);
  Result<Control> decoded =
      decode_control(std::span(bytes).first(static_cast<std::size_t>(came.bytes)));
  if (!decoded.ok() || came.is_cut || came.files.size() > descriptors_max) {
    std::fprintf(stderr, "error: role host: a control message: %s\n",
                 decoded.ok() ? "too long" : decoded.error().message.c_str());
    ::_exit(1);
  }
  received.control = *decoded;
  return received;
}

void send(int control, const Control& message) {
  const wire::Bytes bytes = encode(message);
  if (::send(control, bytes.data(), bytes.size(), MSG_NOSIGNAL) < 0) ::_exit(lost_connection);
}

void take(OwnedFile parts, const TakeParts& take_parts) {
  if (take_parts && parts.get() >= 0) take_parts(std::move(parts));
}

}  // namespace

int serve_host(const Catalog& catalog, int control, const TakeParts& take_parts) {
  const OwnedFile owned(control);
  ::fcntl(control, F_SETFD, FD_CLOEXEC);  // of what roles start, nobody has it
  Shared shared{catalog, {}, {}, {}};
  std::vector<std::unique_ptr<Worker>> workers;
  while (std::optional<Received> received = receive(control)) {
    if (const auto* open = std::get_if<OpenChannel>(&received->control))
      workers.push_back(std::make_unique<Worker>(shared, open->channel, std::move(received->socket),
                                                 std::move(received->common)));
    else if (const auto* cancel = std::get_if<Cancel>(&received->control))
      shared.cancels.cancel(*cancel);
    else if (std::holds_alternative<ShareParts>(received->control))
      take(std::move(received->socket), take_parts);
    else  // hello and ping are answered by themselves
      send(control, received->control);
  }
  shared.cancels.cancel_all();
  for (const auto& worker : workers) worker->join();
  // Roles go before what they share.
  for (const auto& worker : workers) worker->drop_role();
  return 0;
}

}  // namespace sluice::hosts
