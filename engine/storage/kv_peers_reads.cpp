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
  puller_.opened(peer, region.pages, (*reached)->is_near());
  regions_[peer] = std::move(reached).value();
}

void KvPeers::send_all() {
  if (preloads_)
    for (std::vector<PeerMessage>& out = preloads_->out(); !out.empty(); out.erase(out.begin()))
      port_.send(channel_, out.front().peer, out.front().bytes);  // may be out of memory
  std::map<PeerLife, std::vector<RemoteRegion::Read>> reads;
  if (const std::vector<PageRead> all = puller_.take_reads(); !all.empty()) {
    const std::lock_guard lock(mutex_);
    for (const PageRead& one : all)
      reads[one.peer].push_back({readings_.add({one.peer, one.number, one.head, one.place}),
                                 one.content, one.stamp, one.place});
  }
  std::vector<PeerMessage> out = puller_.take_out();
  for (PeerMessage& one : out) {
    // Several are about much, and come in one order by the link.
    const bool is_alone = std::ranges::count(out, one.peer, &PeerMessage::peer) == 1;
    if (!is_alone || !ask_there(one)) port_.send(channel_, one.peer, std::move(one.bytes));
  }
  for (auto& [peer, some] : reads) {
    const auto region = regions_.find(peer);
    if (region != regions_.end())
      region->second->read_all(std::move(some));
    else  // it has gone meanwhile
      for (const RemoteRegion::Read& one : some) read_ended(one.number, {}, {});
  }
}

bool KvPeers::ask_there(const PeerMessage& question) {
  const auto region = regions_.find(question.peer);
  if (region == regions_.end()) return false;
  {
    // Behind what is read there it would wait.
    const std::lock_guard lock(mutex_);
    if (readings_.any_of([&](const Reading& one) { return one.peer == question.peer; }))
      return false;
  }
  return questions_.ask(*region->second, question, hello_.page_bytes);
}

void KvPeers::answered(std::uint64_t number, Ref<Buffer> answer) {
  std::vector<PageQuestions::Heard> heard = questions_.answered(number, answer);
  const std::lock_guard lock(mutex_);
  for (PageQuestions::Heard& one : heard) {
    const News::Kind kind = one.is_answer ? News::Kind::message : News::Kind::unanswered;
    news_.push_back({kind, one.from, std::move(one.message), {}, std::move(one.body)});
    // As much as was asked for: one answer at a time is on the way.
    news_bytes_[one.from.machine] += news_.back().bytes() + news_overhead;
  }
  if (!heard.empty()) news_came_.notify_all();
}

void KvPeers::take_read_ends(std::int64_t now) {
  std::vector<ReadEnd> ends;
  {
    const std::lock_guard lock(mutex_);
    ends.swap(read_ends_);
    is_read_amiss_ = false;
  }
  for (const ReadEnd& one : ends) take_read(one, now);
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
  questions_.lost(peer);
  unreadable_.erase(peer);
  const std::lock_guard lock(mutex_);
  readings_.erase_if([&](const Reading& one) { return one.peer == peer; });
}

void KvPeers::read_ended(std::uint64_t number, Ref<Buffer> bytes,
                         std::optional<std::uint32_t> sum) {
  RemoteRegion::Ended one{number, std::move(bytes), sum};
  std::unique_lock lock(mutex_);
  end_read(one, lock);
  if (is_news()) news_came_.notify_all();
}

void KvPeers::reads_ended(std::vector<RemoteRegion::Ended> ended) {
  std::unique_lock lock(mutex_);
  for (RemoteRegion::Ended& one : ended) end_read(one, lock);
  const bool wakes = is_news();
  lock.unlock();
  if (wakes) news_came_.notify_all();
}

void KvPeers::end_read(RemoteRegion::Ended& ended, std::unique_lock<std::mutex>& lock) {
  const auto& [number, bytes, sum] = ended;
  ReadEnd end;
  if (std::optional<Reading> read = readings_.take(number)) {
    end.number = read->number;
    end.owner = read->peer;
    if (!sum) lock.unlock();  // that takes a while
    if (bytes) end.is_whole = is_whole(bytes_of(read->place), bytes_of(bytes), read->head, sum);
    if (!sum) lock.lock();
  } else if (bytes) {
    end.is_whole = false;  // nobody waits for it
  }
  counts_.not_read += bytes ? 0 : 1;
  is_read_amiss_ = is_read_amiss_ || !end.is_whole.value_or(false);
  read_ends_.push_back(end);
}

}  // namespace sluice
