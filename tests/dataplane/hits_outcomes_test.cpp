// How often each policy hits on each generated workload: the same numbers in every build.
#include <catch2/catch.hpp>
#include <cmath>
#include <string>

#include "dataplane/replay.h"
#include "tests/dataplane/workloads.h"
#include "tests/outcomes.h"

using namespace sluice;

TEST_CASE("each policy that counts in whole numbers hits as often as before") {
  test::Outcomes outcomes("policy_hits");
  for (const Workload& workload : workloads()) {
    const std::vector<TraceRequest> requests = workload.make(23);
    for (const std::string_view name : eviction_names())
      for (const std::uint32_t capacity : {60U, 300U, 1500U}) {
        if (name == "learned" || name == "chosen") continue;  // the order of near floats
        const PoolSize size{capacity, capacity + 512};
        Replay replay(size, std::move(make_eviction(name, size).value()));
        std::uint64_t hits = 0;
        for (const TraceRequest& request : requests)
          hits += replay.request(request.timestamp_ms, request.blocks);
        outcomes.add(workload.name, std::string(name) + " " + std::to_string(capacity) + ": " +
                                        std::to_string(hits) + ", " +
                                        std::to_string(replay.resident()) + " resident");
      }
  }
  outcomes.require_as_kept();
}
