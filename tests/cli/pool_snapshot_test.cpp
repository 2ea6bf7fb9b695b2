// What `sluice pool status` shows of two snapshots, and the loop that draws them.
#include "cli/pool_snapshot.h"

#include <catch2/catch.hpp>

#include "cli/pool_json.h"
#include "cli/watch.h"

using namespace sluice;
using namespace sluice::cli;
using Catch::Matchers::Contains;

namespace {

PoolReport pulling(std::uint64_t prompts) {
  PoolReport pool;
  pool.name = "kv";
  pool.model = "models/one";
  pool.layout = "4 layers, keys and values of 32 in f32";
  pool.page_tokens = 16;
  pool.page_bytes = 16384;
  pool.pages = 64;
  pool.free = 12;
  pool.cached = 40;
  pool.used = 12;
  pool.shared = 3;
  pool.published = 50;
  pool.window_blocks = 400;
  pool.window_hits = 100;
  pool.window_optimum = 150;
  pool.prompts = prompts;
  pool.asked = 100 * prompts;
  pool.memory = 50 * prompts;
  pool.brought = 20 * prompts;
  pool.computed = 30 * prompts;
  pool.source = PoolReport::Source::machines;
  pool.brought_pages = prompts;
  pool.brought_bytes = 16384 * prompts;
  pool.sessions = 1;
  pool.session_list = {{"anna", "reader", 123, 120, false, 3200}};
  return pool;
}

PoolSnapshot snapshot(double seconds, const PoolReport& pool) {
  PoolSnapshot made;
  made.seconds = seconds;
  add_pools("read", {{"ready", true}, {"pools", {json_of(pool)}}}, made);
  return made;
}

}  // namespace

TEST_CASE("tenants are shown in a bounded number, with what each may have") {
  PoolReport pool = pulling(1);
  const auto line = [&] {
    const std::string text = pool_status_text(snapshot(1, pool), nullptr);
    const std::size_t at = text.find("  tenants ");
    return at == std::string::npos ? std::string() : text.substr(at, text.find('\n', at) - at);
  };
  CHECK(line().empty());
  pool.tenant_pages = 16;
  CHECK(line() == "  tenants  none, each 16 pages at most");
  pool.tenants = 12;
  for (std::uint64_t i = 0; i < 10; ++i)
    pool.tenant_list.push_back({"t" + std::to_string(i), 16 - i, i});
  pool.tenant_list[1].name.clear();
  CHECK(line() ==
        "  tenants  12, each 16 pages at most: t0 16 (0 cache), (others) 15 (1 cache), t2 14 (2 "
        "cache), "
        "t3 13 (3 cache), t4 12 (4 cache), t5 11 (5 cache), t6 10 (6 cache), t7 9 (7 cache), and 4 "
        "more");
  pool.tenant_pages = 0;
  CHECK(line().starts_with("  tenants  12: t0 16 (0 cache), "));
  const auto json = pool_status_json(snapshot(1, pool), nullptr)["pools"][0];
  CHECK(json["tenants"] == 12);
  CHECK(json["tenant_list"].size() == 10);
  CHECK(json["tenant_list"][2] ==
        nlohmann::ordered_json{{"name", "t2"}, {"pages", 14}, {"cached", 2}});
  CHECK_FALSE(json.contains("tenant_pages"));
}

