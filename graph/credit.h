// Parts of one call's credit: exact, and never too small to divide.
//
// A call starts with a whole. Whoever sends a message gives part of what it holds with it, whoever
// ends sends the rest back; the call is over exactly when the whole has come back. A part is a
// binary fraction of any fineness, so none is ever added during the call, and no order of
// messages can make the sum look whole too early. Source: weight throwing (Mattern 1989).
#pragma once

#include <bit>
#include <cstdint>
#include <utility>
#include <vector>

namespace sluice {

/// amount * 2^-(62 + scale) of the whole. Amounts stay below 2^63.
struct Credit {
  std::uint64_t amount = 0;
  std::uint32_t scale = 0;

  static constexpr std::uint64_t whole_amount = std::uint64_t{1} << 62;
  static constexpr Credit whole() { return {whole_amount, 0}; }

  explicit operator bool() const { return amount != 0; }
  /// The same value with an amount of at least 2^61, so that it can be divided.
  void refine() {
    const int room = std::countl_zero(amount) - 2;
    if (amount == 0 || room <= 0) return;
    amount <<= room;
    scale += static_cast<std::uint32_t>(room);
  }
  /// Takes `part` units of the amount away.
  Credit take(std::uint64_t part) {
    amount -= part;
    return {part, scale};
  }
  /// Adds what it can hold: false when the two are too far apart in size. Then nothing changed.
  bool absorb(Credit more) {
    if (more.amount == 0) return true;
    if (amount == 0) {
      *this = more;
      return true;
    }
    Credit coarse = *this;
    if (coarse.scale > more.scale) std::swap(coarse, more);
    std::uint32_t apart = more.scale - coarse.scale;
    const auto spare = static_cast<std::uint32_t>(std::countr_zero(more.amount));
    const std::uint32_t drop = spare < apart ? spare : apart;
    more.amount >>= drop;
    apart -= drop;
    if (apart > 61 || coarse.amount > (whole_amount - more.amount) >> apart) return false;
    *this = {(coarse.amount << apart) + more.amount, coarse.scale + apart};
    return true;
  }
};

/// What has come back. Bounds: one word for each 62 bits of the finest part.
class CreditSum {
 public:
  /// False when more has come back than went out.
  bool add(Credit credit) {
    if (credit.amount == 0) return true;
    const std::size_t word = credit.scale / 62;
    const std::uint32_t shift = credit.scale % 62;
    if (words_.size() < word + 2) words_.resize(word + 2);
    words_[word + 1] += shift == 0 ? 0 : (credit.amount << (62 - shift)) & mask;
    words_[word] += credit.amount >> shift;
    for (std::size_t i = word + 1; i > 0; --i) {
      words_[i - 1] += words_[i] >> 62;
      words_[i] &= mask;
    }
    return words_[0] <= Credit::whole_amount;
  }
  /// Sends one unit out again. Requires: a unit has come back.
  Credit lend() {
    --words_[0];
    return {1, 0};
  }
  bool complete() const { return !words_.empty() && words_[0] == Credit::whole_amount; }
  void clear() { words_.clear(); }

 private:
  static constexpr std::uint64_t mask = Credit::whole_amount - 1;
  std::vector<std::uint64_t> words_;  // the first counts 2^-62, each next 2^-62 of the one before
};

}  // namespace sluice
