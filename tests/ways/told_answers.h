// Memory of another way, where a test hears, and may change, what its owner answers to questions
// that come by that way.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "base/little_endian.h"
#include "dataplane/page_answers.h"

namespace sluice {

class ToldAnswers final : public RemoteMemory {
 public:
  /// Of each message of an answer, on a thread of the memory's, while whoever asked waits for it;
  /// emptied: all of it is not said. `told` is looked at then.
  using Told = std::function<void(std::vector<std::byte>&)>;
  ToldAnswers(std::unique_ptr<RemoteMemory> memory, const Told& told)
      : memory_(std::move(memory)), told_(told) {}

  Result<Ref<Buffer>> make(std::size_t size) override { return memory_->make(size); }
  Result<std::vector<std::byte>> key(const Ref<Buffer>& region) override {
    return memory_->key(region);
  }
  void guide(const Ref<Buffer>& region, RegionGuide* guide) override {
    if (guide == nullptr) {
      memory_->guide(region, nullptr);
      guides_.erase(region->data());
    } else {
      auto& one = guides_[region->data()];
      one = std::make_unique<Guide>(*guide, told_);
      memory_->guide(region, one.get());
    }
  }
  Result<std::unique_ptr<RemoteRegion>> reach(std::span<const std::byte> key,
                                              RemoteRegion::Listener& listener) override {
    return memory_->reach(key, listener);
  }

  /// Regions of which somebody answers.
  std::size_t guides() const { return guides_.size(); }

 private:
  class Guide final : public RegionGuide {
   public:
    Guide(RegionGuide& guide, const Told& told) : guide_(guide), told_(told) {}
    void answer(std::span<const std::byte> question, std::vector<std::byte>& answer) override {
      if (!told_) return guide_.answer(question, answer);
      std::vector<std::byte> said;
      guide_.answer(question, said);
      const auto pieces = pages::pieces_of(said);
      for (const auto& [head, body] : *pieces) {
        std::vector<std::byte> message(head.begin(), head.end());
        message.insert(message.end(), body.begin(), body.end());
        told_(message);
        if (message.empty()) return;
        append_little_endian(message.size(), 8, answer);
        answer.insert(answer.end(), message.begin(), message.end());
      }
    }

   private:
    RegionGuide& guide_;
    const Told& told_;
  };

  const std::unique_ptr<RemoteMemory> memory_;
  const Told& told_;
  std::map<const std::byte*, std::unique_ptr<Guide>> guides_;
};

}  // namespace sluice
