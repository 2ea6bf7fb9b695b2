// A message of a chat as a record that another machine can keep and go on with.
//
// A picture is saved as the rows that the encoder made of it: nobody has to see it again. The bytes
// of the same message are always the same. Thread: any. Source: docs/MODELS.md, "Sessions that
// move".
#pragma once

#include <span>

#include "base/result.h"
#include "base/session_history.h"
#include "engine/family/model.h"
#include "engine/text/chat.h"

namespace sluice {

/// Requires: its pictures were encoded.
HistoryRecord save_message(const ChatMessage& message);

/// Of a user where `is_user`, else of the assistant. Nothing in the record is trusted, and memory
/// is taken for what is there only. Errors: corrupt, with what is wrong; what `picture_of` says.
Result<ChatMessage> restore_message(std::span<const std::byte> record, bool is_user,
                                    const Model& reader);

}  // namespace sluice
