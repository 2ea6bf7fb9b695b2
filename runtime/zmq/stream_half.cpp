#include "runtime/zmq/stream_half.h"

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace sluice::links {

namespace {

constexpr int beats_a_silence = 6;
constexpr std::size_t grant_bytes = stream_window_bytes / 4;

}  // namespace

StreamHalf StreamHalf::dial(std::uint32_t machine, Instant silence, Instant now) {
  StreamHalf half(true, silence, now);
  half.say(StreamHello{machine}, now);
  return half;
}

StreamHalf StreamHalf::serve(Instant silence, Instant now) { return {false, silence, now}; }

void StreamHalf::say(StreamFrame frame, Instant now) {
  frames_.push_back(std::move(frame));
  said_at_ = now;
}

std::vector<StreamFrame> StreamHalf::take_frames() { return std::exchange(frames_, {}); }

void StreamHalf::out_of_place(const char* what, Instant now) {
  end(StreamEnding::malformed, std::string(what) + " where none may come", now);
}

void StreamHalf::heard(const Result<StreamFrame>& frame, Instant now) {
  if (fate_) return;  // what it says now is of no more use to anybody
  heard_at_ = now;
  if (!frame.ok()) return end(StreamEnding::malformed, frame.error().message, now);
  if (const auto* const end = std::get_if<StreamEnd>(&*frame)) return finish({*end, false}, now);
  if (std::holds_alternative<StreamBeat>(*frame)) return;
  if (std::holds_alternative<StreamWelcome>(*frame)) {
    if (!dials_ || phase_ != Phase::opening) return out_of_place("a welcome", now);
    phase_ = Phase::open;
    return;
  }
  if (const auto* const data = std::get_if<StreamData>(&*frame)) return take(*data, now);
  if (const auto* const grant = std::get_if<StreamGrant>(&*frame)) return take(*grant, now);
  out_of_place("a hello", now);
}

void StreamHalf::take(const StreamData& data, Instant now) {
  if (phase_ != Phase::open) return out_of_place("data", now);
  // What waits, and what was passed on without a word of it, is the window as the other sees it.
  if (to_write().size() + ungranted_ + data.bytes.size() + stream_frame_cost > stream_window_bytes)
    return end(StreamEnding::malformed,
               "more than " + std::to_string(stream_window_bytes) + " bytes at once", now);
  waiting_.erase(0, std::exchange(written_, 0));
  waiting_ += data.bytes;
  ungranted_ += stream_frame_cost;
  grant(now);
}

/// Where it is worth a frame.
void StreamHalf::grant(Instant now) {
  if (phase_ != Phase::open || ungranted_ < grant_bytes) return;
  say(StreamGrant{static_cast<std::uint32_t>(std::exchange(ungranted_, 0))}, now);
}

void StreamHalf::take(const StreamGrant& grant, Instant now) {
  if (phase_ != Phase::open || grant.bytes > owed_) return out_of_place("a grant", now);
  owed_ -= grant.bytes;
}

void StreamHalf::lost(StreamEnding why, std::string text, Instant now) {
  if (!fate_) finish({{why, std::move(text)}, true}, now);
  frames_.clear();
}

void StreamHalf::connected(Instant now) {
  if (phase_ != Phase::opening || dials_) return;
  phase_ = Phase::open;
  say(StreamWelcome{}, now);
}

std::size_t StreamHalf::may_read() const {
  if (phase_ != Phase::open) return 0;
  const std::size_t taken = owed_ + stream_frame_cost;
  return taken >= stream_window_bytes
             ? 0
             : std::min(stream_data_bytes_max, stream_window_bytes - taken);
}

void StreamHalf::read(std::string_view bytes, Instant now) {
  SLUICE_CHECK(!bytes.empty() && bytes.size() <= may_read(), "more was read than the window has");
  owed_ += bytes.size() + stream_frame_cost;
  say(StreamData{std::string(bytes)}, now);
}

void StreamHalf::written(std::size_t bytes, Instant now) {
  SLUICE_CHECK(bytes <= to_write().size(), "more was written than there was");
  written_ += bytes;
  if (to_write().empty()) {
    waiting_.clear();
    written_ = 0;
    if (phase_ == Phase::ending) phase_ = Phase::over;
  }
  ungranted_ += bytes;
  grant(now);
}

void StreamHalf::closed(StreamEnding why, std::string text, Instant now) {
  end(why, std::move(text), now);
  waiting_.clear();
  written_ = 0;
  phase_ = Phase::over;
}

void StreamHalf::end(StreamEnding why, std::string text, Instant now) {
  if (fate_) return;
  text.resize(std::min(text.size(), stream_text_bytes_max));
  say(StreamEnd{why, text}, now);
  finish({{why, std::move(text)}, true}, now);
}

void StreamHalf::finish(Fate fate, Instant now) {
  fate_ = std::move(fate);
  phase_ = to_write().empty() ? Phase::over : Phase::ending;
  leave_by_ = now + silence_;
}

void StreamHalf::tick(Instant now) {
  if (phase_ == Phase::over) return;
  if (phase_ == Phase::ending) {
    if (now >= leave_by_) phase_ = Phase::over;
    return;
  }
  if (now >= heard_at_ + silence_) return end(StreamEnding::silent, "", now);
  if (phase_ == Phase::opening && now >= open_by_)
    return dials_ ? end(StreamEnding::silent, "", now)
                  : end(StreamEnding::unreachable, "it takes no connection", now);
  if (now >= said_at_ + silence_ / beats_a_silence) say(StreamBeat{}, now);
}

StreamHalf::Instant StreamHalf::due() const {
  if (phase_ == Phase::over) return Instant::max();
  if (phase_ == Phase::ending) return leave_by_;
  const Instant heard = std::min(heard_at_ + silence_, said_at_ + silence_ / beats_a_silence);
  return phase_ == Phase::opening ? std::min(heard, open_by_) : heard;
}

}  // namespace sluice::links
