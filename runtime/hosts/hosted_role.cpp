#include "runtime/hosts/hosted_role.h"

#include <algorithm>
#include <optional>
#include <utility>

namespace sluice::hosts {

namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

/// An activation that is in the host.
struct InHost {
  Activation* activation = nullptr;
  std::uint64_t id = 0;
  std::uint64_t work = 0;  // for the words about a death
  std::string what;
  std::vector<std::string> fields;  // as they were sent
  bool told = false;                // that it is cancelled
  bool yielded = false;             // something
  bool ended = false;               // by its role, or it was never sent
  bool again = false;               // the life in which it was before died
  steady_clock::time_point cancelled_at{};
};

std::string text_of(milliseconds time) { return std::to_string(time.count()) + " ms"; }

/// What plain and stepped roles have in common: one member of a host.
class Member {
 public:
  Member(std::shared_ptr<HostProcess> host, std::uint32_t number, const RoleSpec& role,
         FieldsOf fields, KeepsSession keeps_session)
      : host_(std::move(host)),
        number_(number),
        role_(role.name.text),
        fields_(std::move(fields)),
        keeps_session_(std::move(keeps_session)),
        idempotent_(role.idempotent) {}

  HostProcess& host() { return *host_; }
  Error named(Error error) const {
    error.message = "role '" + role_ + "': " + error.message;
    return error;
  }

  /// The life in which to work next.
  Result<void> enter(const Activation& activation) {
    auto found = host_->life([&] { return activation.cancelled(); });
    if (!found.ok()) return named(found.error());
    if (life_ == *found) return {};
    life_ = *found;
    channel_ = host_->channel(*life_, number_);
    if (channel_ == nullptr) return Error{ErrorCode::unavailable, "role '" + role_ + "' has gone"};
    return {};
  }
  bool is_dead() const { return life_ == nullptr || life_->dead; }

  /// What the session was to the role is gone with the life in which it was.
  void look_at_session(Activation& activation) {
    if (!keeps_session_(activation.interface())) return;
    if (!host_->session_lost(*life_, activation.session())) return;
    activation.warn("what role '" + role_ + "' kept of session '" +
                    std::string(activation.session()) + "' was lost when host '" + host_->name() +
                    "' died; it begins anew");
    // A call that has failed meanwhile may hear of nothing more: the next one is told too.
    if (activation.cancelled()) host_->session_still_lost(activation.session());
  }

  InHost begin(Activation& activation) {
    InHost begun;
    begun.activation = &activation;
    begun.id = ++ids_;
    begun.what = "node '" + std::string(activation.node()) + "' of call " +
                 std::to_string(activation.call());
    begun.work = host_->begins(*life_, begun.what);
    begun.fields = fields_(activation.node(), activation.interface());
    return begun;
  }
  void finish(const InHost& one) { host_->ends(*life_, one.work); }

  /// Behind `finish`, of what did not end well: its life died, nobody saw anything of it, and it
  /// was not tried before. Its call is told.
  bool tries_again(const InHost& one) {
    if (!idempotent_ || one.ended || one.yielded || one.again || one.activation->cancelled())
      return false;
    one.activation->warn("tried again: " + host_->tries_again(*life_));
    return true;
  }
  static Error second(const InHost& one, Error error) {
    if (one.again && !one.ended) error.message += "; this was its second try";
    return error;
  }

  static HostedWork work_of(const InHost& one, bool admit) {
    const Activation& from = *one.activation;
    HostedWork work;
    work.id = one.id;
    work.admit = admit;
    work.node = from.node();
    work.interface = from.interface();
    work.session = from.session();
    work.call = from.call();
    work.group = static_cast<std::uint32_t>(from.group());
    for (const std::string& field : one.fields) {
      const auto values = from.inputs(field);
      work.fields.push_back({field, {values.begin(), values.end()}});
    }
    return work;
  }

  /// Errors: exhausted (it cannot travel, and nothing was sent), unavailable (how the host died).
  Result<void> send(const Request& request, const Channel::Waiting& waiting) {
    const Result<wire::Bytes> bytes = encode(request);
    if (!bytes.ok()) return named(bytes.error());
    const Result<void> sent = channel_->send(*bytes, waiting);
    if (!sent.ok()) return died(sent.error());
    return {};
  }
  /// Errors: unavailable (how the host died).
  Result<Reply> receive(const Channel::Waiting& waiting) {
    const Result<wire::Bytes> bytes = channel_->receive(waiting);
    if (!bytes.ok()) return died(bytes.error());
    Result<Reply> reply = decode_reply(*bytes);
    if (!reply.ok()) return died(reply.error());
    return reply;
  }
  Error died(const Error& failure) { return named(host_->lost(*life_, failure)); }
  Error misused(const std::string& what) { return died({ErrorCode::corrupt, what}); }

