#include "runtime/zmq/sockets.h"

#include <array>
#include <charconv>
#include <cstring>
#include <vector>

namespace sluice::links {

namespace {

constexpr int never_ms = 24 * 3600 * 1000;
constexpr int leave_within_ms = 200;        // what was given to a connection that is hung up
constexpr std::size_t copied_below = 4096;  // smaller bodies are copied, larger ones shared
constexpr std::size_t kept_from = 16384;    // of what came; the library reads 8 KiB at a time
constexpr std::size_t around_piece = 256;   // CURVE puts 33 bytes around each
constexpr const char* key_question = "inproc://zeromq.zap.01";

void drop_shared(void*, void* hint) {
  const Shared* shared = static_cast<const Shared*>(hint);
  if (shared->release()) Shared::dispose(shared);
}

/// The body's bytes, kept by the library for as long as it needs them.
zmq::message_t message_of(const Body& body) {
  const std::byte* data = body.shared->bytes.data() + body.at;
  if (body.size < copied_below) return zmq::message_t(data, body.size);
  body.shared->retain();
  return zmq::message_t(const_cast<std::byte*>(data), body.size, drop_shared,
                        const_cast<Shared*>(body.shared.get()));
}

std::span<const std::byte> bytes_of(const zmq::message_t& message) {
  return {static_cast<const std::byte*>(message.data()), message.size()};
}

/// A piece as the library received it. Its bytes stay where they are when the message is moved.
class Piece final : public Buffer {
 public:
  explicit Piece(zmq::message_t given)
      : Buffer(static_cast<std::byte*>(given.data()), given.size(), nullptr),
        message_(std::move(given)) {}

 private:
  void end() override { delete this; }

