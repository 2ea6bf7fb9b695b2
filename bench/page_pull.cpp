// Pages pulled from another process, beside the same bytes through a socket and through memcpy; and
// the time to the first token by pulling a prompt's pages, by having preloaded them, and by
// computing them.
//
// Usage: bench_page_pull [MODEL [TOKENS]] | bench_page_pull --ucx [DEVICES]
//        bench_page_pull --tcp | bench_page_pull --ipc
//        bench_page_pull --turns mapped|ipc|messages|tcp|tcp-encrypted|tcp-messages|ucx
// First 1,024 pages of 64 KiB over ipc (read where they stand in memory that both map, copied into
// memory that both have, and in messages) and over tcp on the loopback, without keys, in messages,
// read where they stand, and so encrypted (--ipc, --tcp: these alone): pull (question, pages,
// checks, into the pool) and a raw socket of the same kind, by turns, medians of fifteen, two
// prompts by turns into a pool that has room for one; and the same of the processor time that both
// processes took, which says less of what else the computer does. Beside reads over tcp iperf3,
// where it is installed (bench/iperf3.h says what it does differently). With --ucx such pages read
// over UCX, on this computer or over RDMA DEVICES ("mlx5_0:1"): two prompts by turns into a pool
// that has room for one, so that all memory was used before (the first time of each beside it). By
// turns with it: ucx_perftest's gets of 64 KiB (always the same, so from the cache), of 64 MiB, and
// of 64 MiB by two threads at once, over the same transports. It warms up before it measures, and
// so do pulls (beside them those that come first, right behind other programs). And what is done
// with each page, a copy with its checksum, by one thread without anything else. With MODEL (a
// checkpoint's directory or a GGUF file), a prompt of TOKENS (512), out of memory that both map,
// medians of five, by turns. With --turns it does what standard input says, line by line, and
// answers each with a line of seconds, one number a repetition (pool_peers.py asks so, with others'
// programs in between); a single page that is got goes into a pool with room for it alone, in which
// each was before. `messages`: over ipc. Over tcp they are read where they stand, or come in
// messages. A `get` that came by another way ends it:
//   get SIZE COUNT REPEATS   COUNT pages of SIZE bytes (65536, 1048576, 16777216; 64 MiB together,
//                            or one) from the other process into a pool that has none of them
//   put SIZE COUNT REPEATS   from memory into this process's pool, where others find them
//   give SIZE COUNT REPEATS  pages that stand in this process's pool, where an engine has written
//                            them in place, into the other process's: published here and pulled
//                            there, from their keys on until the other has said that it has them
//                            all, verified. Both pools were used before, and have room for no more
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/crc32c.h"
#include "bench/iperf3.h"
#include "bench/other_program.h"
#include "bench/page_turns.h"
#include "bench/page_ways.h"
#include "bench/raw_socket.h"
#include "bench/ucx_perftest.h"
#include "bench/usage.h"
#include "engine/family/model.h"
#include "engine/tasks/generator.h"

using namespace sluice;