  /// While the host is awaited: tells it what is cancelled, and ends it when that is not heard.
  bool wait_with(InHost& one) {
    if (life_->dead) return false;
    if (!one.activation->cancelled()) return true;
    const auto now = steady_clock::now();
    if (!std::exchange(one.told, true)) {
      one.cancelled_at = now;
      host_->cancel(*life_, number_, one.id);
    }
    if (now - one.cancelled_at < host_->options().hang_after) return true;
    host_->end(*life_, "was ended, for " + one.what + " did not return within " +
                           text_of(host_->options().hang_after) + " of its cancellation");
    return false;
  }

  /// Errors: corrupt (the host named a field or an input that is not there).
  static Result<void> give(InHost& one, const Yielded& yielded) {
    std::vector<FieldValue> values;
    for (const HostedValue& value : yielded.values) {
      if (value.value) {
        values.push_back({value.field, value.value});
        continue;
      }
      const auto inputs = value.input_field < one.fields.size()
                              ? one.activation->inputs(one.fields[value.input_field])
                              : std::span<const PayloadRef>();
      if (value.input_index >= inputs.size())
        return Error{ErrorCode::corrupt, "yielded an input that is not there"};
      values.push_back({value.field, inputs[value.input_index]});
    }
    one.yielded = true;
    one.activation->yield(values);
    return {};
  }
  static Result<void> outcome(const InHost& one, const Ended& ended) {
    if (!ended.undeclared.empty()) static_cast<void>(one.activation->input(ended.undeclared));
    if (ended.error) return *ended.error;
    return {};
  }

 private:
  const std::shared_ptr<HostProcess> host_;
  const std::uint32_t number_;
  const std::string role_;
  const FieldsOf fields_;
  const KeepsSession keeps_session_;
  const bool idempotent_;
  std::shared_ptr<HostLife> life_;
  std::shared_ptr<Channel> channel_;
  std::uint64_t ids_ = 0;
};

class HostedPlain final : public Role {
 public:
  explicit HostedPlain(std::unique_ptr<Member> member) : member_(std::move(member)) {}

  Result<void> run(Activation& activation) override {
    for (bool again = false;; again = true) {
      if (Result<void> entered = member_->enter(activation); !entered.ok()) return entered;
      member_->look_at_session(activation);
      InHost one = member_->begin(activation);
      one.again = again;
      const Result<void> result = run(one);
      member_->finish(one);
      if (result.ok()) return result;
      if (!member_->tries_again(one)) return Member::second(one, result.error());
    }
  }

 private:
  Result<void> run(InHost& one) {
    const auto waiting = [&] { return member_->wait_with(one); };
    const Result<void> sent = member_->send(Member::work_of(one, false), waiting);
    one.ended = !sent.ok() && sent.error().code == ErrorCode::exhausted;
    if (!sent.ok()) return sent;
    for (;;) {
      const Result<Reply> reply = member_->receive(waiting);
      if (!reply.ok()) return reply.error();
      const auto* yielded = std::get_if<Yielded>(&*reply);
      const auto* warned = std::get_if<Warned>(&*reply);
      const auto* ended = std::get_if<Ended>(&*reply);
      if (ended != nullptr && ended->id == one.id) {
        one.ended = true;
        return Member::outcome(one, *ended);
      }
      Result<void> given;
      if (yielded != nullptr && yielded->id == one.id)
        given = Member::give(one, *yielded);
      else if (warned != nullptr && warned->id == one.id)
        one.activation->warn(warned->text);
      else
        return member_->misused("an answer to what was not asked");
      if (!given.ok()) return member_->died(given.error());
    }
  }

  const std::unique_ptr<Member> member_;
};

class HostedStepped final : public SteppedRole {
 public:
  explicit HostedStepped(std::unique_ptr<Member> member) : member_(std::move(member)) {}

  void admit(Activation& activation) override {
    if (!admitted_.empty() && member_->is_dead())
      fail_all(member_->died({ErrorCode::unavailable, ""}));
    admit(activation, false);
  }
  bool busy() const override { return busy_ || !ended_.empty() || !again_.empty(); }

