// Channels beside frames under links and words made by chance: what is sent and what listeners
// hear, beside what it was.
#include <catch2/catch.hpp>
#include <deque>

#include "base/random.h"
#include "runtime/peer_channels.h"
#include "tests/journal.h"
#include "tests/outcomes.h"

using namespace sluice;

namespace {

using Bytes = std::vector<std::byte>;
using Journal = std::vector<std::string>;

std::string words(std::uint32_t machine, std::uint32_t incarnation) {
  return std::to_string(machine) + "/" + std::to_string(incarnation);
}

class FakeTransport final : public Transport {
 public:
  FakeTransport(Journal& journal, TransportListener*& listener)
      : journal_(journal), listener_(listener) {}
  void start(TransportListener& listener) override { listener_ = &listener; }
  void send(Origin to, Channel, MessageBytes given) override {
    const std::span<const std::byte> bytes = given.view();
    std::string line = "sends " + words(to.machine, to.incarnation) + ':';
    for (std::size_t i = 0; i < bytes.size(); ++i) {
      line += i % 8 == 0 ? " " : "";
      if (bytes[i] != std::byte{0}) line += std::to_string(std::to_integer<int>(bytes[i])) + '.';
    }
    journal_.push_back(line);
  }
  void refuse(Origin) override { journal_.emplace_back("refuses"); }
  void stop() override {}

 private:
  Journal& journal_;
  TransportListener*& listener_;
};

class Ear final : public PeerPort::Listener {
 public:
  Ear(Journal& journal, std::uint64_t channel)
      : journal_(journal), name_(std::to_string(channel) + " hears ") {}
  void joined(PeerLife peer) override { say("that it joined: ", peer, ""); }
  void lost(PeerLife peer) override { say("that it is lost: ", peer, ""); }
  using PeerPort::Listener::arrived;
  void arrived(PeerLife peer, Bytes message) override {
    say("from ", peer, ": " + std::to_string(message.size()) + " bytes");
  }

 private:
  void say(const std::string& what, PeerLife peer, const std::string& more) {
    journal_.push_back(name_ + what + words(peer.machine, peer.incarnation) + more);
  }
  Journal& journal_;
  const std::string name_;
};

class Chance {
 public:
  explicit Chance(std::uint64_t seed) : chance_(seed) {
    PeerPortOptions options;
    options.self = {1, 100};
    options.connect = [this](Origin) -> Result<std::unique_ptr<Transport>> {
      return std::unique_ptr<Transport>(std::make_unique<FakeTransport>(journal_, listener_));
    };
    port_ = std::move(make_peer_port(std::move(options))).value();
    for (std::uint64_t channel = 0; channel < 4; ++channel) ears_.emplace_back(journal_, channel);
  }

  Journal play(int steps) {
    for (int i = 0; i < steps; ++i) step();
    return journal_;
  }

 private:
  std::uint64_t pick(std::uint64_t most) { return chance_.next() % (most + 1); }
  static void put(Bytes& bytes, std::uint64_t number) {
    for (unsigned shift = 0; shift < 64; shift += 8)
      bytes.push_back(static_cast<std::byte>(number >> shift));
  }
  void hear(Origin from) {
    Bytes bytes;
    std::uint64_t channel = pick(4);
    if (pick(1) == 0) {
      put(bytes, pick(5) == 0 ? 1 : 0);
      put(bytes, pick(5) == 0 ? from.incarnation + pick(2) : from.incarnation - 1);
      for (std::uint64_t open = 0; open < 4; ++open)
        if (pick(2) != 0) put(bytes, open);
      if (pick(9) == 0) bytes.resize(bytes.size() - 1 - pick(8));
      channel = 0;
    } else {
      bytes.resize(pick(3));
    }
    put(bytes, channel);
    if (pick(19) == 0) bytes.resize(pick(8));
    if (pick(39) == 0) bytes = Bytes((1023 + pick(3)) * 8);
    listener_->received(from, Channel::message, std::move(bytes));
  }
  void step() {
    const Origin link{static_cast<std::uint32_t>(2 + pick(1)),
                      static_cast<std::uint32_t>(200 + pick(3))};
    const std::uint64_t channel = pick(3);
    switch (pick(11)) {
      case 0:
        journal_.emplace_back(port_->open(channel, ears_[channel]) ? "opens" : "is open");
        break;
      case 1:
        if (pick(2) == 0) port_->close(channel);
        break;
      case 2:
      case 3:
        listener_->connected(link);
        break;
      case 4:
        if (pick(2) == 0) listener_->silent(link, "");
        break;
      case 5:
        if (pick(3) == 0) listener_->refused(link);
        break;
      case 6:
      case 7:
        port_->send(channel, {link.machine, link.incarnation - 1}, Bytes(pick(2)));
        break;
      default:
        hear(link);
    }
    journal_.emplace_back("--");
  }

  SplitMix64 chance_;
  Journal journal_;
  TransportListener* listener_ = nullptr;
  std::deque<Ear> ears_;
  std::unique_ptr<PeerPort> port_;  // before what it calls
};

}  // namespace

TEST_CASE("what channels send and tell at each event is what they did before") {
  test::Outcomes outcomes("peer_channels");
  for (std::uint64_t seed = 1; seed <= 4; ++seed) {  // to be read
    const Journal journal = Chance(seed).play(60);
    for (const std::string& line : journal) outcomes.add("chance " + std::to_string(seed), line);
  }
  for (std::uint64_t seed = 1; seed <= 100; ++seed)
    outcomes.add("digests", std::to_string(seed) + ": " + test::digest_of(Chance(seed).play(150)));
  outcomes.require_as_kept();
}
