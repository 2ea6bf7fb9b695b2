#include "runtime/sim/token.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstring>
#include <utility>

#include "base/sha256.h"

namespace sluice::sim {

namespace {

// Numbers go behind a text without a text of their own: an identity is made for every activation.
void append_token(std::string& text, Token token) {
  for (int shift = 60; shift >= 0; shift -= 4) text += "0123456789abcdef"[token >> shift & 15U];
}
void append_number(std::string& text, std::uint64_t number) {
  std::array<char, 20> digits{};
  text.append(digits.data(),
              std::to_chars(digits.begin(), digits.end(), number).ptr - digits.data());
}

}  // namespace

std::string token_text(Token token) {
  std::string text;
  append_token(text, token);
  return text;
}

Token input_token(const std::string& input, std::size_t call) {
  return sha256_prefix("input:" + input + ":" + std::to_string(call));
}

Token yield_token(const std::string& identity, std::size_t yield) {
  thread_local std::string name;  // its memory is kept
  name.assign(identity).append("#");
  append_number(name, yield);
  return sha256_prefix(name);
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

Firing firing_of(const Plan& plan, const StartActivation& start, std::size_t call, Firing memory) {
  Firing firing = std::move(memory);
  firing.call = call;
  firing.node = start.node;
  firing.group = start.group;
  firing.replica = plan.nodes[start.node].fan_out() > 1 ? start.replica : 0;
  firing.inputs.clear();
  for (const InputValue& input : start.inputs)
    firing.inputs.push_back({input.field, token_of(*input.value)});
  const std::vector<std::string>& fields = plan.nodes[start.node].groups[start.group].fields;
  std::ranges::sort(firing.inputs, [&](const FiringInput& a, const FiringInput& b) {
    return a.field == b.field ? a.token < b.token : fields[a.field] < fields[b.field];
  });
  return firing;
}

std::string runner_text(const PlanNode& node, std::uint32_t replica) {
  return node.fan_out() == 1 ? node.name : node.name + "@" + std::to_string(replica);
}

std::string identity_of(const Plan& plan, const Firing& firing, std::string memory) {
  const PlanNode& node = plan.nodes[firing.node];
  std::string identity = std::move(memory);
  identity = runner_text(node, firing.replica);
  append_number(identity += '|', firing.group);
  std::uint16_t field = none;
  for (const FiringInput& input : firing.inputs) {
    if (input.field == field)
      identity += '+';
    else
      identity.append("|").append(node.groups[firing.group].fields[input.field]) += '=';
    field = input.field;
    append_token(identity, input.token);
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
