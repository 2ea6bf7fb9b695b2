// Pages of other machines that are read where they stand.
#include "engine/storage/kv_peers.h"

namespace sluice {

void KvPeers::reach(PeerLife peer, const pages::Bytes& message) {
  const std::optional<pages::Message> read = pages::decode(message);
  const auto& region = std::get<pages::Region>(*read);
  RemoteMemory* const memory = port_.memory();
  if (memory == nullptr || !puller_.is_to_open(peer, region)) return;
  auto reached = memory->reach(region.key, *this);
  const PageRegion all{region.pages, hello_.page_bytes};
  if (!reached.ok() || (*reached)->size() != all.size())
    return port_.notice(peer.machine,
                        "says of its pages what cannot be, so they come in messages: " +
                            (reached.ok() ? "another size" : reached.error().message));
  regions_[peer] = std::move(reached).value();
  puller_.opened(peer, region.pages);
}

void KvPeers::take_read(const ReadEnd& one, std::int64_t now) {
  const bool is_there = one.is_whole.has_value() || !regions_.contains(one.owner);
  if (!is_there && unreadable_.insert(one.owner).second)
    port_.notice(one.owner.machine,
                 "has pages that cannot be read where they stand: its memory is not reached, or "
                 "not in time; they come in messages until it joins again");
  puller_.verified(one.number, one.is_whole, now);
}

void KvPeers::close_region(PeerLife peer) {
  regions_.erase(peer);
  unreadable_.erase(peer);
  const std::lock_guard lock(mutex_);
  std::erase_if(readings_, [&](const auto& one) { return one.second.peer == peer; });
}

void KvPeers::read_ended(std::uint64_t number, Ref<Buffer> bytes,
                         std::optional<std::uint32_t> sum) {
  ReadEnd end{number, {}, {}};
  std::unique_lock lock(mutex_);
  auto reading = readings_.extract(number);
  if (!reading.empty()) {
    Reading& read = reading.mapped();
    end.owner = read.peer;
    if (!sum) lock.unlock();  // that takes a while
    if (bytes) end.is_whole = is_whole(bytes_of(read.place), bytes_of(bytes), read.head, sum);
    if (!sum) lock.lock();
    // Before the owner hears of it, which may give the page away then.
    read.place = {};
  } else if (bytes) {
    end.is_whole = false;  // nobody waits for it
  }
  counts_.not_read += bytes ? 0 : 1;
  is_read_amiss_ = is_read_amiss_ || !end.is_whole.value_or(false);
  read_ends_.push_back(end);
  if (is_news()) news_came_.notify_all();
}

}  // namespace sluice
