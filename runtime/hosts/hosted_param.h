// A global parameter of a host, as this program's sessions and whoever looks at pools see it.
//
// Thread: any; one asks the host at a time. Errors: none. A host that is dead, or being started,
// has nothing of any session; of its pool the last report is told, with its age.
#pragma once

#include <chrono>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "roles/catalog.h"
#include "runtime/hosts/host_process.h"

namespace sluice::hosts {

class HostedParam final : public GlobalParam {
 public:
  /// `member` of the host; `making` is what it was made of.
  HostedParam(std::shared_ptr<HostProcess> host, std::uint32_t member, const MakeParam& making);
  void end_session(std::string_view session) override;
  /// Waits at most so long, for others who ask the host too.
  std::optional<PoolReport> pool_report(std::chrono::milliseconds patience) const override;
  /// The same without the host's name.
  std::optional<PoolReport> look(std::chrono::milliseconds patience) const;

  const std::shared_ptr<HostProcess>& host() const { return host_; }
  std::uint32_t member() const { return member_; }

 private:
  using Clock = std::chrono::steady_clock;

  void ask_for_pool(Clock::time_point until) const;
  /// The next reply that is no late report. Errors: those of the channel; corrupt.
  Result<Reply> receive(Channel& channel, const Channel::Waiting& waiting) const;
  void keep(const PoolSeen& seen) const;

  const std::shared_ptr<HostProcess> host_;
  const std::uint32_t member_;
  mutable std::timed_mutex asking_;         // of the host; guards what follows
  mutable std::shared_ptr<HostLife> owes_;  // a report, which was not waited for; null: none
  mutable std::mutex seen_;                 // guards what follows
  mutable PoolReport last_;                 // of the pool: at first its name and model
  mutable bool has_pool_ = true;            // as far as anybody knows
  mutable Clock::time_point seen_at_{};
};

/// `connect`: as of `HostProcess::add`.
Result<std::unique_ptr<HostedParam>> make_hosted_param(std::shared_ptr<HostProcess> host,
                                                       MakeParam making,
                                                       HostProcess::Connect connect = {});

}  // namespace sluice::hosts
