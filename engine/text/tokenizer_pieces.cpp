#include <sentencepiece_processor.h>

#include "engine/text/tokenizer_kinds.h"

namespace sluice {

namespace {

class PieceTokenizer final : public Tokenizer::Kind {
 public:
  sentencepiece::util::Status load(const std::string& path) { return pieces_.Load(path); }

  std::vector<std::int32_t> encode(std::string_view text, bool with_special) const override {
    std::vector<int> ids;
    if (!pieces_.Encode(text, &ids).ok()) return {};
    std::vector<std::int32_t> made;
    if (with_special && pieces_.bos_id() >= 0) made.push_back(pieces_.bos_id());
    made.insert(made.end(), ids.begin(), ids.end());
    return made;
  }
  std::string decode(std::span<const std::int32_t> ids, bool) const override {
    std::vector<int> known;
    for (const std::int32_t id : ids)
      if (id >= 0 && id < pieces_.GetPieceSize()) known.push_back(id);
    std::string text;
    return pieces_.Decode(known, &text).ok() ? text : std::string();
  }
  std::string_view word(std::int32_t id) const override {
    if (id < 0 || id >= pieces_.GetPieceSize()) return {};
    return pieces_.IdToPiece(id);
  }

 private:
  sentencepiece::SentencePieceProcessor pieces_;
};

}  // namespace

Result<std::shared_ptr<const Tokenizer::Kind>> load_pieces(const std::string& path) {
  auto made = std::make_shared<PieceTokenizer>();
  const auto status = made->load(path);
  if (!status.ok()) return Error{ErrorCode::corrupt, path + ": " + status.ToString()};
  return std::shared_ptr<const Tokenizer::Kind>(std::move(made));
}

}  // namespace sluice
