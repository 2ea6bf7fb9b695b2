#include "runtime/zmq/stream_forwarder.h"

#include <poll.h>

#include <algorithm>
#include <atomic>
#include <map>
#include <optional>
#include <thread>
#include <utility>

#include "base/bell.h"
#include "runtime/zmq/address.h"
#include "runtime/zmq/check_options.h"
#include "runtime/zmq/door.h"
#include "runtime/zmq/sockets.h"
#include "runtime/zmq/stream_desk.h"
#include "runtime/zmq/stream_half.h"
#include "runtime/zmq/stream_socket.h"

namespace sluice {

namespace {

using links::StreamEnd;
using links::StreamEnding;
using links::StreamFrame;
using links::StreamHalf;
using Instant = StreamHalf::Instant;

constexpr std::size_t frames_a_turn = 64;  // of all, before the server's sockets have their turn
constexpr std::size_t streams_max = 1024;
constexpr Instant longest_wait = std::chrono::seconds(60);

Instant steady() { return std::chrono::steady_clock::now().time_since_epoch(); }

links::SocketSettings settings_of(const StreamForwarderOptions& options) {
  links::SocketSettings settings{options.keys, options.silence};
  settings.piece_bytes_max = links::stream_frame_bytes_max;
  return settings;
}

struct Stream {
  std::uint32_t machine = 0;
  StreamHalf half;
  links::StreamSocket socket;
};

class Forwarder final : public StreamForwarder {
 public:
  explicit Forwarder(StreamForwarderOptions options)
      : options_(std::move(options)),
        bound_(context_, settings_of(options_), true),
        desk_(!options_.keys.secret_key.empty()) {
    for (const ZmqPeer& peer : options_.peers) desk_.expect(peer.machine, peer.name);
  }
  ~Forwarder() override {
    stop_.ring();
    if (thread_.joinable()) thread_.join();
  }
  Forwarder(const Forwarder&) = delete;
  Forwarder& operator=(const Forwarder&) = delete;

  void begin(const links::Address& own) {
    if (!options_.keys.secret_key.empty()) {
      keys_.emplace(context_);
      for (const ZmqPeer& peer : options_.peers) keys_->allow(peer.public_key, peer.machine);
    }
    bound_.bind(own, options_.bind);
    thread_ = std::thread([this] { run(); });
  }
  std::size_t streams() const override { return count_.load(); }

 private:
  using Streams = std::map<std::string, Stream>;  // by the connection's route

  void run();
  /// False: it is to end.
  bool wait();
  void answer_key_questions();
  void take_arrivals();
  void enter(const std::string& route, std::uint32_t machine);
  void refuse(const std::string& route, const StreamEnd& why, const std::string& who);
  void tick_all();
  void speak(Streams::iterator stream);
  void drop(Streams::iterator stream);
  bool give(const std::string& route, const StreamFrame& frame) {
    return bound_.give(route, {0, links::write_stream_frame(frame), {}});
  }
  void say(const LinkNotice& notice);

  const StreamForwarderOptions options_;
  zmq::context_t context_;
  std::optional<links::KeyKeeper> keys_;  // before the socket that needs its answers
  links::ParcelSocket bound_;
  // Of the forwarder's thread.
  links::StreamDesk desk_;
  links::NoticeLimit limit_;
  Streams streams_;
  Instant now_{};
  std::vector<pollfd> poll_;

