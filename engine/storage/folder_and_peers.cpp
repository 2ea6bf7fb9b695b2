#include "engine/storage/folder_and_peers.h"

#include <algorithm>
#include <utility>

#include "engine/storage/storage_clock.h"

namespace sluice {

bool FolderAndPeers::begin(std::uint64_t task, const RowsOrigin& origin,
                           std::span<const std::int32_t> tokens, std::optional<double> per_token,
                           std::int64_t now) {
  Waiting one{task, origin, {tokens.begin(), tokens.end()}, per_token, peers_.asked_first()};
  one.places = {&folder_, &peers_};
  if (peers_.is_pulling(origin, tokens)) std::swap(one.places[0], one.places[1]);
  one.come.task = task;
  waiting_.reserve(waiting_.size() + 1);  // nothing fails between its beginning and this
  if (!ask(one, now)) return false;
  waiting_.push_back(std::move(one));
  return true;
}

/// The next that was not asked yet and has something. False: it waits for nothing more.
bool FolderAndPeers::ask(Waiting& one, std::int64_t now) {
  while (one.asked < one.places.size()) {
    PageSource& place = *one.places[one.asked++];
    const std::optional<PeerLife> others = peers_.asked_first();
    peers_.ask_first(one.first);
    const bool waits = place.begin(one.task, one.origin, one.tokens, one.per_token, now);
    peers_.ask_first(others);
    if (waits) return true;
  }
  return false;
}

void FolderAndPeers::forget(std::uint64_t task) {
  folder_.forget(task);
  peers_.forget(task);
  std::erase_if(waiting_, [&](const Waiting& one) { return one.task == task; });
}

/// Each is counted once, should what follows fail for want of memory and be done again.
void FolderAndPeers::hear(std::vector<Ready>& come, std::vector<Ready>& ready, std::int64_t now) {
  ready.reserve(ready.size() + come.size());
  for (; !come.empty(); come.pop_back()) {
    const auto it = std::ranges::find(waiting_, come.back().task, &Waiting::task);
    if (it == waiting_.end()) continue;
    it->come.tokens += std::exchange(come.back().tokens, 0);
    it->come.of_folder += std::exchange(come.back().of_folder, 0);
    if (ask(*it, now)) continue;
    ready.push_back(it->come);
    waiting_.erase(it);
  }
}

void FolderAndPeers::poll(std::int64_t now, std::vector<Ready>& ready,
                          std::chrono::nanoseconds most) {
  const bool waits = most.count() > 0;
  // As they tell a wait from a glance, between two of which there may be a forward.
  const std::chrono::nanoseconds least{waits ? 1 : 0};
  const bool waits_for_folder = folder_.is_waited_for(), waits_for_peers = peers_.is_waited_for();
  if (waits_for_folder && waits_for_peers) most = std::min(most, turn);
  const std::size_t before = ready.size();
  folder_.poll(now, of_folder_, waits_for_folder ? most : least);
  if (waits) now = storage_clock();
  hear(of_folder_, ready, now);
  const bool has_waited = waits_for_folder && !waits_for_peers;
  peers_.poll(now, of_peers_, has_waited || ready.size() > before ? least : most);
  if (waits) now = storage_clock();
  hear(of_peers_, ready, now);
}

}  // namespace sluice
