// Messages between machines beside the frames: who joins and is lost, and links that have ended.
#include "runtime/peer_channels.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <condition_variable>
#include <deque>
#include <filesystem>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "runtime/link_renewal.h"
#include "runtime/zmq/zmq_transport.h"
#include "tests/scratch_folder.h"

using namespace sluice;
using namespace std::chrono_literals;

namespace {

constexpr std::uint64_t channel = 7;

class Ear final : public PeerPort::Listener {
 public:
  void joined(PeerLife peer) override {
    note([&] { joins.push_back(peer); });
  }
  void lost(PeerLife peer) override {
    note([&] { losses.push_back(peer); });
  }
  void arrived(PeerLife peer, std::vector<std::byte> message, Ref<Buffer> body) override {
    note([&] {
      in_place += body->size();
      last = body;
    });
    arrived(peer, std::move(message));
  }
  void arrived(PeerLife peer, std::vector<std::byte> message) override {
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, 10s, [&] { return !holds; });
    from = peer;
    bytes += message.size();
    changed_.notify_all();
  }
  bool wait(const std::function<bool()>& what) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, 10s, what);
  }
  template <typename Change>
  void note(Change change) {
    const std::lock_guard lock(mutex_);
    change();
    changed_.notify_all();
  }

  std::vector<PeerLife> joins, losses;
  PeerLife from{};
  std::size_t bytes = 0, in_place = 0;
  Ref<Buffer> last;
  bool holds = false;  // whoever hears something stands still

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
};

std::unique_ptr<PeerPort> port_in(const ScratchFolder& folder, std::uint32_t machine,
                                  std::uint32_t incarnation, std::size_t window,
                                  std::size_t shared_bytes = 0) {
  PeerPortOptions options;
  options.self = {machine, incarnation};
  options.first_pause = 20ms;
  options.connect = [path = folder.path(), machine, window, shared_bytes](Origin self) {
    const auto address = [&](std::uint32_t number) {
      return "ipc://" + path + "/" + std::to_string(number);
    };
    ZmqOptions made;
    made.self = self;
    made.bind = address(machine);
    made.peers = {{3 - machine, address(3 - machine), ""}};
    made.shared_bytes = shared_bytes;
    made.window_bytes = window;
    made.notice = [](const LinkNotice&) {};
    return make_zmq_transport(std::move(made));
  };
  return std::move(make_peer_port(std::move(options))).value();
}

std::vector<std::byte> announcement(std::uint64_t is_new, std::uint64_t life,
                                    std::vector<std::uint64_t> channels) {
  std::vector<std::uint64_t> numbers{is_new, life};
  numbers.insert(numbers.end(), channels.begin(), channels.end());
  numbers.push_back(0);  // the channel of what is said about channels
  std::vector<std::byte> bytes;
  for (const std::uint64_t number : numbers)
    for (unsigned shift = 0; shift < 64; shift += 8)
      bytes.push_back(static_cast<std::byte>(number >> shift));
  return bytes;
}

}  // namespace