  std::atomic<std::size_t> count_{0};
  const Bell stop_;
  std::thread thread_;
};

void Forwarder::run() {
  now_ = steady();
  while (wait()) {
    now_ = steady();
    answer_key_questions();
    take_arrivals();
    tick_all();
  }
  for (auto& [route, stream] : streams_) give(route, StreamEnd{StreamEnding::leaving, ""});
  streams_.clear();
}

bool Forwarder::wait() {
  Instant due = now_ + longest_wait;
  poll_.assign({{stop_.descriptor(), POLLIN, 0},
                {bound_.arrivals.descriptor, POLLIN, 0},
                {keys_ ? keys_->questions.descriptor : -1, POLLIN, 0}});
  for (const auto& [route, stream] : streams_) {
    due = std::min(due, stream.half.due());
    const std::optional<short> events = stream.socket.wanted(stream.half);
    poll_.push_back({events ? stream.socket.descriptor() : -1, events.value_or(0), 0});
  }
  if (bound_.arrivals.look || (keys_ && keys_->questions.look)) due = Instant{};
  const Instant left = std::max<Instant>(due - steady(), Instant{});
  const auto rounded = std::chrono::ceil<std::chrono::milliseconds>(left);
  if (::poll(poll_.data(), poll_.size(), static_cast<int>(rounded.count())) <= 0) return true;
  if (poll_[1].revents != 0) bound_.arrivals.look = true;
  if (keys_ && poll_[2].revents != 0) keys_->questions.look = true;
  now_ = steady();
  std::size_t next = 3;
  for (auto& [route, stream] : streams_)
    if (const short events = poll_[next++].revents; events != 0)
      stream.socket.pump(stream.half, events, now_);
  return poll_[0].revents == 0;
}

void Forwarder::answer_key_questions() {
  std::optional<std::string> refused;
  if (!keys_ || !keys_->questions.look) return;
  for (std::size_t i = 0; i < frames_a_turn && keys_->answer(refused); ++i)
    if (refused) say({*refused, LinkRefusal::key});
}

void Forwarder::take_arrivals() {
  // The socket takes from its connections by turns: whoever has said something is heard before
  // anybody is found silent, also behind a pause of this process.
  const std::size_t most = frames_a_turn + streams_.size();
  for (std::size_t i = 0; i < most && bound_.arrivals.look; ++i) {
    const std::optional<links::Arrival> arrival = bound_.take();
    if (!arrival) return;
    const Result<StreamFrame> frame =
        arrival->overlong || arrival->body.size() != 0
            ? Result<StreamFrame>(Error{ErrorCode::corrupt, "a frame of several pieces"})
            : links::read_stream_frame(arrival->head);
    const std::string route(arrival->route);
    if (const auto known = streams_.find(route); known != streams_.end()) {
      // A route is its sender's word: another machine's may be that of a stream.
      if (keys_ && bound_.proved() != known->second.machine) continue;
      known->second.half.heard(frame, now_);
      known->second.socket.pump(known->second.half, 0, now_);
      continue;
    }
    const auto verdict = desk_.judge(frame, bound_.proved());
    if (const auto* const entered = std::get_if<links::StreamDesk::Enter>(&verdict))
      enter(route, entered->machine);
    else if (const auto* const why = std::get_if<StreamEnd>(&verdict))
      refuse(route, *why, bound_.proved() ? desk_.words_of(*bound_.proved()) : "a connection");
  }
}

void Forwarder::enter(const std::string& route, std::uint32_t machine) {
  const auto no = [&](StreamEnding why, const std::string& text) {
    desk_.left(machine);
    refuse(route, {why, text.substr(0, links::stream_text_bytes_max)}, desk_.words_of(machine));
  };
  if (streams_.size() >= streams_max)
    return no(StreamEnding::too_many, "there are " + std::to_string(streams_max) +
                                          " connections, as many as are forwarded");
  const Result<int> socket = options_.connect();
  now_ = steady();  // that may have taken a while
  if (!socket.ok()) return no(StreamEnding::unreachable, socket.error().message);
  streams_.emplace(route, Stream{machine, StreamHalf::serve(options_.silence, now_),
                                 links::StreamSocket(*socket, true)});
  count_.store(streams_.size());
}

void Forwarder::refuse(const std::string& route, const StreamEnd& why, const std::string& who) {
  give(route, why);
  // That the server is away is told by whoever asks it; who speaks after an end has not heard it.
  if (why.why == StreamEnding::unreachable || why.why == StreamEnding::not_open) return;
  say({who + " is not forwarded to the registry: " + why.text});
}

/// Time passes, and all is said that is to be said.
void Forwarder::tick_all() {
  for (auto stream = streams_.begin(); stream != streams_.end();) {
    const auto here = stream++;
    here->second.half.tick(now_);
    speak(here);
    if (here->second.half.is_over()) drop(here);
  }
}

void Forwarder::speak(Streams::iterator stream) {
  for (const StreamFrame& frame : stream->second.half.take_frames())
    if (!give(stream->first, frame))
      return stream->second.half.lost(StreamEnding::closed, "its connection is gone", now_);
}

void Forwarder::drop(Streams::iterator stream) {
  const auto& fate = stream->second.half.fate();
  if (fate && fate->end.why == StreamEnding::malformed)
    say({desk_.words_of(stream->second.machine) + " is not forwarded to the registry any more: " +
         (fate->said_here ? fate->end.text : "it refuses what comes: " + fate->end.text)});
  desk_.left(stream->second.machine);
  streams_.erase(stream);
  count_.store(streams_.size());
}

void Forwarder::say(const LinkNotice& notice) {
  const std::optional<std::string> shown = limit_.pass(notice.text, now_);
  if (shown && options_.notice) options_.notice({*shown, notice.refused, notice.machine});
}

/// As a transport with these would be.
Result<links::Address> check(const StreamForwarderOptions& options) {
  ZmqOptions like;
  like.self = {options.self, 1};
  like.name = options.name;
  like.bind = options.bind;
  like.peers = options.peers;
  like.keys = options.keys;
  like.lease = options.silence;
  if (const Result<void> checked = links::check_options(like); !checked.ok())
    return checked.error();
  if (!options.bind.starts_with("tcp://"))
    return invalid_argument("address '" + options.bind +
                            "': streams are forwarded at tcp://IP:PORT");
  return links::usable(options.bind, !options.keys.secret_key.empty());
}

}  // namespace

Result<std::unique_ptr<StreamForwarder>> StreamForwarder::create(StreamForwarderOptions options) {
  const Result<links::Address> own = check(options);
  if (!own.ok()) return own.error();
  const std::string bind = options.bind;
  try {
    auto forwarder = std::make_unique<Forwarder>(std::move(options));
    forwarder->begin(*own);
    return std::unique_ptr<StreamForwarder>(std::move(forwarder));
  } catch (const zmq::error_t& error) {
    return Error{ErrorCode::unavailable, "address '" + bind +
                                             "', where the registry is forwarded, cannot be "
                                             "bound: " +
                                             error.what()};
  }
}

}  // namespace sluice
