// What a driver and the node that it belongs to tell each other: the node has the links to other
// machines, a driver the engines of one workflow.
//
// Thread: `NodePort` is called by whoever drives, and must return soon.
// Errors: none; that a machine is gone comes back as a `PeerEvent`.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "runtime/inproc/residence.h"
#include "runtime/node/control.h"
#include "runtime/node/history_places.h"
#include "runtime/node/home_histories.h"
#include "runtime/transport.h"

namespace sluice {

/// To a driver, in the order in which it happened.
struct PeerEvent {
  enum class Kind : std::uint8_t {
    message,  // `from` sent the bytes from `begin` on
    control,  // `from` sent `control`
    joined,   // at the keeper: `from` is there
    lost,     // at the keeper: `from` is over, because of `why`
  };
  Kind kind = Kind::message;
  Origin from;
  MessageBytes bytes;
  std::size_t begin = 0;
  std::uint64_t news = 0;  // message: of the keeper's, what its sender knew
  Control control;
  std::string why;
  std::uint32_t process = 0;  // joined: the first life of the process whose life it is
};

/// From a driver.
class NodePort {
 public:
  virtual ~NodePort() = default;
  virtual void send(Origin to, Channel channel, wire::Bytes bytes) = 0;
  /// See `Transport::lender`.
  virtual wire::Lender* lender() { return nullptr; }
  /// What this life said is wrong, which ends it.
  virtual void refuse(Origin life, const std::string& why) = 0;
  /// Roles may hold something of the session from now on, so its end has to reach this machine.
  /// `id`: of no other session, also of its name.
  virtual void session_known(const std::string& session, const SessionId& id) = 0;
  /// Its home has ended it, and the driver will not name it again.
  virtual void session_over(const std::string& session, const SessionId& id) = 0;
  /// At its home: what that machine holds of it is void, which `tell_void` says when it is back.
  virtual void session_void(std::uint32_t machine, const std::string& session) = 0;
  /// At a home: this life is there, and the driver will let it in.
  virtual void tell_void(Origin life) = 0;
  /// A line for people.
  virtual void notice(const std::string& line) const = 0;
  /// The keeper and all homes have let this machine in.
  virtual void admitted() = 0;
};

/// What makes a driver one of several, on several machines.
struct DriverPlace {
  Residence where;
  std::uint32_t workflow = 0;  // of those that run together
  std::uint32_t workflows = 1;
  std::vector<std::string> machines;  // their names, by number
  std::vector<bool> stops;            // by edge: see `stopping_edges`
  std::size_t window = 1;             // of each edge between two machines, in bytes
  std::size_t sessions_max = std::size_t{1} << 20U;  // of this home, which have not ended
  HistoryPlaces history{};
  std::shared_ptr<HomeHistories> histories{};  // of all workflows of the home; null: it is none
  NodePort* port = nullptr;           // borrowed until the driver has closed
};

}  // namespace sluice