TEST_CASE("one snapshot shows what is, two what has happened by the second") {
  const PoolSnapshot before = snapshot(10, pulling(2)), now = snapshot(12, pulling(6));
  const std::string text = pool_status_text(now, &before);
  CHECK(text ==
        "read: kv, pages of models/one\n"
        "  pages    64: 12 used (3 by several), 40 cache, 12 free; each 16 tokens, 16.0 KiB\n"
        "  tokens   800 that prompts may find; 4 layers, keys and values of 32 in f32\n"
        "  prompts  6 of 600 tokens: from memory 300 (50.0 %), from other machines 120 (20.0 %), "
        "computed 180 (30.0 %)\n"
        "  kept     of a sample of 400 pages asked for lately 100 (25.0 %) were there; by the best "
        "choice 150 (37.5 %)\n"
        "  machines 6 pages pulled, 96.0 KiB; 0 served, 0 bytes\n"
        "  sessions 1\n"
        "  a second 200.0 tokens: from memory 100.0, from other machines 40.0, computed 60.0; "
        "32.0 KiB in, 0 bytes out\n");
  CHECK_THAT(pool_status_text(now, nullptr), !Contains("a second"));
  const auto json = pool_status_json(now, &before);
  CHECK(json["pools"][0]["per_second"]["prompts"] == 2.0);
  CHECK(json["pools"][0]["per_second"]["brought_bytes"] == 32768.0);
  CHECK(json["pools"][0]["machine"] == "read");
  CHECK_FALSE(json["pools"][0].contains("session_list"));
  CHECK_FALSE(pool_status_json(now, nullptr)["pools"][0].contains("per_second"));
}

TEST_CASE("nothing is shown by the second of what has begun anew, or where no time has passed") {
  const PoolSnapshot before = snapshot(10, pulling(6));
  CHECK_THAT(pool_status_text(snapshot(12, pulling(2)), &before), !Contains("a second"));
  CHECK_THAT(pool_status_text(snapshot(10, pulling(7)), &before), !Contains("a second"));
  PoolReport other = pulling(9);
  other.name = "another";
  CHECK_THAT(pool_status_text(snapshot(12, other), &before), !Contains("a second"));
  PoolReport unseen;
  unseen.age_ms = -1;
  unseen.name = "kv";
  const PoolSnapshot hidden = snapshot(11, unseen);
  CHECK_THAT(pool_status_text(snapshot(12, pulling(7)), &hidden), !Contains("a second"));
}

TEST_CASE("of few pages nothing is said of how good the choice was, but in JSON") {
  PoolReport few = pulling(6);
  few.window_blocks = 63;
  const PoolSnapshot now = snapshot(1, few);
  CHECK_THAT(pool_status_text(now, nullptr), !Contains("lately"));
  const auto json = pool_status_json(now, nullptr)["pools"][0]["lately"];
  CHECK((json["asked"] == 63 && json["there"] == 100 && json["best"] == 150));
}

TEST_CASE("a pool that a forward hides says so, and an old report its age") {
  PoolReport unseen;
  unseen.age_ms = -1;
  unseen.name = "kv";
  unseen.model = "m";
  CHECK(pool_status_text(snapshot(1, unseen), nullptr) ==
        "read: kv, pages of m\n  a forward runs: nobody has seen the pool yet, ask again\n");
  PoolReport old = pulling(1);
  old.age_ms = 2100;
  CHECK_THAT(
      pool_status_text(snapshot(1, old), nullptr),
      Contains(
          "as it was 2.1 s ago: a forward runs, or its process does not answer\n  pages    64"));
}

TEST_CASE("what was preloaded is shown where it is, and what became of it") {
  PoolReport pool = pulling(1);
  pool.source = PoolReport::Source::machines;
  CHECK_THAT(pool_status_text(snapshot(1, pool), nullptr), !Contains("preloads"));
  pool.preloads = PoolReport::Preloads{9, 1, 6, 2, 4, 1};
  CHECK_THAT(
      pool_status_text(snapshot(1, pool), nullptr),
      Contains("\n  preloads 9 pages told, 1 were here, 6 taken, 2 missed; 4 used since, 1 given "
               "up unused\n"));
  CHECK(json_of(pool)["preloads"].dump() ==
        R"({"told":9,"had":1,"taken":6,"missed":2,"useful":4,"wasted":1})");
}

