// `sluice pool trace FILE --blocks N [--policy NAME]`: how many blocks of a trace a pool would
// keep.
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "cli/commands.h"
#include "cli/pool_store.h"
#include "dataplane/optimum.h"
#include "dataplane/replay.h"
#include "dataplane/trace.h"
#include "runtime/redis/page_index.h"

namespace sluice::cli {
namespace {

constexpr std::uint32_t most_blocks = 16u << 20;          // of the pool
constexpr std::uint64_t most_known_blocks = 64ULL << 20;  // of a trace that is kept whole

using File = std::unique_ptr<std::FILE, int (*)(std::FILE*)>;

/// A name, or `-`: standard input.
File open_trace(const std::string& name) {
  if (name == "-") return {stdin, [](std::FILE*) { return 0; }};
  return {std::fopen(name.c_str(), "rb"), std::fclose};
}

Result<void> read_trace(const std::string& path, const TraceReader::Take& take) {
  const std::string name = path == "-" ? "standard input" : path;
  const File file = open_trace(path);
  if (!file)
    return Error{ErrorCode::not_found, name + " cannot be opened: " + std::strerror(errno)};
  TraceReader reader;
  std::vector<char> bytes(1 << 16);
  while (const std::size_t got = std::fread(bytes.data(), 1, bytes.size(), file.get()))
    if (const auto fed = reader.feed({bytes.data(), got}, take); !fed)
      return Error{fed.error().code, name + ": " + fed.error().message};
  if (std::ferror(file.get()))
    return Error{ErrorCode::unavailable, name + " cannot be read: " + std::strerror(errno)};
  if (const auto ended = reader.end(take); !ended)
    return Error{ended.error().code, name + ": " + ended.error().message};
  if (reader.requests() == 0) return invalid_argument(name + ": no request in it");
  return {};
}

/// All that `--policy` takes.
std::vector<std::string> policies() {
  const auto names = eviction_names();
  std::vector<std::string> all(names.begin(), names.end());
  all.emplace_back("optimum");
  return all;
}

int print_hits(const std::string& name, std::uint64_t hits, std::uint64_t blocks) {
  if (blocks == 0) return fail(name + ": its requests have no blocks");
  std::printf("hit %.2f\n", 100.0 * static_cast<double>(hits) / static_cast<double>(blocks));
  return 0;
}

int replay_optimum(const std::string& name, std::uint32_t capacity) {
  Optimum optimum;
  bool is_too_long = false;
  const auto read = read_trace(name, [&](const TraceRequest& request) {
    is_too_long = is_too_long || optimum.blocks() + request.blocks.size() > most_known_blocks;
    if (!is_too_long) optimum.add(request.blocks);
  });
  if (!read) return fail(read.error().message);
  if (is_too_long)
    return fail(name + ": more than " + std::to_string(most_known_blocks) +
                " block references; the optimum keeps them all, the other policies do not");
  return print_hits(name, optimum.hits(capacity), optimum.blocks());
}

int replay(const std::string& name, std::uint32_t capacity, const std::string& policy) {
  if (policy == "optimum") return replay_optimum(name, capacity);
  const PoolSize size{capacity, capacity + static_cast<std::uint32_t>(most_trace_blocks)};
  auto made = make_eviction(policy, size);
  if (!made) return fail(made.error().message + ", optimum");
  Replay pool(size, std::move(*made));
  std::uint64_t hits = 0, blocks = 0;
  const auto read = read_trace(name, [&](const TraceRequest& request) {
    hits += pool.request(request.timestamp_ms, request.blocks);
    blocks += request.blocks.size();
  });
  return read ? print_hits(name, hits, blocks) : fail(read.error().message);
}

}  // namespace

void add_pool(Command app, Chosen& chosen) {
  struct Options {
    std::string file;
    std::uint32_t blocks = 0;
    std::string policy{eviction_names().front()};
  };
  auto options = std::make_shared<Options>();
  Command pool =
      app.add_subcommand("pool", "The pool of pages: what it holds, and what it would keep");
  pool.require_subcommand();
  add_pool_status(pool, chosen);
  add_pool_store(pool, chosen);
  pool.add_subcommand("functions",
                      "Print what a Redis server that others share must have loaded: pipe it to "
                      "`redis-cli -x FUNCTION LOAD`")
      .callback([&chosen] {
        chosen = [] {
          const std::string_view text = page_index_functions();
          return std::fwrite(text.data(), 1, text.size(), stdout) == text.size() ? 0 : 1;
        };
      });
  Command command = pool.add_subcommand("trace", "Replay a trace; print the blocks that hit, in %");
  command
      .add_option("file", options->file,
                  "A trace in Mooncake's format (JSON lines); - reads standard input")
      .required();
  command.add_option("--blocks", options->blocks, "Blocks that the pool holds")
      .required()
      .check(Range(1u, most_blocks));
  command
      .add_option("--policy", options->policy, "Which block goes first; optimum: the most possible")
      .one_of(policies());
  command.callback([&chosen, options] {
    chosen = [options] { return replay(options->file, options->blocks, options->policy); };
  });
}

}  // namespace sluice::cli
