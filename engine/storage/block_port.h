// Reads and writes of whole blocks that go on while the caller does something else.
//
// Jobs end in any order, each once, moved whole or with an error; bytes behind the end of a file
// read as an error. The file and the bytes must stay until the job has ended; a port that goes
// waits for those under way. Shape: offsets, sizes and addresses are multiples of
// `segment_block`. Errors: errno's numbers in `Ended`; `cut_short` where a file ends before a read
// does; EIO where nothing of a write is taken. Thread: one caller.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "engine/storage/store_folder.h"

namespace sluice {

class BlockPort {
 public:
  enum class Kind : std::uint8_t { write, read, sync };
  struct Job {
    std::uint64_t id = 0;
    Kind kind = Kind::write;
    std::shared_ptr<SegmentFile> file;
    std::uint64_t offset = 0;
    std::span<std::byte> bytes = {};  // none of a sync
  };
  struct Ended {
    std::uint64_t id = 0;
    int error = 0;  // errno's, or `cut_short`; 0: all of it moved
  };
  /// The file ends before the bytes that were asked for: the disk works, the file is not whole.
  static constexpr int cut_short = -1;
  static constexpr unsigned usual_depth = 64;

  virtual ~BlockPort() = default;
  virtual std::string_view name() const = 0;
  virtual void submit(Job job) = 0;
  /// Appends what has ended. Waits for the first, at most so long, if nothing has and something
  /// will.
  virtual void wait(std::vector<Ended>& ended, std::chrono::nanoseconds most) = 0;
};

/// Threads that read and write.
std::unique_ptr<BlockPort> make_thread_port();
/// The kernel's rings, which have so many jobs under way; the rest wait. Null: it has none for us.
std::unique_ptr<BlockPort> make_uring_port(unsigned depth = BlockPort::usual_depth);
/// The rings where there are any.
std::unique_ptr<BlockPort> make_block_port();

}  // namespace sluice
