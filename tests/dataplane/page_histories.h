// Histories of processes that use one page table, as a plain model has them, and what a process may
// say that says anything.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "base/random.h"
#include "dataplane/page_client.h"

namespace histories {

using namespace sluice;

inline constexpr std::uint32_t page_rows = 4;
inline constexpr std::uint32_t run = 3;          // pages that are leased at once
inline constexpr std::uint32_t others = 0xdead;  // in a page before it is given to somebody
inline constexpr std::uint32_t half = 0xbeef;    // of a row in whose writing its process died
using Tokens = std::vector<std::uint32_t>;

/// Of the full pages of a history, root first: a hash of all up to each, as good as a key is.
inline std::vector<PageKey> keys_of(const Tokens& tokens, std::uint64_t first_words) {
  std::vector<PageKey> keys;
  PageKey key;
  for (std::size_t at = 0; at + page_rows <= tokens.size(); at += page_rows) {
    for (std::size_t row = at; row < at + page_rows; ++row)
      for (std::uint64_t& word : key.words)
        word =
            spread(word ^ (tokens[row] + 1 + static_cast<std::uint64_t>(&word - key.words.data())));
    PageKey shown = key;
    if (first_words != 0) shown.words[0] %= first_words;
    keys.push_back(shown);
  }
  return keys;
}

struct Live {
  AttachedSequence sequence;
  Tokens tokens;  // what it must read; its first rows() rows
  std::map<Page, std::uint64_t> generations;
  bool is_noted = false;  // these, since its pages last changed
  std::uint64_t number = 0;
  std::uint32_t fragment_page = 0, fragment = 0;  // rows of a partly filled page it wrote on in
};

struct OfferedHistory {
  enum class State { shared, given, accepted, done };
  PageClientId from = 0;
  Tokens tokens;
  std::vector<Page> pages;
  State state = State::shared;
  PageClientId with = 0;  // who has accepted it
  attached::Text said{};  // of it
};

/// `some_key`: makes one, or tells one that is there.
template <typename SomeKey>
attached::Request nonsense(SplitMix64& random, const SomeKey& some_key) {
  const auto below = [&](std::uint64_t n) { return random.next() % n; };
  const auto some_rows = [&] {
    return static_cast<std::uint32_t>(below(12) == 0 ? random.next() : below(30));
  };
  const std::uint64_t one = below(4), two = below(4);
  switch (below(12)) {
    case 0:
      return attached::Ask{{some_key(), some_key()}, some_rows()};
    case 1:
    case 2:
      return attached::Open{one, {some_key()}};
    case 3:
      return attached::Reserve{one, some_rows(), some_rows(), some_rows()};
    case 4:
      if (below(2) == 0) return attached::Lease{some_rows(), below(2) == 0};
      return attached::Take{one, some_rows(), static_cast<std::uint32_t>(below(4))};
    case 5:
      return attached::Publish{one, some_rows(), {some_key()}};
    case 6:
      return attached::Truncate{one,         some_rows(),   some_rows(),
                                some_rows(), below(2) == 0, below(2) == 0};
    case 7:
      return attached::Fork{one, some_rows(), two};
    case 8:
      return attached::Offer{one, some_rows(), two};
    case 9:
      return attached::Give{one, some_rows(), two, {std::byte{1}}};
    case 10:
      if (below(2) == 0) return attached::Say{two, {std::byte{2}}};
      return attached::Hear{two};
    default:
      return attached::Accept{two, one};
  }
}

}  // namespace histories
