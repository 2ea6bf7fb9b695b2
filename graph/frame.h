// What engines send each other: frames, the shares of credit they carry, and messages.
//
// Completion and order are one mechanism. A *collector* (a join's bucket, a session node's queue,
// an output stream) watches a *scope*: the interval [0, share_whole). Whoever is upstream of it
// holds a *share*, a part of that interval; a yield passes on the next part of its activation's
// share, the end of the activation *settles* the rest: it returns it to the collector without a
// frame. The scope is complete when all of it has come back, in whatever order messages travel; and
// the place of a share in the interval is the frame's place in the logical order. `credit` does the
// same for the whole call, without order: a call ends exactly when all of its credit has come back.
// Thread: all of this stays on one loop. Source: omni-flow, section 3.2 (bucket identity, SeqId)
// and 3.5 (ActivityTracker), replaced by credits; docs/CONTROL_FLOW.md says why.
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/payload.h"
#include "base/ref.h"
#include "graph/credit.h"
#include "graph/free_list.h"
#include "graph/ids.h"
#include "graph/plan.h"

namespace sluice {

/// Since any fixed moment; only differences count.
using Instant = std::chrono::nanoseconds;
inline constexpr std::uint64_t share_whole = std::uint64_t{1} << 62;

struct Pools;

/// One yield of an activation: values by output index of the producer, shared by all its edges.
struct Frame final : LocalCounted {
  Pools* pools = nullptr;
  NodeId from = 0;
  std::uint64_t mask = 0;                 // which outputs it holds
  Instant born{};                         // when the oldest call input it comes from arrived
  std::vector<PayloadRef> values;         // index = output; perhaps longer than these
  std::vector<std::uint16_t> iterations;  // per node in a loop: activations among the ancestors
  /// Where the plan asks for it: the place in the logical order, as yield, group, yield, ...
  std::vector<std::uint32_t> path;
  static void dispose(const Frame* frame);
};
using FrameRef = Ref<Frame>;

/// The value that `map` reads: taken out of the frame when nobody else will read it.
inline PayloadRef take_value(const FrameRef& frame, const FieldMap& map) {
  if (!map.last || frame->references() != 1) return frame->values[map.from];
  return std::move(const_cast<Frame*>(frame.get())->values[map.from]);
}

struct Scope;
using ScopeRef = Ref<Scope>;

/// Part of a scope: [begin, begin + width).
struct Share {
  ScopeRef scope;
  std::uint64_t begin = 0;
  std::uint64_t width = 0;
};

/// Shares in the order that the plan gives for an edge or a collector. Few stand in the object
/// itself; room for more is made once and kept, like everything that is reused.
class Shares {
 public:
  Shares() = default;
  Shares(const Shares&) = delete;
  Shares& operator=(const Shares&) = delete;

  std::size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  Share& operator[](std::size_t i) { return items_[i]; }
  const Share& operator[](std::size_t i) const { return items_[i]; }
  void resize(std::size_t size) {
    while (size_ > size) items_[--size_] = Share{};
    if (size > capacity_) grow(size);
    size_ = static_cast<std::uint32_t>(size);
  }
  void clear() { resize(0); }
  /// Each was moved away.
  void forget() { size_ = 0; }
  /// Takes what `other` holds; `other` is empty afterwards.
  void take(Shares& other) {
    clear();
    if (other.size_ > capacity_) grow(other.size_);
    for (; size_ < other.size_; ++size_) items_[size_] = std::move(other.items_[size_]);
    other.forget();
  }

 private:
  [[gnu::noinline]] void grow(std::size_t size) {
    std::vector<Share> more(size);
    for (std::uint32_t i = 0; i < size_; ++i) more[i] = std::move(items_[i]);
    more_ = std::move(more);
    items_ = more_.data();
    capacity_ = static_cast<std::uint32_t>(size);
  }