  zmq::message_t message_;
};

/// Small pieces stand in the message itself or share memory with others: they are copied.
MessageBytes kept(zmq::message_t piece) {
  const std::span<const std::byte> bytes = bytes_of(piece);
  if (bytes.size() < kept_from) return wire::Bytes(bytes.begin(), bytes.end());
  return MessageBytes(Ref<Buffer>(new Piece(std::move(piece))));
}

/// Takes one piece if it is there.
bool take_piece(zmq::socket_t& socket, zmq::message_t& piece) {
  return zmq_msg_recv(piece.handle(), socket.handle(), ZMQ_DONTWAIT) >= 0;
}

/// What an event of a connection's monitor means; nothing: the connection lives.
std::optional<Broken> meaning(unsigned event, unsigned value, bool has_keys) {
  switch (event) {
    case ZMQ_EVENT_CLOSED:
      return Broken{"nobody answers at its address"};
    case ZMQ_EVENT_DISCONNECTED:
      return Broken{};
    case ZMQ_EVENT_HANDSHAKE_FAILED_AUTH:
      return Broken{"it does not know this machine's key (status " + std::to_string(value) + ")",
                    Reason::key};
    case ZMQ_EVENT_HANDSHAKE_FAILED_PROTOCOL:
    case ZMQ_EVENT_HANDSHAKE_FAILED_NO_DETAIL:
      if (!has_keys) return Broken{"no handshake could be made: does it stand still, or use keys?"};
      return Broken{
          "no handshake could be made: does it stand still, does it use keys, and is its public "
          "key the one that is known here?",
          Reason::key};
    default:
      return std::nullopt;
  }
}

}  // namespace

std::size_t body_bytes_at(const Address& address) {
  return address.directory.empty() ? far_body_bytes_max : body_bytes_max;
}

ParcelSocket::ParcelSocket(zmq::context_t& context, const SocketSettings& settings, bool bound)
    : socket_(context, bound ? zmq::socket_type::router : zmq::socket_type::dealer),
      bound_(bound),
      has_keys_(!settings.keys.public_key.empty()),
      piece_bytes_max_(settings.piece_bytes_max) {
  arrivals.descriptor = socket_.get(zmq::sockopt::fd);
  const int lease = static_cast<int>(settings.lease.count());
  socket_.set(zmq::sockopt::linger, leave_within_ms);
  socket_.set(zmq::sockopt::sndhwm, settings.queue_out);
  socket_.set(zmq::sockopt::rcvhwm, settings.queue_in);
  socket_.set(zmq::sockopt::handshake_ivl, lease);
  if (bound) {
    socket_.set(zmq::sockopt::router_mandatory, true);
    // Closes connections whose other end is gone; whether a machine is there is decided elsewhere.
    socket_.set(zmq::sockopt::heartbeat_ivl, lease);
    socket_.set(zmq::sockopt::heartbeat_timeout, 2 * lease);
  } else {
    // A new connection has a handshake of its own, so the library is to make none. Not -1: with
    // that it drops the connection amid a parcel that is being taken, and aborts (4.3.4, fq.cpp).
    socket_.set(zmq::sockopt::reconnect_ivl, never_ms);
    socket_.set(zmq::sockopt::connect_timeout, lease);
  }
  if (settings.keys.secret_key.empty()) return;
  socket_.set(zmq::sockopt::curve_secretkey, settings.keys.secret_key);
  socket_.set(zmq::sockopt::curve_publickey, settings.keys.public_key);
  if (!bound) return;
  socket_.set(zmq::sockopt::curve_server, true);
  socket_.set(zmq::sockopt::zap_domain, "sluice");
}

ParcelSocket::~ParcelSocket() {
  // Before the monitor's reader goes: the library's thread waits for ever with news for nobody, and
  // with it all connections of this machine (4.3.4, socket_base.cpp).
  if (monitor_) zmq_socket_monitor(socket_.handle(), nullptr, 0);
}

void ParcelSocket::prepare(const Address& how) {
  const std::size_t piece = piece_bytes_max_.value_or(body_bytes_at(how));
  socket_.set(zmq::sockopt::maxmsgsize, static_cast<std::int64_t>(piece + around_piece));
  socket_.set(zmq::sockopt::ipv6, how.ipv6);
}

void ParcelSocket::bind(const Address& how, const std::string& address) {
  prepare(how);
  socket_.bind(address);
}

void ParcelSocket::dial(zmq::context_t& context, const Address& how, const std::string& address,
                        const std::string& key) {
  prepare(how);
  if (!key.empty()) socket_.set(zmq::sockopt::curve_serverkey, key);
  const std::string channel =
      "inproc://fate-" + std::to_string(reinterpret_cast<std::uintptr_t>(socket_.handle()));
  constexpr int wanted = ZMQ_EVENT_CLOSED | ZMQ_EVENT_DISCONNECTED |
                         ZMQ_EVENT_HANDSHAKE_FAILED_AUTH | ZMQ_EVENT_HANDSHAKE_FAILED_PROTOCOL |
                         ZMQ_EVENT_HANDSHAKE_FAILED_NO_DETAIL;
  if (zmq_socket_monitor(socket_.handle(), channel.c_str(), wanted) == 0) {
    monitor_ = zmq::socket_t(context, zmq::socket_type::pair);
    monitor_.set(zmq::sockopt::linger, 0);
    monitor_.connect(channel);
    fates.descriptor = monitor_.get(zmq::sockopt::fd);
  }
  socket_.connect(address);
}

bool ParcelSocket::give(zmq::message_t message, bool more) {
  return zmq_msg_send(message.handle(), socket_.handle(),
                      ZMQ_DONTWAIT | (more ? ZMQ_SNDMORE : 0)) >= 0;
}

bool ParcelSocket::give(std::string_view route, const Transmit& parcel) {
  arrivals.look = true;
  if (bound_ && !give(zmq::message_t(route.data(), route.size()), true)) return false;
  const bool has_body = parcel.body.size != 0;
  if (!give(zmq::message_t(parcel.head.data(), parcel.head.size()), has_body)) return false;
  return !has_body || give(message_of(parcel.body), false);
}

std::optional<Arrival> ParcelSocket::take() {
  Arrival arrival;
  arrivals.look = take_piece(socket_, bound_ ? route_ : head_);
  if (!arrivals.look) return std::nullopt;
  if (bound_) {
    arrival.route = {static_cast<const char*>(route_.data()), route_.size()};
    if (!route_.more() || !take_piece(socket_, head_)) head_.rebuild();
  }
  bool more = head_.more();
  zmq::message_t body;
  if (more) more = take_piece(socket_, body) && body.more();
  for (zmq::message_t rest; more; more = rest.more()) {
    arrival.overlong = true;
    if (!take_piece(socket_, rest)) break;
  }
  arrival.head = bytes_of(head_);
  arrival.body = kept(std::move(body));
  return arrival;
}

std::optional<std::uint32_t> ParcelSocket::proved() {
  const char* shown = zmq_msg_gets(head_.handle(), "User-Id");
  if (shown == nullptr) return std::nullopt;
  std::uint32_t machine = 0;
  const char* end = shown + std::strlen(shown);
  const auto [at, error] = std::from_chars(shown, end, machine);
  if (error != std::errc{} || at != end) return std::nullopt;
  return machine;
}

std::optional<Broken> ParcelSocket::fate() {
  std::optional<Broken> known;
  fates.look = false;
  for (zmq::message_t event, address; monitor_ && take_piece(monitor_, event);) {
    if (event.more()) take_piece(monitor_, address);
    if (event.size() != 6) continue;
    std::uint16_t what = 0;
    std::uint32_t value = 0;
    std::memcpy(&what, event.data(), 2);
    std::memcpy(&value, static_cast<const char*>(event.data()) + 2, 4);
    std::optional<Broken> means = meaning(what, value, has_keys_);
    if (means && (!known || known->why.empty())) known = std::move(means);
  }
  return known;
}

bool ParcelSocket::arrived() {
  if (arrivals.look) {
    int events = 0;
    std::size_t size = sizeof events;
    const int got = zmq_getsockopt(socket_.handle(), ZMQ_EVENTS, &events, &size);
    arrivals.look = got != 0 || (events & ZMQ_POLLIN) != 0;
  }
  return arrivals.look;
}

void ParcelSocket::abandon() {
  const int at_once = 0;
  zmq_setsockopt(socket_.handle(), ZMQ_LINGER, &at_once, sizeof at_once);
}

KeyKeeper::KeyKeeper(zmq::context_t& context) : socket_(context, zmq::socket_type::rep) {
  socket_.set(zmq::sockopt::linger, 0);
  socket_.bind(key_question);
  questions.descriptor = socket_.get(zmq::sockopt::fd);
}

void KeyKeeper::allow(const std::string& public_key, std::uint32_t machine) {
  std::array<std::uint8_t, 32> key{};
  if (zmq_z85_decode(key.data(), public_key.c_str()) == nullptr) return;
  machines_[std::string(reinterpret_cast<const char*>(key.data()), key.size())] = machine;
}

bool KeyKeeper::answer(std::optional<std::string>& refused) {
  // version, request, domain, address, identity, mechanism, credentials
  std::vector<std::string> question;
  zmq::message_t piece;
  questions.look = take_piece(socket_, piece);
  if (!questions.look) return false;
  for (bool more = true; more; more = piece.more() && take_piece(socket_, piece))
    question.push_back(piece.to_string());
  question.resize(std::max<std::size_t>(question.size(), 7));
  const auto known = question[5] == "CURVE" ? machines_.find(question[6]) : machines_.end();
  const bool allowed = known != machines_.end();
  refused.reset();
  if (!allowed) refused = "a connection from " + question[3] + " was refused: its key is nobody's";
  const std::array<std::string, 6> answer{question[0],
                                          question[1],
                                          allowed ? "200" : "400",
                                          allowed ? "OK" : "the key is nobody's",
                                          allowed ? std::to_string(known->second) : "",
                                          ""};
  for (std::size_t i = 0; i < answer.size(); ++i)
    zmq_send(socket_.handle(), answer[i].data(), answer[i].size(),
             ZMQ_DONTWAIT | (i + 1 < answer.size() ? ZMQ_SNDMORE : 0));
  return true;
}

}  // namespace sluice::links