TEST_CASE("a link that has ended comes back, and the machine is the one it was") {
  const ScratchFolder folder;
  constexpr std::size_t window = std::size_t{1} << 20U, piece = std::size_t{256} << 10U;
  Ear first, second;  // before the ports, whose links end in their destructors and are told
  const auto one = port_in(folder, 1, 100, window), two = port_in(folder, 2, 200, window);
  REQUIRE(one->open(channel, first));
  REQUIRE(two->open(channel, second));
  REQUIRE(first.wait([&] { return first.joins.size() == 1; }));
  REQUIRE(second.wait([&] { return second.joins.size() == 1; }));
  const bool lower_sends = GENERATE(true, false);
  PeerPort& sender = lower_sends ? *one : *two;
  Ear& slow = lower_sends ? second : first;
  Ear& other = lower_sends ? first : second;
  const PeerLife to = lower_sends ? PeerLife{2, 200} : PeerLife{1, 100};
  // One side stands still, and is owed more than the window.
  slow.note([&] { slow.holds = true; });
  for (int i = 0; i < 64; ++i) sender.send(channel, to, std::vector<std::byte>(piece));
  REQUIRE(other.wait([&] { return !other.losses.empty(); }));
  slow.note([&] { slow.holds = false; });
  // They meet again by themselves, in the lives that their users know.
  REQUIRE(first.wait([&] { return first.joins.size() >= 2; }));
  REQUIRE(second.wait([&] { return second.joins.size() >= 2; }));
  std::size_t before = 0;
  slow.note([&] { before = slow.bytes; });
  // Both sides may begin anew, one after the other: what was sent between is lost with the link.
  bool arrived = false;
  for (int tries = 0; tries < 3 && !arrived; ++tries) {
    sender.send(channel, to, std::vector<std::byte>(100));
    arrived = slow.wait([&] { return slow.bytes >= before + 100; });
  }
  CHECK(arrived);
  first.note([&] {
    CHECK(first.joins.back() == PeerLife{2, 200});
    CHECK(first.losses.back() == PeerLife{2, 200});
  });
  second.note([&] { CHECK(second.joins.back() == PeerLife{1, 100}); });
}

TEST_CASE("the end of a message stands in memory that both have, and comes back, or goes in it") {
  const ScratchFolder folder;
  // More than can be on its way before the other side says that it has it.
  constexpr std::size_t window = std::size_t{64} << 20U, shared = std::size_t{64} << 20U;
  constexpr std::size_t size = std::size_t{128} << 10U;
  const bool shares = GENERATE(true, false);
  Ear first, second;
  const auto one = port_in(folder, 1, 100, window, shares ? shared : 0);
  const auto two = port_in(folder, 2, 200, window, shares ? shared : 0);
  REQUIRE(one->open(channel, first));
  REQUIRE(two->open(channel, second));
  REQUIRE(first.wait([&] { return first.joins.size() == 1; }));
  CHECK((one->make_body({2, 200}, size).get() != nullptr) == shares);
  CHECK_FALSE(one->make_body({3, 1}, size));   // nobody
  CHECK_FALSE(one->make_body({2, 200}, 100));  // a small one is cheaper in the message
  const auto send = [&](std::size_t head) {
    Ref<Buffer> body = one->make_body({2, 200}, size);
    if (!body) body = Buffer::zeros(size);
    std::fill_n(body->data(), size, std::byte{5});
    one->send(channel, {2, 200}, std::vector<std::byte>(head), body);
  };
  std::size_t expected = 0, calls = 0;
  const auto turn = [&] {
    send(3);
    expected += 3;
    ++calls;
    REQUIRE(second.wait([&] { return second.bytes + second.in_place == expected + calls * size; }));
  };
  turn();
  // Until the other side has mapped the memory they go in the message.
  while (shares && second.in_place == 0) turn();
  if (!shares) {
    CHECK(second.in_place == 0);
    return;
  }
  second.note([&] {
    CHECK(std::all_of(second.last->data(), second.last->data() + size,
                      [](std::byte byte) { return byte == std::byte{5}; }));
    CHECK_FALSE(second.last->may_write());
  });
  const std::size_t before = second.in_place;
  for (int i = 0; i < 1000; ++i) turn();  // twice of what there is: each is given back
  CHECK(second.in_place == before + 1000 * size);
}

