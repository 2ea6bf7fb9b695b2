// A pool's report as JSON: what machines say to `sluice status` and `sluice pool`.
//
//     { "name", "age_ms", "model", and unless age_ms is below nothing "layout", "page_tokens",
//       "page_bytes", "pages", "free", "cached", "used", "shared", "published",
//       "lately": { "asked", "there", "best" } (of a sample of pages),
//       "prompts", "prompt_tokens", "from_memory", "from_host" (of a GPU's pool), "from_disk",
//       "from_machines", both or none of them, "computed" (tokens), of a GPU's pool "host": {
//       "pages", "free", "cached", "lowered", "raised", "missed", "off", "unpinned" (why) },
//       "source": "none|disk|machines|both", "brought_pages", "brought_bytes", "given_pages",
//       "given_bytes", where there were any "times": { "disk_read", "disk_write", "pull": {
//       "count", "mean_us", "most_us" } },
//       of a disk "disk_pages", "disk_bytes", "disk_bytes_most", "disk_broken", "disk_off" (why),
//       of machines with an index of pages "index": { "asked", "found", "unanswered", "stale",
//       "told", "anew", "down" (why) }, of both "disk": { "pages", "bytes", "bytes_most",
//       "read_pages", "written_pages", "broken_pages", "off" (why) }, of one that preloads
//       "preloads": { "told", "had", "taken", "missed", "useful", "wasted" }, "tenant_pages" (where
//       one may not have all), where there are tenants "tenants", "tenant_list": [ { "name",
//       "pages", "cached" } ], "sessions", "session_list": [ { "name", "role", "tokens", "kept",
//       "answering", "idle_ms" } ] }, as base/pool_report.h says.
//
// Pages that others read without asking are not counted by their owner: not in "given_pages".
#pragma once

#include <nlohmann/json.hpp>

#include "base/pool_report.h"

namespace sluice::cli {

nlohmann::ordered_json json_of(const PoolReport& pool);

}  // namespace sluice::cli
