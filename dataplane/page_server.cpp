#include "dataplane/page_server.h"

#include <algorithm>

namespace sluice {

using namespace pages;

void PageServer::take(PeerLife peer, const Message& message, PageLookup& lookup,
                      std::vector<PeerMessage>& out) {
  if (const Hello* hello = std::get_if<Hello>(&message)) {
    const bool same = hello->layout == self_.layout && hello->page_bytes == self_.page_bytes;
    peers_.erase(peer);
    if (same)
      peers_[peer];
    else
      ++counts_.refused;
    return;
  }
  const auto known = peers_.find(peer);
  if (known == peers_.end()) {
    ++counts_.refused;
    if (const Ask* ask = std::get_if<Ask>(&message))
      out.push_back({peer, encode(End{ask->id, 0, End::Status::refused})});
    if (const Find* find = std::get_if<Find>(&message))
      out.push_back({peer, encode(Found{find->id, 0})});
    return;
  }
  if (const Find* find = std::get_if<Find>(&message)) {
    const auto end =
        std::ranges::find_if_not(find->keys, [&](const PageKey& key) { return lookup.has(key); });
    out.push_back(
        {peer, encode(Found{find->id, static_cast<std::uint32_t>(end - find->keys.begin())})});
  } else if (const Ask* ask = std::get_if<Ask>(&message)) {
    answer(peer, known->second, *ask, lookup, out);
  } else if (const Took* took = std::get_if<Took>(&message)) {
    const auto it = known->second.answers.find(took->id);
    if (it == known->second.answers.end()) return;
    known->second.owed -= it->second;
    known->second.answers.erase(it);
  }
}

bool PageServer::is_within(const Peer& known, const Ask& ask) const {
  const std::size_t bytes = ask.keys.size() * self_.page_bytes;
  return known.answers.size() < answers_most && !known.answers.contains(ask.id) &&
         (known.owed == 0 || known.owed + bytes <= owed_most);
}

void PageServer::answer(PeerLife peer, Peer& known, const Ask& ask, PageLookup& lookup,
                        std::vector<PeerMessage>& out) {
  const auto end = [&](std::uint32_t count, End::Status status) {
    out.push_back({peer, encode(End{ask.id, count, status})});
  };
  if (ask.keys.size() > std::max<std::size_t>(ask_bytes_most / self_.page_bytes, 1)) {
    ++counts_.refused;
    return end(0, End::Status::refused);
  }
  if (!is_within(known, ask)) {
    ++counts_.busy;
    return end(0, End::Status::busy);
  }
  std::uint32_t sent = 0;
  for (const PageKey& key : ask.keys) {
    Bytes message = page_message(self_.page_bytes);
    const std::optional<ServedPage> page = lookup.copy(key, page_content(message));
    if (!page.has_value()) break;
    write_page_head(
        {ask.id, self_.incarnation, page->generation, key, sent, self_.page_bytes, page->crc32c},
        message);
    out.push_back({peer, std::move(message)});
    ++sent;
  }
  known.answers[ask.id] = std::size_t{sent} * self_.page_bytes;
  known.owed += std::size_t{sent} * self_.page_bytes;
  counts_.pages += sent;
  counts_.bytes += std::uint64_t{sent} * self_.page_bytes;
  const bool all = sent == ask.keys.size();
  counts_.missing += all ? 0 : 1;
  end(sent, all ? End::Status::done : End::Status::missing);
}

std::size_t PageServer::owed(PeerLife peer) const {
  const auto it = peers_.find(peer);
  return it != peers_.end() ? it->second.owed : 0;
}

}  // namespace sluice
