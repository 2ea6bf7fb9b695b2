// What a role that has read a prompt tells the role that answers it, which may be on another
// machine: in the frame `prefix` where the answer begins, and back what was said.
//
// The frame's number is where the answer waits on the machine that read the prompt; where its pages
// may be used from other machines the frame also has which machine that is, the prompt's tokens
// (i32 [tokens]) and how to answer: enough to pull the pages, or to compute them. What was said
// goes back beside the frames, for the conversation is the reader's. Errors: invalid_argument, of
// what came from elsewhere. Thread: any; no state.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/payload.h"
#include "base/peer_port.h"
#include "base/result.h"
#include "engine/tasks/generation.h"
#include "roles/chat_histories.h"

namespace sluice {

struct HandedPrefix {
  std::uint64_t number = 0;
  std::size_t length = 0;        // rows that are in pages
  std::optional<PeerLife> from;  // none: its pages are in this process alone
  bool has_pictures = false;     // nobody else can compute the prompt
  std::vector<std::int32_t> prompt;
  GenerationOptions options;  // of those: tokens_max, sampling's four, seed, share_prefix
  HistoryPlace history{};     // where what is said belongs
};

PayloadRef prefix_frame(const HandedPrefix& prefix);
/// `vocabulary`: of tokens there are so many.
Result<HandedPrefix> read_prefix(const Payload& frame, std::size_t vocabulary);

struct SaidAnswer {
  std::uint64_t number = 0;  // of the prefix
  std::string session;
  bool ok = false;  // else it is as if nothing had been asked
  std::string text;
  std::vector<std::int32_t> tokens;
};

std::vector<std::byte> encode_said(const SaidAnswer& said);
/// None: it is no such message.
std::optional<SaidAnswer> decode_said(std::span<const std::byte> bytes, std::size_t vocabulary);

}  // namespace sluice
