#include "dataplane/page_server.h"

#include <algorithm>
#include <string>

namespace sluice {

using namespace pages;

std::uint32_t pages::leading_pages(std::span<const PageKey> keys, const PageLookup& lookup) {
  const auto gone =
      std::ranges::find_if_not(keys, [&](const PageKey& key) { return lookup.has(key); });
  return static_cast<std::uint32_t>(gone - keys.begin());
}

PageHead pages::head_of(const Ask& ask, std::uint32_t index, const Hello& self,
                        const ServedPage& page) {
  return {ask.id, self.incarnation, page.generation, ask.keys[index],
          index,  self.page_bytes,  page.crc32c};
}

std::vector<Place> pages::places_of(const Ask& ask, const Hello& self, PageLookup& lookup) {
  std::vector<Place> places;
  for (std::uint32_t index = 0; index < ask.keys.size(); ++index) {
    const std::optional<PlacedPage> one = lookup.place(ask.keys[index]);
    if (!one) break;
    places.push_back({head_of(ask, index, self, one->served), one->page});
  }
  return places;
}

PageServerCounts& PageServerCounts::operator+=(const PageServerCounts& other) {
  pages += other.pages;
  bytes += other.bytes;
  placed += other.placed;
  missing += other.missing;
  busy += other.busy;
  refused += other.refused;
  return *this;
}

void PageServer::lost(PeerLife peer) {
  peers_.erase(peer);
  std::erase_if(answers_, [&](const Answer& answer) { return answer.peer == peer; });
}

std::uint64_t PageServer::reply(Peer& known, std::size_t bytes) {
  const PageKey mac = receipts_.root({"receipt", "", std::to_string(++replies_), ""});
  known.replies.push_back({mac.words[0], bytes});
  return mac.words[0];
}

void PageServer::take(PeerLife peer, const Message& message, const PageLookup& lookup,
                      std::vector<PeerMessage>& out) {
  const auto it = peers_.find(peer);
  if (it == peers_.end()) {
    ++counts_.refused;
    return;
  }
  Peer& known = it->second;
  if (const Took* one = std::get_if<Took>(&message)) return took(known, one->receipt, counts_);
  if (known.replies.size() + known.answers >= replies_most) {
    ++counts_.refused;
    return;
  }
  if (const Find* find = std::get_if<Find>(&message)) {
    const std::uint32_t count = leading_pages(find->keys, lookup);
    out.push_back({peer, encode(Found{find->id, count, reply(known, 0)})});
  } else if (const Ask* ask = std::get_if<Ask>(&message)) {
    begin(peer, known, *ask, out);
  } else {
    ++counts_.refused;
  }
}

/// Whoever has read one has read those before it, for links keep the order.
void PageServer::took(Peer& known, std::uint64_t receipt, PageServerCounts& counts) {
  const auto it = std::ranges::find(known.replies, receipt, &Reply::receipt);
  if (it == known.replies.end()) {
    ++counts.refused;
    return;
  }
  for (auto one = known.replies.begin(); one <= it; ++one) known.owed -= one->bytes;
  known.replies.erase(known.replies.begin(), it + 1);
}

void PageServer::begin(PeerLife peer, Peer& known, const Ask& ask, std::vector<PeerMessage>& out) {
  const auto end = [&](End::Status status) {
    out.push_back({peer, encode(End{ask.id, 0, status, reply(known, 0)})});
  };
  if (ask.keys.size() > asked_most(self_.page_bytes, ask.for_places)) {
    ++counts_.refused;
    return end(End::Status::refused);
  }
  const std::size_t bytes = owed_for(ask, ask.keys.size());
  const bool is_within = known.replies.size() + known.answers < answers_most &&
                         (known.owed == 0 || known.owed + bytes <= owed_most);
  if (!is_within) {
    ++counts_.busy;
    return end(End::Status::busy);
  }
  known.owed += bytes;
  ++known.answers;
  answers_.push_back({peer, ask, 0});
}

bool PageServer::send_page(const Answer& answer, PageLookup& lookup, std::vector<PeerMessage>& out,
                           const MakeBody& make) const {
  const PageKey& key = answer.ask.keys[answer.sent];
  if (Ref<Buffer> body = make ? make(answer.peer, self_.page_bytes) : Ref<Buffer>()) {
    const auto page = lookup.copy(key, {body->data(), body->size()});
    if (page)
      out.push_back(
          {answer.peer, encode(head_of(answer.ask, answer.sent, self_, *page)), std::move(body)});
    return page.has_value();
  }
  Bytes message = page_message(self_.page_bytes);
  const std::optional<ServedPage> page = lookup.append(key, message);
  if (!page) return false;
  write_page_head(head_of(answer.ask, answer.sent, self_, *page), message);
  out.push_back({answer.peer, std::move(message)});
  return true;
}

void PageServer::go_on(PageLookup& lookup, std::vector<PeerMessage>& out, const MakeBody& make) {
  if (answers_.empty()) return;
  Answer& answer = answers_.front();
  std::vector<Place> told;
  if (answer.ask.for_places) {
    told = places_of(answer.ask, self_, lookup);
    answer.sent = static_cast<std::uint32_t>(told.size());
    counts_.placed += answer.sent;
  } else if (answer.sent < answer.ask.keys.size() && send_page(answer, lookup, out, make)) {
    ++answer.sent;
    ++counts_.pages;
    counts_.bytes += owed_for(answer.ask, 1);
    return;
  }
  const bool all = answer.sent == answer.ask.keys.size();
  counts_.missing += all ? 0 : 1;
  Peer& known = peers_.at(answer.peer);
  --known.answers;
  known.owed -= owed_for(answer.ask, answer.ask.keys.size() - answer.sent);
  const End::Status status = all ? End::Status::done : End::Status::missing;
  const std::size_t bytes = owed_for(answer.ask, answer.sent);
  const End end{answer.ask.id, answer.sent, status, reply(known, bytes)};
  const bool for_places = answer.ask.for_places;
  out.push_back({answer.peer, for_places ? encode(Places{std::move(told), end}) : encode(end)});
  answers_.pop_front();
}

bool PageServer::take_note(PeerLife peer, std::uint64_t id, std::vector<PeerMessage>& out) {
  const auto it = peers_.find(peer);
  if (it == peers_.end() || it->second.replies.size() + it->second.answers >= replies_most) {
    ++counts_.refused;
    return false;
  }
  out.push_back({peer, encode(Noted{id, reply(it->second, 0)})});
  return true;
}

std::size_t PageServer::owed(PeerLife peer) const {
  const auto it = peers_.find(peer);
  return it != peers_.end() ? it->second.owed : 0;
}

}  // namespace sluice
