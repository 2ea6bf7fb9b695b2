// What the nodes of a cluster tell each other besides messages: who is there, sessions' names, and
// what was said in them.
//
// On one link a control parcel and the messages around it arrive in the order in which they were
// sent: a session's name before its first message, the loss of a machine after what its calls were
// aborted with. Bounds: `wire::words_max` bytes for each text. Errors: corrupt, with the place.
// Thread: any. Source: docs/CLUSTER.md.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "graph/ids.h"
#include "graph/plan.h"
#include "runtime/wire/bytes.h"

namespace sluice {

struct Control {
  enum class Kind : std::uint8_t {
    session,        // `number`, of the home `life`, is the session `text`
    session_ended,  // from its home: nothing of session `text` is needed any more
    joined,         // from the keeper: `life` is there
    lost,           // from the keeper: `life` is over
    admitted,       // from the keeper: you are let in, in `life`; the others still give up `calls`
    unheard,        // to the keeper: `life` cannot be heard, or is wrong, because of `text`
    give_up,        // to its home: call `number` cannot go on, because of `text`, at `node`
    ask,            // to the keeper: let this machine in
    leaving,        // to the keeper: this machine is being stopped
    taken,          // to who makes frames of `edge`: `number` bytes of its window are free again
    forget,         // from its home, before it lets you in: what you hold of session `text` is void
    welcome,        // from a home that is not the keeper: it lets you in, with `calls` as above
    replica,        // of an activation on a replica elsewhere: see `runtime/replicas/parcel.h`
    // What sessions have said (`history_parcel.h`). Of session `number`, in the role of `node`.
    history_told,     // to its home: `value` was said in it
    history_asked,    // to its home: `value` is what this machine has of it; what is to go on?
    history_kept,     // from its home: the answer, `value`
    history_dropped,  // from its home: nothing is kept of it; tell all with what is said next
    // Where calls begin on several machines. To the keeper, by a home:
    session_wanted,      // a call of session `text` has come here
    session_given_back,  // session `text` has ended
    // From the keeper, once for each `session_wanted`:
    session_granted,  // `text` is yours; it was lost with `life`, a home; incarnation 0: with none
    session_elsewhere,  // `text` is at the home `life`
    session_denied,     // you have as many sessions as may be
  };
  Kind kind = Kind::session;
  std::uint32_t workflow = 0;  // the first five, give_up, taken, welcome, replica and histories
  /// Of a session or call; bytes; of joined, lost, admitted: in the keeper's row.
  std::uint64_t number = 0;
  std::string text{};
  Origin life{};
  /// ask, joined: the first life of the process whose life it is.
  std::uint32_t process = 0;
  NodeId node = entry_node;
  EdgeId edge = 0;
  std::vector<std::uint64_t> calls{};  // admitted, welcome: of the sender
  std::size_t body = 0;  // replica: where what it says begins in the bytes that were read
  wire::Bytes value{};   // of histories
};

wire::Bytes encode_control(const Control& control);
Result<Control> decode_control(std::span<const std::byte> bytes);

}  // namespace sluice
