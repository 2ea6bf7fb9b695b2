// What a program and its role hosts say to each other, as bytes: one request, then what comes of
// it, then the next request.
//
// A host has a control socket, whose messages are short and may come at any time, and a channel for
// each role instance and each global parameter. Bounds: a message has `message_max` bytes, counts
// and names have limits, and nothing is allocated for bytes that are not there. Errors: corrupt,
// with the place; whoever reads one ends the host. Source: docs/HOSTS.md.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "base/payload.h"
#include "base/pool_report.h"
#include "base/result.h"
#include "graph/spec.h"
#include "runtime/wire/bytes.h"

namespace sluice::hosts {

inline constexpr std::uint32_t protocol_version = 7;
inline constexpr std::size_t message_max = std::size_t{1} << 30U;
inline constexpr std::size_t control_max = 512;  // bytes of a control message
inline constexpr std::size_t descriptors_max = 2;  // that go with one
/// The status with which a host ends that has lost its connection.
inline constexpr int lost_connection = 113;

/// First on the control socket, in both directions.
struct Hello {
  std::uint32_t version = protocol_version;
};
/// A channel's socket comes with it, and behind it, where the parameter that is made by it is
/// shared with other processes, the one by which it attaches.
struct OpenChannel {
  std::uint32_t channel = 0;
};
/// Answered by the same, from a thread that runs no role.
struct Ping {
  std::uint64_t number = 0;
};
struct Cancel {
  std::uint32_t channel = 0;
  std::uint64_t activation = 0;
};
/// The socket comes with it by which the host shares parts of checkpoints; before any channel.
struct ShareParts {};
using Control = std::variant<Hello, OpenChannel, Ping, Cancel, ShareParts>;

struct MakeParam {
  GlobalParamSpec spec;  // name, kind, pages and their size
  std::string model_directory;
};
struct MakeRole {
  RoleSpec role;  // what a role may know of itself
  std::uint32_t replica = 0;
  std::string model_directory;
  std::vector<std::uint32_t> params;  // channels
  std::uint32_t threads = 1;
};
struct HostedField {
  std::string name;
  std::vector<PayloadRef> values;
};
/// An activation: run it, or admit it.
struct HostedWork {
  std::uint64_t id = 0;
  bool admit = false;
  std::string node, interface, session;
  std::uint64_t call = 0;
  std::uint32_t group = 0;
  std::vector<HostedField> fields;  // all that the role may read
};
struct StepRequest {
  std::vector<std::uint64_t> cancelled;  // since the last request
};
struct EndSession {
  std::string session;
};
/// What a parameter's pool of pages holds.
struct LookAtPool {
  std::uint32_t patience_ms = 0;  // so long a forward that is under way is waited for
};
using Request = std::variant<MakeParam, MakeRole, HostedWork, StepRequest, EndSession, LookAtPool>;

/// The end of MakeParam, MakeRole and EndSession.
struct Made {
  bool stepped = false;
  std::optional<Error> error;
};
/// A value, or else an input of the activation as it is.
struct HostedValue {
  std::string field;
  PayloadRef value;
  std::uint32_t input_field = 0, input_index = 0;  // where there is no value
};
struct Yielded {
  std::uint64_t id = 0;
  std::vector<HostedValue> values;
};
struct Warned {
  std::uint64_t id = 0;
  std::string text;
};
/// One activation's; the end of a HostedWork that is not to be admitted.
struct Ended {
  std::uint64_t id = 0;
  std::optional<Error> error;
  std::string undeclared;  // a field that it read and its role does not declare; the first
};
/// The end of a HostedWork that is to be admitted, and of StepRequest.
struct Stepped {
  bool busy = false;
};
/// The end of LookAtPool.
struct PoolSeen {
  std::optional<PoolReport> report;  // none: the parameter has no pool
};
using Reply = std::variant<Made, Yielded, Warned, Ended, Stepped, PoolSeen>;

wire::Bytes encode(const Control& control);
Result<Control> decode_control(std::span<const std::byte> bytes);
/// Errors: exhausted, for a value that cannot travel.
Result<wire::Bytes> encode(const Request& request);
Result<Request> decode_request(std::span<const std::byte> bytes);
Result<wire::Bytes> encode(const Reply& reply);
Result<Reply> decode_reply(std::span<const std::byte> bytes);

}  // namespace sluice::hosts
