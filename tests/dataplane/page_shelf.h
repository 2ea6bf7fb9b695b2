// Small pages, what has them, and a server that gives them.
#pragma once

#include <algorithm>
#include <map>
#include <vector>

#include "base/crc32c.h"
#include "base/random.h"
#include "dataplane/page_puller.h"

namespace sluice {

inline constexpr std::uint32_t page_bytes = 96;
inline constexpr PeerLife client{9, 1};
inline constexpr PageKeys::Secret receipts{4, 2};

inline pages::Hello hello_of(std::uint64_t incarnation, std::uint32_t bytes = page_bytes) {
  pages::Hello hello;
  hello.layout.fill(7);
  hello.incarnation = incarnation;
  hello.page_bytes = bytes;
  return hello;
}

inline PageKey key_of(std::uint64_t number) {
  return PageKey{{number, number * 3 + 1, number ^ 0x5555U, 1}};
}

inline std::vector<PageKey> keys_of(std::uint64_t first, std::size_t count) {
  std::vector<PageKey> keys;
  for (std::size_t i = 0; i < count; ++i) keys.push_back(key_of(first + i));
  return keys;
}

/// What is published under a key, always.
inline void fill(const PageKey& key, std::span<std::byte> to) {
  SplitMix64 random(key.words[0]);
  for (std::byte& byte : to) byte = static_cast<std::byte>(random.next());
}

inline pages::Bytes content_of(const PageKey& key, std::size_t bytes = page_bytes) {
  pages::Bytes content(bytes);
  fill(key, content);
  return content;
}

/// Where so many pages may come.
inline std::vector<Ref<Buffer>> places(std::size_t count, std::size_t bytes = page_bytes) {
  std::vector<Ref<Buffer>> made;
  while (made.size() < count) made.push_back(Buffer::zeros(bytes));
  return made;
}

/// The first pages of a pull, into places that come in two parts.
inline void fetch_into(PagePuller& puller, std::uint64_t pull, std::vector<Ref<Buffer>> places,
                       std::int64_t now) {
  puller.fetch(pull, places.size(), now);
  const auto half = places.begin() + static_cast<std::ptrdiff_t>((places.size() + 1) / 2);
  puller.place(pull, {places.begin(), half}, now);
  puller.place(pull, {half, places.end()}, now);
}

/// Pages of which some are overwritten while they are copied.
class Shelf final : public PageLookup {
 public:
  std::map<PageKey, std::uint64_t> there;  // generation
  std::uint32_t bytes = page_bytes;        // of a page
  bool tears = false;
  SplitMix64 random{3};
  std::uint64_t torn = 0;

  bool has(const PageKey& key) const override { return there.contains(key); }
  std::optional<ServedPage> append(const PageKey& key, pages::Bytes& message) override {
    const auto it = there.find(key);
    if (it == there.end()) return std::nullopt;
    message.resize(message.size() + bytes);
    const std::span<std::byte> to = std::span(message).last(bytes);
    fill(key, to);
    const ServedPage page{it->second, crc32c(to)};
    if (tears && random.next() % 2 == 0) {
      // Another owner's bytes, from some place on: all of it or a part.
      const std::size_t from = random.next() % to.size() / 2;
      pages::Bytes other = content_of(key_of(random.next()), to.size());
      std::ranges::copy(std::span(other).subspan(from), to.subspan(from).begin());
      ++torn;
    }
    return page;
  }
  std::optional<ServedPage> copy(const PageKey& key, std::span<std::byte> to) override {
    pages::Bytes content;
    const std::optional<ServedPage> page = append(key, content);
    if (page) std::ranges::copy(content, to.begin());
    return page;
  }
};

/// A message and all that comes of it.
inline void serve(PageServer& server, PeerLife from, const pages::Message& message, Shelf& shelf,
                  std::vector<PeerMessage>& out) {
  server.take(from, message, shelf, out);
  while (server.has_more()) server.go_on(shelf, out);
}

/// What a message from a server says.
template <typename Kind>
Kind read_as(const PeerMessage& message) {
  return std::get<Kind>(*pages::decode(message.bytes));
}

}  // namespace sluice
