#include "engine/tasks/preloader.h"

#include <chrono>
#include <limits>
#include <new>
#include <utility>

namespace sluice {

namespace {

/// While something is under way, which may take too long, or waits for room.
constexpr std::chrono::milliseconds soon{100};
constexpr std::chrono::hours rest{1};
/// For the end of a turn: then the thread looks whether it is to end.
constexpr std::chrono::milliseconds turn_patience{500};

}  // namespace

Preloader::~Preloader() {
  stops_ = true;
  peers_.stop_waiting();
  thread_.join();
}

void Preloader::run() {
  bool has_more = true;
  while (!stops_) {
    const std::function<void()> look_once = [&] { has_more = look(); };
    try {
      if (!shared_.between_turns(look_once, turn_patience)) continue;
    } catch (const std::bad_alloc&) {  // for a place among those who wait for a turn's end
      has_more = true;
    }
    const std::chrono::nanoseconds most = has_more ? std::chrono::nanoseconds(soon) : rest;
    (void)peers_.wait_for_news(most);
  }
}

/// Pages that tasks want are left to them, also those that they have been promised, and all while
/// one waits for pages, which may be the same. What has come is written to a folder, too, as much
/// at a time as that takes at once.
bool Preloader::look() {
  const Planner& planner = engine_.planner();
  const std::size_t wanted = engine_.waits_for_pages() ? std::numeric_limits<std::size_t>::max()
                                                       : std::size_t{planner.wanted()};
  bool has_more = true;
  try {
    if (std::exchange(ran_short_, false)) peers_.drop_preload();
    has_more = peers_.preload(cost_of_token(planner), wanted, engine_clock());
  } catch (const std::bad_alloc&) {  // nobody would catch it: this may be the end of a turn
    ran_short_ = true;
  }
  engine_.rest();
  return has_more || engine_.has_backlog();
}

}  // namespace sluice
