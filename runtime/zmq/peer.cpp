// How connections are made, refused, replaced and given up. What travels: peer_parcels.cpp.
#include "runtime/zmq/peer.h"

#include <algorithm>

namespace sluice::links {

namespace {

using namespace std::chrono_literals;
constexpr Instant pause_first = 10ms;
constexpr Instant pause_most = 1s;

std::string hex(const Digest& digest) {
  std::string text;
  for (std::size_t i = 0; i < 4; ++i)
    for (const unsigned shift : {4U, 0U})
      text += "0123456789abcdef"[(static_cast<unsigned>(digest[i]) >> shift) & 15U];
  return text + "...";
}

std::string differ(const std::string& theirs, const std::string& ours) {
  return "it has " + theirs + ", " + ours + " is here";
}

}  // namespace

std::string machine_words(std::uint32_t machine, const std::string& name) {
  return name.empty() ? "machine " + std::to_string(machine) : "machine '" + name + "'";
}

std::string machine_words(std::uint32_t machine, const PeerSettings& settings) {
  return machine_words(machine, machine == settings.machine        ? settings.name
                                : machine == settings.self.machine ? settings.self_name
                                                                   : "");
}

std::string life_words(Origin origin, const PeerSettings& settings) {
  return machine_words(origin.machine, settings) + " (life " + std::to_string(origin.incarnation) +
         ")";
}

std::optional<Refusal> judge(const Hello& hello, const PeerSettings& settings) {
  const auto no = [&](Reason reason, std::string text) {
    return Refusal{reason, settings.self, 0, std::move(text)};
  };
  if (hello.to != settings.self.machine)
    return no(Reason::wrong_machine, "it wants machine " + std::to_string(hello.to) + ", this is " +
                                         machine_words(settings.self.machine, settings));
  if (hello.from.machine != settings.machine)
    return no(Reason::wrong_machine, "it is machine " + std::to_string(hello.from.machine) + ", " +
                                         machine_words(settings.machine, settings) + " was meant");
  if (hello.cluster != settings.cluster)
    return no(Reason::cluster,
              differ("cluster '" + hello.cluster + "'", "'" + settings.cluster + "'"));
  if (hello.workflow != settings.workflow)
    return no(Reason::workflow,
              "its cluster file, workflows, plugins or --set are not those of " +
                  machine_words(settings.self.machine, settings) + ": " +
                  differ("digest " + hex(hello.workflow), hex(settings.workflow)));
  const std::int64_t lease =
      std::chrono::duration_cast<std::chrono::milliseconds>(settings.lease).count();
  if (hello.lease_ms != static_cast<std::uint64_t>(lease))
    return no(Reason::lease, differ("a lease of " + std::to_string(hello.lease_ms) + " ms",
                                    std::to_string(lease) + " ms"));
  return std::nullopt;
}

LinkState Peer::state(Instant now) const {
  using Milliseconds = std::chrono::milliseconds;
  const bool connected = std::holds_alternative<Up>(connection_);
  return {.life = life(),
          .connected = connected,
          .heard = std::chrono::duration_cast<Milliseconds>(now - heard_),
          .owed_bytes = owed(),
          .window_bytes = settings_.window_bytes,
          .ended = ended_,
          .refused_up_to = refused_up_to_};
}

Peer::Peer(PeerSettings settings)
    : settings_(std::move(settings)),
      random_(settings_.seed),
      connection_(Away{Instant::max()}),
      sender_(settings_.window_bytes) {}

void Peer::start(Instant now, Effects& effects) {
  started_ = true;
  heard_ = now;
  if (settings_.dials) dial(now, effects);
}

void Peer::refuse(Origin refused, Instant now, Effects& effects) {
  if (refused.incarnation <= over_) return;
  over_ = refused.incarnation;
  if (life_ > over_) return;
  life_ = over_;
  forget();
  ended_ = true;
  told_connected_ = told_silent_ = false;
  const Refusal no =
      refusal(Reason::over, "the life of " + life_words(life(), settings_) + " is over");
  if (Up* at = up()) {
    say(*at, no, {}, now, effects);
    leave(pause_after_failure(now), effects);
  }
  if (offer_ && offer_->hello.from.incarnation <= over_)
    refuse_connection(offer_->connection, no, now, effects);
}

void Peer::heard(Connection connection, const Head& head, MessageBytes body, Instant now,
                 Effects& effects) {
  if (!std::holds_alternative<Hello>(head) && !expects(connection)) {
    // Late words of a connection that does not count any more: the other is to dial again.
    if (!std::holds_alternative<Refusal>(head)) {
      const Refusal no = refusal(Reason::not_connected, "no handshake on this connection");
      effects.push_back(Transmit{connection, write_head(no), {}});
    }
    effects.push_back(HangUp{connection});
    return;
  }
  if (is_up(connection)) heard_ = now;
  std::visit([&](const auto& what) { hear(connection, what, body, now, effects); }, head);
}

void Peer::heard_nonsense(Connection connection, const std::string& what, Instant now,
                          Effects& effects) {
  const std::string why =
      "what " + life_words({settings_.machine, life_}, settings_) + " sent cannot be read: " + what;
  if (is_up(connection)) return end_link(connection, why, now, effects);
  refuse_connection(connection, refusal(Reason::malformed, what), now, effects);
}

void Peer::hear(Connection connection, const Hello& hello, MessageBytes&, Instant now,
                Effects& effects) {
  if (settings_.dials || is_up(connection))
    return heard_nonsense(
        connection, settings_.dials ? "a hello to a side that dials itself" : "a second hello", now,
        effects);
  std::optional<Refusal> no = judge(hello, settings_);
  if (!no) no = judge_life(hello);
  if (no) return refuse_connection(connection, *no, now, effects);
  if (was_refused(hello, connection, now, effects)) return;
  if (offer_ && offer_->connection != connection) effects.push_back(HangUp{offer_->connection});
  offer_ = Offer{connection, hello, random_.next(), now + settings_.lease};
  Welcome welcome{this->hello(offer_->nonce), hello.nonce};
  if (welcome.hello.knows != hello.from.incarnation)
    welcome.hello.knows = 0, welcome.hello.applied = 0;
  effects.push_back(Transmit{connection, write_head(welcome), {}});
}

void Peer::hear(Connection connection, const Welcome& welcome, MessageBytes&, Instant now,
                Effects& effects) {
  const Dialing* dialing = std::get_if<Dialing>(&connection_);
  if (dialing == nullptr || welcome.echo != dialing->nonce)
    return heard_nonsense(connection, "a welcome that answers nothing", now, effects);
  const Hello& other = welcome.hello;
  std::optional<Refusal> no = judge(other, settings_);
  if (!no) no = judge_life(other);
  if (no) return refuse_connection(connection, *no, now, effects);
  if (was_refused(other, connection, now, effects)) return;
  if (other.from.incarnation > life_) begin_life(other.from.incarnation, now);
  if (!resume(other.knows, other.applied))
    return end_link(connection,
                    life_words(life(), settings_) + " contradicts what it said of this link before",
                    now, effects);
  const Ready ready{other.nonce, life_, receiver_.applied()};
  effects.push_back(Transmit{connection, write_head(ready), {}});
  establish(connection, now, effects);
}

void Peer::hear(Connection connection, const Ready& ready, MessageBytes&, Instant now,
                Effects& effects) {
  if (!offer_ || offer_->connection != connection || ready.echo != offer_->nonce)
    return heard_nonsense(connection, "a readiness that answers nothing", now, effects);
  const Hello hello = offer_->hello;
  // Time has passed since it was welcome.
  if (const auto no = judge_life(hello)) return refuse_connection(connection, *no, now, effects);
  offer_.reset();
  if (hello.from.incarnation > life_) begin_life(hello.from.incarnation, now);
  if (!resume(ready.knows, ready.applied))
    return end_link(connection,
                    life_words(life(), settings_) + " contradicts what it said of this link before",
                    now, effects);
  if (const Up* before = up()) effects.push_back(HangUp{before->connection});
  establish(connection, now, effects);
}

void Peer::hear(Connection connection, const Refusal& refusal, MessageBytes&, Instant now,
                Effects& effects) {
  const bool is_peer = refusal.from.machine == settings_.machine;
  if (refusal.reason == Reason::over && is_peer && refusal.over >= settings_.self.incarnation) {
    Hello by;
    by.from = refusal.from;
    by.over = refusal.over;
    was_refused(by, connection, now, effects);
    return;
  }
  if (refusal.reason == Reason::ended && is_peer && refusal.from.incarnation >= life_) {
    if (refusal.from.incarnation > life_) begin_life(refusal.from.incarnation, now);
    close(connection, pause_after_failure(now), effects);
    if (ended_) return;  // as this side knows
    return end_link(0, life_words(life(), settings_) + " has ended the link: " + refusal.text, now,
                    effects);
  }
  if (refusal.reason != Reason::not_connected)
    notice(life_words(refusal.from, settings_) + " refuses this machine (" +
               std::string(to_string(refusal.reason)) + "): " + refusal.text,
           refusal.reason, effects);
  close(connection, pause_after_failure(now), effects);
}

void Peer::hear(Connection connection, const OtherVersion& other, MessageBytes&, Instant now,
                Effects& effects) {
  refuse_connection(connection,
                    refusal(Reason::version, differ("format " + std::to_string(other.version),
                                                    std::to_string(format_version))),
                    now, effects);
}

void Peer::broke(Connection connection, const Broken& broken, Instant now, Effects& effects) {
  if (!expects(connection)) return;
  if (!broken.why.empty())
    notice(machine_words(settings_.machine, settings_) + ": " + broken.why, broken.refused,
           effects);
  close(connection, pause_after_failure(now), effects);
}

void Peer::tick(Instant now, Effects& effects) {
  if (offer_ && now >= offer_->give_up) close(offer_->connection, now, effects);
  if (const Dialing* dialing = std::get_if<Dialing>(&connection_);
      dialing != nullptr && now >= dialing->give_up) {
    notice(machine_words(settings_.machine, settings_) + " does not answer", {}, effects);
    leave(pause_after_failure(now), effects);
  }
  if (started_ && life_ != 0 && !ended_ && !told_silent_ && now - heard_ >= settings_.lease) {
    const auto lease = std::chrono::duration_cast<std::chrono::milliseconds>(settings_.lease);
    become_silent("nothing was heard of " + life_words(life(), settings_) + " for " +
                      std::to_string(lease.count()) + " ms",
                  effects);
    if (up() != nullptr) leave(now, effects);
  }
  if (const Away* away = std::get_if<Away>(&connection_);
      away != nullptr && settings_.dials && now >= away->retry)
    dial(now, effects);
  beat(now, effects);
}

void Peer::beat(Instant now, Effects& effects) {
  if (Up* at = up(); at != nullptr && (now >= say_by_ || now >= at->said + settings_.lease / 6))
    say(*at, Heartbeat{receiver_.applied()}, {}, now, effects);
}

Instant Peer::due() const {
  Instant due = Instant::max();
  if (offer_) due = std::min(due, offer_->give_up);
  if (const Dialing* dialing = std::get_if<Dialing>(&connection_))
    due = std::min(due, dialing->give_up);
  if (const Away* away = std::get_if<Away>(&connection_); away != nullptr && settings_.dials)
    due = std::min(due, away->retry);
  if (started_ && life_ != 0 && !ended_ && !told_silent_)
    due = std::min(due, heard_ + settings_.lease);
  if (const Up* at = std::get_if<Up>(&connection_))
    due = std::min({due, say_by_, at->said + settings_.lease / 6});
  return due;
}

bool Peer::is_up(Connection connection) const {
  const Up* at = std::get_if<Up>(&connection_);
  return at != nullptr && at->connection == connection;
}

bool Peer::expects(Connection connection) const {
  const Dialing* dialing = std::get_if<Dialing>(&connection_);
  return is_up(connection) || (dialing != nullptr && dialing->connection == connection) ||
         (offer_ && offer_->connection == connection);
}

Hello Peer::hello(std::uint64_t nonce) const {
  const auto lease = std::chrono::duration_cast<std::chrono::milliseconds>(settings_.lease);
  Hello hello;
  hello.from = settings_.self;
  hello.to = settings_.machine;
  hello.lease_ms = static_cast<std::uint64_t>(lease.count());
  hello.workflow = settings_.workflow;
  hello.cluster = settings_.cluster;
  hello.knows = ended_ ? 0 : life_;
  hello.applied = ended_ ? 0 : receiver_.applied();
  hello.over = over_;
  hello.nonce = nonce;
  return hello;
}

std::optional<Refusal> Peer::judge_life(const Hello& hello) const {
  const std::uint32_t incarnation = hello.from.incarnation;
  if (incarnation > over_ && incarnation >= life_) {
    if (incarnation > life_ || !ended_) return std::nullopt;
    return refusal(Reason::ended,
                   "the link to " + life_words(hello.from, settings_) + " has ended");
  }
  Refusal no =
      refusal(Reason::over, "the life of " + life_words(hello.from, settings_) + " is over");
  no.over = std::max(over_, life_ == 0 ? 0 : life_ - 1);
  return no;
}

Refusal Peer::refusal(Reason reason, std::string text) const {
  return {reason, settings_.self, over_, std::move(text)};
}

void Peer::refuse_connection(Connection connection, Refusal no, Instant now, Effects& effects) {
  notice(machine_words(settings_.machine, settings_) + " was refused (" +
             std::string(to_string(no.reason)) + "): " + no.text,
         no.reason, effects);
  effects.push_back(Transmit{connection, write_head(no), {}});
  close(connection, pause_after_failure(now), effects);
}

bool Peer::was_refused(const Hello& by, Connection connection, Instant now, Effects& effects) {
  if (by.over < settings_.self.incarnation) return false;
  refused_up_to_ = std::max(refused_up_to_, by.over);
  close(connection, pause_after_failure(now), effects);
  if (by.from.incarnation < life_ || by.from.incarnation <= refused_by_) return true;
  refused_by_ = by.from.incarnation;
  if (by.from.incarnation > life_) begin_life(by.from.incarnation, now);
  forget();
  ended_ = true;
  told_connected_ = told_silent_ = false;
  leave(pause_after_failure(now), effects);
  effects.push_back(SayRefused{by.from});
  return true;
}

void Peer::begin_life(std::uint32_t incarnation, Instant now) {
  forget();
  life_ = incarnation;
  ended_ = told_connected_ = told_silent_ = false;
  heard_ = now;
}

void Peer::forget() {
  sender_.reset([](const Parcel&) {});
  receiver_.reset();
  open_ = {};
  assembly_ = {};
  assembly_total_ = 0;
}

void Peer::close(Connection connection, Instant retry, Effects& effects) {
  if (offer_ && offer_->connection == connection) offer_.reset();
  const Dialing* dialing = std::get_if<Dialing>(&connection_);
  if (is_up(connection) || (dialing != nullptr && dialing->connection == connection))
    leave(retry, effects);
  else if (connection != 0)
    effects.push_back(HangUp{connection});
}

void Peer::leave(Instant retry, Effects& effects) {
  if (const Up* at = up()) effects.push_back(HangUp{at->connection});
  if (const Dialing* dialing = std::get_if<Dialing>(&connection_))
    effects.push_back(HangUp{dialing->connection});
  if (!std::holds_alternative<Away>(connection_)) connection_ = Away{retry};
}

void Peer::end_link(Connection tell, const std::string& why, Instant now, Effects& effects) {
  forget();
  ended_ = true;
  if (tell != 0) effects.push_back(Transmit{tell, write_head(refusal(Reason::ended, why)), {}});
  if (tell != 0) close(tell, pause_after_failure(now), effects);
  leave(pause_after_failure(now), effects);
  become_silent(why, effects);
}

void Peer::become_silent(const std::string& why, Effects& effects) {
  if (!told_silent_) effects.push_back(SaySilent{life(), why});
  told_silent_ = true;
  told_connected_ = false;
}

bool Peer::resume(std::uint32_t knows, std::uint64_t applied) {
  if (knows != settings_.self.incarnation) applied = 0;
  if (applied < sender_.said() || applied > sender_.last()) return false;
  sender_.applied(applied);
  return true;
}

void Peer::establish(Connection connection, Instant now, Effects& effects) {
  connection_ = Up{connection, now, sender_.said(), 0};
  failures_ = 0;
  noticed_.clear();
  heard_ = now;
  unsaid_parcels_ = unsaid_bytes_ = 0;
  say_by_ = Instant::max();
  if (!told_connected_) effects.push_back(SayConnected{life()});
  told_connected_ = true;
  told_silent_ = false;
  transmit(now, effects);
}

void Peer::dial(Instant now, Effects& effects) {
  const Dialing dialing{++dialed_, random_.next(), now + settings_.lease};
  connection_ = dialing;
  effects.push_back(Dial{dialing.connection});
  effects.push_back(Transmit{dialing.connection, write_head(hello(dialing.nonce)), {}});
}

/// Twice as long each time, a quarter of it by chance: machines that lost one do not dial at once.
Instant Peer::pause_after_failure(Instant now) {
  const Instant pause = std::min(pause_most, pause_first * (1U << std::min(failures_, 10U)));
  ++failures_;
  return now + pause -
         Instant(static_cast<std::int64_t>(random_.uniform() * 0.25 *
                                           static_cast<double>(pause.count())));
}

void Peer::notice(std::string text, std::optional<Reason> refused, Effects& effects) {
  if (text == noticed_) return;
  noticed_ = text;
  effects.push_back(LinkNotice(std::move(text), refused, settings_.machine));
}

}  // namespace sluice::links