namespace {

constexpr std::size_t pages = all_bytes / page_bytes;

/// Two prompts that share no page.
std::vector<std::vector<std::int32_t>> two_prompts() {
  const std::size_t count = pages * small_pages.page_tokens + 1;
  return {tokens_of(count, 0), tokens_of(count, 1)};
}

struct Rounds {
  std::vector<double> pulled, streamed, copied, ratios;  // seconds; their ratio in one round
  std::vector<double> pull_busy, stream_busy;            // processor seconds of both sides
  std::vector<double> iperf3;                            // bytes a second
};

/// Each prompt takes the other's place in a pool that has room for one, so all memory was used
/// before, as the raw socket's was.
Rounds pull_by_turns(const Way& way, int socket, pid_t child) {
  const std::unique_ptr<PeerPort> port = port_of(way, 1);
  const auto prompts = two_prompts();
  KeptPool kept = among(small_pages, pages, *port);
  std::vector<char> to(all_bytes), from(all_bytes, 'y');
  Rounds rounds;
  for (std::size_t i = 0; i < 17; ++i) {
    const double busy = busy_seconds(child);
    const double ours = pull_pages(kept, prompts[i % 2]);
    const double busy_pulled = busy_seconds(child);
    const double theirs = pull_raw(socket, to);
    const double busy_streamed = busy_seconds(child);
    const auto start = Clock::now();
    std::memcpy(to.data(), from.data(), all_bytes);
    const double copy = seconds_since(start);
    if (kept.peers->counts().read != (way.tcp || way.is_mapped ? (i + 1) * pages : 0)) {
      std::fprintf(stderr, "pages came by another way\n");
      std::exit(1);
    }
    if (i < 2) continue;  // what was never touched
    if (way.tcp) rounds.iperf3.push_back(iperf3_rate());
    rounds.pulled.push_back(ours);
    rounds.streamed.push_back(theirs);
    rounds.copied.push_back(copy);
    rounds.ratios.push_back(theirs / ours);
    rounds.pull_busy.push_back(busy_pulled - busy);
    rounds.stream_busy.push_back(busy_streamed - busy_pulled);
  }
  return rounds;
}

void bench_bytes(const char* name, const Way& way, const std::string& folder) {
  const bool tcp = way.server.starts_with("tcp:");
  const std::string raw = folder + "/raw";
  beside(
      [&](int ready, int end) {
        const std::unique_ptr<PeerPort> port = port_of(way, 0);
        const KeptPool kept = among(small_pages, 2 * pages + 8, *port);
        for (const auto& tokens : two_prompts())
          put_pages(*kept.pool, tokens, content_of(all_bytes));
        const int listener = listening(tcp, raw, 47313);
        if (write(ready, "x", 1) != 1) return;
        serve_raw(listener);
        wait_for_end(end);
      },
      [&](const Other& child) {
        const int socket = dialed(tcp, raw, 47313);
        const Rounds rounds = pull_by_turns(way, socket, child.process);
        close(socket);
        const auto rate = [](double seconds) { return all_bytes / seconds / 1e9; };
        const auto [least, most] = std::ranges::minmax(rounds.ratios);
        std::printf(
            "%s: pull %.2f GB/s, raw socket %.2f (ratio %.2f; of one round %.2f to %.2f, median "
            "%.2f), memcpy %.2f; processor time of both sides %.1f ms, raw socket %.1f (ratio "
            "%.2f)\n",
            name, rate(median(rounds.pulled)), rate(median(rounds.streamed)),
            median(rounds.streamed) / median(rounds.pulled), least, most, median(rounds.ratios),
            rate(median(rounds.copied)), 1e3 * median(rounds.pull_busy),
            1e3 * median(rounds.stream_busy),
            median(rounds.stream_busy) / median(rounds.pull_busy));
        if (const double other = rounds.iperf3.empty() ? 0 : median(rounds.iperf3); other > 0)
          std::printf("  iperf3 %.2f GB/s (ratio %.2f)\n", other / 1e9,
                      rate(median(rounds.pulled)) / (other / 1e9));
        std::fflush(stdout);
      });
}

void bench_ipc(const std::string& folder) {
  bench_bytes("ipc, read where they stand", mapped_way(folder), folder);
  bench_bytes("ipc, in memory that both have", ipc_way(folder, std::size_t{128} << 20U), folder);
  bench_bytes("ipc, in messages", ipc_way(folder, 0), folder);
}

void bench_tcp(const std::string& folder) {
  bench_bytes("tcp, in messages", tcp_way(false), folder);
  bench_bytes("tcp, read where they stand", tcp_way(true), folder);
  bench_bytes("tcp, read where they stand, encrypted", tcp_way(true, true), folder);
}

/// Bytes a second of a copy with a checksum of each page, as of one that is read.
double work_rate(const std::vector<std::byte>& from, std::vector<std::byte>& to) {
  std::uint32_t sum = 0;
  const auto start = Clock::now();
  for (std::size_t at = 0; at < all_bytes; at += page_bytes)
    sum ^= copy_with_crc32c(std::span(from).subspan(at, page_bytes), to.data() + at);
  const double took = seconds_since(start);
  if (sum == 1) std::puts("");  // it is wanted
  return all_bytes / took / 1e9;
}

void bench_ucx(const std::string& devices, const std::string& folder) {
  setenv(devices.empty() ? "UCX_TLS" : "UCX_NET_DEVICES",
         devices.empty() ? "sysv" : devices.c_str(), 1);  // as `make_ucx_memory` does
  if (!devices.empty()) setenv("UCX_TLS", "rc,dc", 1);
  const Way way{"ipc://" + folder + "/4", "ipc://" + folder + "/5", 0, UcxOptions{devices}};
  std::vector<std::int32_t> prompts[2];
  for (const std::int32_t prompt : {0, 1})
    prompts[prompt] = tokens_of(pages * small_pages.page_tokens + 1, prompt);
  beside(
      [&](int ready, int end) {
        const std::unique_ptr<PeerPort> port = port_of(way, 0);
        const KeptPool kept = among(small_pages, 2 * pages + 8, *port);
        for (const auto& tokens : prompts) put_pages(*kept.pool, tokens, content_of(all_bytes));
        if (write(ready, "x", 1) == 1) wait_for_end(end);
      },
      [&](const Other&) {
        const std::unique_ptr<PeerPort> port = port_of(way, 1);
        // Each prompt takes the other's place.
        KeptPool kept = among(small_pages, pages, *port);
        const std::vector<std::byte> from(all_bytes, std::byte{1});
        std::vector<std::byte> to(all_bytes);
        std::vector<double> first, cold, pulled, worked, same, large, two;
        std::size_t pulls = 0;
        const auto pull = [&] {
          const double ours = all_bytes / pull_pages(kept, prompts[pulls % 2]) / 1e9;
          if (kept.peers->counts().read != ++pulls * pages) {
            std::fprintf(stderr, "pages came in messages\n");
            std::exit(1);
          }
          return ours;
        };
        for (int i = 0; i < 2; ++i) first.push_back(pull());
        for (int i = 0; i < 10; ++i) {
          cold.push_back(pull());
          for (int j = 0; j < perftest_warm_up(4); ++j) pull();
          for (int j = 0; j < 4; ++j) pulled.push_back(pull());
          worked.push_back(work_rate(from, to));
          same.push_back(perftest_rate(page_bytes, 4 * pages) / 1e9);
          large.push_back(perftest_rate(all_bytes, 16) / 1e9);
          two.push_back(perftest_rate(all_bytes, 16, 2) / 1e9);
        }
        std::printf(
            "ucx%s: pull %.2f GB/s (right behind other programs %.2f, what was never read before "
            "%.2f), a copy with its checksum by "
            "one thread %.2f (ratio %.2f), ucx_perftest's gets of the same 64 KiB %.2f (ratio "
            "%.2f), of 64 MiB %.2f (ratio %.2f), by two threads %.2f (ratio %.2f)\n",
            devices.empty() ? "" : (" over " + devices).c_str(), median(pulled), median(cold),
            median(first), median(worked), median(pulled) / median(worked), median(same),
            median(pulled) / median(same), median(large), median(pulled) / median(large),
            median(two), median(pulled) / median(two));
      });
}

/// Until its first token.
double first_token(const Model& model, KeptPool& kept, std::size_t tokens, std::size_t& computed) {
  Generation one;
  one.id = 1;
  one.options.tokens_max = 1;
  one.history = tokens_of(tokens);
  one.origin.model = "bench";
  model.text().embed(one.history, one.rows);
  Generator generator(model.text(), *kept.pool, nullptr, Budget{});
  generator.use(kept.source());
  const auto start = Clock::now();
  generator.add(std::move(one));
  std::vector<std::uint64_t> advanced;
  computed = 0;
  while (generator.find(1)->tokens.empty()) {
    generator.step(advanced);
    computed += generator.last_tokens();
  }
  return seconds_since(start);
}

/// All that the other process has published, before anybody asks for it. Returns how long that
/// took.
double preload_all(KeptPool& kept, std::size_t all) {
  const auto start = Clock::now();
  while (kept.peers->counts().preloads->taken < all && seconds_since(start) < 5)
    (void)kept.peers->preload({}, 0, engine_clock());
  return seconds_since(start);
}

void bench_first_token(const std::string& path, std::size_t tokens, const std::string& folder) {
  Way way{"ipc://" + folder + "/2", "ipc://" + folder + "/3"};
  way.is_mapped = way.preloads = true;
  const std::size_t room = tokens / 16 + 8;
  beside(
      [&](int ready, int end) {
        const Model model = Model::open(path).value();
        const std::unique_ptr<PeerPort> port = port_of(way, 0);
        KeptPool kept = among(model.text().kv_shape(16), room, *port);
        std::size_t computed = 0;
        (void)first_token(model, kept, tokens, computed);
        if (write(ready, "x", 1) != 1) return;
        wait_for_end(end);
      },
      [&](const Other&) {
        const Model model = Model::open(path).value();
        const std::unique_ptr<PeerPort> port = port_of(way, 1);
        std::vector<double> pulled, alone, ahead, preload;
        std::size_t rows = 0, computed = 0;
        for (int i = 0; i < 6; ++i) {
          KeptPool none = std::move(KeptPool::make(model.text().kv_shape(16), room, "", 0)).value();
          const double by_computing = first_token(model, none, tokens, computed);
          KeptPool kept = among(model.text().kv_shape(16), room, *port);
          std::vector<PageSource::Ready> ready;
          const auto until = Clock::now() + std::chrono::seconds(5);
          RowsOrigin nobody;
          nobody.model = "nobody's";
          while (!kept.peers->begin(9, nobody, tokens_of(40), {}, engine_clock()) &&
                 Clock::now() < until)
            continue;
          while (kept.peers->is_waited_for()) kept.peers->poll(engine_clock(), ready, {});
          const double by_pulling = first_token(model, kept, tokens, rows);
          const std::size_t all = kept.peers->counts().pulled;
          kept = {};  // its name is free before the next has it
          kept = among(model.text().kv_shape(16), room, *port);
          const double preloading = preload_all(kept, all);
          const double by_preload = first_token(model, kept, tokens, rows);
          if (kept.peers->counts().pulled != all) std::fprintf(stderr, "more was pulled\n");
          if (i == 0) continue;
          ahead.push_back(by_preload);
          preload.push_back(preloading);
          alone.push_back(by_computing);
          pulled.push_back(by_pulling);
        }
        std::printf(
            "first token of %zu: %.1f ms preloaded (that took %.1f ms before), %.1f ms by pulling "
            "(%zu tokens computed), %.1f ms by computing (%zu): %.1f and %.1f x\n",
            tokens, median(ahead) * 1e3, median(preload) * 1e3, median(pulled) * 1e3, rows,
            median(alone) * 1e3, computed, median(alone) / median(ahead),
            median(alone) / median(pulled));
      });
}

}  // namespace

