// Memory of this process that other machines read by themselves, and reads of theirs.
//
// Who makes a region hands its key to those who may read it; they read any part of it as long as
// the region is there, whatever its owner does to the bytes meanwhile, and it does not hear of it.
// So a reader verifies what has come. A read ends once: with its bytes, without them, or unheard
// when whoever asked for it has gone; it never writes into memory that it does not refer to.
// Thread: any. Units: bytes. Implemented by runtime/ucx, runtime/tcp and runtime/shm, and in tests
// by one process's memory.
// Source: omni-flow, section 4.2 (transfer).
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "base/buffer.h"
#include "base/result.h"

namespace sluice {

/// Answers what the readers of a region ask of its owner, beside reading it.
class RegionGuide {
 public:
  virtual ~RegionGuide() = default;
  /// On threads of the memory's, one at a time; must return soon. `question`: anything. Appends at
  /// most `RemoteRegion::answer_most` bytes; nothing: it is not answered.
  virtual void answer(std::span<const std::byte> question, std::vector<std::byte>& answer) = 0;
};

/// A region of another process. When it goes, what is being read of it ends unheard.
class RemoteRegion {
 public:
  static constexpr std::size_t question_most = std::size_t{16} << 10U;
  static constexpr std::size_t answer_most = std::size_t{512} << 10U;

  struct Part {
    std::uint64_t offset = 0;
    std::size_t size = 0;
  };
  struct Read {
    std::uint64_t number = 0;
    Part first{}, then{};
    Ref<Buffer> to{};
  };
  struct Ended {
    std::uint64_t number = 0;
    Ref<Buffer> bytes{};
    std::optional<std::uint32_t> sum{};
  };
  class Listener {
   public:
    virtual ~Listener() = default;
    /// On threads of the memory's, or in `read_all`, of different reads at once; must return soon.
    /// `bytes`: what was read and has no other place, one part behind the other; null: it could not
    /// be read. `sum`: the CRC-32C of what was written to the place, where it was summed as it was;
    /// else none.
    virtual void read_ended(std::uint64_t number, Ref<Buffer> bytes,
                            std::optional<std::uint32_t> sum) = 0;
    /// So each of them, which ended one behind the other.
    virtual void reads_ended(std::vector<Ended> ended) {
      for (Ended& one : ended) read_ended(one.number, std::move(one.bytes), one.sum);
    }
    /// To a question of `ask`; null: there is no answer.
    virtual void answered(std::uint64_t number, Ref<Buffer> answer) {
      static_cast<void>(number);
      static_cast<void>(answer);
    }
  };

  virtual ~RemoteRegion() = default;
  virtual std::uint64_t size() const = 0;
  /// Reads `first` and, when that is here whole, `then`. Never blocks. A part that the region has
  /// not ends the read without bytes. `to`: where `first` goes, as large as it; null: memory of the
  /// read's own. It is referred to as long as anything may still be written there, which the end
  /// of the read is behind: so whoever makes it knows when it is nobody's.
  virtual void read(std::uint64_t number, Part first, Part then, Ref<Buffer> to) = 0;
  /// So each of them; where the region is near and they are small they end before this returns.
  virtual void read_all(std::vector<Read> reads) {
    for (Read& one : reads) read(one.number, one.first, one.then, std::move(one.to));
  }
  /// Asks its owner something, not nothing and at most `question_most` bytes, by the way on which
  /// it is read, if that rests. Never blocks. It ends once, as a read. False: it is not asked.
  virtual bool ask(std::uint64_t number, std::span<const std::byte> question) {
    static_cast<void>(number);
    static_cast<void>(question);
    return false;
  }
  /// This process copies from it.
  virtual bool is_near() const { return false; }
  /// Its bytes, where they are mapped here: they stay so as long as this is referred to, and may
  /// change meanwhile. Null: they are not, or not yet, or not any more.
  virtual Ref<Buffer> bytes() const { return {}; }
  void read(std::uint64_t number, Part first, Part then) { read(number, first, then, {}); }
};

class RemoteMemory {
 public:
  virtual ~RemoteMemory() = default;
  /// Zero-filled; others may read it until its last reference goes. It may outlive this.
  /// Errors: exhausted; there is not so much, or it cannot be read by others. unavailable; there is
  /// no such memory here, though there may be other.
  virtual Result<Ref<Buffer>> make(std::size_t size) = 0;
  /// What a reader of a region of `make` needs; of no use in another life of this process.
  virtual Result<std::vector<std::byte>> key(const Ref<Buffer>& region) = 0;
  /// Who answers what is asked of a region of `make` from now on, where its readers can ask by the
  /// way on which they read; null: nobody. Who did so is not called any more when this returns.
  virtual void guide(const Ref<Buffer>& region, RegionGuide* guide) {
    static_cast<void>(region);
    static_cast<void>(guide);
  }
  /// Of bytes that their maker is trusted with. Borrows the listener until the region goes, which
  /// is before this. Errors: corrupt; they are no key. Whether it can be reached shows in reads.
  virtual Result<std::unique_ptr<RemoteRegion>> reach(std::span<const std::byte> key,
                                                      RemoteRegion::Listener& listener) = 0;
  /// Takes what has come by now on the caller's thread, who has nothing else to do: its own threads
  /// would have to be woken for that. Never blocks; calls listeners. False: nothing comes so.
  virtual bool look() { return false; }
};

}  // namespace sluice