TEST_CASE("a GPU's pages and those of the host's memory below them are shown apart") {
  PoolReport pool = pulling(1);
  CHECK_THAT(pool_status_text(snapshot(1, pool), nullptr), !Contains("host"));
  pool.host = PoolReport::Host{128, 100, 28, 30, 12, 0, "", ""};
  std::string text = pool_status_text(snapshot(1, pool), nullptr);
  CHECK_THAT(text, Contains("from memory 50 (50.0 %), from host memory 20 (20.0 %), computed"));
  CHECK_THAT(text,
             Contains("\n  host     128 pages: 28 cache, 100 free; 30 copied from the GPU, 12 "
                      "back to it\n  machines 1 page pulled"));
  pool.host = PoolReport::Host{128, 100, 28, 30, 12, 3, "it fell\x1b off", "no room"};
  text = pool_status_text(snapshot(1, pool), nullptr);
  CHECK_THAT(text,
             Contains("12 back to it, 3 given up before\n           not used any more: it fell"));
  CHECK_THAT(text, Contains("\n           copied more slowly than pinned: no room\n"));
  CHECK_THAT(text, !Contains("\x1b"));
  CHECK(json_of(pool)["from_host"] == 20);
  CHECK_FALSE(json_of(pool).contains("from_machines"));
  CHECK(json_of(pool)["host"].dump() ==
        "{\"pages\":128,\"free\":100,\"cached\":28,\"lowered\":30,\"raised\":12,\"missed\":3,"
        "\"off\":\"it fell\\u001b off\",\"unpinned\":\"no room\"}");
}

TEST_CASE("a disk shows what it holds, what went to and fro, and why it is off") {
  PoolReport pool = pulling(1);
  pool.source = PoolReport::Source::disk;
  pool.source_pages = 7;
  pool.source_bytes = 3u << 20;
  pool.source_bytes_most = 4ULL << 30;
  pool.given_pages = 2;
  pool.given_bytes = 32768;
  pool.source_off = "no space\x1b left";
  const std::string text = pool_status_text(snapshot(1, pool), nullptr);
  CHECK_THAT(text, Contains("from disk 20 (20.0 %)"));
  CHECK_THAT(text, Contains("  disk     7 pages, 3.0 MiB of 4.0 GiB; 1 read, 16.0 KiB; 2 written, "
                            "32.0 KiB\n           not used for a while: no space"));
  pool.disk_broken = 3;
  CHECK_THAT(pool_status_text(snapshot(1, pool), nullptr),
             Contains("32.0 KiB\n           3 pages read other than written, so not used: `sluice "
                      "pool verify` of the folder says where\n           not used for a while"));
  CHECK(json_of(pool)["disk_broken"] == 3);
  CHECK_THAT(text, !Contains("\x1b"));
}

TEST_CASE("how long reads, writes and pulls took is shown of those that there were") {
  PoolReport pool = pulling(1);
  pool.source = PoolReport::Source::both;
  CHECK_THAT(pool_status_text(snapshot(1, pool), nullptr), !Contains("times"));
  CHECK_FALSE(json_of(pool).contains("times"));
  pool.disk_reads.add(1'000'000);
  pool.disk_reads.add(2'500'000);
  pool.disk_reads.add(-1);  // by a clock that others gave
  pool.pulls.add(30'000'000);
  CHECK(json_of(pool)["times"].dump() ==
        R"({"disk_read":{"count":3,"mean_us":1166,"most_us":2500},)"
        R"("pull":{"count":1,"mean_us":30000,"most_us":30000}})");
  CHECK_THAT(pool_status_text(snapshot(1, pool), nullptr),
             Contains("\n  times    a page read from disk 1.2 ms (2.5 at most), a pull from other "
                      "machines 30.0 ms (30.0 at most)\n"));
}

