// What the machine of a node's engine and a machine that runs some of the node's replicas say to
// each other: parcels as values, and as bytes.
//
// The **owner** has the node's engine and asks for activations, each under a number that grows; the
// machine that runs them answers with frames and an end. A parcel is a control parcel of the kind
// `replica` (runtime/node/control.h), with what stands below behind it. Reading checks lengths,
// numbers and the form of values; what is right for the node is checked by `ReplicaDesk`.
// Bounds: `wire::Limits::bytes_max` for a parcel with its values in shared memory.
// Errors: corrupt, with the place; exhausted, for what is too large to be sent.
// Thread: any. Source: docs/WIRE.md, "Replicas elsewhere".
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "base/payload.h"
#include "base/result.h"
#include "graph/plan.h"
#include "runtime/wire/bytes.h"
#include "runtime/wire/lending.h"

namespace sluice {

/// A field of the group, or an output of the node, and a value of it.
using ReplicaValues = std::vector<std::pair<std::uint16_t, PayloadRef>>;

/// From the owner: run this.
struct ReplicaBegin {
  NodeId node = entry_node;
  std::uint32_t replica = 0;
  std::uint16_t group = 0;
  std::uint64_t call = 0;  // as roles know it
  std::string session{};   // likewise
  ReplicaValues inputs{};  // sorted by field, then in logical order
};
/// From the owner: nobody wants the result any more.
struct ReplicaCancel {};
/// From the owner: so many bytes of the activation's frames have gone on.
struct ReplicaTaken {
  std::uint64_t bytes = 0;
};
/// To the owner: a frame, and what the role warned of since the last parcel.
struct ReplicaYielded {
  ReplicaValues values{};
  std::vector<std::string> warnings{};
};
/// To the owner: the activation has ended; nothing follows.
struct ReplicaEnded {
  std::optional<Error> error{};  // nothing: well
  std::vector<std::string> warnings{};
};

struct ReplicaParcel {
  std::uint32_t workflow = 0;
  std::uint64_t activation = 0;  // its number, the owner's; not 0
  std::variant<ReplicaBegin, ReplicaCancel, ReplicaTaken, ReplicaYielded, ReplicaEnded> what{};
};

/// What a parcel counts where its bytes are bounded, with its values in shared memory; both sides
/// compute the same.
std::size_t weight_of(std::size_t parcel_bytes, const wire::Lending& lending);

/// The whole control parcel. After an error nothing is lent.
Result<wire::Bytes> encode_replica(const ReplicaParcel& parcel, wire::Lending& lending);
/// `bytes`: what stands behind the head of the control parcel. Sets all but the workflow.
Result<ReplicaParcel> decode_replica(std::span<const std::byte> bytes, wire::Lending& lending);

}  // namespace sluice
