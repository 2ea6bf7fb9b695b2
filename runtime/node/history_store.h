// What a home keeps of its sessions: their histories, for the machine that gets a session when the
// one that answered it is lost.
//
// A history is a row of records that only roles understand. Parts of it come behind what is here; a
// part that does not fit is a gap, and then nothing is kept until the whole comes. What a machine
// tells that answers for another's conversation may come before what it follows, and waits for
// that. Pure: follows from what it was told, in that order. Thread: one at a time.
// Bounds: `Limits`; where all take more than that, the histories that were used longest ago go.
// Source: docs/CLUSTER.md, "What a session has said".
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "base/session_history.h"
#include "graph/ids.h"

namespace sluice {

class HistoryStore {
 public:
  struct Limits {
    std::size_t session_bytes = history_bytes_max;
    std::size_t all_bytes = std::size_t{256} << 20U;
  };
  /// A session of this home, and whose conversation it is: a role, by its number.
  struct Key {
    std::uint64_t session = 0;
    std::uint32_t role = 0;
    friend auto operator<=>(const Key&, const Key&) = default;
  };
  enum class Missing : std::uint8_t {
    nothing,    // all that was told is here
    too_large,  // of what was said
    no_room,    // others were used later
    gap,        // a part was told that follows what is not here
  };
  /// Nobody has this any more, and whoever answers is to be told.
  struct Dropped {
    Key key;
    Origin holder;
  };
  /// The history of one session that a machine answers.
  struct Held {
    Origin holder;  // that has it in its roles; incarnation 0: nobody has asked
    std::uint32_t complete = 0;
    Missing missing = Missing::nothing;
  };

  HistoryStore() = default;
  explicit HistoryStore(Limits limits) : limits_(limits) {}

  /// `told` of `from`, for this call. A part that says of itself what cannot be is a gap.
  void add(const Key& key, Origin from, std::uint64_t call, ToldHistory told);
  /// `by` has `has` and goes on with it as is said; what it does not have follows. What came of a
  /// turn that has not ended is void.
  KeptHistory ask(const Key& key, Origin by, HistoryMark has);
  /// None: the session's roles have never asked.
  std::optional<Held> find(const Key& key) const;
  /// Those of one session, by role.
  std::vector<std::pair<Key, Held>> of_session(std::uint64_t session) const;
  /// The call ended because a machine was lost: where the one that answers is not there, the
  /// session's history is what it was before the call.
  void roll_back(std::uint64_t session, std::uint64_t call,
                 const std::function<bool(Origin)>& is_there);
  void end_session(std::uint64_t session);
  /// The session is with its home, which loses nothing that it does not lose too.
  void end_role(const Key& key);
  /// Since it was asked last.
  std::vector<Dropped> take_dropped() { return std::exchange(dropped_, {}); }

  std::size_t bytes() const { return bytes_; }
  std::size_t histories() const { return rows_.size(); }

 private:
  struct Early {
    std::uint64_t call = 0;
    HistoryPart part;
    std::size_t bytes = 0;
  };
  struct Row {
    std::vector<HistoryRecord> records;
    std::vector<std::uint64_t> chain;  // behind each record
    std::size_t bytes = 0;             // of the records, and of `early`
    std::optional<Early> early;        // behind what has not come yet
    Held held;
    std::uint64_t used = 0;             // its place in `by_use_`
    std::optional<std::uint64_t> call;  // that told the latest turn
    std::uint32_t before = 0;           // records before that
  };

  static std::size_t bytes_of(const std::vector<HistoryRecord>& records);
  static HistoryMark mark(const Row& row, std::size_t count);
  static bool fits(const Row& row, const HistoryPart& part);
  Row& row_of(const Key& key);
  void use(const Key& key, Row& row);
  void append(Row& row, std::uint64_t call, HistoryPart part);
  void truncate(Row& row, std::size_t count);
  void drop_early(Row& row);
  void drop(const Key& key, Row& row, Missing why);
  void make_room(const Key& keep);

  Limits limits_{};
  std::map<Key, Row> rows_;
  std::map<std::uint64_t, Key> by_use_;  // of rows that have bytes
  std::uint64_t uses_ = 0;
  std::size_t bytes_ = 0;
  std::vector<Dropped> dropped_;
};

}  // namespace sluice
