// Any bytes as a trace of requests: the same requests and the same error however the bytes are cut,
// within the limits, and a pool that replays them never hits more blocks than a request has.
#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "dataplane/replay.h"
#include "dataplane/trace.h"

using namespace sluice;

namespace {

struct Outcome {
  std::vector<TraceRequest> requests;
  std::string error;
};

Outcome read_in_parts(std::string_view bytes, std::size_t part) {
  Outcome outcome;
  TraceReader reader;
  const auto take = [&](const TraceRequest& request) { outcome.requests.push_back(request); };
  for (std::size_t at = 0; at < bytes.size(); at += part)
    if (const auto fed = reader.feed(bytes.substr(at, part), take); !fed) {
      outcome.error = fed.error().message;
      return outcome;
    }
  if (const auto ended = reader.end(take); !ended) outcome.error = ended.error().message;
  if (reader.requests() != outcome.requests.size()) __builtin_trap();
  return outcome;
}

bool is_same(const Outcome& a, const Outcome& b) {
  return a.error == b.error &&
         std::ranges::equal(a.requests, b.requests, [](const auto& x, const auto& y) {
           return x.timestamp_ms == y.timestamp_ms && x.blocks == y.blocks;
         });
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  const Outcome whole = read_in_parts(bytes, size + 1);
  if (!is_same(whole, read_in_parts(bytes, 1)) || !is_same(whole, read_in_parts(bytes, 7)))
    __builtin_trap();
  if (!whole.error.empty() && !whole.error.starts_with("line ")) __builtin_trap();
  constexpr std::uint32_t capacity = 8;
  std::size_t longest = 0;
  for (const TraceRequest& request : whole.requests)
    longest = std::max(longest, request.blocks.size());
  if (longest > 4096) return 0;  // fine too, and slow
  const PoolSize pool_size{capacity, capacity + static_cast<std::uint32_t>(longest)};
  Replay pool(pool_size, make_eviction("chosen", pool_size).value());
  for (const TraceRequest& request : whole.requests)
    if (pool.request(request.timestamp_ms, request.blocks) > request.blocks.size() ||
        pool.resident() > capacity)
      __builtin_trap();
  return 0;
}