int main(int count, char** arguments) {
  constexpr const char* usage =
      "usage: bench_page_pull [MODEL [TOKENS]] | --ucx [DEVICES] | --tcp | --ipc | "
      "--turns mapped|ipc|messages|tcp|tcp-encrypted|tcp-messages|ucx";
  if (const auto status = usage_status(count, arguments, usage,
                                       {"--turns", "--ucx", "--tcp", "--ipc"}))
    return *status;
  char name[] = "/tmp/bench-page-pull-XXXXXX";
  if (mkdtemp(name) == nullptr) return 1;
  if (count > 1 && std::string(arguments[1]) == "--turns") {
    const std::string way = count == 3 ? arguments[2] : "";
    constexpr std::string_view ways[] = {"mapped",        "ipc",          "messages", "tcp",
                                         "tcp-encrypted", "tcp-messages", "ucx"};
    const bool known = std::ranges::find(ways, way) != std::end(ways);
    if (!known) std::fprintf(stderr, "%s\n", usage);
    const int status = known ? turns(way, name) : 2;
    std::filesystem::remove_all(name);
    return status;
  }
  const std::string only = count > 1 ? arguments[1] : "";
  if (only == "--ucx" || only == "--tcp" || only == "--ipc") {
    if (only == "--tcp") bench_tcp(name);
    if (only == "--ipc") bench_ipc(name);
    if (only == "--ucx") bench_ucx(count > 2 ? arguments[2] : "", name);
    std::filesystem::remove_all(name);
    return 0;
  }
  bench_ipc(name);
  bench_tcp(name);
  if (count > 1)
    bench_first_token(arguments[1],
                      count > 2 ? static_cast<std::size_t>(std::atoi(arguments[2])) : 512, name);
  std::filesystem::remove_all(name);
  return 0;
}
