// The part of a pull that reads pages where they stand.
#include <algorithm>
#include <utility>

#include "dataplane/page_puller.h"

namespace sluice {

using namespace pages;

bool PagePuller::is_to_open(PeerLife life, const Region& region) {
  const auto it = peers_.find(life);
  return it != peers_.end() && region.incarnation == it->second.incarnation &&
         !std::exchange(it->second.has_told, true);
}

void PagePuller::opened(PeerLife life, std::uint32_t pages) {
  const auto it = peers_.find(life);
  if (it != peers_.end()) it->second.pages = pages;
}

void PagePuller::closed(PeerLife life) { opened(life, 0); }

/// Nothing that a peer says is read anywhere but in what it has announced.
void PagePuller::take_place(PeerLife from, const Place& place, std::int64_t now) {
  const auto it = questions_.find(place.head.id);
  if (it == questions_.end() || it->second.peer != from || it->second.pull == 0) {
    ++stale_;
    return;
  }
  Question& question = it->second;
  const auto at = pulls_.find(question.pull);
  const std::uint32_t pages = peers_.at(from).pages;
  if (pages == 0) return end(at, PullEnd::lost, now);  // closed since it was asked
  if (!is_asked_for(question, place.head) || place.page >= pages)
    return end(at, PullEnd::broken, now);
  ++question.got;
  ++question.reading;
  reading_[next_read_] = {it->first, from, place.head};
  const PageRegion region{pages, self_.page_bytes};
  reads_.push_back(
      {next_read_++, from, region.page(place.page), region.stamp(place.page), place.head});
}

void PagePuller::read_ended(std::uint64_t number, Ref<Buffer> bytes, std::int64_t now,
                            std::optional<bool> is_whole) {
  const auto it = reading_.find(number);
  if (it == reading_.end()) {
    ++stale_;
    return;
  }
  const Reading reading = it->second;
  reading_.erase(it);
  const auto asked = questions_.find(reading.question);
  Question& question = asked->second;
  --question.reading;
  Peer& peer = peers_.at(reading.peer);
  if (!bytes) closed(reading.peer);
  if (question.pull == 0) {
    ++stale_;
  } else if (!bytes) {
    end(pulls_.find(question.pull), PullEnd::lost, now);
  } else if (!(is_whole ? *is_whole : sluice::is_whole(bytes_of(bytes), reading.head))) {
    peer.read_pause =
        peer.read_pause == 0 ? first_pause : std::min(2 * peer.read_pause, longest_pause);
    peer.read_until = now + peer.read_pause;
    end(pulls_.find(question.pull), PullEnd::changed, now);
  } else {
    peer.read_pause = 0;
    PullEvent event;
    event.content = bytes_of(bytes).first(reading.head.length);
    event.body = std::move(bytes);
    arrive(question, reading.head.index, std::move(event), now);
  }
  if (question.end.has_value() && question.reading == 0) finish(asked, now);
}

}  // namespace sluice
