#include "engine/storage/page_questions.h"

#include <utility>

namespace sluice {

namespace {

/// A part of an answer, all of which stays as long.
class Part final : public Buffer {
 public:
  Part(std::span<const std::byte> part, Ref<Buffer> of)
      : Buffer(const_cast<std::byte*>(part.data()), part.size(), nullptr), of_(std::move(of)) {}

 private:
  void end() override { delete this; }
  const Ref<Buffer> of_;
};

}  // namespace

PageGuide::PageGuide(RemoteMemory* memory, const Ref<Buffer>& region, PageExport& pages,
                     const pages::Hello& self)
    : memory_(memory), region_(region), pages_(pages), self_(self) {
  if (region_) memory_->guide(region_, this);
}

PageGuide::~PageGuide() {
  if (region_) memory_->guide(region_, nullptr);
}

void PageGuide::answer(std::span<const std::byte> question, std::vector<std::byte>& answer) {
  PageServerCounts counts;
  pages::answer_briefly(question, self_, pages_, counts, answer);
  const std::lock_guard lock(mutex_);
  counts_ += counts;
}

PageServerCounts PageGuide::counts() const {
  const std::lock_guard lock(mutex_);
  return counts_;
}

bool PageQuestions::ask(RemoteRegion& region, const PeerMessage& question, std::size_t page_bytes) {
  if (region.is_near() || question.bytes.size() > RemoteRegion::question_most ||
      !pages::is_brief(question.bytes, page_bytes))
    return false;
  std::uint64_t number = 0;
  {
    const std::lock_guard lock(mutex_);
    number = next_++;
    asked_.emplace(number, question);
  }
  if (region.ask(number, question.bytes)) return true;
  const std::lock_guard lock(mutex_);
  asked_.erase(number);
  return false;
}

std::vector<PageQuestions::Heard> PageQuestions::answered(std::uint64_t number,
                                                          const Ref<Buffer>& answer) {
  std::unique_lock lock(mutex_);
  auto asked = asked_.extract(number);
  lock.unlock();
  std::vector<Heard> heard;
  if (asked.empty()) return heard;
  PeerMessage& question = asked.mapped();
  const auto pieces = pages::pieces_of(bytes_of(answer));
  if (!pieces || pieces->empty()) {
    heard.push_back({question.peer, false, std::move(question.bytes)});
    return heard;
  }
  for (const auto& [message, body] : *pieces)
    heard.push_back({question.peer, true, pages::Bytes(message.begin(), message.end()),
                     body.empty() ? Ref<Buffer>() : Ref<Buffer>(new Part(body, answer))});
  return heard;
}

void PageQuestions::lost(PeerLife peer) {
  const std::lock_guard lock(mutex_);
  std::erase_if(asked_, [&](const auto& one) { return one.second.peer == peer; });
}

}  // namespace sluice
