#include "runtime/sim/token.h"

#include <algorithm>
#include <cstring>

#include "base/sha256.h"

namespace sluice::sim {

std::string token_text(Token token) {
  std::string text(16, '0');
  for (std::size_t i = 0; i < 16; ++i) text[15 - i] = "0123456789abcdef"[token >> (4 * i) & 15U];
  return text;
}

Token input_token(const std::string& input, std::size_t call) {
  return sha256_prefix("input:" + input + ":" + std::to_string(call));
}

Token yield_token(const std::string& identity, std::size_t yield) {
  std::string name;
  name.reserve(identity.size() + 12);
  return sha256_prefix(name.append(identity).append("#").append(std::to_string(yield)));
}

PayloadRef token_payload(Token token, std::uint32_t frame, std::int64_t number) {
  auto* payload = new Payload;
  payload->text.resize(sizeof token + sizeof frame);  // short: stays in the string
  std::memcpy(payload->text.data(), &token, sizeof token);
  std::memcpy(payload->text.data() + sizeof token, &frame, sizeof frame);
  payload->number = number;
  return PayloadRef(payload);
}

Token token_of(const Payload& payload) {
  Token token = 0;
  std::memcpy(&token, payload.text.data(), sizeof token);
  return token;
}

std::uint32_t frame_of(const Payload& payload) {
  std::uint32_t frame = 0;
  std::memcpy(&frame, payload.text.data() + sizeof(Token), sizeof frame);
  return frame;
}

Firing firing_of(const Plan& plan, const StartActivation& start, std::size_t call) {
  Firing firing{call, start.node, start.group, {}};
  if (plan.nodes[start.node].fan_out() > 1) firing.replica = start.replica;
  const std::vector<std::string>& fields = plan.nodes[start.node].groups[start.group].fields;
  for (const InputValue& input : start.inputs) {
    if (firing.inputs.empty() || firing.inputs.back().field != input.field)
      firing.inputs.push_back({input.field, {}});
    firing.inputs.back().tokens.push_back(token_of(*input.value));
  }
  for (FiringInput& input : firing.inputs) std::ranges::sort(input.tokens);
  std::ranges::sort(firing.inputs, [&](const FiringInput& a, const FiringInput& b) {
    return fields[a.field] < fields[b.field];
  });
  return firing;
}

std::string runner_text(const PlanNode& node, std::uint32_t replica) {
  return node.fan_out() == 1 ? node.name : node.name + "@" + std::to_string(replica);
}

std::string identity_of(const Plan& plan, const Firing& firing) {
  const PlanNode& node = plan.nodes[firing.node];
  std::string identity = runner_text(node, firing.replica);
  identity.append("|").append(std::to_string(firing.group));
  for (const FiringInput& input : firing.inputs) {
    identity.append("|").append(node.groups[firing.group].fields[input.field]).append("=");
    for (std::size_t i = 0; i < input.tokens.size(); ++i) {
      if (i != 0) identity += '+';
      identity += token_text(input.tokens[i]);
    }
  }
  return identity;
}

Token order_token(const StartActivation& start) {
  Token token = 1;
  for (const InputValue& input : start.inputs)
    token = mixed(mixed(token, input.field), token_of(*input.value));
  return token;
}

}  // namespace sluice::sim
