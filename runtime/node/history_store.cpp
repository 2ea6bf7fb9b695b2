#include "runtime/node/history_store.h"

#include <algorithm>
#include <iterator>

namespace sluice {

std::size_t HistoryStore::bytes_of(const std::vector<HistoryRecord>& records) {
  std::size_t bytes = 0;
  for (const HistoryRecord& record : records) bytes += record.size() + history_record_overhead;
  return bytes;
}

HistoryMark HistoryStore::mark(const Row& row, std::size_t count) {
  return {static_cast<std::uint32_t>(count), count == 0 ? 0 : row.chain[count - 1]};
}

/// It follows records that are here, and what it says of itself can be.
bool HistoryStore::fits(const Row& row, const HistoryPart& part) {
  const std::size_t count = part.behind.count + part.records.size();
  return part.behind.count <= row.records.size() && mark(row, part.behind.count) == part.behind &&
         part.turn <= count && part.complete <= count;
}

HistoryStore::Row& HistoryStore::row_of(const Key& key) { return rows_[key]; }

void HistoryStore::use(const Key& key, Row& row) {
  if (row.used != 0) by_use_.erase(row.used);
  row.used = row.bytes == 0 ? 0 : ++uses_;
  if (row.used != 0) by_use_.emplace(row.used, key);
}

void HistoryStore::truncate(Row& row, std::size_t count) {
  if (count >= row.records.size()) return;
  const auto end = row.records.begin() + static_cast<std::ptrdiff_t>(count);
  const std::vector<HistoryRecord> gone(std::make_move_iterator(end),
                                        std::make_move_iterator(row.records.end()));
  row.records.resize(count);
  row.chain.resize(count);
  row.held.complete = std::min(row.held.complete, static_cast<std::uint32_t>(count));
  const std::size_t bytes = bytes_of(gone);
  row.bytes -= bytes;
  bytes_ -= bytes;
}

void HistoryStore::drop_early(Row& row) {
  if (!row.early) return;
  row.bytes -= row.early->bytes;
  bytes_ -= row.early->bytes;
  row.early.reset();
}

void HistoryStore::append(Row& row, std::uint64_t call, HistoryPart part) {
  if (row.call != call) {
    row.call = call;
    row.before = part.turn;
  }
  truncate(row, part.behind.count);
  const std::size_t bytes = bytes_of(part.records);
  row.bytes += bytes;
  bytes_ += bytes;
  for (HistoryRecord& record : part.records) {
    row.chain.push_back(next_in_chain(row.chain.empty() ? 0 : row.chain.back(), record));
    row.records.push_back(std::move(record));
  }
  row.held.complete = part.complete;
}

/// Its bytes go; that there was something is remembered.
void HistoryStore::drop(const Key& key, Row& row, Missing why) {
  drop_early(row);
  truncate(row, 0);
  row.held.missing = why;
  row.call.reset();
  use(key, row);
  if (row.held.holder.incarnation != 0) dropped_.push_back({key, row.held.holder});
}

void HistoryStore::make_room(const Key& keep) {
  for (auto next = by_use_.begin(); bytes_ > limits_.all_bytes && next != by_use_.end();) {
    const Key key = next->second;
    ++next;
    if (key != keep) drop(key, rows_[key], Missing::no_room);
  }
}

void HistoryStore::add(const Key& key, Origin from, std::uint64_t call, ToldHistory told) {
  Row& row = row_of(key);
  if (told.is_own) row.held.holder = from;
  if (told.is_too_large) return drop(key, row, Missing::too_large);
  HistoryPart& part = told.part;
  const bool follows = fits(row, part) && (row.held.missing == Missing::nothing ||
                                           (told.is_own && part.behind.count == 0));
  if (!told.is_own && !follows) {
    // Behind what the conversation's machine says, which comes on another link.
    drop_early(row);
    const std::size_t bytes = bytes_of(part.records);
    if (row.held.missing != Missing::nothing || bytes > limits_.session_bytes) return;
    row.early = Early{call, std::move(part), bytes};
    row.bytes += bytes;
    bytes_ += bytes;
  } else if (!follows) {
    return drop(key, row, Missing::gap);
  } else {
    row.held.missing = Missing::nothing;
    append(row, call, std::move(part));
    if (row.early && row.early->call == call && fits(row, row.early->part)) {
      HistoryPart early = std::move(row.early->part);
      drop_early(row);
      append(row, call, std::move(early));
    } else if (told.is_own) {
      drop_early(row);
    }
  }
  if (row.bytes > limits_.session_bytes) return drop(key, row, Missing::too_large);
  use(key, row);
  make_room(key);
}

KeptHistory HistoryStore::ask(const Key& key, Origin by, HistoryMark has) {
  Row& row = row_of(key);
  row.held.holder = by;
  KeptHistory kept;
  if (row.held.missing != Missing::nothing) return kept;
  drop_early(row);
  truncate(row, row.held.complete);
  row.call.reset();
  use(key, row);
  kept.is_there = true;
  const bool goes_on = has.count <= row.records.size() && mark(row, has.count) == has;
  kept.part.behind = goes_on ? has : HistoryMark{};
  kept.part.turn = kept.part.complete = row.held.complete;
  const auto begin = row.records.begin() + static_cast<std::ptrdiff_t>(kept.part.behind.count);
  kept.part.records.assign(begin, row.records.end());
  return kept;
}

std::optional<HistoryStore::Held> HistoryStore::find(const Key& key) const {
  const auto row = rows_.find(key);
  if (row == rows_.end()) return {};
  return row->second.held;
}

std::vector<std::pair<HistoryStore::Key, HistoryStore::Held>> HistoryStore::of_session(
    std::uint64_t session) const {
  std::vector<std::pair<Key, Held>> all;
  for (auto row = rows_.lower_bound({session, 0});
       row != rows_.end() && row->first.session == session; ++row)
    all.emplace_back(row->first, row->second.held);
  return all;
}

void HistoryStore::roll_back(std::uint64_t session, std::uint64_t call,
                             const std::function<bool(Origin)>& is_there) {
  for (auto at = rows_.lower_bound({session, 0}); at != rows_.end() && at->first.session == session;
       ++at) {
    Row& row = at->second;
    if (is_there(row.held.holder)) continue;
    drop_early(row);
    if (row.call == call) {
      truncate(row, row.before);
      row.call.reset();
    }
    use(at->first, row);
  }
}

void HistoryStore::end_role(const Key& key) {
  const auto row = rows_.find(key);
  if (row == rows_.end()) return;
  bytes_ -= row->second.bytes;
  if (row->second.used != 0) by_use_.erase(row->second.used);
  rows_.erase(row);
}

void HistoryStore::end_session(std::uint64_t session) {
  for (auto row = rows_.lower_bound({session, 0});
       row != rows_.end() && row->first.session == session;)
    end_role((row++)->first);
}

}  // namespace sluice
