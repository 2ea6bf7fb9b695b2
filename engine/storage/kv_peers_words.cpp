// What the users of the pools tell each other over the way of the pages.
#include <algorithm>

#include "engine/storage/kv_peers.h"

namespace sluice {

void KvPeers::hear(PeerLife peer, const pages::Note& note) {
  std::vector<PeerMessage> out;
  {
    const std::lock_guard lock(mutex_);
    std::size_t count = 0, bytes = 0;
    for (const Word& word : words_) {
      if (word.from.machine != peer.machine) continue;
      ++count;
      bytes += word.text.size();
    }
    const bool is_too_much = count == words_most || bytes + note.text.size() > words_bytes_most;
    if (is_too_much) server_.take_nonsense();
    if (is_too_much || !server_.take_note(peer, note.id, out)) return;
    words_.push_back({peer, {note.text.begin(), note.text.end()}});
  }
  send(out);
}

void KvPeers::hear(PeerLife peer, const pages::Noted& noted) {
  {
    const std::lock_guard lock(mutex_);
    const auto it = telling_.find(noted.id);
    const bool is_on_way = it != telling_.end() && it->second.peer == peer && it->second.is_sent &&
                           (it->second.how == Told::waiting || it->second.is_given_up) &&
                           there_.contains(peer);
    if (!is_on_way) return server_.take_nonsense();
    if (it->second.how == Told::waiting)
      it->second.how = Told::arrived;
    else
      telling_.erase(it);
  }
  port_.send(channel_, peer, encode(pages::Took{noted.receipt}));
}

std::uint64_t KvPeers::tell(PeerLife peer, pages::Bytes text) {
  const std::uint64_t number = next_note_++;
  {
    const std::lock_guard lock(mutex_);
    const bool is_over = std::ranges::any_of(there_, [&](PeerLife other) {
      return other.machine == peer.machine && other.incarnation > peer.incarnation;
    });
    if (telling_.size() >= tells_most)  // of some nobody asks
      std::erase_if(telling_, [](const auto& one) { return one.second.how != Told::waiting; });
    std::size_t bytes = text.size();
    for (const auto& [other, telling] : telling_)
      bytes += telling.how == Told::waiting ? telling.bytes : 0;
    if (!is_open_ || is_over || refused_.contains(peer) || telling_.size() >= tells_most ||
        bytes > tell_bytes_most)
      return number;
    Telling& telling = telling_[number];
    telling.peer = peer;
    telling.bytes = text.size();
    telling.is_sent = there_.contains(peer);
    if (!telling.is_sent) {
      telling.text = std::move(text);
      return number;
    }
  }
  port_.send(channel_, peer, encode(pages::Note{number, text}));
  return number;
}

KvPeers::Told KvPeers::told(std::uint64_t number) {
  const std::lock_guard lock(mutex_);
  const auto it = telling_.find(number);
  if (it == telling_.end()) return Told::failed;
  const Told how = it->second.how;
  if (how != Told::waiting) telling_.erase(it);
  return how;
}

KvPeers::Told KvPeers::give_up(std::uint64_t number) {
  const std::lock_guard lock(mutex_);
  const auto it = telling_.find(number);
  if (it == telling_.end()) return Told::failed;
  Telling& telling = it->second;
  if (telling.how == Told::waiting && telling.is_sent) {
    // Its receipt is still answered: else the other side would owe it for ever.
    telling.is_given_up = true;
    telling.how = Told::unsure;
    return Told::unsure;
  }
  const Told how = telling.how == Told::waiting ? Told::failed : telling.how;
  telling_.erase(it);
  return how;
}

bool KvPeers::has_met(std::uint32_t machine) const {
  const std::lock_guard lock(mutex_);
  return met_machines_.contains(machine);
}

std::optional<PageMismatch> KvPeers::mismatch(PeerLife peer) const {
  const std::lock_guard lock(mutex_);
  const auto it = refused_.find(peer);
  return it == refused_.end() ? std::nullopt : std::optional(it->second);
}

std::vector<KvPeers::Word> KvPeers::take_words() {
  const std::lock_guard lock(mutex_);
  return std::exchange(words_, {});
}

}  // namespace sluice
