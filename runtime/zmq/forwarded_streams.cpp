#include "runtime/zmq/forwarded_streams.h"

#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <list>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "base/bell.h"
#include "runtime/zmq/address.h"
#include "runtime/zmq/check_options.h"
#include "runtime/zmq/peer.h"
#include "runtime/zmq/sockets.h"
#include "runtime/zmq/stream_half.h"
#include "runtime/zmq/stream_socket.h"

namespace sluice {

namespace {

using links::StreamEnding;
using links::StreamFrame;
using links::StreamHalf;
using Instant = StreamHalf::Instant;

constexpr std::size_t streams_max = 16;
constexpr int sockets_max = 256;   // ours, and those that still leave
constexpr int frames_a_turn = 64;  // of one stream, before the others have their turn
constexpr Instant longest_wait = std::chrono::seconds(60);

Instant steady() { return std::chrono::steady_clock::now().time_since_epoch(); }

/// What is told to whoever uses a stream. Thread: any.
class Told {
 public:
  explicit Told(std::string text) : text_(std::move(text)) {}
  void set(std::string text) {
    const std::lock_guard lock(mutex_);
    text_ = std::move(text);
  }
  std::string get() const {
    const std::lock_guard lock(mutex_);
    return text_;
  }

 private:
  mutable std::mutex mutex_;
  std::string text_;
};

struct Asked {
  int socket = -1;
  std::shared_ptr<Told> told;
};

struct Stream {
  Stream(StreamHalf begun, int descriptor, std::shared_ptr<Told> teller)
      : half(std::move(begun)), told(std::move(teller)), socket(descriptor, false) {}
  StreamHalf half;
  std::shared_ptr<Told> told;
  links::StreamSocket socket;
  std::optional<links::ParcelSocket> parcels;
  bool was_open = false;
};

class Streams final : public ForwardedStreams {
 public:
  Streams(ForwardedStreamsOptions options, links::Address reached)
      : options_(std::move(options)),
        reached_(std::move(reached)),
        context_(1, sockets_max),
        settings_{.keys = options_.keys,
                  .lease = options_.silence,
                  .piece_bytes_max = links::stream_frame_bytes_max},
        who_(links::machine_words(options_.forwarder.machine, options_.forwarder.name) +
             ", which forwards to it"),
        thread_([this] { run(); }) {}
  ~Streams() override {
    stop_.ring();
    thread_.join();
  }
  Streams(const Streams&) = delete;
  Streams& operator=(const Streams&) = delete;

  Result<ForwardedStream> open() override;

 private:
  void run();
  /// False: it is to end.
  bool wait();
  void take_asked();
  void begin(Asked asked);
  void take_from(Stream& stream);
  void speak(Stream& stream);
  /// Before whoever uses the stream can see its end.
  void tell(Stream& stream);
  std::string words_of(const StreamHalf::Fate& fate) const;

  const ForwardedStreamsOptions options_;
  const links::Address reached_;
  zmq::context_t context_;
  links::SocketSettings settings_;
  const std::string who_;
  // Of the thread.
  std::list<Stream> streams_;
  Instant now_{};
  std::vector<pollfd> poll_;

  std::mutex mutex_;  // of what follows
  std::vector<Asked> asked_;
  std::size_t count_ = 0;  // of streams, with those that are asked for

  const Bell stop_, wake_;
  std::thread thread_;
};

Result<ForwardedStream> Streams::open() {
  std::array<int, 2> ends{-1, -1};
  const auto told =
      std::make_shared<Told>(who_ + " at " + options_.forwarder.address + ", has not answered");
  {
    const std::lock_guard lock(mutex_);
    if (count_ >= streams_max)
      return Error{ErrorCode::exhausted, "this machine has " + std::to_string(streams_max) +
                                             " connections through " + who_};
    if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends.data()) != 0)
      return Error{ErrorCode::unavailable, std::string("no socket: ") + std::strerror(errno)};
    ++count_;
    asked_.push_back({ends[1], told});
  }
  wake_.ring();
  return ForwardedStream{ends[0], [told] { return told->get(); }};
}

void Streams::run() {
  now_ = steady();
  while (wait()) {
    take_asked();
    for (auto stream = streams_.begin(); stream != streams_.end();) {
      take_from(*stream);
      stream->half.tick(now_);
      speak(*stream);
      tell(*stream);
      const auto here = stream++;
      if (!here->half.is_over()) continue;
      streams_.erase(here);
      const std::lock_guard lock(mutex_);
      --count_;
    }
  }
  const std::lock_guard lock(mutex_);
  for (const Asked& asked : asked_) {
    asked.told->set("this process ends");
    ::close(asked.socket);
  }
  for (Stream& stream : streams_) {
    stream.half.leave(StreamEnding::closed, "", now_);
    speak(stream);
    stream.told->set("this process ends");
  }
  streams_.clear();
}