TEST_CASE("a folder beside other machines has a line and figures of its own") {
  PoolReport pool = pulling(1);
  pool.source = PoolReport::Source::both;
  pool.source_pages = 7;
  pool.source_bytes = 3U << 20U;
  pool.source_bytes_most = 4ULL << 30U;
  pool.disk_read = 2;
  pool.disk_written = 3;
  pool.disk_tokens = 5;
  std::string text = pool_status_text(snapshot(1, pool), nullptr);
  CHECK_THAT(text, Contains("from disk 5 (5.0 %), from other machines 15 (15.0 %), computed"));
  CHECK_THAT(text,
             Contains("\n  disk     7 pages, 3.0 MiB of 4.0 GiB; 2 read, 32.0 KiB; 3 written, "
                      "48.0 KiB\n  machines 1 page pulled, 16.0 KiB; 0 served"));
  pool.source_off = "no space\x1b left";
  text = pool_status_text(snapshot(1, pool), nullptr);
  CHECK_THAT(text, Contains("\n           not used for a while: no space"));
  CHECK_THAT(text, !Contains("\x1b"));
  const auto json = json_of(pool);
  CHECK((json["source"] == "both" && json["from_disk"] == 5 && json["from_machines"] == 15));
  CHECK(json["disk"].dump() ==
        R"({"pages":7,"bytes":3145728,"bytes_most":4294967296,"read_pages":2,)"
        R"("written_pages":3,"broken_pages":0,"off":"no space\u001b left"})");
  CHECK_FALSE(json.contains("disk_pages"));
}

TEST_CASE("sessions are listed with their tokens, and those that are left out are counted") {
  PoolReport pool = pulling(1);
  pool.sessions = 5;
  pool.session_list.push_back({"ben", "", 7, 0, true, 0});
  const PoolSnapshot now = snapshot(1, pool);
  CHECK(pool_sessions_text(now) ==
        "read: kv, pages of models/one\n"
        "  anna (reader): 123 tokens, 120 of them in pages that it holds; idle for 3.2 s\n"
        "  ben: 7 tokens, is being answered\n"
        "  and 3 more\n");
  CHECK(pool_sessions_json(now)["pools"][0]["session_list"].size() == 2);
  pool.sessions = 0;
  pool.session_list.clear();
  CHECK_THAT(pool_sessions_text(snapshot(1, pool)), Contains("  no session\n"));
}

TEST_CASE("machines that load, end or are silent are named, and what has other types is nothing") {
  PoolSnapshot now;
  add_pools("read", {{"ready", false}}, now);
  add_pools("write", {{"ready", false}, {"ending", true}}, now);
  add_pools("none", {{"ready", true}}, now);
  add_pools("odd",
            {{"ready", true}, {"pools", {1, {{"name", 2}, {"pages", "x"}, {"age_ms", "x"}}}}}, now);
  now.pools.push_back({"dead", {}, "it does not answer"});
  const std::string text = pool_status_text(now, &now);
  CHECK_THAT(text, Contains("read: it loads its roles\nwrite: it ends\nodd: , pages of \n"
                            "  pages    0: 0 used"));
  CHECK_THAT(text, Contains("dead: it does not answer\n") && !Contains("none"));
  CHECK_THAT(pool_sessions_text(now), Contains("dead: it does not answer\n"));
  CHECK(pool_status_json(now, &now)["pools"][0]["silent"] == "it loads its roles");
}

TEST_CASE("bytes are said in the unit that fits") {
  CHECK(bytes_words(0) == "0 bytes");
  CHECK(bytes_words(10239) == "10239 bytes");
  CHECK(bytes_words(10240) == "10.0 KiB");
  CHECK(bytes_words(1024.0 * 1024) == "1.0 MiB");
  CHECK(bytes_words(3.5 * 1024 * 1024 * 1024 * 1024 * 1024) == "3584.0 TiB");
}

TEST_CASE("a watch draws at once and after each wait, until it is told to end or nobody reads") {
  int drawn = 0, waits = 0;
  std::string seen;
  const auto draw = [&] { return "draw " + std::to_string(++drawn) + "\n"; };
  watch({draw,
         [&](const std::string& text) {
           seen += text;
           return true;
         },
         [&] { return ++waits < 3; }},
        false);
  CHECK(seen == "draw 1\ndraw 2\ndraw 3\n");
  CHECK(waits == 3);
  watch({draw, [&](const std::string& text) { return (seen = text).empty(); },
         [&] { return ++waits < 9; }},
        true);
  CHECK(seen == "\x1b[H\x1b[2Jdraw 4\n");
  CHECK(waits == 3);  // nobody reads: it ends
}