TEST_CASE("links are begun anew by one side first, less and less often") {
  using Instant = LinkRenewal::Instant;
  LinkRenewal higher(5, 250ms), lower(2, 250ms);
  CHECK_FALSE(higher.due().has_value());
  higher.ended(2, 1s);
  lower.ended(5, 1s);
  CHECK(higher.due() == Instant(1250ms));
  CHECK(lower.due() == Instant(2000ms));  // the other side is quicker
  lower.met(5);
  CHECK_FALSE(lower.due().has_value());
  higher.ended(2, 1100ms);  // said again
  CHECK(higher.due() == Instant(1250ms));
  Instant now = 1250ms, last{};
  for (int i = 0; i < 20; ++i) {
    higher.begun(now, true);
    CHECK_FALSE(higher.due().has_value());
    higher.ended(2, now);
    const Instant pause = *higher.due() - now;
    CHECK(pause >= last);
    CHECK(pause <= LinkRenewal::pause_most);
    last = pause;
    now += pause;
  }
  CHECK(last == LinkRenewal::pause_most);
  // It could not be: tried again.
  higher.begun(now, false);
  CHECK(higher.due() == now + LinkRenewal::pause_most);
  higher.begun(now, true);
  now += LinkRenewal::calm + 1s;
  higher.ended(2, now);
  CHECK(higher.due() == now + 250ms);
}

TEST_CASE("a machine whose clock was set back takes a life that is not over") {
  CHECK(life_behind(100, 0) == 101);
  CHECK(life_behind(100, 99) == 101);
  // What others know is at most one behind what they say is over.
  CHECK(life_behind(100, 5000) == 5002);
  // Of a word that cannot be: a bounded step, again and again.
  CHECK(life_behind(100, ~0U) == 100 + (1U << 16U));
  CHECK(life_behind(~0U - 1, ~0U) == ~0U);
  CHECK(life_behind(~0U, ~0U) == ~0U);
}

namespace {

/// A transport whose machines are the test's.
/// Has one block: 4 bytes at slab 2, block 3, generation 4.
class OneBlock final : public wire::Lender {
 public:
  Ref<Buffer> make(std::size_t) override { return {}; }
  bool reaches(std::uint32_t) const override { return true; }
  std::optional<wire::Handle> lend(Origin, const Ref<Buffer>&) override { return {}; }
  void take_back(Origin, const wire::Handle&) override {}
  Result<Ref<Buffer>> borrow(Origin, const wire::Handle& handle, std::size_t size) override {
    ++asked;
    if (handle == wire::Handle{2, 3, 4} && size == 4) return Buffer::zeros(size);
    return Error{ErrorCode::corrupt, "no such block"};
  }
  int asked = 0;
};

class FakeTransport final : public Transport {
 public:
  struct Made {
    wire::Lender* lender = nullptr;
    TransportListener* listener = nullptr;
    std::vector<std::pair<Origin, std::vector<std::byte>>> sent;
    std::vector<LinkState> links;
  };
  explicit FakeTransport(Made& made) : made_(made) {}
  void start(TransportListener& listener) override { made_.listener = &listener; }
  void send(Origin to, Channel, MessageBytes bytes) override {
    made_.sent.emplace_back(to, std::move(bytes).take());
  }
  void refuse(Origin) override {}
  void stop() override {}
  std::vector<LinkState> links() const override { return made_.links; }
  wire::Lender* lender() override { return made_.lender; }

 private:
  Made& made_;
};

/// Lines that are told to people.
class Lines {
 public:
  void add(const std::string& line) {
    const std::lock_guard lock(mutex_);
    lines_.push_back(line);
    changed_.notify_all();
  }
  bool wait_for(const std::string& words, std::size_t times = 1) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, 10s, [&] { return count_in(words) >= times; });
  }
  std::size_t count(const std::string& words) {
    const std::lock_guard lock(mutex_);
    return count_in(words);
  }

 private:
  std::size_t count_in(const std::string& words) const {
    return static_cast<std::size_t>(std::ranges::count_if(
        lines_, [&](const std::string& line) { return line.find(words) != std::string::npos; }));
  }
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::string> lines_;
};

}  // namespace

