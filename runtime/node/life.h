// One life of a machine: a transport, a driver for each workflow, and who else is there.
//
// What happens is put in a row and dealt with one after the other by whoever brought the first of
// it, so drivers hear of machines in the order in which it was decided. Private to runtime/node.
// Thread: any.
#pragma once

#include <atomic>
#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <variant>
#include <vector>

#include "runtime/inproc/driver.h"
#include "runtime/members.h"
#include "runtime/node/node.h"
#include "runtime/node/port.h"
#include "runtime/node/received.h"
#include "runtime/node/roster.h"
#include "runtime/node/session_desk.h"
#include "runtime/replicas/desk.h"
#include "runtime/session_grants.h"

namespace sluice {

/// Whose lives they are.
class LifeOwner {
 public:
  virtual ~LifeOwner() = default;
  /// This life is over. Returns soon; ends it later.
  virtual void over(const std::string& why) = 0;
  /// The life belongs to this one of the keeper. `Life::ask` follows when nothing is left of what
  /// was kept for an earlier one.
  virtual void bound(Origin keeper) = 0;
  virtual void session_known(const std::string& session, const SessionId& id) = 0;
  /// Takes long where a role works: done later, and `Life::go_on` follows.
  virtual void session_ended(const std::string& session, const SessionId& id) = 0;
  /// Of a driver, which is behind `session_ended`, and may have named it in between.
  virtual void session_over(const std::string& session, const SessionId& id) = 0;
  /// What is held of it, under whatever number, is void: ends it as `session_ended` does.
  virtual void session_void(std::uint32_t home, const std::string& session) = 0;
  /// This life of a home is over, and those before it: so are their sessions.
  virtual void home_over(Origin home) = 0;
  /// That is still to be done.
  virtual bool is_ending(std::uint32_t home, const std::string& session) = 0;
  virtual bool is_ending_of(std::uint32_t home) = 0;
};

class Life final : private TransportListener, private NodePort {
 public:
  /// `desk`: outlives it.
  Life(const NodeOptions& options, Origin self, LifeOwner& owner, ReplicaDesk& desk);
  ~Life() override;

  /// Before `start`: the drivers' port.
  NodePort& port() { return *this; }
  /// Errors: exhausted (threads).
  Result<void> start(std::vector<std::shared_ptr<Driver>> drivers,
                     std::unique_ptr<Transport> transport);
  /// Ends the calls, whose callers hear why, then hears nothing more. `leaves`: the machine stops,
  /// and says so.
  void stop(bool leaves, const std::string& why);
  std::span<const std::shared_ptr<Driver>> drivers() const { return drivers_; }

  // For people; any time.
  Origin self() const { return self_; }
  std::vector<Roster::Row> roster() const;
  std::vector<LinkState> links() const;
  RunnerCounts counts() const;

  /// At one of several homes, from `start` on; else null: it asks nobody for its sessions.
  const std::shared_ptr<SessionDesk>& session_desk() const { return session_desk_; }

  /// Its owner, between `start` and `stop`: has the keeper let this machine in.
  void ask();
  /// Hears what waited for the end of a session of this home.
  void go_on(std::uint32_t home);

  /// The keeper and all homes have let it in; of the keeper: always.
  bool is_let_in() const;
  /// Empty when it has what it waits for, within `patience`; else who is missing: this machine
  /// itself, at once, where the life is over.
  std::vector<std::string> wait(std::chrono::milliseconds patience);

 private:
  struct Connected {};
  struct Asked {
    std::uint32_t process = 0;  // the first life of its process
  };
  struct Silent {};
  struct Joined {};  // as the keeper says
  struct Refused {};
  struct Reported {
    Origin about;
  };
  /// Something to be decided: of `life`, for the reason `why`.
  struct News {
    std::variant<Connected, Asked, Silent, Joined, Refused, Reported> what;
    Origin life;
    std::string why;
  };

  enum class Took : std::uint8_t {
    done,
    home_waits,  // for the end of a session, with what else is of its home on that link
    link_waits,
  };

