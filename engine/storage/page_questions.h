// Questions for pages that go by the way on which the pages are read, not by the link: whoever
// asks writes the question there itself, and a thread of the owner's way answers it.
//
// So neither the links' threads nor the pool's owner have a part in it. What the way does not take,
// or nobody answers there, goes by the link.
// Thread: any, but that a `PageGuide` is made and ended by its pool's owner.
// Source: omni-flow, section 4.2 (search).
#pragma once

#include <map>
#include <mutex>
#include <vector>

#include "dataplane/page_answers.h"
#include "engine/storage/page_export.h"

namespace sluice {

/// Answers them for a pool, as long as it is there.
class PageGuide final : private RegionGuide {
 public:
  /// Borrows all; `region`: of the memory's, with the pages; null: nobody can ask.
  PageGuide(RemoteMemory* memory, const Ref<Buffer>& region, PageExport& pages,
            const pages::Hello& self);
  ~PageGuide() override;
  PageGuide(const PageGuide&) = delete;
  PageGuide& operator=(const PageGuide&) = delete;

  PageServerCounts counts() const;

 private:
  void answer(std::span<const std::byte> question, std::vector<std::byte>& answer) override;

  RemoteMemory* const memory_;
  const Ref<Buffer>& region_;
  PageExport& pages_;
  const pages::Hello self_;
  mutable std::mutex mutex_;
  PageServerCounts counts_;
};

/// Those that this side has asked, until they are answered.
class PageQuestions {
 public:
  /// `is_answer`: a message that `from` has sent so; else the question itself, which is to be
  /// asked otherwise.
  struct Heard {
    PeerLife from;
    bool is_answer = false;
    pages::Bytes message;
    Ref<Buffer> body = {};  // the message's end
  };

  /// False: it is not asked, for it is none that may be, or the way has something else to do.
  bool ask(RemoteRegion& region, const PeerMessage& question, std::size_t page_bytes);
  std::vector<Heard> answered(std::uint64_t number, const Ref<Buffer>& answer);
  /// Nobody waits for its answers any more.
  void lost(PeerLife peer);

 private:
  std::mutex mutex_;
  std::map<std::uint64_t, PeerMessage> asked_;
  std::uint64_t next_ = 1;
};

}  // namespace sluice