TEST_CASE("a machine 0 in life 1 is heard as any other is") {
  FakeTransport::Made made;
  PeerPortOptions options;
  options.self = {1, 1};
  options.connect = [&](Origin) -> Result<std::unique_ptr<Transport>> {
    return std::unique_ptr<Transport>(std::make_unique<FakeTransport>(made));
  };
  Ear ear;
  const auto port = std::move(make_peer_port(std::move(options))).value();
  REQUIRE(port->open(channel, ear));
  made.listener->connected({0, 1});
  made.listener->received({0, 1}, Channel::message, announcement(1, 1, {channel}));
  CHECK(ear.joins == std::vector<PeerLife>{{0, 1}});
  // Over one link it stays in that life.
  made.listener->received({0, 1}, Channel::message, announcement(1, 0, {channel}));
  CHECK(ear.joins.size() == 1);
}

TEST_CASE("people are told who is silent, and that links could not be begun anew, once each") {
  FakeTransport::Made made;
  Lines lines;
  std::mutex mutex;
  std::condition_variable changed;
  std::vector<Origin> tried;  // lives
  PeerPortOptions options;
  options.self = {1, 100};
  options.first_pause = 1ms;
  options.names = {"front", "read", "write"};
  options.notice = [&](const std::string& line) { lines.add(line); };
  options.connect = [&](Origin self) -> Result<std::unique_ptr<Transport>> {
    const std::lock_guard lock(mutex);
    tried.push_back(self);
    changed.notify_all();
    if (tried.size() > 1 && tried.size() < 5)
      return Error{ErrorCode::unavailable, "the address is taken"};
    return std::unique_ptr<Transport>(std::make_unique<FakeTransport>(made));
  };
  const auto port = std::move(make_peer_port(std::move(options))).value();
  made.links = {{.life = {2, 200}, .ended = true, .refused_up_to = 5000}};
  TransportListener& listener = *made.listener;
  listener.connected({2, 200});
  for (int i = 0; i < 3; ++i)
    listener.silent({2, 200}, "machine 'write' was owed more than its window");
  CHECK(lines.wait_for("pages: machine 'write' was owed more than its window"));
  {
    std::unique_lock lock(mutex);
    REQUIRE(changed.wait_for(lock, 10s, [&] { return tried.size() >= 5; }));
    // Behind what the other says is over, which a clock that was set back has brought.
    CHECK(tried[1] == Origin{1, 5002});
  }
  CHECK(lines.wait_for("the address is taken"));
  CHECK(lines.count("owed more") == 1);
  CHECK(lines.count("the address is taken") == 1);
  port->notice(2, "has another secret");
  port->notice(2, "has another secret");
  port->notice(7, "has another secret");
  CHECK(lines.count("pages: machine 'write' has another secret") == 1);
  CHECK(lines.count("pages: machine 7 has another secret") == 1);
}