  void received(Origin from, Channel channel, MessageBytes bytes) override;
  void connected(Origin life) override;
  void silent(Origin life, const std::string& why) override;
  void refused(Origin by) override;

  void send(Origin to, Channel channel, wire::Bytes bytes) override;
  wire::Lender* lender() override { return transport_->lender(); }
  void refuse(Origin life, const std::string& why) override;
  void session_known(const std::string& session, const SessionId& id) override;
  void session_over(const std::string& session, const SessionId& id) override;
  void session_void(std::uint32_t machine, const std::string& session) override;
  void tell_void(Origin life) override;
  void notice(const std::string& line) const override;
  void admitted() override;

  bool is_keeper() const { return self_.machine == options_.keeper; }
  bool is_home(std::uint32_t machine) const { return homes_[machine]; }
  const std::string& name(Origin life) const { return options_.machines[life.machine]; }
  bool is_known(Origin life) const { return life.machine < options_.machines.size(); }
  /// What was received, each machine's in order, as far as nothing has to wait.
  void take_received();
  /// Leaves the bytes of what has to wait.
  Took take(Parcel& parcel);
  /// The home whose word it is, or of whose call.
  std::optional<std::uint32_t> home_of(const Parcel& parcel) const;
  void take_message(Origin from, MessageBytes bytes);
  Took take_control(Origin from, std::span<const std::byte> bytes);
  // Whose sessions are whose: life_sessions.cpp.
  void make_session_desk();
  /// What homes and the keeper tell each other of them.
  void take_session_word(Origin from, const Control& control);
  /// At the keeper. Nothing: it needs no answer.
  std::optional<Control> answer_home(Origin home, const Control& control);
  void tell_keeper(const Control& control);
  void end_grants(Origin home);
  /// At the keeper: the home takes its leave.
  void end_sessions_of(Origin home);
  /// Of what comes before a driver hears it.
  Took look_at(Origin from, const Control& control);
  /// The name is one of this home's sessions.
  bool is_session_of(std::uint32_t home, const std::string& name) const;
  bool is_bound_to(Origin keeper);
  bool is_complete() const;
  std::vector<std::string> missing() const;
  void add(News news);
  MemberEffects decide(const News& news);
  void perform(const MemberEffect& effect);
  void tell_drivers(PeerEvent::Kind kind, Origin life, const std::string& why,
                    std::uint32_t process = 0);
  std::uint32_t process_of(std::uint32_t machine) const;
  void note_there(Origin life);
  void end_homes_away();
  void tell_desk(Origin keeper, const Control& control);
  /// The keeper has told one more driver of it.
  void note_joined(Origin life);
  void note_lost(Origin life, const std::string& why);

  const NodeOptions& options_;
  const Origin self_;
  const std::vector<bool> homes_;   // by machine
  const std::vector<bool> needed_;  // by machine: calls wait for it at the start
  LifeOwner& owner_;
  ReplicaDesk& desk_;
  std::vector<std::shared_ptr<Driver>> drivers_;
  std::shared_ptr<SessionDesk> session_desk_;
  std::unique_ptr<Transport> transport_;
  mutable std::mutex made_mutex_;  // the two above are set and let go while others ask for counts
  std::atomic<bool> stopped_{false};

  std::mutex received_mutex_;
  Received received_;
  std::uint64_t gone_ = 0;  // ends of sessions
  bool taking_ = false;

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<News> news_;
  bool deciding_ = false;
  Members members_;
  SessionGrants grants_;                  // at the keeper
  std::vector<std::uint32_t> processes_;  // at the keeper, by machine: as it said when it asked
  Member member_;
  Roster roster_;  // this machine's own row too
  std::size_t admissions_ = 0;
  /// How many drivers have been told that a machine is there, in its latest life.
  struct Joins {
    std::uint32_t incarnation = 0;
    std::size_t drivers = 0;
  };
  std::vector<Joins> joins_;                 // by machine; not at the keeper
  std::vector<std::set<std::string>> void_;  // at a home, by machine: sessions, until it is back
};

}  // namespace sluice
