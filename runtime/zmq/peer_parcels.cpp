// What travels over a link: messages into numbered parcels and back, acknowledgements, repeats.
#include <algorithm>

#include "runtime/zmq/peer.h"

namespace sluice::links {

namespace {

using namespace std::chrono_literals;
constexpr std::size_t part_min = std::size_t{16} << 10U;         // shorter messages are batched
constexpr std::size_t batch_bytes = std::size_t{64} << 10U;      // a fuller batch is closed
constexpr std::size_t parcel_overhead = 128;                     // what keeping one takes besides
constexpr std::size_t flight_bytes_max = std::size_t{8} << 20U;  // in the connection's hands
constexpr std::uint64_t flight_parcels_max = 128;
constexpr std::size_t say_every_parcels = 16;
constexpr std::size_t say_every_bytes = std::size_t{4} << 20U;
constexpr Instant say_within = 5ms;

}  // namespace

void Peer::send(Origin to, Channel channel, MessageBytes bytes, Instant now, Effects& effects) {
  if (to.incarnation <= over_ || to.incarnation < life_) return;
  if (to.incarnation == life_ && ended_) return;
  if (to.incarnation > life_) {  // whoever sends has heard of a later life first
    begin_life(to.incarnation, now);
    if (up() != nullptr) leave(now, effects);
  }
  const std::string whose = life_words(life(), settings_);
  const Connection tell = up() != nullptr ? up()->connection : 0;
  if (bytes.size() > message_bytes_max)
    return end_link(tell,
                    "a message of " + std::to_string(bytes.size()) + " bytes for " + whose +
                        ", at most " + std::to_string(message_bytes_max) + " are allowed",
                    now, effects);
  if (sender_.full(open_.size() + bytes.size() + parcel_overhead))
    return end_link(tell,
                    whose + " is owed more than the link's window of " +
                        std::to_string(settings_.window_bytes) + " bytes",
                    now, effects);
  if (bytes.size() < part_min) {
    write_message(open_, channel, bytes.view());
    if (open_.size() >= batch_bytes) seal();
    return;
  }
  seal();
  const std::size_t total = bytes.size();
  const Ref<Shared> shared(new Shared(std::move(bytes)));
  for (std::size_t at = 0; at < total; at += settings_.body_bytes) {
    const std::size_t size = std::min(settings_.body_bytes, total - at);
    sender_.send({{shared, at, size}, true, channel, total, at}, size + parcel_overhead);
  }
}

/// What was collected becomes a parcel.
void Peer::seal() {
  if (open_.empty()) return;
  const std::size_t size = open_.size();
  Parcel parcel;
  parcel.body = {Ref<Shared>(new Shared(std::exchange(open_, wire::Bytes()))), 0, size};
  sender_.send(std::move(parcel), size + parcel_overhead);
}

void Peer::flush(Instant now, Effects& effects) { transmit(now, effects); }

/// Gives the connection what it may take now.
void Peer::transmit(Instant now, Effects& effects) {
  Up* at = up();
  if (at == nullptr) return;
  while (at->flight < flight_bytes_max && at->sent - sender_.said() < flight_parcels_max) {
    if (at->sent == sender_.last()) seal();
    if (at->sent == sender_.last()) return;
    const Parcel& parcel = sender_.item(++at->sent);
    at->flight += parcel.body.size + parcel_overhead;
    const std::uint64_t applied = receiver_.applied();
    if (parcel.is_part)
      say(*at, Part{at->sent, applied, parcel.channel, parcel.total, parcel.place}, parcel.body,
          now, effects);
    else
      say(*at, Batch{at->sent, applied}, parcel.body, now, effects);
  }
}

/// The other says how far it has taken what this side sent. False: it cannot be.
bool Peer::applied(Up& at, std::uint64_t number, Instant now, Effects& effects) {
  if (number > at.sent) {
    end_link(at.connection, "parcels were acknowledged that were not sent", now, effects);
    return false;
  }
  const std::size_t before = sender_.bytes();
  sender_.applied(number);
  at.flight -= before - sender_.bytes();
  return true;
}

void Peer::hear(Connection connection, const Batch& batch, MessageBytes& body, Instant now,
                Effects& effects) {
  messages_.clear();
  const Result<void> read = read_batch(body.view(), messages_);
  if (!read || !is_up(connection))
    return heard_nonsense(connection, read ? "messages before the handshake" : read.error().message,
                          now, effects);
  if (assembly_total_ != 0 && batch.number > receiver_.applied())
    return heard_nonsense(connection, "a batch amid a message's parts", now, effects);
  if (!take(batch.number, batch.applied, now, effects)) return;
  for (const MessageView& message : messages_)
    effects.push_back(
        Deliver{life(), message.channel, wire::Bytes(message.bytes.begin(), message.bytes.end())});
  took(body.size(), now, effects);
}

void Peer::hear(Connection connection, const Part& part, MessageBytes& body, Instant now,
                Effects& effects) {
  const Result<void> checked = check_part(part, body.size());
  if (!checked || !is_up(connection))
    return heard_nonsense(connection,
                          checked ? "messages before the handshake" : checked.error().message, now,
                          effects);
  if (part.number > receiver_.applied() &&
      (part.at != assembly_.size() ||
       (assembly_total_ != 0 &&
        (part.total != assembly_total_ || part.channel != assembly_channel_))))
    return heard_nonsense(connection, "a part that does not follow the one before", now, effects);
  if (!take(part.number, part.applied, now, effects)) return;
  const std::size_t size = body.size();
  if (size == part.total) {
    effects.push_back(Deliver{life(), part.channel, std::move(body)});
    return took(size, now, effects);
  }
  if (part.at == 0) {
    assembly_.reserve(part.total);
    assembly_total_ = part.total;
    assembly_channel_ = part.channel;
  }
  const std::span<const std::byte> piece = body.view();
  assembly_.insert(assembly_.end(), piece.begin(), piece.end());
  if (assembly_.size() == assembly_total_) {
    effects.push_back(Deliver{life(), assembly_channel_, std::exchange(assembly_, {})});
    assembly_total_ = 0;
  }
  took(size, now, effects);
}

void Peer::hear(Connection connection, const Heartbeat& heartbeat, MessageBytes& body, Instant now,
                Effects& effects) {
  const bool has_body = body.size() != 0;
  if (!is_up(connection) || has_body)
    return heard_nonsense(connection,
                          has_body ? "a heartbeat's body" : "a heartbeat before the handshake", now,
                          effects);
  if (applied(*up(), heartbeat.applied, now, effects)) transmit(now, effects);
}

/// True when the parcel is the next one; then it has been counted, and is to be delivered.
bool Peer::take(std::uint64_t number, std::uint64_t said, Instant now, Effects& effects) {
  if (!applied(*up(), said, now, effects)) return false;
  switch (receiver_.take(number)) {
    case LinkReceiver::Verdict::apply:
      return true;
    case LinkReceiver::Verdict::duplicate:  // sent again because the acknowledgement was lost
      say_by_ = std::min(say_by_, now + say_within);
      break;
    case LinkReceiver::Verdict::gap:
      end_link(up()->connection,
               "parcel " + std::to_string(number) + " came after parcel " +
                   std::to_string(receiver_.applied()),
               now, effects);
      return false;
  }
  transmit(now, effects);
  return false;
}

/// Acknowledges by count, by bytes, or a little later.
void Peer::took(std::size_t bytes, Instant now, Effects& effects) {
  ++unsaid_parcels_;
  unsaid_bytes_ += bytes;
  say_by_ = std::min(say_by_, now + std::min(say_within, settings_.lease / 12));
  transmit(now, effects);
  if (unsaid_parcels_ >= say_every_parcels || unsaid_bytes_ >= say_every_bytes)
    say(*up(), Heartbeat{receiver_.applied()}, {}, now, effects);
}

void Peer::acknowledge(Instant now, Effects& effects) {
  if (Up* at = up(); at != nullptr && unsaid_parcels_ != 0)
    say(*at, Heartbeat{receiver_.applied()}, {}, now, effects);
}

/// Whatever is said on a link says how far the other's parcels were taken, or ends the link.
void Peer::say(Up& at, const Head& head, Body body, Instant now, Effects& effects) {
  at.said = now;
  unsaid_parcels_ = unsaid_bytes_ = 0;
  say_by_ = Instant::max();
  effects.push_back(Transmit{at.connection, write_head(head), std::move(body)});
}

}  // namespace sluice::links