  void step(std::vector<StepOutcome>& ended) override {
    for (Activation* const one : std::exchange(again_, {})) admit(*one, true);
    if (busy_) {
      StepRequest request;
      // What passed between two steps was not the role's.
      const auto idle = steady_clock::now() - last_heard_;
      for (InHost& one : admitted_) {
        if (!one.activation->cancelled()) continue;
        if (one.told) one.cancelled_at += idle;
        member_->wait_with(one);
        request.cancelled.push_back(one.id);
      }
      if (const Result<void> sent = member_->send(request, waiting()); sent.ok())
        converse();
      else
        fail_all(sent.error());
    }
    for (StepOutcome& one : std::exchange(ended_, {})) ended.push_back(std::move(one));
  }

 private:
  void admit(Activation& activation, bool again) {
    if (Result<void> entered = member_->enter(activation); !entered.ok())
      return ended_.push_back({&activation, entered.error()});
    member_->look_at_session(activation);
    InHost& one = admitted_.emplace_back(member_->begin(activation));
    one.again = again;
    const Result<void> sent = member_->send(Member::work_of(one, true), waiting());
    if (sent.ok()) return converse();
    if (sent.error().code != ErrorCode::exhausted) return fail_all(sent.error());
    end(one.id, sent);
  }
  Channel::Waiting waiting() {
    return [this] {
      return std::ranges::all_of(admitted_, [&](InHost& one) { return member_->wait_with(one); });
    };
  }
  /// Until the role has returned.
  void converse() {
    for (;;) {
      const Result<Reply> reply = member_->receive(waiting());
      if (!reply.ok()) return fail_all(reply.error());
      if (const auto* stepped = std::get_if<Stepped>(&*reply)) {
        busy_ = stepped->busy;
        last_heard_ = steady_clock::now();
        if (busy_ || admitted_.empty()) return;
        return fail_all(member_->misused("a role that is not busy holds activations"));
      }
      const Result<void> taken = take(*reply);
      if (!taken.ok()) return fail_all(member_->died(taken.error()));
    }
  }
  InHost* find(std::uint64_t id) {
    const auto it = std::ranges::find(admitted_, id, &InHost::id);
    return it == admitted_.end() ? nullptr : &*it;
  }
  Result<void> take(const Reply& reply) {
    const auto* yielded = std::get_if<Yielded>(&reply);
    const auto* warned = std::get_if<Warned>(&reply);
    const auto* ended = std::get_if<Ended>(&reply);
    const std::uint64_t id = yielded != nullptr  ? yielded->id
                             : warned != nullptr ? warned->id
                             : ended != nullptr  ? ended->id
                                                 : 0;
    InHost* const one = find(id);
    // A role that was asked for too much may speak of what has ended for everybody.
    if (one == nullptr && id != 0 && ended == nullptr) return {};
    if (one == nullptr) return Error{ErrorCode::corrupt, "an answer to what was not asked"};
    if (yielded != nullptr) return Member::give(*one, *yielded);
    if (warned != nullptr)
      one->activation->warn(warned->text);
    else
      end(id, Member::outcome(*one, *ended));
    return {};
  }
  void end(std::uint64_t id, Result<void> result) {
    InHost* const one = find(id);
    member_->finish(*one);
    ended_.push_back({one->activation, std::move(result)});
    std::erase_if(admitted_, [&](const InHost& held) { return held.id == id; });
  }
  /// What was in a life that died ends, or waits for the next step to be admitted again.
  void fail_all(const Error& error) {
    busy_ = false;
    for (const InHost& one : std::exchange(admitted_, {})) {
      member_->finish(one);
      if (member_->tries_again(one))
        again_.push_back(one.activation);
      else
        ended_.push_back({one.activation, Member::second(one, error)});
    }
  }

  const std::unique_ptr<Member> member_;
  std::vector<InHost> admitted_;
  std::vector<StepOutcome> ended_;  // for the next step
  std::vector<Activation*> again_;  // the same
  bool busy_ = false;               // the role in the host, when it was last heard
  steady_clock::time_point last_heard_{};
};

}  // namespace

Result<RoleInstance> make_hosted_role(std::shared_ptr<HostProcess> host, MakeRole making,
                                      FieldsOf fields, KeepsSession keeps_session) {
  const RoleSpec role = making.role;
  const Result<HostProcess::Member> added =
      host->add(std::move(making), "role '" + role.name.text + "'");
  if (!added.ok()) return added.error();
  auto member = std::make_unique<Member>(std::move(host), added->number, role, std::move(fields),
                                         std::move(keeps_session));
  if (added->stepped)
    return RoleInstance(
        std::unique_ptr<SteppedRole>(std::make_unique<HostedStepped>(std::move(member))));
  return RoleInstance(std::unique_ptr<Role>(std::make_unique<HostedPlain>(std::move(member))));
}

}  // namespace sluice::hosts
