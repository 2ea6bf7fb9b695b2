#include "roles/chat_pictures.h"

#include <string>

#include "roles/picture_features.h"
#include "roles/tenant.h"

namespace sluice::chat {

namespace {

/// Its pictures, prepared, or what an encoder made of them. False: it has none.
bool look_at(Piece& piece, const ChatModel& model) {
  const auto keep = [&](Result<PictureInput> seen) {
    if (seen.ok())
      piece.looks.push_back({std::move(seen).value(), nullptr, 0});
    else
      piece.outcome = seen.error();
  };
  const Activation& activation = *piece.activation;
  if (activation.interface() == "answer") {
    for (const PayloadRef& image : activation.inputs("image")) {
      const Result<std::string> tenant = tenant_of(*image);
      if (!tenant.ok()) {
        piece.outcome = tenant.error();
        continue;
      }
      std::optional<PictureInput> seen =
          model.find_picture(picture_content(image->tensor, *tenant));
      keep(seen.has_value() ? Result<PictureInput>(*std::move(seen))
                            : model.prepare(image->tensor, *tenant));
    }
    return !activation.inputs("image").empty();
  }
  if (activation.interface() == "decode") return false;
  for (const PayloadRef& seen : activation.inputs("features"))
    keep(picture_of(*seen, model.model()));
  const bool generates = activation.interface() == "generate";
  constexpr std::string_view of_drawings[] = {"hidden", "latents"};
  constexpr std::string_view of_robots[] = {"instruction", "tokens", "state"};
  for (const std::string_view field :
       generates ? std::span<const std::string_view>(of_drawings) : of_robots)
    if (!activation.inputs(field).empty())
      piece.outcome = invalid_argument("a model that answers takes `text` and `features`; `" +
                                       std::string(field) + "` is for " +
                                       (generates ? "models that draw" : "robot policies"));
  return !activation.inputs("features").empty();
}

bool is_under_way(const std::deque<Piece>& waiting, const std::string& content) {
  for (const Piece& piece : waiting)
    for (const Look& look : piece.looks)
      if (look.encoding != nullptr && look.picture.content == content) return true;
  return false;
}

}  // namespace

void look_at_one(std::deque<Piece>& waiting, const ChatModel& model) {
  for (Piece& piece : waiting) {
    if (piece.looked_at) continue;
    piece.looked_at = true;
    if (!piece.activation->cancelled() && look_at(piece, model)) return;
  }
}

void encode_looks(std::deque<Piece>& waiting, const ChatModel& model, SharedEngine::Turn& mine) {
  for (Piece& piece : waiting)
    for (Look& look : piece.looks) {
      if (look.is_ready() || look.encoding != nullptr ||
          is_under_way(waiting, look.picture.content))
        continue;
      if (std::optional<PictureInput> seen = model.find_picture(look.picture.content)) {
        look.picture = *std::move(seen);
        continue;
      }
      Result<std::unique_ptr<Encoding>> made =
          Encoding::make(model.model(), std::move(look.picture.pixels), look.picture.grids, {});
      if (!made.ok()) {
        piece.outcome = made.error();
        look.picture.pixels = {};
        continue;
      }
      look.picture.pixels = {0};  // not ready
      look.encoding = std::move(made).value();
      look.id = mine.add(*look.encoding);
    }
}

void take_encoded(std::deque<Piece>& waiting, const ChatModel& model, SharedEngine::Turn& mine) {
  for (Piece& piece : waiting)
    for (Look& look : piece.looks) {
      if (look.encoding == nullptr || !look.encoding->done()) continue;
      mine.engine().remove(look.id);
      look.picture.pixels = {};
      if (look.encoding->error().has_value()) {
        piece.outcome = *look.encoding->error();
      } else {
        look.picture.features = look.encoding->take_features();
        model.keep_picture(look.picture);
      }
      look.encoding.reset();
    }
}

void stop_looking(Piece& piece, SharedEngine::Turn& mine) {
  for (const Look& look : piece.looks)
    if (look.encoding != nullptr) mine.engine().remove(look.id);
  piece.looks.clear();
}

}  // namespace sluice::chat
