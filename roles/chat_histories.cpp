#include "roles/chat_histories.h"

#include <algorithm>

#include "roles/saved_message.h"

namespace sluice {

std::optional<HistoryMark> ChatHistories::ask(const std::string& session, const std::string& role,
                                              std::uint32_t life) {
  const std::lock_guard lock(mutex_);
  Entry& entry = entries_[{session, role}];
  if (entry.life == life) return {};
  return mark(entry, entry.chain.size());
}

void ChatHistories::settle(const std::string& session, const std::string& role, std::uint32_t life,
                           std::optional<Settled> settled, bool is_told) {
  const std::lock_guard lock(mutex_);
  Entry& entry = entries_[{session, role}];
  if (entry.life == life) return;
  entry.life = life;
  entry.is_told = is_told;
  entry.is_too_large = false;
  // Of an earlier life of the machine, which nobody has taken.
  if (const auto told = told_.find(session); told != told_.end())
    std::erase_if(told->second, [&](const ToldHistory& one) { return one.role == role; });
  // Where nothing is kept elsewhere, all is told with what is said next.
  entry.told = settled ? settled->behind.count + settled->messages.size() : 0;
  if (entry.settled) --settled_;
  entry.settled = std::move(settled);
  if (entry.settled) ++settled_;
}

void ChatHistories::dropped(const std::string& session, const std::string& role) {
  const std::lock_guard lock(mutex_);
  if (const auto entry = entries_.find({session, role}); entry != entries_.end())
    entry->second.told = 0;
}

std::vector<ToldHistory> ChatHistories::take(const std::string& session) {
  const std::lock_guard lock(mutex_);
  auto told = told_.extract(session);
  return told ? std::move(told.mapped()) : std::vector<ToldHistory>();
}

void ChatHistories::end_session(std::string_view session) {
  const std::lock_guard lock(mutex_);
  std::erase_if(entries_, [&](const auto& one) {
    if (one.first.first != session) return false;
    if (one.second.settled) --settled_;
    return true;
  });
  told_.erase(std::string(session));
}

std::optional<ChatHistories::Settled> ChatHistories::take_settled(const std::string& session,
                                                                  const std::string& role) {
  if (settled_.load() == 0) return {};
  const std::lock_guard lock(mutex_);
  const auto entry = entries_.find({session, role});
  if (entry == entries_.end() || !entry->second.settled) return {};
  --settled_;
  return std::exchange(entry->second.settled, std::nullopt);
}

bool ChatHistories::is_at(const std::string& session, const std::string& role,
                          const HistoryMark& mark) {
  const std::lock_guard lock(mutex_);
  const auto entry = entries_.find({session, role});
  if (entry == entries_.end() || entry->second.chain.size() < mark.count) return mark.count == 0;
  return ChatHistories::mark(entry->second, mark.count) == mark;
}

void ChatHistories::set(const std::string& session, const std::string& role,
                        std::span<const ChatMessage> messages) {
  const std::lock_guard lock(mutex_);
  const auto entry = entries_.find({session, role});
  if (entry == entries_.end()) return;
  std::uint64_t chain = 0;
  entry->second.chain.clear();
  for (const ChatMessage& message : messages)
    entry->second.chain.push_back(chain = next_in_chain(chain, save_message(message)));
  if (!entry->second.is_told) entries_.erase(entry);
}

void ChatHistories::cut(const std::string& session, const std::string& role, std::size_t count) {
  const std::lock_guard lock(mutex_);
  const auto entry = entries_.find({session, role});
  if (entry == entries_.end()) return;
  entry->second.chain.resize(std::min(entry->second.chain.size(), count));
  entry->second.told = std::min(entry->second.told, count);
}

void ChatHistories::said(const std::string& session, const std::string& role,
                         std::span<const ChatMessage> messages, std::size_t fresh,
                         std::size_t complete, bool is_told_elsewhere) {
  const std::lock_guard lock(mutex_);
  const Key key{session, role};
  const auto found = entries_.find(key);
  if (found == entries_.end() || !found->second.is_told) return;
  Entry& entry = found->second;
  const std::size_t turn = messages.size() - fresh;
  // What was said before and was void since is not in the chain any more.
  entry.chain.resize(std::min(entry.chain.size(), turn));
  const std::size_t from = std::min(entry.told, entry.chain.size());
  ToldHistory told;
  told.role = role;
  told.part.behind = mark(entry, from);
  told.part.turn = static_cast<std::uint32_t>(turn);
  told.part.complete = static_cast<std::uint32_t>(complete);
  std::size_t bytes = 0;
  for (std::size_t i = from; i < messages.size(); ++i) {
    HistoryRecord record = save_message(messages[i]);
    const std::uint64_t before = i == 0 ? 0 : entry.chain[i - 1];
    if (i >= entry.chain.size()) entry.chain.push_back(next_in_chain(before, record));
    bytes += record.size() + history_record_overhead;
    if (bytes <= history_bytes_max) told.part.records.push_back(std::move(record));
  }
  entry.told = from;
  if (is_told_elsewhere || entry.is_too_large) return;
  entry.told = messages.size();
  if (bytes > history_bytes_max || messages.size() > history_records_max) {
    told.part = {};
    told.is_too_large = entry.is_too_large = true;
  }
  told_[session].push_back(std::move(told));
}

HistoryPlace ChatHistories::place(const std::string& session, const std::string& role) {
  const std::lock_guard lock(mutex_);
  const auto entry = entries_.find({session, role});
  if (entry == entries_.end() || !entry->second.is_told) return {};
  return {role, mark(entry->second, entry->second.chain.size())};
}

void ChatHistories::said_for(const std::string& session, const HistoryPlace& place,
                             const ChatMessage& answer) {
  if (place.role.empty()) return;
  ToldHistory told;
  told.role = place.role;
  told.is_own = false;
  told.part.behind = place.behind;
  told.part.turn = place.behind.count == 0 ? 0 : place.behind.count - 1;
  told.part.complete = place.behind.count + 1;
  told.part.records.push_back(save_message(answer));
  const std::lock_guard lock(mutex_);
  told_[session].push_back(std::move(told));
}

}  // namespace sluice
