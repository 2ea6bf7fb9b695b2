#include "runtime/hosts/hosted_param.h"

#include <algorithm>
#include <cstdio>
#include <utility>

namespace sluice::hosts {

namespace {

using std::chrono::milliseconds;

}  // namespace

HostedParam::HostedParam(std::shared_ptr<HostProcess> host, std::uint32_t member,
                         const MakeParam& making)
    : host_(std::move(host)), member_(member) {
  last_.name = making.spec.name.text;
  last_.model = making.model_directory;
  last_.age_ms = -1;
}

Result<Reply> HostedParam::receive(Channel& channel, const Channel::Waiting& waiting) const {
  for (;;) {
    const Result<wire::Bytes> bytes = channel.receive(waiting);
    if (!bytes.ok()) return bytes.error();
    Result<Reply> reply = decode_reply(*bytes);
    const PoolSeen* const seen = reply.ok() ? std::get_if<PoolSeen>(&*reply) : nullptr;
    if (seen == nullptr) return reply;
    if (std::exchange(owes_, nullptr) == nullptr)
      return Error{ErrorCode::corrupt, "a report of a pool that nobody asked for"};
    keep(*seen);
  }
}

void HostedParam::keep(const PoolSeen& seen) const {
  const std::lock_guard lock(seen_);
  has_pool_ = seen.report.has_value();
  if (!seen.report.has_value()) return;
  last_ = *seen.report;
  seen_at_ = Clock::now();
}

void HostedParam::end_session(std::string_view session) {
  host_->session_ends(session);
  const Result<wire::Bytes> request = encode(EndSession{std::string(session)});
  if (!request.ok()) return;  // no call of such a session was ever let in
  const std::lock_guard lock(asking_);
  // Where there is no life, nothing is left of the session either.
  auto life = host_->life([] { return true; });
  if (!life.ok()) return;
  const auto channel = host_->channel(**life, member_);
  if (channel == nullptr) return;
  if (owes_ != *life) owes_ = nullptr;
  // It may have to wait for what other sessions compute.
  const auto limit = 10 * host_->options().hang_after;
  const auto until = Clock::now() + limit;
  const auto waiting = [&] { return !(*life)->dead && Clock::now() < until; };
  const Result<void> sent = channel->send(*request, waiting);
  const Result<Reply> reply = sent.ok() ? receive(*channel, waiting) : Result<Reply>(sent.error());
  if (!reply.ok() && reply.error().code == ErrorCode::cancelled)
    return void(host_->end(**life, "was ended, for the end of a session did not return within " +
                                       std::to_string(limit.count()) + " ms"));
  if (!reply.ok() && reply.error().code != ErrorCode::corrupt)
    return void(host_->lost(**life, reply.error()));
  const Made* const made = reply.ok() ? std::get_if<Made>(&*reply) : nullptr;
  if (made == nullptr)
    return void(host_->lost(**life, {ErrorCode::corrupt, "no answer to the end of a session"}));
  if (made->error) std::fprintf(stderr, "warning: end_session: %s\n", made->error->message.c_str());
}

/// A report that has not come by then comes before the next reply.
void HostedParam::ask_for_pool(Clock::time_point until) const {
  auto life = host_->life([] { return true; });
  if (!life.ok()) return;
  const auto channel = host_->channel(**life, member_);
  if (channel == nullptr) return;
  const auto waiting = [&] { return !(*life)->dead && Clock::now() < until; };
  if (owes_ != *life) {
    const auto left = std::chrono::duration_cast<milliseconds>(until - Clock::now()).count();
    // Some of the time is for the way there and back.
    const auto patience = std::clamp<std::int64_t>(left - left / 4, 0, 60'000);
    const auto request = encode(LookAtPool{static_cast<std::uint32_t>(patience)});
    // A few bytes, behind which nothing waits: they are sent whole, or the host is gone, which
    // whoever watches it notices.
    if (!request.ok() || !channel->send(*request).ok()) return;
    owes_ = *life;
  }
  const Result<wire::Bytes> bytes = channel->receive(waiting);
  if (!bytes.ok() && bytes.error().code != ErrorCode::corrupt) return;  // late, or gone
  const Result<Reply> reply = bytes.ok() ? decode_reply(*bytes) : Result<Reply>(bytes.error());
  owes_ = nullptr;
  if (const PoolSeen* const seen = reply.ok() ? std::get_if<PoolSeen>(&*reply) : nullptr)
    return keep(*seen);
  (void)host_->lost(**life, {ErrorCode::corrupt,
                             reply.ok() ? "no answer to a look at a pool" : reply.error().message});
}

std::optional<PoolReport> HostedParam::pool_report(milliseconds patience) const {
  std::optional<PoolReport> told = look(patience);
  if (told && told->age_ms >= 0) told->layout += ", in host '" + host_->name() + "'";
  return told;
}

std::optional<PoolReport> HostedParam::look(milliseconds patience) const {
  const auto until = Clock::now() + patience;
  // Whoever else asks the host ends a session, which may take longer, or looks too.
  if (const std::unique_lock asking(asking_, until); asking.owns_lock()) ask_for_pool(until);
  const std::lock_guard lock(seen_);
  if (!has_pool_) return std::nullopt;
  PoolReport told = last_;
  if (told.age_ms >= 0)
    told.age_ms += std::chrono::duration_cast<milliseconds>(Clock::now() - seen_at_).count();
  return told;
}

Result<std::unique_ptr<HostedParam>> make_hosted_param(std::shared_ptr<HostProcess> host,
                                                       MakeParam making,
                                                       HostProcess::Connect connect) {
  const std::string what = "global parameter '" + making.spec.name.text + "'";
  const Result<HostProcess::Member> added = host->add(making, what, std::move(connect));
  if (!added.ok()) return added.error();
  return std::make_unique<HostedParam>(std::move(host), added->number, making);
}

}  // namespace sluice::hosts
