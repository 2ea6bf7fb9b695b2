// Names of values that say where they came from, whatever the timing: what scenarios compare.
//
// The token of call input x of the n-th call is sha256("input:x:n"); of the y-th yield of an
// activation, sha256(identity + "#" + y); identity is `node|group|field=t1+t2|...`, and begins with
// `node@replica` where a node runs on each. Of each the first 16 hexadecimal digits.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/random.h"
#include "graph/effect.h"
#include "graph/plan.h"

namespace sluice::sim {

using Token = std::uint64_t;

inline std::uint64_t mixed(std::uint64_t a, std::uint64_t b) {
  return SplitMix64(a ^ (b * 0x9e3779b97f4a7c15ULL)).next();
}

std::string token_text(Token token);
Token input_token(const std::string& input, std::size_t call);
Token yield_token(const std::string& identity, std::size_t yield);

/// A value that carries its token, the frame it stands in (a number of the simulation's own), and
/// the number that a count group reads.
PayloadRef token_payload(Token token, std::uint32_t frame, std::int64_t number);
Token token_of(const Payload& payload);
std::uint32_t frame_of(const Payload& payload);

/// One value that a firing got.
struct FiringInput {
  std::uint16_t field = 0;  // index in the group's fields
  Token token = 0;
};

/// One activation that started.
struct Firing {
  std::size_t call = 0;
  NodeId node = 0;
  std::uint16_t group = 0;
  std::vector<FiringInput> inputs;  // by the field's name, a field's by token
  std::uint32_t replica = 0;        // of a node that runs on each
};

/// `memory`: an earlier one, whose memory is used again.
Firing firing_of(const Plan& plan, const StartActivation& start, std::size_t call,
                 Firing memory = {});
std::string identity_of(const Plan& plan, const Firing& firing, std::string memory = {});
/// What stands for the node in an identity: its name, with the replica where it runs on each.
std::string runner_text(const PlanNode& node, std::uint32_t replica);
/// Of the order in which its values came, of which the identity says nothing.
Token order_token(const StartActivation& start);

}  // namespace sluice::sim
