// The pictures of pieces that wait for their session: prepared, encoded in the engine that all
// share, and remembered by the model for who shows them next.
//
// Thread: the role's.
#pragma once

#include <deque>

#include "engine/tasks/chat_model.h"
#include "engine/tasks/shared_engine.h"
#include "roles/chat_turn.h"

namespace sluice::chat {

/// Prepares those of one piece that nobody has looked at. Outside the turn: the answers of others
/// go on meanwhile.
void look_at_one(std::deque<Piece>& waiting, const ChatModel& model);
/// Pictures that nobody has seen become tasks. One that several sessions show at once is one.
void encode_looks(std::deque<Piece>& waiting, const ChatModel& model, SharedEngine::Turn& mine);
/// What those that are done became.
void take_encoded(std::deque<Piece>& waiting, const ChatModel& model, SharedEngine::Turn& mine);
/// Of a piece that nobody wants any more.
void stop_looking(Piece& piece, SharedEngine::Turn& mine);

}  // namespace sluice::chat
