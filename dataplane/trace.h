// Reads a trace of requests in Mooncake's format: one JSON object a line, with `timestamp`
// (milliseconds) and `hash_ids` (the request's blocks from the root of the prefix tree on).
//
// Requests stand in the order of their time. Other members are skipped, and a byte order mark
// before the first line. Thread: one. Errors: name the line. Bounds: a line of 8 MiB, 65,536
// blocks a request, values nested 32 deep; memory is that of one line.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace sluice {

inline constexpr std::size_t most_trace_line = 8u << 20;
inline constexpr std::size_t most_trace_blocks = 65536;

struct TraceRequest {
  std::uint64_t timestamp_ms = 0;
  std::vector<std::uint64_t> blocks;
};

/// One line, without its end.
Result<TraceRequest> parse_trace_line(std::string_view line);

class TraceReader {
 public:
  using Take = std::function<void(const TraceRequest&)>;

  /// The next bytes of the file. `take` gets each request as soon as its line is whole.
  Result<void> feed(std::string_view bytes, const Take& take);
  /// The file is over: its last line may lack an end.
  Result<void> end(const Take& take);
  std::uint64_t requests() const { return requests_; }

 private:
  Result<void> take_line(std::string_view line, const Take& take);

  std::string rest_;  // of a line that is not whole yet
  std::uint64_t lines_ = 0, requests_ = 0;
  std::uint64_t last_ms_ = 0;  // of the request before
};

}  // namespace sluice