  std::uint32_t size_ = 0;
  std::uint32_t capacity_ = 4;
  Share* items_ = few_.data();
  std::array<Share, 4> few_;
  std::vector<Share> more_;
};

/// One interval that a collector waits for.
struct Scope final : LocalCounted {
  Pools* pools = nullptr;
  ScopeId id;
  CollectorId collector = 0;
  CallId call;
  std::uint64_t sequence = 0;  // of the root's activation, for queues and outputs
  Share parent;                // set when this scope refines a share that was too small to divide
  // The deposit. Written while the yield is divided; from then on it belongs to the one part of the
  // scope that begins at 0 (`holds_deposit`), travels with it, and is taken when the scope closes.
  mutable Shares outer;             // what the collector's activation will hold
  std::vector<std::uint32_t> path;  // of the yield that opened it, where the plan asks for it
  static void dispose(const Scope* scope);
};

/// What made an activation, and with it a call, fail.
enum class FailureKind : std::uint8_t {
  role_failed,   // the role said so, or its inputs are not as many frames as it reads
  loop_limit,    // limits: loop_iterations
  count_source,  // the number of a count group did not come exactly once
  frame_limit,   // limits: frames, of the outputs or of what comes to a node
  deadline,      // the call's, or the node's
  cancelled,     // by the caller
  node_lost,     // the node's machine is gone, or lost what it knew
  refused,       // limits: calls; it never began
};
std::string_view to_string(FailureKind kind);

struct Failure {
  NodeId node = 0;
  Error error;
  FailureKind kind = FailureKind::role_failed;
};

/// What a node tells the entry, so that a call without an output can say why.
struct Lost {
  enum class Kind : std::uint8_t {
    missing,  // a join: `fields` of `group` did not come where others did
    ran,      // a join of which that was told: its node ran after all
    few,      // a count: too few frames came, and of `fields` none
    silent,   // an activation ended well: these outputs (bits) it, and all before it, did not yield
    stopped,  // inputs were dropped, or an activation failed and was skipped
  };
  NodeId node = entry_node;  // the entry: nothing is told
  std::uint16_t group = 0;
  std::uint64_t fields = 0;
  Kind kind = Kind::missing;
};

struct Message {
  enum class Kind : std::uint8_t {
    frame,       // to the consumer of edge `target`
    settled,     // to the owner of collector `target`: no frame will come for these shares
    credit,      // to the entry: credit comes back, perhaps with a failure
    cancel,      // to a node: stop what the call does there
    abort,       // to a node: a machine is lost; drop the call, its credit cannot come back
    aborted,     // to the entry: node `target` has nothing left of the call
    call_ended,  // to a node: forget the call
  };
  Kind kind = Kind::frame;
  NodeId to = entry_node;
  std::uint16_t target = 0;
  CallId call;
  std::uint64_t session = 0;
  Credit credit;
  std::uint64_t floor = 0;  // call_ended: every call of this home with a lower number has ended
  FrameRef frame;
  Shares shares;
  std::unique_ptr<Failure> failure;
  std::vector<std::string> warnings;
  Lost lost;
};

inline constexpr std::size_t unbounded = ~std::size_t{0};
inline constexpr std::size_t waiting_from_others_max = std::size_t{1} << 20U;  // in a cluster

/// The free lists of one loop, and what its engines have in common. Outlives them all.
struct Pools {
  Origin self;                          // whose scopes and calls are made here
  Mix mix;                              // of tables whose keys others choose
  std::size_t waiting_max = unbounded;  // positions of one order; buckets, ... of one engine
  std::uint64_t scopes_made = 0;
  std::vector<Scope*> unwinding;  // while scopes are given back, at the lists' end too
  FreeList<Frame> frames;
  FreeList<Scope> scopes;
  FreeList<Message> messages;
  Frame* new_frame(NodeId from, std::size_t outputs) {
    Frame* frame = frames.take();
    frame->pools = this;
    frame->from = from;
    frame->mask = 0;
    if (frame->values.size() < outputs) frame->values.resize(outputs);
    return frame;
  }
  Scope* new_scope(CollectorId collector, const CallId& call) {
    Scope* scope = scopes.take();
    scope->pools = this;
    scope->id = {++scopes_made, self};
    scope->collector = collector;
    scope->call = call;
    scope->sequence = 0;
    return scope;
  }
  Message* new_message(Message::Kind kind, NodeId to, const CallId& call, std::uint64_t session) {
    Message* message = messages.take();
    message->kind = kind;
    message->to = to;
    message->call = call;
    message->session = session;
    message->credit = Credit();
    message->floor = 0;
    return message;
  }
  void give(Message* message) {
    message->frame = FrameRef();
    message->shares.clear();
    message->failure.reset();
    message->warnings.clear();
    message->lost = Lost();
    messages.give(message);
  }
};

}  // namespace sluice
