// Hit rates of all eviction policies and the time that each takes for a block.
//
//   bench_eviction TRACE       a trace in Mooncake's format, at 1k to 50k blocks
//   bench_eviction             the generated workloads of the tests, at 500 and 2,000 blocks
// Each cell is the per cent of blocks that hit, and behind them is what a block took, at the last
// size and the most at any; below: ours beside the best of the classics and beside LRU, and how far
// it gets from LRU to the optimum.
#include <algorithm>
#include <array>
#include <cstdio>
#include <ctime>

#include "bench/usage.h"
#include "dataplane/optimum.h"
#include "dataplane/replay.h"
#include "dataplane/trace.h"
#include "tests/dataplane/workloads.h"

namespace {

using namespace sluice;

struct Score {
  double percent = 0;
  double ns = 0;
};

std::vector<TraceRequest> read_all(const char* path) {
  std::vector<TraceRequest> requests;
  std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::fopen(path, "rb"), std::fclose);
  if (!file) {
    std::fprintf(stderr, "%s cannot be opened\n", path);
    return requests;
  }
  TraceReader reader;
  std::vector<char> bytes(1 << 16);
  const auto keep = [&](const TraceRequest& request) { requests.push_back(request); };
  while (const std::size_t got = std::fread(bytes.data(), 1, bytes.size(), file.get())) {
    const Result<void> fed = reader.feed({bytes.data(), got}, keep);
    if (!fed) std::fprintf(stderr, "%s\n", fed.error().message.c_str());
    if (!fed) return {};
  }
  const Result<void> ended = reader.end(keep);
  if (!ended) std::fprintf(stderr, "%s\n", ended.error().message.c_str());
  return requests;
}

Score score(std::string_view name, std::uint32_t capacity,
            const std::vector<TraceRequest>& requests) {
  std::uint32_t longest = 1;
  for (const TraceRequest& request : requests)
    longest = std::max(longest, static_cast<std::uint32_t>(request.blocks.size()));
  const PoolSize size{capacity, capacity + longest};
  Replay replay(size, std::move(make_eviction(name, size).value()));
  std::uint64_t hits = 0, blocks = 0;
  const std::clock_t begin = std::clock();  // processor time: others run here too
  for (const TraceRequest& request : requests) {
    hits += replay.request(request.timestamp_ms, request.blocks);
    blocks += request.blocks.size();
  }
  const double took_ns = 1e9 * static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC;
  return {100.0 * static_cast<double>(hits) / static_cast<double>(blocks),
          took_ns / static_cast<double>(blocks)};
}

void table(const char* title, const std::vector<TraceRequest>& requests,
           std::span<const std::uint32_t> capacities) {
  Optimum optimum;
  for (const TraceRequest& request : requests) optimum.add(request.blocks);
  std::printf("\n%s: %zu requests, %llu blocks\n%-13s", title, requests.size(),
              static_cast<unsigned long long>(optimum.blocks()), "policy");
  for (const std::uint32_t capacity : capacities) std::printf(" %7u", capacity);
  std::printf("   ns/block: at the last, most at any\n");
  std::vector<double> best(capacities.size()), lru(capacities.size()), ours(capacities.size());
  for (const std::string_view name : eviction_names()) {
    std::printf("%-13.*s", static_cast<int>(name.size()), name.data());
    Score last;
    double most_ns = 0;
    for (std::size_t i = 0; i < capacities.size(); ++i) {
      last = score(name, capacities[i], requests);
      std::printf(" %7.2f", last.percent);
      most_ns = std::max(most_ns, last.ns);
      if (name == "chosen") ours[i] = last.percent;
      if (name == "lru") lru[i] = last.percent;
      if (name != "chosen" && name != "learned") best[i] = std::max(best[i], last.percent);
    }
    std::printf("   %4.0f %4.0f\n", last.ns, most_ns);
  }
  std::vector<double> most;
  std::printf("%-13s", "optimum");
  for (const std::uint32_t capacity : capacities) {
    most.push_back(100.0 * static_cast<double>(optimum.hits(capacity)) /
                   static_cast<double>(optimum.blocks()));
    std::printf(" %7.2f", most.back());
  }
  std::printf("\n%-13s", "ours/best");
  for (std::size_t i = 0; i < best.size(); ++i) std::printf(" %7.3f", ours[i] / best[i]);
  std::printf("\n%-13s", "ours/lru");
  for (std::size_t i = 0; i < best.size(); ++i) std::printf(" %7.3f", ours[i] / lru[i]);
  std::printf("\n%-13s", "way, %");
  for (std::size_t i = 0; i < best.size(); ++i)
    std::printf(" %7.1f", 100 * (ours[i] - lru[i]) / (most[i] - lru[i]));
  std::printf("\n");
}

}  // namespace

int main(int count, char** words) {
  if (const auto status = usage_status(count, words, "usage: bench_eviction [TRACE]"))
    return *status;
  if (count > 1) {
    const std::vector<TraceRequest> requests = read_all(words[1]);
    if (requests.empty()) return 1;
    const std::array<std::uint32_t, 6> capacities = {1000, 2000, 5000, 10000, 20000, 50000};
    table(words[1], requests, capacities);
    return 0;
  }
  const std::array<std::uint32_t, 2> capacities = {500, 2000};
  for (const Workload& workload : workloads()) table(workload.name, workload.make(1), capacities);
}
