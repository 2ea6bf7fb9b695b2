// What bench_page_pull does by turns with other programs, as lines of standard input say (its words
// are in page_pull.cpp): pages got from the other process, put where it finds them, and given to
// it.
//
// Thread: one of each process. Units: seconds. Errors: they end the process, and say why.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <iostream>
#include <iterator>
#include <memory>
#include <optional>
#include <sstream>
#include <string>
#include <vector>

#include "bench/page_ways.h"

namespace sluice {

inline constexpr KvShape turn_shapes[] = {small_pages, {8, 1024, 16}, {32, 4096, 16}};
inline constexpr std::int32_t singles_most = 21;  // prompts of one page, numbered from 1 on
inline constexpr std::int32_t unmeasured =
    singles_most + 1;  // another: where pages stand is heard amid it

inline std::string name_of(const KvShape& shape) {
  return "bench-" + std::to_string(shape.page_bytes());
}

inline std::vector<std::int32_t> tokens_of_pages(const KvShape& shape, std::size_t count,
                                                 std::int32_t prompt) {
  return tokens_of(count * shape.page_tokens + 1, prompt);
}

/// Of one `give`: what is told before it, for each repetition, and at the end (a count of 0).
struct Given {
  std::size_t shape = 0, count = 0;
  std::int32_t prompt = -1;  // below 0: the pool is to be made, and nothing pulled
};

inline bool are_read(const Way& way, std::size_t bytes) {
  // Few bytes are not read where they stand, but out of memory that is mapped, as UCX's is here.
  return way.is_mapped || way.ucx || (way.tcp && bytes > KvPeers::early_most);
}

/// Into a pool that was touched, of as many pages as are given at once: what came before goes.
inline KeptPool pool_of(const Given& given, PeerPort& port) {
  const KvShape& shape = turn_shapes[given.shape];
  KeptPool kept = among(shape, given.count, port, name_of(shape) + "-given");
  std::memset(kept.pool->place(0), 0, given.count * shape.page_bytes());
  return kept;
}

/// What others give, until they say no more: pulled, verified, and said.
inline void take_given(const Way& way, PeerPort& port, int ready, int end) {
  KeptPool kept;
  Given given;
  while (read(end, &given, sizeof given) == sizeof given) {
    if (given.prompt < 0) {
      kept = {};  // its name is free before the next has it
      if (given.count > 0) kept = pool_of(given, port);
    } else {
      const KvShape& shape = turn_shapes[given.shape];
      const std::uint64_t before = kept.peers->counts().read;
      (void)pull_pages(kept, tokens_of_pages(shape, given.count, given.prompt));
      const bool is_read = are_read(way, given.count * shape.page_bytes());
      // The first time it may not be known yet where they stand.
      if (given.prompt > 0 && kept.peers->counts().read - before != (is_read ? given.count : 0))
        return std::fputs("pages came by another way\n", stderr), void();
    }
    if (write(ready, "x", 1) != 1) return;
  }
}

inline void serve_turns(const Way& way, int ready, int end) {
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
  if (write(ready, "x", 1) == 1) take_given(way, *port, ready, end);
}

/// Waits for its answer.
inline void tell(const Other& child, const Given& given) {
  char byte = 0;
  if (write(child.told, &given, sizeof given) == sizeof given && read(child.said, &byte, 1) == 1)
    return;
  std::fputs("the other process has ended\n", stderr);
  std::exit(1);
}

/// Seconds of each repetition, from where the pages stand in this process' pool, written in place
/// as an engine writes them, until the other process has said that it has them, verified.
inline std::vector<double> give_turn(PeerPort& port, const Other& child, Given given,
                                     std::int32_t repeats, const std::vector<float>& content) {
  const KvShape& shape = turn_shapes[given.shape];
  RowsOrigin origin;
  origin.model = "bench";
  const KeptPool kept = pool_of(given, port);
  KvPool& pool = *kept.pool;
  tell(child, given);
  std::vector<double> took;
  for (given.prompt = 0; given.prompt < repeats; ++given.prompt) {
    const auto tokens = tokens_of_pages(shape, given.count, given.prompt);
    Sequence pages = pool.open({});
    if (!pool.add_pages(pages, given.count).ok()) std::exit(1);
    for (std::size_t i = 0; i < given.count; ++i)
      std::memcpy(pool.place(pages.pages()[i]),
                  reinterpret_cast<const std::byte*>(content.data()) + i * shape.page_bytes(),
                  shape.page_bytes());
    const auto start = Clock::now();
    for (const PageKey& key : pool.keys_of(origin, tokens))
      if (!pool.publish_next(pages, key)) std::exit(1);
    tell(child, given);
    took.push_back(seconds_since(start));
  }
  tell(child, {given.shape, 0});
  return took;
}

/// Seconds of each repetition. Several pages: each time into another pool, which was touched. One
/// that is got: into a pool with room for it alone, that has had each of them before, as the peers'
/// memory is registered and was read before; else what is measured is the system's mapping it.
inline std::vector<double> take_turn(PeerPort& port, bool get, bool is_read, const KvShape& shape,
                                     std::size_t count, std::int32_t repeats,
                                     const std::vector<float>& content) {
  std::vector<double> took;
  KeptPool kept;
  for (std::int32_t i = 0; i < repeats; ++i) {
    if (i == 0 || count > 1) {
      kept = {};  // its name is free before the next has it
      kept = among(shape, get || count > 1 ? count : unmeasured, port, name_of(shape));
      std::memset(kept.pool->place(0), 0, kept.pool->pages() * shape.page_bytes());
      for (std::int32_t one = 1; get && count == 1 && one <= unmeasured; ++one)
        (void)pull_pages(kept, tokens_of_pages(shape, 1, one));
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

/// Does what one line says. None: it cannot.
inline std::optional<std::vector<double>> do_turn(const Way& way, PeerPort& port,
                                                  const Other& child, const std::string& line,
                                                  const std::vector<float>& content) {
  std::istringstream words(line);
  std::string what;
  std::size_t size = 0, count = 0;
  std::int32_t repeats = 0;
  words >> what >> size >> count >> repeats;
  const auto* shape = std::ranges::find(turn_shapes, size, &KvShape::page_bytes);
  if ((what != "get" && what != "put" && what != "give") || shape == std::end(turn_shapes) ||
      repeats < 1 || (count != 1 && count != all_bytes / size) ||
      (count == 1 && repeats > singles_most))
    return std::nullopt;
  if (what == "give")
    return give_turn(port, child, {static_cast<std::size_t>(shape - turn_shapes), count}, repeats,
                     content);
  return take_turn(port, what == "get", are_read(way, size * count), *shape, count, repeats,
                   content);
}

inline int turns(const std::string& way_name, const std::string& folder) {
  Way way{"ipc://" + folder + "/0", "ipc://" + folder + "/1"};
  if (way_name.starts_with("tcp"))
    way = tcp_way(way_name != "tcp-messages", way_name == "tcp-encrypted");
  if (way_name == "ipc") way.shared_bytes = std::size_t{128} << 20U;
  if (way_name == "ucx") way.ucx = UcxOptions{};
  way.is_mapped = way_name == "mapped";
  int status = 0;
  beside([&](int ready, int end) { serve_turns(way, ready, end); },
         [&](const Other& child) {
           const std::unique_ptr<PeerPort> port = port_of(way, 1);
           const std::vector<float> content = content_of(all_bytes);
           for (std::string line; status == 0 && std::getline(std::cin, line);) {
             const auto took = do_turn(way, *port, child, line, content);
             if (!took) {
               std::fprintf(stderr, "bench_page_pull: cannot do '%s'\n", line.c_str());
               status = 2;
               continue;
             }
             for (const double one : *took) std::printf("%.9f ", one);
             std::puts("");
             std::fflush(stdout);
           }
         });
  return status;
}

}  // namespace sluice
