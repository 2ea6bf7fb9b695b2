// What a chat role has in hand: pieces of messages that wait, answers under way, answers of which
// another machine is told.
//
// Activations are borrowed until the role has said that they have ended; null: it has.
// Thread: the role's. Units: nanoseconds of a clock that only rises.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "engine/picture/picture_input.h"
#include "engine/storage/kv_peers.h"
#include "engine/tasks/encoding.h"
#include "engine/tasks/generation.h"
#include "roles/handed_prefix.h"
#include "roles/pool_view.h"
#include "roles/role.h"

namespace sluice::chat {

/// A picture that a message shows.
struct Look {
  PictureInput picture;
  std::unique_ptr<Encoding> encoding;  // under way
  TaskId id = 0;                       // of that, in the engine

  /// What it became is there.
  bool is_ready() const { return picture.pixels.empty(); }
};

/// A piece of a message that waits for its session.
struct Piece {
  Activation* activation = nullptr;
  bool looked_at = false;     // its pictures
  std::vector<Look> looks;    // in the order of its frames
  Result<void> outcome = {};  // of looking at them

  bool is_ready() const { return looked_at && std::ranges::all_of(looks, &Look::is_ready); }
};

/// An answer that is being made.
struct Turn {
  Activation* activation = nullptr;
  std::uint64_t session = 0;  // its number
  std::vector<std::int32_t> prompt = {};
  std::unique_ptr<GenerationTask> task = nullptr;
  TaskId id = 0;
  std::size_t said = 0;                   // bytes of the text that have been yielded
  std::string role = {};                  // whose conversation it is
  bool hands_over = false;                // behind its first token
  std::size_t tokens_asked = 0;           // then: how long the answer may be, wherever it is made
  std::optional<HandedPrefix> from = {};  // another machine, whose conversation it is
  bool reads = true;                      // its prompt, which nobody has read for it here
  ReadAhead ahead = {};                   // of that prompt
};

/// An answer that was made for another machine's conversation, until that has heard of it.
struct Telling {
  static constexpr std::int64_t patience = 3'000'000'000;

  Activation* activation = nullptr;
  std::uint64_t number = 0;  // `KvPeers::tell`'s
  PeerLife from;             // whose conversation it is
  std::int64_t until = 0;    // then it is not waited for any more

  /// It has ended: that machine has heard, or will not, of which the call is warned.
  bool is_over(KvPeers& peers, std::int64_t now) const;
};

}  // namespace sluice::chat