bool Streams::wait() {
  Instant due = now_ + longest_wait;
  poll_.assign({{stop_.descriptor(), POLLIN, 0}, {wake_.descriptor(), POLLIN, 0}});
  for (const Stream& stream : streams_) {
    due = std::min(due, stream.half.due());
    const std::optional<short> events = stream.socket.wanted(stream.half);
    poll_.push_back({events ? stream.socket.descriptor() : -1, events.value_or(0), 0});
    const bool has = stream.parcels.has_value();
    poll_.push_back({has ? stream.parcels->arrivals.descriptor : -1, POLLIN, 0});
    poll_.push_back({has ? stream.parcels->fates.descriptor : -1, POLLIN, 0});
    if (has && (stream.parcels->arrivals.look || stream.parcels->fates.look)) due = Instant{};
  }
  const Instant left = std::max<Instant>(due - steady(), Instant{});
  const auto rounded = std::chrono::ceil<std::chrono::milliseconds>(left);
  const int ready = ::poll(poll_.data(), poll_.size(), static_cast<int>(rounded.count()));
  now_ = steady();
  if (ready <= 0) return true;
  if (poll_[1].revents != 0) (void)wake_.hear();
  std::size_t next = 2;
  for (Stream& stream : streams_) {
    const short events = poll_[next].revents;
    if (stream.parcels && poll_[next + 1].revents != 0) stream.parcels->arrivals.look = true;
    if (stream.parcels && poll_[next + 2].revents != 0) stream.parcels->fates.look = true;
    if (events != 0) stream.socket.pump(stream.half, events, now_);
    next += 3;
  }
  return poll_[0].revents == 0;
}

void Streams::take_asked() {
  std::vector<Asked> taken;
  {
    const std::lock_guard lock(mutex_);
    taken.swap(asked_);
  }
  for (Asked& asked : taken) begin(std::move(asked));
}

void Streams::begin(Asked asked) {
  Stream& stream = streams_.emplace_back(StreamHalf::dial(options_.self, options_.silence, now_),
                                         asked.socket, std::move(asked.told));
  try {
    stream.parcels.emplace(context_, settings_, false);
    stream.parcels->dial(context_, reached_, options_.forwarder.address,
                         options_.forwarder.public_key);
  } catch (const zmq::error_t& error) {
    stream.half.lost(StreamEnding::closed, std::string("it cannot be dialed: ") + error.what(),
                     now_);
  }
}

void Streams::take_from(Stream& stream) {
  if (!stream.parcels) return;
  for (int i = 0; i < frames_a_turn && stream.parcels->arrivals.look; ++i) {
    const std::optional<links::Arrival> arrival = stream.parcels->take();
    if (!arrival) break;
    stream.half.heard(
        arrival->overlong || arrival->body.size() != 0
            ? Result<StreamFrame>(Error{ErrorCode::corrupt, "a frame of several pieces"})
            : links::read_stream_frame(arrival->head),
        now_);
    tell(stream);
    stream.socket.pump(stream.half, 0, now_);
  }
  if (!stream.parcels->fates.look) return;
  // What was said before the connection ended is heard first.
  stream.parcels->arrivals.look = true;
  if (stream.parcels->arrived()) return;
  if (const std::optional<links::Broken> fate = stream.parcels->fate()) {
    stream.parcels->abandon();
    stream.half.lost(StreamEnding::closed, fate->why.empty() ? "the connection broke" : fate->why,
                     now_);
  }
}

void Streams::speak(Stream& stream) {
  for (const StreamFrame& frame : stream.half.take_frames())
    if (!stream.parcels || !stream.parcels->give({}, {0, links::write_stream_frame(frame), {}}))
      return stream.half.lost(StreamEnding::closed, "it takes nothing more", now_);
}

void Streams::tell(Stream& stream) {
  if (stream.half.fate()) return stream.told->set(words_of(*stream.half.fate()));
  if (stream.half.phase() != StreamHalf::Phase::open || std::exchange(stream.was_open, true))
    return;
  stream.told->set("it does not answer " + who_);
}

std::string Streams::words_of(const StreamHalf::Fate& fate) const {
  const std::string& text = fate.end.text;
  const std::string there = who_ + " at " + options_.forwarder.address + ": ";
  if (fate.said_here) {
    if (fate.end.why == StreamEnding::silent)
      return "nothing was heard of " + who_ + " for " + std::to_string(options_.silence.count()) +
             " ms";
    return fate.end.why == StreamEnding::malformed ? there + "it sends " + text : there + text;
  }
  switch (fate.end.why) {
    case StreamEnding::malformed:
      return who_ + ", refuses what this machine sends: " + text;
    case StreamEnding::version:
      return who_ + ", has another version: " + text;
    case StreamEnding::unknown:
      return who_ + ", does not know this machine: " + text;
    case StreamEnding::key:
      return who_ + ", knows this machine by another key: " + text;
    case StreamEnding::too_many:
      return who_ + ", refuses this machine: " + text;
    case StreamEnding::unreachable:
      return who_ + ", says that " + text;
    case StreamEnding::closed:
      return "it closed its connection to " + who_ + (text.empty() ? "" : ": " + text);
    case StreamEnding::silent:
      return who_ + ", has heard nothing of this machine";
    case StreamEnding::not_open:
      return who_ + ", has given this connection up";
    case StreamEnding::leaving:
      return who_ + ", ends";
  }
  return there + text;
}

}  // namespace

Result<std::unique_ptr<ForwardedStreams>> ForwardedStreams::create(
    ForwardedStreamsOptions options) {
  ZmqOptions like;
  like.self = {options.self, 1};
  like.bind = options.forwarder.address;
  like.peers = {options.forwarder};
  like.keys = options.keys;
  like.lease = options.silence;
  if (const Result<void> checked = links::check_options(like); !checked.ok())
    return checked.error();
  Result<links::Address> reached =
      links::usable(options.forwarder.address, !options.keys.secret_key.empty());
  if (!reached.ok()) return reached.error();
  try {
    return std::unique_ptr<ForwardedStreams>(
        std::make_unique<Streams>(std::move(options), std::move(*reached)));
  } catch (const zmq::error_t& error) {
    return Error{ErrorCode::unavailable, std::string("no streams: ") + error.what()};
  }
}

}  // namespace sluice
