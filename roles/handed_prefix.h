// What a role that has read a prompt tells the role that answers it, which may be on another
// machine or in another process: in the frame `prefix` where the answer begins, and back what was
// said.
//
// The frame's number is where the answer waits on the machine that read the prompt; where others
// may answer, the frame also has the prompt's tokens (i32 [tokens]) and how to answer, enough to
// compute its pages, and where machines pull them which machine that is. What was said goes back
// beside the frames, for the conversation is the reader's. Processes of one machine hand the pages
// themselves on, and with them how far the answer is. Errors: invalid_argument, of what came from
// elsewhere. Thread: any; no state.
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
  std::optional<PeerLife> from;  // none: no other machine pulls its pages
  bool has_pictures = false;     // nobody else can compute the prompt
  std::vector<std::int32_t> prompt;  // none: nobody else answers it
  GenerationOptions options;         // of those: tokens_max, sampling's four, seed, share_prefix,
                                     // tenant
  HistoryPlace history{};     // where what is said belongs
};

PayloadRef prefix_frame(const HandedPrefix& prefix);
/// `vocabulary`: of tokens there are so many.
Result<HandedPrefix> read_prefix(const Payload& frame, std::size_t vocabulary);

/// How far an answer is, whose pages go to another process with this; what is not in it is as in
/// a new one. Requires: no rows to write, no stop strings.
std::vector<std::byte> encode_begun(const Generation& begun);
/// Of that prompt, without its sequence. None: it is no such message.
std::optional<Generation> decode_begun(std::span<const std::byte> bytes,
                                       std::span<const std::int32_t> prompt,
                                       std::size_t vocabulary);

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
