#include "tests/zmq/pair.h"

#include <algorithm>

namespace sluice::testing {

using namespace links;

namespace {

wire::Bytes bytes(const std::string& text) {
  const auto view = std::as_bytes(std::span(text));
  return {view.begin(), view.end()};
}

std::string text_of(std::span<const std::byte> given) {
  return {reinterpret_cast<const char*>(given.data()), given.size()};
}

std::string words(Origin origin) {
  return std::to_string(origin.machine) + "/" + std::to_string(origin.incarnation);
}

std::string numbers(std::initializer_list<std::uint64_t> all) {
  std::string text;
  for (const std::uint64_t number : all) text += ' ' + std::to_string(number);
  return text;
}

std::string words(const Head& head) {
  struct Words {
    std::string operator()(const Hello& it) const {
      return "hello " + words(it.from) + ' ' + it.cluster +
             numbers({it.to, it.lease_ms, it.knows, it.applied, it.over, it.nonce % 1000});
    }
    std::string operator()(const Welcome& it) const {
      return "welcome," + numbers({it.echo % 1000}) + ' ' + (*this)(it.hello);
    }
    std::string operator()(const Ready& it) const {
      return "ready" + numbers({it.echo % 1000, it.knows, it.applied});
    }
    std::string operator()(const Refusal& it) const {
      return "refusal " + std::string(to_string(it.reason)) + " by " + words(it.from) +
             numbers({it.over}) + ": " + it.text;
    }
    std::string operator()(const Batch& it) const {
      return "batch" + numbers({it.number, it.applied});
    }
    std::string operator()(const Part& it) const {
      return "part" + numbers({it.number, it.applied, static_cast<std::uint64_t>(it.channel),
                               it.total, it.at});
    }
    std::string operator()(const Heartbeat& it) const {
      return "heartbeat" + numbers({it.applied});
    }
    std::string operator()(const OtherVersion& it) const {
      return "version" + numbers({it.version});
    }
  };
  return std::visit(Words{}, head);
}

struct EffectWords {
  std::string operator()(const Dial& it) const { return "dials" + numbers({it.connection}); }
  std::string operator()(const HangUp& it) const { return "hangs up" + numbers({it.connection}); }
  std::string operator()(const Transmit& it) const {
    const Result<Head> head = read_head(it.head);
    return "sends on" + numbers({it.connection}) + ": " +
           (head ? words(*head) : head.error().message) +
           (it.body.size == 0 ? "" : ", body" + numbers({it.body.at, it.body.size}));
  }
  std::string operator()(const Deliver& it) const {
    return "delivers of " + words(it.from) +
           numbers({static_cast<std::uint64_t>(it.channel), it.bytes.size()});
  }
  std::string operator()(const SayConnected& it) const { return "connected " + words(it.life); }
  std::string operator()(const SaySilent& it) const {
    return "silent " + words(it.life) + ": " + it.why;
  }
  std::string operator()(const SayRefused& it) const { return "refused by " + words(it.by); }
  std::string operator()(const LinkNotice& it) const { return "notice: " + it.text; }
};

}  // namespace

Pair::Pair(std::size_t window_bytes) : window_bytes_(window_bytes) {
  first_.self = {1, 1};
  second_.self = {2, 1};
  for (Side* made : {&first_, &second_}) made->peer = std::make_unique<Peer>(settings(made->self));
}

PeerSettings Pair::settings(Origin self) const {
  PeerSettings made;
  made.self = self;
  made.machine = 3 - self.machine;
  made.dials = self.machine == 2;
  made.lease = std::chrono::seconds(3);
  made.window_bytes = window_bytes_;
  made.cluster = "pair";
  made.seed = self.incarnation * 10 + self.machine;
  return made;
}

void Pair::start() {
  for (const unsigned machine : {1U, 2U}) {
    peer(machine).start(now_, effects_);
    act(machine);
  }
}

void Pair::send(unsigned from, std::uint32_t life, const std::string& text) {
  peer(from).send({3 - from, life}, Channel::message, bytes(text), now_, effects_);
  act(from);
}

void Pair::flush(unsigned from) {
  peer(from).flush(now_, effects_);
  act(from);
}

void Pair::refuse(unsigned by, std::uint32_t life) {
  peer(by).refuse({3 - by, life}, now_, effects_);
  act(by);
}

bool Pair::carry() {
  if (frozen_ || on_the_way_.empty()) return false;
  const Parcel parcel = std::move(on_the_way_.front());
  on_the_way_.pop_front();
  ++carried;
  hear(parcel);
  return true;
}

void Pair::hear(const Parcel& parcel) {
  const Result<Head> head = read_head(parcel.head);
  if (head)
    peer(parcel.to).heard(parcel.connection, *head, parcel.body, now_, effects_);
  else
    peer(parcel.to).heard_nonsense(parcel.connection, head.error().message, now_, effects_);
  act(parcel.to);
}

void Pair::run(Instant until) {
  for (int turns = 0; turns < 100000; ++turns) {
    if (carry()) continue;
    const Instant due = std::min(first_.peer->due(), second_.peer->due());
    if (due > until) break;
    now_ = std::max(now_, due);
    for (const unsigned machine : {1U, 2U}) {
      peer(machine).tick(now_, effects_);
      act(machine);
    }
  }
  now_ = std::max(now_, until);
}

void Pair::advance(Instant by) { run(now_ + by); }

void Pair::skip(Instant by) {
  now_ += by;
  for (const unsigned machine : {1U, 2U}) {
    peer(machine).tick(now_, effects_);
    act(machine);
  }
}

void Pair::acknowledge(unsigned machine) {
  peer(machine).acknowledge(now_, effects_);
  act(machine);
}

void Pair::cut() {
  on_the_way_.clear();
  if (open_ == 0) return;
  peer(2).broke(std::exchange(open_, 0), {}, now_, effects_);
  act(2);
}

void Pair::heal() { frozen_ = false; }

void Pair::restart(unsigned machine, std::uint32_t incarnation) {
  Side& again = side(machine);
  again.self.incarnation = incarnation;
  again.peer = std::make_unique<Peer>(settings(again.self));
  again.said = {};
  if (machine == 1) {
    cut();
  } else {
    on_the_way_.clear();
    open_ = 0;
    shift_ += 1000;
  }
  again.peer->start(now_, effects_);
  act(machine);
}

void Pair::inject(unsigned to, const Head& head, const std::string& body) {
  hear({to, to == 1 ? open_ + shift_ : open_, write_head(head), bytes(body)});
}

void Pair::inject_nonsense(unsigned to) {
  hear({to, to == 1 ? open_ + shift_ : open_, {std::byte{99}}, {}});
}

void Pair::act(unsigned machine) {
  Effects effects = std::exchange(effects_, {});
  for (Effect& effect : effects) perform(machine, effect);
}

void Pair::perform(unsigned machine, Effect& effect) {
  if (journal != nullptr)
    journal->push_back(std::to_string((now_ - Instant(std::chrono::hours(1))).count() / 1000) +
                       " us " + std::to_string(machine) + ' ' + std::visit(EffectWords{}, effect));
  Said& said_here = said(machine);
  if (const Dial* dial = std::get_if<Dial>(&effect)) open_ = dial->connection;
  if (const HangUp* hang_up = std::get_if<HangUp>(&effect); hang_up != nullptr && machine == 2)
    if (hang_up->connection == open_) open_ = 0;
  if (Transmit* transmit = std::get_if<Transmit>(&effect)) {
    const Connection connection =
        machine == 1 ? transmit->connection - shift_ : transmit->connection + shift_;
    const Connection counted = machine == 1 ? connection : transmit->connection;
    if (counted != open_) return;  // its other end is gone
    Parcel parcel{3 - machine, connection, std::move(transmit->head), {}};
    if (transmit->body.size != 0) {
      const auto begin =
          transmit->body.shared->bytes.begin() + static_cast<std::ptrdiff_t>(transmit->body.at);
      parcel.body.assign(begin, begin + static_cast<std::ptrdiff_t>(transmit->body.size));
    }
    on_the_way_.push_back(std::move(parcel));
    most_on_the_way = std::max(most_on_the_way, on_the_way_.size());
  }
  if (Deliver* deliver = std::get_if<Deliver>(&effect))
    said_here.received.emplace_back(deliver->from, text_of(deliver->bytes.view()));
  if (const SayConnected* say = std::get_if<SayConnected>(&effect))
    said_here.connected.push_back(say->life);
  if (const SaySilent* say = std::get_if<SaySilent>(&effect))
    said_here.silent.emplace_back(say->life, say->why);
  if (const SayRefused* say = std::get_if<SayRefused>(&effect))
    said_here.refused.push_back(say->by);
  if (const LinkNotice* notice = std::get_if<LinkNotice>(&effect))
    said_here.notices.push_back(notice->text);
}

}  // namespace sluice::testing
