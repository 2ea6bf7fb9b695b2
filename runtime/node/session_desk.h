// Where calls begin on several machines: takes this home's calls, and lets each begin when the
// keeper has said that its session is this home's, in one life of the machine.
//
// What has to wait, and for what, is decided by `SessionClaims`. The first call of a session waits
// for the keeper's answer; a call whose session is at another home ends at once, and says where to
// go. Thread: any; observers hear on whichever thread brings the news. Owns: a thread for the
// deadlines of calls that wait. Source: docs/CLUSTER.md, "Several homes".
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "runtime/node/control.h"
#include "runtime/runner.h"
#include "runtime/session_claims.h"

namespace sluice {

/// A session that a home has for itself, whatever others call theirs: of calls that name none
/// (`CallRequest`'s), and of names that begin with "--", which a program makes up for one call.
inline bool is_own_session(std::string_view name) {
  return name == "default" || name.starts_with("--");
}

class SessionDesk : public std::enable_shared_from_this<SessionDesk> {
 public:
  struct Options {
    std::vector<std::string> machines;  // names, by number
    std::uint32_t self = 0;
    std::uint32_t process = 0;    // the first life of this process
    std::size_t name_max = 0;     // bytes of a session's name; a longer one is left to the runner
    std::size_t waiting_max = 0;  // calls
    std::size_t sessions_max = 0;
    /// To the keeper: `session_wanted` or `session_given_back`. May answer at once.
    std::function<void(Control)> tell;
    std::function<void(const std::string&)> notice;  // a line for people
  };
  explicit SessionDesk(Options options);
  ~SessionDesk();
  SessionDesk(const SessionDesk&) = delete;
  SessionDesk& operator=(const SessionDesk&) = delete;

  /// As `Runner::start`. `limit`: the workflow's deadline, which counts from now.
  std::shared_ptr<CallHandle> start(const std::shared_ptr<Runner>& runner,
                                    std::chrono::milliseconds limit, CallRequest request,
                                    CallObserver observer);
  /// As `Runner::end_session`.
  Result<void> end_session(Runner& runner, const std::string& session);
  /// What the keeper has said. False: it was not asked.
  bool answered(const Control& control);
  /// Calls that wait end, and whoever made them hears why. Before its owner lets go of it.
  void close(const std::string& why);

 private:
  class Call;

  bool takes(const std::string& session) const {
    return !is_own_session(session) && session.size() <= options_.name_max;
  }
  void cancel(std::uint64_t call);
  /// Without the lock.
  void perform(ClaimEffects effects);
  void begin(const ClaimEffect& effect);
  Error full() const;
  Error error_of(const ClaimEffect& effect, const Call& call) const;
  std::shared_ptr<Call> take(std::uint64_t call);
  void watch();

  const Options options_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  SessionClaims claims_;
  std::map<std::uint64_t, std::shared_ptr<Call>> calls_;  // that have not begun
  std::uint64_t next_ = 1;
  std::string closed_why_;
  bool stop_ = false;
  std::thread thread_;  // from the first call that waits
};

}  // namespace sluice
