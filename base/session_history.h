// What a session has said, as records that somebody else can keep: so it survives the loss of the
// machine that answers.
//
// A history is a row of records, which only whoever made them understands. It grows turn by turn,
// so what is told of it is the part that is new; a chain of hashes says whether that part goes
// behind what the other side has. Thread: values; of `SessionKeeper` any.
// Bounds: `history_bytes_max` bytes of a session's records, overheads among them.
// Source: docs/CLUSTER.md, "What a session has said".
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"

namespace sluice {

using HistoryRecord = std::vector<std::byte>;

inline constexpr std::size_t history_bytes_max = std::size_t{8} << 20U;
/// What a record takes beside its bytes.
inline constexpr std::size_t history_record_overhead = 64;
inline constexpr std::size_t history_records_max = std::size_t{1} << 16U;

/// The chain's number behind one more record; 0 stands before the first.
std::uint64_t next_in_chain(std::uint64_t chain, std::span<const std::byte> record);

/// So many records, and the chain's number behind them.
struct HistoryMark {
  std::uint32_t count = 0;
  std::uint64_t chain = 0;
  friend bool operator==(const HistoryMark&, const HistoryMark&) = default;
};

/// Records that follow others; what stood behind those is void.
struct HistoryPart {
  HistoryMark behind{};
  std::uint32_t turn = 0;      // how many records stand before those of the turn that it tells
  std::uint32_t complete = 0;  // so many records are whole turns
  std::vector<HistoryRecord> records{};
};

/// A part, and whose history it belongs to.
struct ToldHistory {
  std::string role{};  // that has the conversation, by its name in the workflow
  /// False: another machine has the conversation, and this one has answered for it.
  bool is_own = true;
  /// The records take more than may be kept: what was kept of them is void, and no part.
  bool is_too_large = false;
  HistoryPart part{};
};

/// What a home says to a machine that asks what it has of a session.
struct KeptHistory {
  bool is_there = false;  // else: go on with what you have
  HistoryPart part{};     // behind the records that both have
};

/// A global parameter whose sessions' histories can be kept elsewhere.
class SessionKeeper {
 public:
  virtual ~SessionKeeper() = default;
  /// Before a session's activation begins here in this life of the machine, never 0: what this side
  /// has. None: it was settled in this life already.
  virtual std::optional<HistoryMark> ask_history(const std::string& session,
                                                 const std::string& role, std::uint32_t life) = 0;
  /// The answer: from there the session's next activation goes on. One of an earlier life may be
  /// under way still, and what it leaves is void. `is_told`: what is said is told from now on.
  /// Errors: corrupt (no history that this model's roles have made, and the session begins anew).
  virtual Result<void> settle_history(const std::string& session, const std::string& role,
                                      std::uint32_t life, const KeptHistory& kept,
                                      bool is_told) = 0;
  /// Nobody has what was told of it any more: the next part is the whole.
  virtual void history_dropped(const std::string& session, const std::string& role) = 0;
  /// What was said in the session since it was asked last, in order.
  virtual std::vector<ToldHistory> take_history(const std::string& session) = 0;
};

}  // namespace sluice
