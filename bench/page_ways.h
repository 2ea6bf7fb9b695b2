// Two processes with a pool each, on one computer, and the ways on which pages go between them.
//
// Thread: one of each process. Errors: they end the process, and say why.
#pragma once

#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "bench/raw_socket.h"
#include "engine/storage/kept_pool.h"
#include "engine/tasks/generator.h"
#include "runtime/peer_channels.h"
#include "runtime/shm/mapped_memory.h"
#include "runtime/tcp/tcp_memory.h"
#include "runtime/ucx/ucx_memory.h"
#include "runtime/zmq/zmq_transport.h"

namespace sluice {

inline constexpr KvShape small_pages{8, 64, 16};  // 64 KiB

inline double median(std::vector<double> of) {
  std::ranges::sort(of);
  return of[of.size() / 2];
}

struct Way {
  std::string server, client;                // addresses
  std::size_t shared_bytes = 0;              // of memory that both have
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

inline std::unique_ptr<PeerPort> port_of(const Way& way, std::uint32_t machine,
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
inline std::vector<std::int32_t> tokens_of(std::size_t count, std::int32_t prompt = 0) {
  std::vector<std::int32_t> tokens;
  for (std::size_t i = 0; i < count; ++i) tokens.push_back(static_cast<std::int32_t>(i * 7 % 97));
  tokens[0] = prompt;
  return tokens;
}

/// Until the parent closes its end.
inline void wait_for_end(int end) {
  char byte = 0;
  while (read(end, &byte, 1) > 0) continue;
}

/// The child: what it says, and what it is told, through pipes.
struct Other {
  pid_t process = 0;
  int said = -1, told = -1;
};

/// A child that serves while `body` runs, behind its first byte.
inline void beside(const std::function<void(int ready, int end)>& serve,
                   const std::function<void(const Other& child)>& body) {
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
  if (read(ready[0], &byte, 1) == 1) body({child, ready[0], end[1]});
  close(end[1]);
  close(ready[0]);
  waitpid(child, nullptr, 0);
}

inline KeptPool among(const KvShape& shape, std::size_t room, PeerPort& port,
                      const std::string& name = "bench") {
  return std::move(KeptPool::make_among(shape, room, port, name)).value();
}

/// All pages of a prompt, into a pool that has none of them.
inline double pull_pages(KeptPool& kept, const std::vector<std::int32_t>& tokens) {
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
inline double put_pages(KvPool& pool, const std::vector<std::int32_t>& tokens,
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

inline std::vector<float> content_of(std::size_t bytes) {
  std::vector<float> content(bytes / sizeof(float));
  for (std::size_t i = 0; i < content.size(); ++i) content[i] = static_cast<float>(i % 8191);
  return content;
}

inline Way ipc_way(const std::string& folder, std::size_t shared_bytes) {
  return {"ipc://" + folder + "/0", "ipc://" + folder + "/1", shared_bytes};
}

inline Way mapped_way(const std::string& folder) {
  Way way = ipc_way(folder, 0);
  way.is_mapped = true;
  return way;
}

inline Way tcp_way(bool is_read, bool is_encrypted = false) {
  const int port = is_encrypted ? 47319 : is_read ? 47311 : 47317;  // several may run at once
  const std::string host = "tcp://127.0.0.1:";
  Way way{host + std::to_string(port), host + std::to_string(port + 1)};
  if (is_read) way.tcp = TcpMemoryOptions{.host = "127.0.0.1", .is_encrypted = is_encrypted};
  return way;
}

}  // namespace sluice
