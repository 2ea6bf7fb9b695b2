#include "cli/pool_snapshot.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdio>
#include <optional>

#include "base/count_text.h"
#include "cli/json_fields.h"
#include "runtime/registry/registration.h"

namespace sluice::cli {

namespace {

using Json = nlohmann::ordered_json;

/// What only grows while a machine's process lives.
constexpr std::array<const char*, 10> counters{
    "prompts",       "prompt_tokens", "from_memory",   "from_host",   "from_disk",
    "from_machines", "computed",      "brought_bytes", "given_bytes", "given_pages"};

std::uint64_t count(const Json& json, const char* key) {
  return number_of<std::uint64_t>(json, key);
}

std::string words(const Json& json, const char* key) { return printable(text_of(json, key)); }

std::string one_decimal(double number) {
  char text[48];
  std::snprintf(text, sizeof text, "%.1f", number);
  return text;
}

std::string number(const Json& json, const char* key) { return std::to_string(count(json, key)); }

std::string seconds_words(const Json& json, const char* key) {
  return one_decimal(number_of<double>(json, key) / 1000) + " s";
}

const Json* same_pool(const PoolSnapshot* snapshot, const SeenPool& seen) {
  if (snapshot == nullptr) return nullptr;
  for (const SeenPool& one : snapshot->pools)
    if (one.silent.empty() && one.machine == seen.machine &&
        text_of(one.pool, "name") == text_of(seen.pool, "name"))
      return &one.pool;
  return nullptr;
}

/// By the second. None: nothing to compare with, or its process is another one by now.
std::optional<Json> rates_of(const SeenPool& seen, const PoolSnapshot& now,
                             const PoolSnapshot* before) {
  const Json* const old = same_pool(before, seen);
  if (old == nullptr || now.seconds <= before->seconds) return std::nullopt;
  const double passed = now.seconds - before->seconds;
  Json rates = Json::object();
  for (const char* key : counters) {
    if (!seen.pool.contains(key) || !old->contains(key)) continue;
    if (count(seen.pool, key) < count(*old, key)) return std::nullopt;
    rates[key] = static_cast<double>(count(seen.pool, key) - count(*old, key)) / passed;
  }
  if (rates.empty()) return std::nullopt;
  return rates;
}

std::string heading(const SeenPool& seen) {
  const std::int64_t age = number_of<std::int64_t>(seen.pool, "age_ms");
  std::string text = printable(seen.machine) + ": " + words(seen.pool, "name") + ", pages of " +
                     words(seen.pool, "model") + "\n";
  if (age < 0) text += "  a forward runs: nobody has seen the pool yet, ask again\n";
  if (age >= 1000)
    text += "  as it was " + seconds_words(seen.pool, "age_ms") +
            " ago: a forward runs, or its process does not answer\n";
  return text;
}

bool is_seen(const SeenPool& seen) {
  return seen.silent.empty() && number_of<std::int64_t>(seen.pool, "age_ms") >= 0;
}

std::string silent_words(const SeenPool& seen) {
  return printable(seen.machine) + ": " + printable(seen.silent) + "\n";
}

/// "64 (10.0 %)".
std::string part(std::uint64_t tokens, std::uint64_t all) {
  if (all == 0) return std::to_string(tokens);
  return std::to_string(tokens) + " (" +
         one_decimal(100 * static_cast<double>(tokens) / static_cast<double>(all)) + " %)";
}

std::string prompts_line(const Json& pool) {
  const std::uint64_t all = count(pool, "prompt_tokens");
  std::string text = "  prompts  " + number(pool, "prompts") + " of " + std::to_string(all) +
                     " tokens: from memory " + part(count(pool, "from_memory"), all);
  if (pool.contains("from_host"))
    text += ", from host memory " + part(count(pool, "from_host"), all);
  if (pool.contains("from_disk")) text += ", from disk " + part(count(pool, "from_disk"), all);
  if (pool.contains("from_machines"))
    text += ", from other machines " + part(count(pool, "from_machines"), all);
  return text + ", computed " + part(count(pool, "computed"), all) + "\n";
}

/// How good the choice of pages to keep was. Of few pages it says nothing.
std::string kept_line(const Json& pool) {
  const Json* const lately = member(pool, "lately");
  if (lately == nullptr || count(*lately, "asked") < 64) return "";
  const std::uint64_t asked = count(*lately, "asked");
  return "  kept     of a sample of " + std::to_string(asked) + " pages asked for lately " +
         part(count(*lately, "there"), asked) + " were there; by the best choice " +
         part(count(*lately, "best"), asked) + "\n";
}

std::string preloads_line(const Json& pool) {
  if (!pool.contains("preloads")) return "";
  const Json& ahead = pool["preloads"];
  return "  preloads " + count_text(count(ahead, "told"), "page") + " told, " +
         number(ahead, "had") + " were here, " + number(ahead, "taken") + " taken, " +
         number(ahead, "missed") + " missed; " + number(ahead, "useful") + " used since, " +
         number(ahead, "wasted") + " given up unused\n";
}

/// Below a GPU's pages.
std::string host_line(const Json& pool) {
  const Json* const host = member(pool, "host");
  if (host == nullptr) return "";
  std::string text = "  host     " + count_text(count(*host, "pages"), "page") + ": " +
                     number(*host, "cached") + " cache, " + number(*host, "free") + " free; " +
                     number(*host, "lowered") + " copied from the GPU, " + number(*host, "raised") +
                     " back to it";
  if (count(*host, "missed") > 0) text += ", " + number(*host, "missed") + " given up before";
  text += "\n";
  for (const auto& [key, says] : {std::pair("off", "not used any more: "),
                                  std::pair("unpinned", "copied more slowly than pinned: ")})
    if (const std::string why = words(*host, key); !why.empty())
      text += "           " + std::string(says) + why + "\n";
  return text;
}

std::string bytes_of(const Json& json, const char* key) {
  return bytes_words(number_of<double>(json, key));
}

/// `disk`: what a folder has, and how many pages came from it and went there.
std::string disk_lines(const Json& pool, const Json& disk) {
  const auto page = number_of<double>(pool, "page_bytes");
  const auto moved = [&](const char* pages, const char* how) {
    return number(disk, pages) + how + bytes_words(page * number_of<double>(disk, pages));
  };
  const std::uint64_t broken = count(disk, "broken_pages");
  const std::string off = words(disk, "off");
  return "  disk     " + count_text(count(disk, "pages"), "page") + ", " + bytes_of(disk, "bytes") +
         " of " + bytes_of(disk, "bytes_most") + "; " + moved("read_pages", " read, ") + "; " +
         moved("written_pages", " written, ") + "\n" +
         (broken == 0 ? ""
                      : "           " + count_text(broken, "page") +
                            " read other than written, so not used: `sluice pool verify` of the "
                            "folder says where\n") +
         (off.empty() ? "" : "           not used for a while: " + off + "\n");
}

/// Of a disk alone, as of one beside machines.
Json disk_of(const Json& pool) {
  Json disk{{"off", text_of(pool, "disk_off")}};
  for (const auto& [to, from] : {std::pair("pages", "disk_pages"),
                                 {"bytes", "disk_bytes"},
                                 {"bytes_most", "disk_bytes_most"},
                                 {"read_pages", "brought_pages"},
                                 {"written_pages", "given_pages"},
                                 {"broken_pages", "disk_broken"}})
    disk[to] = count(pool, from);
  return disk;
}

/// "a read from disk 0.4 ms (3.1 at most)".
std::string times_line(const Json& pool) {
  const Json* const times = member(pool, "times");
  if (times == nullptr) return "";
  std::string text;
  for (const auto& [key, says] : {std::pair("disk_read", "a page read from disk "),
                                  {"disk_write", "a page written there "},
                                  {"pull", "a pull from other machines "}})
    if (const Json* const one = member(*times, key))
      text += (text.empty() ? "  times    " : ", ") + std::string(says) +
              one_decimal(number_of<double>(*one, "mean_us") / 1000) + " ms (" +
              one_decimal(number_of<double>(*one, "most_us") / 1000) + " at most)";
  return text.empty() ? text : text + "\n";
}

std::string source_lines(const Json& pool) {
  const std::string source = text_of(pool, "source");
  if (source == "disk") return disk_lines(pool, disk_of(pool));
  if (source != "machines" && source != "both") return "";
  const Json* const disk = member(pool, "disk");
  return (disk != nullptr ? disk_lines(pool, *disk) : "") + "  machines " +
         count_text(count(pool, "brought_pages"), "page") + " pulled, " +
         bytes_of(pool, "brought_bytes") + "; " + number(pool, "given_pages") + " served, " +
         bytes_of(pool, "given_bytes") + "\n" + preloads_line(pool);
}

std::string rates_line(const Json& rates) {
  const auto at = [&](const char* key) { return one_decimal(number_of<double>(rates, key)); };
  std::string text =
      "  a second " + at("prompt_tokens") + " tokens: from memory " + at("from_memory");
  if (rates.contains("from_host")) text += ", from host memory " + at("from_host");
  if (rates.contains("from_disk")) text += ", from disk " + at("from_disk");
  if (rates.contains("from_machines")) text += ", from other machines " + at("from_machines");
  text += ", computed " + at("computed");
  if (rates.contains("brought_bytes"))
    text += "; " + bytes_words(number_of<double>(rates, "brought_bytes")) + " in, " +
            bytes_words(number_of<double>(rates, "given_bytes")) + " out";
  return text + "\n";
}

/// The first few; the others are in JSON.
std::string tenants_line(const Json& pool) {
  const Json* const list = member(pool, "tenant_list");
  const std::uint64_t most = count(pool, "tenant_pages");
  const std::string limit = most > 0 ? ", each " + count_text(most, "page") + " at most" : "";
  if (list == nullptr || !list->is_array() || list->empty())
    return most > 0 ? "  tenants  none" + limit + "\n" : "";
  constexpr std::size_t shown_most = 8;
  const std::uint64_t all = count(pool, "tenants");
  std::string text = "  tenants  " + std::to_string(all) + limit + ":";
  const std::size_t shown = std::min(list->size(), shown_most);
  for (std::size_t i = 0; i < shown; ++i) {
    const Json& one = (*list)[i];
    const std::string name = words(one, "name");
    text += (i == 0 ? " " : ", ") + (name.empty() ? std::string("(others)") : name) + " " +
            number(one, "pages") + " (" + number(one, "cached") + " cache)";
  }
  if (all > shown) text += ", and " + std::to_string(all - shown) + " more";
  return text + "\n";
}

std::string pool_text(const SeenPool& seen, const std::optional<Json>& rates) {
  std::string text = heading(seen);
  if (!is_seen(seen)) return text;
  const Json& pool = seen.pool;
  text += "  pages    " + number(pool, "pages") + ": " + number(pool, "used") + " used (" +
          number(pool, "shared") + " by several), " + number(pool, "cached") + " cache, " +
          number(pool, "free") + " free; each " + count_text(count(pool, "page_tokens"), "token") +
          ", " + bytes_words(number_of<double>(pool, "page_bytes")) + "\n";
  text += "  tokens   " + std::to_string(count(pool, "published") * count(pool, "page_tokens")) +
          " that prompts may find; " + words(pool, "layout") + "\n";
  text += prompts_line(pool) + kept_line(pool) + host_line(pool) + source_lines(pool) +
          times_line(pool);
  text += tenants_line(pool);
  text += "  sessions " + number(pool, "sessions") + "\n";
  if (rates) text += rates_line(*rates);
  return text;
}

std::string session_line(const Json& one) {
  const std::string role = words(one, "role");
  const Json* const answering = member(one, "answering");
  std::string text = "  " + words(one, "name") + (role.empty() ? "" : " (" + role + ")") + ": " +
                     count_text(count(one, "tokens"), "token") + ", ";
  if (answering != nullptr && *answering == true) return text + "is being answered\n";
  return text + number(one, "kept") + " of them in pages that it holds; idle for " +
         seconds_words(one, "idle_ms") + "\n";
}

/// A machine's pool as its own object, without the list of its sessions.
Json row_of(const SeenPool& seen) {
  Json row{{"machine", seen.machine}};
  if (!seen.silent.empty()) row["silent"] = seen.silent;
  if (seen.pool.is_object())
    for (const auto& [key, value] : seen.pool.items())
      if (key != "session_list" && key != "machine") row[key] = value;
  return row;
}

Json rows_of(const PoolSnapshot& now) {
  Json all{{"pools", Json::array()}};
  if (!now.nobody.empty()) all["nobody"] = now.nobody;
  for (const SeenPool& seen : now.pools) all["pools"].push_back(row_of(seen));
  return all;
}

}  // namespace

std::string bytes_words(double bytes) {
  constexpr std::array units{"KiB", "MiB", "GiB", "TiB"};
  if (bytes < 10240) return std::to_string(static_cast<std::uint64_t>(bytes)) + " bytes";
  std::size_t unit = 0;
  for (bytes /= 1024; bytes >= 1024 && unit + 1 < units.size(); bytes /= 1024) ++unit;
  return one_decimal(bytes) + " " + units[unit];
}

void add_pools(const std::string& name, const Json& said, PoolSnapshot& snapshot) {
  const auto says = [&](const char* key) {
    const Json* const value = member(said, key);
    return value != nullptr && *value == true;
  };
  if (!says("ready")) {
    snapshot.pools.push_back({name, {}, says("ending") ? "it ends" : "it loads its roles"});
    return;
  }
  const Json* const pools = member(said, "pools");
  if (pools == nullptr || !pools->is_array()) return;
  for (const Json& pool : *pools)
    if (pool.is_object()) snapshot.pools.push_back({name, pool, ""});
}

std::string pool_status_text(const PoolSnapshot& now, const PoolSnapshot* before) {
  std::string text = now.nobody.empty() ? "" : now.nobody + "\n";
  for (const SeenPool& seen : now.pools)
    text += seen.silent.empty() ? pool_text(seen, rates_of(seen, now, before)) : silent_words(seen);
  return text;
}

Json pool_status_json(const PoolSnapshot& now, const PoolSnapshot* before) {
  Json all = rows_of(now);
  for (std::size_t i = 0; i < now.pools.size(); ++i)
    if (std::optional<Json> rates = rates_of(now.pools[i], now, before))
      all["pools"][i]["per_second"] = *std::move(rates);
  return all;
}

std::string pool_sessions_text(const PoolSnapshot& now) {
  std::string text = now.nobody.empty() ? "" : now.nobody + "\n";
  for (const SeenPool& seen : now.pools) {
    text += seen.silent.empty() ? heading(seen) : silent_words(seen);
    if (!is_seen(seen)) continue;
    const Json* const list = member(seen.pool, "session_list");
    const std::size_t shown = list != nullptr && list->is_array() ? list->size() : 0;
    for (std::size_t i = 0; i < shown; ++i) text += session_line((*list)[i]);
    const std::uint64_t all = count(seen.pool, "sessions");
    if (all > shown) text += "  and " + std::to_string(all - shown) + " more\n";
    if (all == 0) text += "  no session\n";
  }
  return text;
}

Json pool_sessions_json(const PoolSnapshot& now) {
  Json all = rows_of(now);
  for (std::size_t i = 0; i < now.pools.size(); ++i)
    if (const Json* list = member(now.pools[i].pool, "session_list"))
      all["pools"][i]["session_list"] = *list;
  return all;
}

}  // namespace sluice::cli