TEST_CASE("links are begun anew for a link that has ended and whose machine is not back") {
  struct Case {
    const char* what;
    std::vector<Origin> connected;
    LinkState link;
    bool anew;
  };
  for (const Case& one : std::vector<Case>{
           {"it is not there", {}, {.life = {2, 200}, .ended = true}, true},
           {"it has not ended", {}, {.life = {2, 200}, .ended = false}, false},
           {"it is connected", {{2, 200}}, {.life = {2, 200}, .ended = true}, true},
           {"an earlier life is", {{2, 199}}, {.life = {2, 200}, .ended = true}, true},
           {"a later life is", {{2, 201}}, {.life = {2, 200}, .ended = true}, false},
           {"another's later life is", {{3, 201}}, {.life = {2, 200}, .ended = true}, true},
           {"both are", {{2, 201}, {3, 300}}, {.life = {2, 200}, .ended = true}, false}}) {
    INFO(one.what);
    // Each look is awaited, so that what it began is seen before the next.
    struct Looked {
      std::mutex mutex;
      std::condition_variable changed;
      int looks = 0;
      std::vector<Origin> tried;
    } looked;
    struct Looking final : Transport {
      Looking(Looked& at, const LinkState& one) : seen(at), link(one) {}
      void start(TransportListener& heard) override { listener = &heard; }
      void send(Origin, Channel, MessageBytes) override {}
      void refuse(Origin) override {}
      void stop() override {}
      std::vector<LinkState> links() const override {
        const std::lock_guard lock(seen.mutex);
        ++seen.looks;
        seen.changed.notify_all();
        return {link};
      }
      Looked& seen;
      const LinkState link;
      TransportListener* listener = nullptr;
    };
    Looking* first = nullptr;
    PeerPortOptions options;
    options.self = {1, 100};
    options.first_pause = 0ms;
    options.connect = [&](Origin self) -> Result<std::unique_ptr<Transport>> {
      auto made = std::make_unique<Looking>(looked, one.link);
      const std::lock_guard lock(looked.mutex);
      if (first == nullptr) first = made.get();
      looked.tried.push_back(self);
      looked.changed.notify_all();
      return std::unique_ptr<Transport>(std::move(made));
    };
    const auto port = std::move(make_peer_port(std::move(options))).value();
    TransportListener& listener = *first->listener;
    for (const Origin life : one.connected) listener.connected(life);
    std::unique_lock lock(looked.mutex);
    for (int look = 1; look <= (one.anew ? 1 : 20); ++look) {
      lock.unlock();
      listener.silent({7, 1}, "gone");
      lock.lock();
      REQUIRE(looked.changed.wait_for(lock, 10s, [&] { return looked.looks >= look; }));
    }
    if (one.anew) {
      REQUIRE(looked.changed.wait_for(lock, 10s, [&] { return looked.tried.size() >= 2; }));
      CHECK(looked.tried[1] == Origin{1, 101});
    } else {
      CHECK(looked.tried.size() == 1);
    }
  }
}

TEST_CASE("over one link a machine has one life, whatever it says") {
  FakeTransport::Made made;
  PeerPortOptions options;
  options.self = {1, 100};
  options.connect = [&](Origin) -> Result<std::unique_ptr<Transport>> {
    return std::unique_ptr<Transport>(std::make_unique<FakeTransport>(made));
  };
  Ear ear;
  const auto port = std::move(make_peer_port(std::move(options))).value();
  REQUIRE(port->open(channel, ear));
  made.listener->connected({2, 205});
  for (std::uint64_t life = 200; life <= 205; ++life)
    made.listener->received({2, 205}, Channel::message, announcement(1, life, {channel}));
  CHECK(ear.joins == std::vector<PeerLife>{{2, 200}});
  made.listener->connected({2, 206});
  made.listener->received({2, 206}, Channel::message, announcement(1, 206, {channel}));
  CHECK(ear.joins == std::vector<PeerLife>{{2, 200}, {2, 206}});
  port->close(channel);
}

