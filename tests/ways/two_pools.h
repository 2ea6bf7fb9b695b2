// Two machines of one process with a pool of small pages each, and a way for their content.
#pragma once

#include <algorithm>
#include <catch2/catch.hpp>
#include <chrono>
#include <cstring>
#include <string>

#include "base/random.h"
#include "engine/storage/kept_pool.h"
#include "engine/storage/storage_clock.h"
#include "mapped_ways.h"
#include "one_memory.h"
#include "runtime/tcp/tcp_memory.h"
#include "runtime/ucx/ucx_memory.h"
#include "tests/peer_hub.h"
#include "told_answers.h"

namespace sluice {

/// How the content of a page travels.
enum class Way : std::uint8_t { message, body, one_memory, ucx, tcp, tcp_encrypted, mapped };
inline constexpr Way all_ways[] = {Way::message, Way::body,          Way::one_memory, Way::ucx,
                                   Way::tcp,     Way::tcp_encrypted, Way::mapped};
/// Of those, where a reader reads by itself.
inline constexpr Way read_ways[] = {Way::one_memory, Way::ucx, Way::tcp, Way::tcp_encrypted,
                                    Way::mapped};

inline std::string name_of(Way way) {
  constexpr const char* names[] = {"message", "shared memory",  "one memory", "ucx",
                                   "tcp",     "tcp, encrypted", "mapped"};
  return names[static_cast<std::size_t>(way)];
}

inline constexpr KvShape small_pages{2, 16, 4};  // 1 KiB
inline constexpr std::size_t page_tokens = 4;

inline std::vector<std::int32_t> tokens_of(std::int32_t prompt, std::size_t pages) {
  std::vector<std::int32_t> tokens;
  for (std::size_t i = 0; i <= pages * page_tokens; ++i)
    tokens.push_back(prompt * 1000 + static_cast<std::int32_t>(i));
  return tokens;
}

inline RowsOrigin origin(const std::string& tenant = {}) {
  RowsOrigin made;
  made.model = "ways";
  made.tenant = tenant;
  return made;
}

/// What is published under a key, always.
inline std::vector<std::byte> content_of(const PageKey& key) {
  SplitMix64 random(key.words[0]);
  std::vector<std::byte> content(small_pages.page_bytes());
  for (std::byte& byte : content) byte = static_cast<std::byte>(random.next());
  return content;
}

/// All pages of a prompt. Returns how many there was room for.
inline std::size_t put(KvPool& pool, std::int32_t prompt, std::size_t pages,
                       const std::string& tenant = {}) {
  const std::vector<PageKey> keys = pool.keys_of(origin(tenant), tokens_of(prompt, pages));
  std::vector<std::vector<std::byte>> contents;
  std::vector<const std::byte*> places;
  for (const PageKey& key : keys) contents.push_back(content_of(key));
  for (const auto& content : contents) places.push_back(content.data());
  Sequence behind = pool.open({});
  return pool.put(behind, keys, places);
}

/// How many leading pages of a prompt are there; each is what was published.
inline std::size_t there(KvPool& pool, std::int32_t prompt, std::size_t pages,
                         const std::string& tenant = {}) {
  const std::vector<PageKey> keys = pool.keys_of(origin(tenant), tokens_of(prompt, pages));
  const Sequence found = pool.open(keys);
  for (std::size_t i = 0; i < found.published(); ++i) {
    const auto content = pool.content(found.pages()[i]);
    const std::vector<std::byte> wanted = content_of(keys[i]);
    CHECK(std::memcmp(content.data(), wanted.data(), wanted.size()) == 0);
  }
  return found.published();
}

struct TwoPools {
  static constexpr std::size_t room = 16;  // pages of the owner

  PeerHub hub;
  OneMemory::World world;
  ToldAnswers::Told on_answer;  // of what is answered by the way itself
  Way way;
  PeerHub::Port &owner_port, &reader_port;
  KeptPool owner, reader;

  explicit TwoPools(Way by)
      : way(by),
        owner_port(add(1)),
        reader_port(add(2)),
        owner(among(owner_port, room)),
        reader(among(reader_port, 4 * room)) {}

  PeerHub::Port& add(std::uint32_t machine, std::uint32_t life = 1) {
    PeerHub::Port& port = hub.add(machine, life);
    port.shares_bodies = way == Way::body;
    if (way == Way::one_memory) port.readable = std::make_shared<OneMemory>(world);
    if (way == Way::ucx || way == Way::tcp || way == Way::tcp_encrypted || way == Way::mapped) {
      auto made = way == Way::ucx      ? make_ucx_memory({})
                  : way == Way::mapped ? make_mapped()
                                       : make_tcp_memory(tcp_options());
      INFO((made.ok() ? std::string() : made.error().message));
      REQUIRE(made.ok());
      port.readable = std::make_shared<ToldAnswers>(std::move(made).value(), on_answer);
    }
    return port;
  }
  TcpMemoryOptions tcp_options() const {
    TcpMemoryOptions options;
    options.host = "127.0.0.1";
    options.is_encrypted = way == Way::tcp_encrypted;
    options.threads = 2;
    return options;
  }
  static KeptPool among(PeerPort& port, std::size_t pages) {
    auto made = KeptPool::make_among(small_pages, pages, port, "ways");
    INFO((made.ok() ? std::string() : made.error().message));
    REQUIRE(made.ok());
    return std::move(made).value();
  }
  bool reads() const { return std::ranges::count(read_ways, way) != 0; }

  /// Of a prompt that the reader has not. Returns the pages that came for it.
  std::size_t pull(std::int32_t prompt, std::size_t pages) {
    const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    KvPeers& peers = *reader.peers;
    if (!peers.begin(1, origin(), tokens_of(prompt, pages), {}, storage_clock())) return 0;
    std::vector<PageSource::Ready> ready;
    while (ready.empty()) {
      // `on_answer` may look at something meanwhile.
      if (std::chrono::steady_clock::now() > until) FAIL("a pull has not ended");
      peers.poll(storage_clock(), ready, std::chrono::milliseconds(100));
    }
    CHECK_FALSE(peers.is_waited_for());
    return ready[0].tokens / page_tokens;
  }
  std::uint64_t ended(PullEnd how) const {
    return reader.peers->counts().ends[static_cast<std::size_t>(how)];
  }
};

}  // namespace sluice
