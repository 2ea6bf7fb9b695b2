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
#include <set>
#include <string>
#include <variant>
#include <vector>

#include "runtime/inproc/driver.h"
#include "runtime/members.h"
#include "runtime/node/node.h"
#include "runtime/node/port.h"
#include "runtime/node/roster.h"

namespace sluice {

/// Who keeps the lives.
class LifeKeeper {
 public:
  virtual ~LifeKeeper() = default;
  /// This life is over. Returns soon; ends it later.
  virtual void over(const std::string& why) = 0;
  /// The life belongs to this one of the home. `Life::ask` follows when nothing is left of what
  /// was kept for an earlier one.
  virtual void bound(Origin home) = 0;
  virtual void session_known(const std::string& session, std::uint64_t number) = 0;
  /// Takes long where a role works: done later, and `Life::go_on` follows.
  virtual void session_ended(const std::string& session, std::uint64_t number) = 0;
  /// Of a driver, which is behind `session_ended`, and may have named it in between.
  virtual void session_over(const std::string& session, std::uint64_t number) = 0;
  /// What is held of it, under whatever number, is void: ends it as `session_ended` does.
  virtual void session_void(const std::string& session) = 0;
  /// That is still to be done.
  virtual bool is_ending(const std::string& session) = 0;
  virtual bool is_ending_any() = 0;
};

class Life final : private TransportListener, private NodePort {
 public:
  Life(const NodeOptions& options, Origin self, LifeKeeper& keeper);
  ~Life() override;

  /// Before `start`: the drivers' port.
  NodePort& port() { return *this; }
  void start(std::vector<std::shared_ptr<Driver>> drivers, std::unique_ptr<Transport> transport);
  /// Ends the calls, then hears nothing more. `leaves`: the machine stops, and says so.
  void stop(bool leaves);
  std::span<const std::shared_ptr<Driver>> drivers() const { return drivers_; }

  // For people; any time.
  Origin self() const { return self_; }
  std::vector<Roster::Row> roster() const;
  std::vector<LinkState> links() const;
  RunnerCounts counts() const;

  /// Whoever keeps the life, between `start` and `stop`: has the home let this machine in.
  void ask();
  /// Hears what waited for the end of a session.
  void go_on();

  /// Empty when it has what it waits for, within `patience`; else who is missing.
  std::vector<std::string> wait(std::chrono::milliseconds patience);

 private:
  struct Connected {};
  struct Asked {};
  struct Silent {};
  struct Joined {};  // as the home says
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

  struct Parcel {
    Origin from;
    Channel channel = Channel::message;
    wire::Bytes bytes;
  };

  void received(Origin from, Channel channel, wire::Bytes bytes) override;
  void connected(Origin life) override;
  void silent(Origin life, const std::string& why) override;
  void refused(Origin by) override;

  void send(Origin to, Channel channel, wire::Bytes bytes) override;
  wire::Lender* lender() override { return transport_->lender(); }
  void refuse(Origin life, const std::string& why) override;
  void session_known(const std::string& session, std::uint64_t number) override;
  void session_over(const std::string& session, std::uint64_t number) override;
  void session_void(std::uint32_t machine, const std::string& session) override;
  void notice(const std::string& line) const override;
  void admitted() override;

  bool is_home() const { return self_.machine == options_.home; }
  const std::string& name(Origin life) const { return options_.machines[life.machine]; }
  bool is_known(Origin life) const { return life.machine < options_.machines.size(); }
  /// What was received, in order, as far as nothing has to wait.
  void take_received();
  /// False when it has to wait for the end of a session.
  bool take(Parcel& parcel);
  void take_message(Origin from, wire::Bytes bytes);
  bool take_control(Origin from, const wire::Bytes& bytes);
  bool is_bound_to(Origin home);
  void add(News news);
  MemberEffects decide(const News& news);
  void perform(const MemberEffect& effect);
  void tell_drivers(PeerEvent::Kind kind, Origin life, const std::string& why);
  void tell_void(Origin life);
  void note_there(Origin life);
  void note_lost(Origin life, const std::string& why);

  const NodeOptions& options_;
  const Origin self_;
  LifeKeeper& keeper_;
  std::vector<std::shared_ptr<Driver>> drivers_;
  std::unique_ptr<Transport> transport_;
  mutable std::mutex made_mutex_;  // the two above are set and let go while others ask for counts
  std::atomic<bool> stopped_{false};

  std::mutex received_mutex_;
  std::deque<Parcel> received_;
  std::size_t received_bytes_ = 0;
  bool taking_ = false;
  bool take_again_ = false;

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<News> news_;
  bool deciding_ = false;
  Members members_;
  Member member_;
  Roster roster_;  // this machine's own row too
  std::size_t admissions_ = 0;
  std::vector<std::set<std::string>> void_;  // at home, by machine: sessions, until it is back
};

}  // namespace sluice