TEST_CASE("what another machine says of its channels and its life is checked") {
  FakeTransport::Made made;
  PeerPortOptions options;
  options.self = {1, 100};
  options.connect = [&](Origin) -> Result<std::unique_ptr<Transport>> {
    return std::unique_ptr<Transport>(std::make_unique<FakeTransport>(made));
  };
  Ear ear;
  const auto port = std::move(make_peer_port(std::move(options))).value();
  REQUIRE(port->open(channel, ear));
  CHECK_FALSE(port->open(channel, ear));
  CHECK_FALSE(port->open(0, ear));
  CHECK_FALSE(port->open(~std::uint64_t{0}, ear));
  const Origin link{2, 205};
  const auto hear = [&](std::vector<std::byte> bytes) {
    made.listener->received(link, Channel::message, std::move(bytes));
  };
  made.listener->connected(link);
  REQUIRE(made.sent.size() == 1);
  CHECK((made.sent[0].second == announcement(1, 100, {channel})));
  // A life that is none, or one after the link's; numbers that are cut.
  hear(announcement(0, 0, {channel}));
  hear(announcement(0, 206, {channel}));
  hear(announcement(0, std::uint64_t{1} << 40U, {channel}));
  for (std::size_t size = 0; size < 3 * 8; ++size) {
    auto cut = announcement(0, 200, {});
    cut.resize(size);
    hear(cut);
  }
  hear(std::vector<std::byte>(8 * 2000));
  CHECK(ear.joins.empty());
  hear(announcement(0, 200, {3, channel}));
  CHECK(ear.joins == std::vector<PeerLife>{{2, 200}});
  // Another life over the same link.
  hear(announcement(0, 201, {}));
  CHECK(ear.losses.empty());
  port->send(channel, {2, 200}, {});
  CHECK(made.sent.back().first == link);
  const std::size_t sent = made.sent.size();
  port->send(channel, {2, 205}, {});  // as nobody knows it
  CHECK(made.sent.size() == sent);
  // A later link of the same life, and a later life.
  made.listener->connected({2, 206});
  CHECK(ear.losses == std::vector<PeerLife>{{2, 200}});
  made.listener->received({2, 206}, Channel::message, announcement(1, 200, {channel}));
  CHECK(ear.joins == std::vector<PeerLife>{{2, 200}, {2, 200}});
  made.listener->silent({2, 206}, "");
  CHECK(ear.losses.size() == 2);
  port->close(channel);
}

TEST_CASE("a message whose end is no memory of its sender's is dropped") {
  FakeTransport::Made made;
  OneBlock block;
  PeerPortOptions options;
  options.self = {1, 100};
  options.connect = [&](Origin) -> Result<std::unique_ptr<Transport>> {
    return std::unique_ptr<Transport>(std::make_unique<FakeTransport>(made));
  };
  Ear ear;
  const auto port = std::move(make_peer_port(std::move(options))).value();
  REQUIRE(port->open(channel, ear));
  const Origin link{2, 200};
  made.listener->connected(link);
  made.listener->received(link, Channel::message, announcement(1, 200, {channel}));
  constexpr std::uint64_t lent = ~std::uint64_t{0};
  const auto hear = [&](const std::vector<std::uint64_t>& numbers, std::size_t cut = 0) {
    std::vector<std::byte> bytes{std::byte{1}, std::byte{2}};
    for (const std::uint64_t number : numbers)
      for (unsigned shift = 0; shift < 64; shift += 8)
        bytes.push_back(static_cast<std::byte>(number >> shift));
    bytes.erase(bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(cut));
    made.listener->received(link, Channel::message, std::move(bytes));
  };
  hear({2, 3, 4, 4, channel, lent});  // this machine shares nothing
  made.lender = &block;
  const std::uint64_t wide = std::uint64_t{1} << 32U;
  for (const auto& numbers :
       std::vector<std::vector<std::uint64_t>>{{wide + 2, 3, 4, 4, channel, lent},
                                               {2, wide + 3, 4, 4, channel, lent},
                                               {2, 3, 4, 0, channel, lent},
                                               {2, 3, 4, 4, 0, lent},
                                               {2, 3, 4, 4, lent, lent}})
    hear(numbers);
  for (std::size_t cut = 3; cut <= 2 + 5 * 8; ++cut) hear({2, 3, 4, 4, channel, lent}, cut);
  CHECK(block.asked == 0);
  hear({2, 3, 5, 4, channel, lent});
  hear({2, 3, 4, 5, channel, lent});
  CHECK(block.asked == 2);
  CHECK(ear.bytes == 0);
  CHECK(ear.in_place == 0);
  hear({2, 3, 4, 4, 9, lent});  // of a channel that is not open: given back
  CHECK(ear.in_place == 0);
  hear({2, 3, 4, 4, channel, lent});
  CHECK(ear.bytes == 2);
  CHECK(ear.in_place == 4);
  port->close(channel);
}
