// What a driver hears: from callers, from roles on their lanes, from other machines, and from the
// clock.
//
// An event of an activation is taken from it and returns to it, so in the steady state nothing is
// allocated. Thread: one at a time, but for `last_too`, where a role's lane meets whoever drives.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "base/payload.h"
#include "base/ref.h"
#include "base/result.h"
#include "runtime/inproc/call_state.h"
#include "runtime/node/port.h"

namespace sluice {

class LaneActivation;

/// A frame on its way from a role: output index and value.
using YieldedFields = std::vector<std::pair<std::uint16_t, PayloadRef>>;

struct Event {
  enum class Kind : std::uint8_t {
    call,
    cancel,
    give_up,
    yielded,
    ended,
    released,
    time,
    close,
    peer,           // of another machine
    session_ended,  // `session`
  };
  enum class Progress : std::uint8_t { handled, waits, waits_last };

  Event* next = nullptr;
  Kind kind = Kind::time;
  bool last = false;      // yielded: its activation has ended with it
  bool released = false;  // ended: its role has let go of it
  std::atomic<Progress> progress{Progress::handled};
  LaneActivation* activation = nullptr;
  YieldedFields fields;  // yielded
  std::unique_ptr<Error> error;
  Instant sent{};  // yielded, ended: by the role, where somebody records it
  Ref<CallState> call;
  std::vector<PayloadRef> inputs;
  std::unique_ptr<PeerEvent> peer;
  std::uint64_t session = 0;

  /// Of a frame, by whoever handles it.
  bool handled_is_last() {
    return progress.exchange(Progress::handled) == Progress::waits_last || last;
  }
  /// The role has ended well after this frame: true when the frame still waits, and says so too.
  bool last_too() {
    Progress waits = Progress::waits;
    return progress.compare_exchange_strong(waits, Progress::waits_last);
  }
};

}  // namespace sluice
