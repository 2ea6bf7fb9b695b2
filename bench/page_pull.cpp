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
// programs in between); single pages were read once before. `messages`: over ipc. Over tcp they are
// read where they stand, or come in messages. A `get` that came by another way ends it:
//   get SIZE COUNT REPEATS   COUNT pages of SIZE bytes (65536, 1048576, 16777216; 64 MiB together,
//                            or one) from the other process into a pool that has none of them
//   put SIZE COUNT REPEATS   from memory into this process's pool, where others find them
#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <functional>
#include <iostream>
#include <optional>
#include <sstream>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "base/crc32c.h"
#include "bench/iperf3.h"
#include "bench/other_program.h"
#include "bench/raw_socket.h"
#include "bench/ucx_perftest.h"
#include "bench/usage.h"
#include "engine/family/model.h"
#include "engine/storage/kept_pool.h"
#include "engine/tasks/generator.h"
#include "runtime/peer_channels.h"
#include "runtime/shm/mapped_memory.h"
#include "runtime/tcp/tcp_memory.h"
#include "runtime/ucx/ucx_memory.h"
#include "runtime/zmq/zmq_transport.h"

using namespace sluice;

namespace {

constexpr KvShape small_pages{8, 64, 16};  // 64 KiB
constexpr std::size_t pages = all_bytes / page_bytes;

double median(std::vector<double> of) {
  std::ranges::sort(of);
  return of[of.size() / 2];
}

struct Way {
  std::string server, client;          // addresses
  std::size_t shared_bytes = 0;        // of memory that both have
  std::optional<UcxOptions> ucx = {};        // pages are read by it
  std::optional<TcpMemoryOptions> tcp = {};  // or by this
  bool is_mapped = false;                    // or out of memory that both map
  bool preloads = false;                     // the client
};

template <typename T>
T or_exit(Result<T> made) {
  if (made.ok()) return std::move(made).value();
  std::fprintf(stderr, "%s\n", made.error().message.c_str());
  std::exit(1);
}

std::unique_ptr<PeerPort> port_of(const Way& way, std::uint32_t machine,
                                  std::uint32_t incarnation = 1) {
  PeerPortOptions port;
  port.self = {machine, incarnation};
  port.connect = [&way, machine](Origin self) {
    ZmqOptions options;
    options.self = self;
    options.bind = machine == 0 ? way.server : way.client;
    options.peers = {{1 - machine, machine == 0 ? way.client : way.server, ""}};
    options.shared_bytes = way.shared_bytes;
    options.cluster = "bench";
    return make_zmq_transport(std::move(options));
  };
  if (way.ucx) port.memory = or_exit(make_ucx_memory(*way.ucx));
  if (way.tcp) port.memory = or_exit(make_tcp_memory(*way.tcp));
  if (way.is_mapped) {
    MappedMemoryOptions options;
    options.socket =
        (machine == 0 ? way.server : way.client).substr(std::strlen("ipc://")) + ".region";
    port.memory = or_exit(make_mapped_memory(options));
  }
  port.preloads = way.preloads && machine == 1;
  return or_exit(make_peer_port(std::move(port)));
}

/// Those of another `prompt` share no page.
std::vector<std::int32_t> tokens_of(std::size_t count, std::int32_t prompt = 0) {
  std::vector<std::int32_t> tokens;
  for (std::size_t i = 0; i < count; ++i) tokens.push_back(static_cast<std::int32_t>(i * 7 % 97));
  tokens[0] = prompt;
  return tokens;
}

/// Until the parent closes its end.
void wait_for_end(int end) {
  char byte = 0;
  while (read(end, &byte, 1) > 0) continue;
}

/// A child that serves while `body` runs, which is told the child's process.
void beside(const std::function<void(int ready, int end)>& serve,
            const std::function<void(pid_t child)>& body) {
  int ready[2], end[2];
  if (pipe(ready) != 0 || pipe(end) != 0) std::exit(1);
  const pid_t child = fork();
  if (child == 0) {
    close(end[1]);
    serve(ready[1], end[0]);
    _exit(0);
  }
  close(end[0]);
  close(ready[1]);
  char byte = 0;
  if (read(ready[0], &byte, 1) == 1) body(child);
  close(end[1]);
  close(ready[0]);
  waitpid(child, nullptr, 0);
}

KeptPool among(const KvShape& shape, std::size_t room, PeerPort& port,
               const std::string& name = "bench") {
  return std::move(KeptPool::make_among(shape, room, port, name)).value();
}

/// All pages of a prompt, into a pool that has none of them.
double pull_pages(KeptPool& kept, const std::vector<std::int32_t>& tokens) {
  RowsOrigin origin;
  origin.model = "bench";
  const auto until = Clock::now() + std::chrono::seconds(10);
  auto start = Clock::now();
  while (!kept.peers->begin(1, origin, tokens, {}, engine_clock()) && Clock::now() < until) {
    std::this_thread::yield();  // until the other side is heard
    start = Clock::now();
  }
  std::vector<PageSource::Ready> ready;
  while (ready.empty() && Clock::now() < until)
    kept.peers->poll(engine_clock(), ready, std::chrono::milliseconds(100));
  const double took = seconds_since(start);
  const std::size_t page_tokens = kept.pool->shape().page_tokens;
  if (ready.empty() || ready[0].tokens != tokens.size() / page_tokens * page_tokens) {
    std::fprintf(stderr, "only %zu tokens came\n", ready.empty() ? 0 : ready[0].tokens);
    std::exit(1);
  }
  return took;
}

/// A prompt's pages, each with what stands at its place in `content`: from their keys on.
double put_pages(KvPool& pool, const std::vector<std::int32_t>& tokens,
                 const std::vector<float>& content) {
  const auto start = Clock::now();
  RowsOrigin origin;
  origin.model = "bench";
  const std::vector<PageKey> keys = pool.keys_of(origin, tokens);
  std::vector<const std::byte*> contents;
  for (std::size_t i = 0; i < keys.size(); ++i)
    contents.push_back(reinterpret_cast<const std::byte*>(content.data()) +
                       i * pool.shape().page_bytes());
  Sequence behind = pool.open({});
  if (pool.put(behind, keys, contents) != keys.size()) std::exit(1);
  return seconds_since(start);
}

std::vector<float> content_of(std::size_t bytes) {
  std::vector<float> content(bytes / sizeof(float));
  for (std::size_t i = 0; i < content.size(); ++i) content[i] = static_cast<float>(i % 8191);
  return content;
}

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
      [&](pid_t child) {
        const int socket = dialed(tcp, raw, 47313);
        const Rounds rounds = pull_by_turns(way, socket, child);
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

Way ipc_way(const std::string& folder, std::size_t shared_bytes) {
  return {"ipc://" + folder + "/0", "ipc://" + folder + "/1", shared_bytes};
}

Way mapped_way(const std::string& folder) {
  Way way = ipc_way(folder, 0);
  way.is_mapped = true;
  return way;
}

Way tcp_way(bool is_read, bool is_encrypted = false) {
  const int port = is_encrypted ? 47319 : is_read ? 47311 : 47317;  // several may run at once
  const std::string host = "tcp://127.0.0.1:";
  Way way{host + std::to_string(port), host + std::to_string(port + 1)};
  if (is_read) way.tcp = TcpMemoryOptions{.host = "127.0.0.1", .is_encrypted = is_encrypted};
  return way;
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
      [&](pid_t) {
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

constexpr KvShape turn_shapes[] = {small_pages, {8, 1024, 16}, {32, 4096, 16}};
constexpr std::int32_t singles_most = 21;  // prompts of one page, numbered from 1 on
constexpr std::int32_t unmeasured =
    singles_most + 1;  // another: where pages stand is heard amid it

std::string name_of(const KvShape& shape) { return "bench-" + std::to_string(shape.page_bytes()); }

std::vector<std::int32_t> tokens_of_pages(const KvShape& shape, std::size_t count,
                                          std::int32_t prompt) {
  return tokens_of(count * shape.page_tokens + 1, prompt);
}

void serve_turns(const Way& way, int ready, int end) {
  const std::unique_ptr<PeerPort> port = port_of(way, 0);
  const std::vector<float> content = content_of(all_bytes);
  std::vector<KeptPool> kept;
  for (const KvShape& shape : turn_shapes) {
    const std::size_t count = all_bytes / shape.page_bytes();
    kept.push_back(among(shape, count + unmeasured, *port, name_of(shape)));
    put_pages(*kept.back().pool, tokens_of_pages(shape, count, 0), content);
    for (std::int32_t one = 1; one <= unmeasured; ++one)
      put_pages(*kept.back().pool, tokens_of_pages(shape, 1, one), content);
  }
  if (write(ready, "x", 1) == 1) wait_for_end(end);
}

/// Seconds of each repetition. Several pages: each time into another pool, which was touched.
std::vector<double> take_turn(PeerPort& port, bool get, bool is_read, const KvShape& shape,
                              std::size_t count, std::int32_t repeats,
                              const std::vector<float>& content) {
  std::vector<double> took;
  KeptPool kept;
  for (std::int32_t i = 0; i < repeats; ++i) {
    if (i == 0 || count > 1) {
      kept = {};  // its name is free before the next has it
      kept = among(shape, count > 1 ? count : unmeasured, port, name_of(shape));
      std::memset(kept.pool->place(0), 0, kept.pool->pages() * shape.page_bytes());
      if (get && count == 1) (void)pull_pages(kept, tokens_of_pages(shape, 1, unmeasured));
    }
    const auto tokens = tokens_of_pages(shape, count, count > 1 ? 0 : i + 1);
    const std::uint64_t read_before = kept.peers->counts().read;
    took.push_back(get ? pull_pages(kept, tokens) : put_pages(*kept.pool, tokens, content));
    const std::uint64_t read = kept.peers->counts().read - read_before;
    if (read != (get && is_read ? count : 0)) {
      std::fprintf(stderr, "pages came by another way\n");
      std::exit(1);
    }
  }
  return took;
}

/// As the peers' objects are: the owner of a page sums it when it is first read.
void read_singles(PeerPort& port) {
  for (const KvShape& shape : turn_shapes) {
    KeptPool kept = among(shape, unmeasured, port, name_of(shape));
    for (std::int32_t one = 1; one <= unmeasured; ++one)
      (void)pull_pages(kept, tokens_of_pages(shape, 1, one));
  }
}

int turns(const std::string& way_name, const std::string& folder) {
  Way way{"ipc://" + folder + "/0", "ipc://" + folder + "/1"};
  if (way_name.starts_with("tcp"))
    way = tcp_way(way_name != "tcp-messages", way_name == "tcp-encrypted");
  if (way_name == "ipc") way.shared_bytes = std::size_t{128} << 20U;
  if (way_name == "ucx") way.ucx = UcxOptions{};
  way.is_mapped = way_name == "mapped";
  int status = 0;
  beside([&](int ready, int end) { serve_turns(way, ready, end); },
         [&](pid_t) {
           const std::unique_ptr<PeerPort> port = port_of(way, 1);
           const std::vector<float> content = content_of(all_bytes);
           read_singles(*port);
           for (std::string line; status == 0 && std::getline(std::cin, line);) {
             std::istringstream words(line);
             std::string what;
             std::size_t size = 0, count = 0;
             std::int32_t repeats = 0;
             words >> what >> size >> count >> repeats;
             const auto* shape = std::ranges::find(turn_shapes, size, &KvShape::page_bytes);
             if ((what != "get" && what != "put") || shape == std::end(turn_shapes) ||
                 repeats < 1 || (count != 1 && count != all_bytes / size) ||
                 (count == 1 && repeats > singles_most)) {
               std::fprintf(stderr, "bench_page_pull: cannot do '%s'\n", line.c_str());
               status = 2;
               continue;
             }
             // Few bytes are not read where they stand, but out of memory that is mapped.
             const bool get = what == "get", is_small = size * count <= KvPeers::early_most;
             const bool is_read = way.is_mapped || ((way.tcp || way.ucx) && !is_small);
             for (const double one :
                  take_turn(*port, get, is_read, *shape, count, repeats, content))
               std::printf("%.9f ", one);
             std::puts("");
             std::fflush(stdout);
           }
         });
  return status;
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
      [&](pid_t) {
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
