#include "cli/pool_json.h"

#include <utility>

namespace sluice::cli {

namespace {

using Json = nlohmann::ordered_json;

const char* word_of(PoolReport::Source source) {
  switch (source) {
    case PoolReport::Source::nowhere:
      return "none";
    case PoolReport::Source::disk:
      return "disk";
    case PoolReport::Source::machines:
      return "machines";
    case PoolReport::Source::both:
      return "both";
  }
  return "";
}

/// Of what has happened; microseconds.
void add_times(const PoolReport& pool, Json& json) {
  for (const auto& [name, times] : {std::pair("disk_read", &pool.disk_reads),
                                    {"disk_write", &pool.disk_writes},
                                    {"pull", &pool.pulls}})
    if (times->count > 0)
      json["times"][name] = {{"count", times->count},
                             {"mean_us", times->sum_ns / times->count / 1000},
                             {"most_us", times->most_ns / 1000}};
}

void add_source(const PoolReport& pool, Json& json) {
  json["source"] = word_of(pool.source);
  if (pool.source == PoolReport::Source::nowhere) return;
  json["brought_pages"] = pool.brought_pages;
  json["brought_bytes"] = pool.brought_bytes;
  json["given_pages"] = pool.given_pages;
  json["given_bytes"] = pool.given_bytes;
  add_times(pool, json);
  if (pool.index.has_value())
    json["index"] = {{"asked", pool.index->asked},
                     {"found", pool.index->found},
                     {"unanswered", pool.index->unanswered},
                     {"stale", pool.index->stale},
                     {"told", pool.index->told},
                     {"anew", pool.index->anew},
                     {"down", pool.index->down}};
  if (pool.preloads.has_value())
    json["preloads"] = {{"told", pool.preloads->told},     {"had", pool.preloads->had},
                        {"taken", pool.preloads->taken},   {"missed", pool.preloads->missed},
                        {"useful", pool.preloads->useful}, {"wasted", pool.preloads->wasted}};
  if (pool.source == PoolReport::Source::both)
    json["disk"] = {{"pages", pool.source_pages},
                    {"bytes", pool.source_bytes},
                    {"bytes_most", pool.source_bytes_most},
                    {"read_pages", pool.disk_read},
                    {"written_pages", pool.disk_written},
                    {"broken_pages", pool.disk_broken},
                    {"off", pool.source_off}};
  if (pool.source != PoolReport::Source::disk) return;
  json["disk_pages"] = pool.source_pages;
  json["disk_bytes"] = pool.source_bytes;
  json["disk_bytes_most"] = pool.source_bytes_most;
  json["disk_broken"] = pool.disk_broken;
  json["disk_off"] = pool.source_off;
}

}  // namespace

Json json_of(const PoolReport& pool) {
  Json json{{"name", pool.name}, {"age_ms", pool.age_ms}, {"model", pool.model}};
  if (pool.age_ms < 0) return json;
  json["layout"] = pool.layout;
  json["page_tokens"] = pool.page_tokens;
  json["page_bytes"] = pool.page_bytes;
  json["pages"] = pool.pages;
  json["free"] = pool.free;
  json["cached"] = pool.cached;
  json["used"] = pool.used;
  json["shared"] = pool.shared;
  json["published"] = pool.published;
  json["lately"] = {
      {"asked", pool.window_blocks}, {"there", pool.window_hits}, {"best", pool.window_optimum}};
  json["prompts"] = pool.prompts;
  json["prompt_tokens"] = pool.asked;
  json["from_memory"] = pool.memory;
  if (pool.host.has_value()) {
    json["from_host"] = pool.brought;
  } else if (pool.source == PoolReport::Source::both) {
    json["from_disk"] = pool.disk_tokens;
    json["from_machines"] = pool.brought - pool.disk_tokens;
  } else if (pool.source != PoolReport::Source::nowhere) {
    json[std::string("from_") + word_of(pool.source)] = pool.brought;
  }
  json["computed"] = pool.computed;
  if (pool.host.has_value())
    json["host"] = {{"pages", pool.host->pages},   {"free", pool.host->free},
                    {"cached", pool.host->cached}, {"lowered", pool.host->lowered},
                    {"raised", pool.host->raised}, {"missed", pool.host->missed},
                    {"off", pool.host->off},       {"unpinned", pool.host->unpinned}};
  add_source(pool, json);
  if (pool.tenant_pages > 0) json["tenant_pages"] = pool.tenant_pages;
  if (pool.tenants > 0) {
    json["tenants"] = pool.tenants;
    json["tenant_list"] = Json::array();
    for (const PoolTenant& one : pool.tenant_list)
      json["tenant_list"].push_back(
          {{"name", one.name}, {"pages", one.pages}, {"cached", one.cached}});
  }
  json["sessions"] = pool.sessions;
  json["session_list"] = Json::array();
  for (const PoolSession& one : pool.session_list)
    json["session_list"].push_back({{"name", one.name},
                                    {"role", one.role},
                                    {"tokens", one.tokens},
                                    {"kept", one.kept},
                                    {"answering", one.answering},
                                    {"idle_ms", one.idle_ms}});
  return json;
}

}  // namespace sluice::cli
