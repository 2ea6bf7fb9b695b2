// Pages that are read where they stand, by a machine that nobody waits for: whatever their owner
// writes there meanwhile, says of it, or is, nothing but published content is taken, nothing is
// read outside of what it has announced in this life, and each pull ends once.
#include <algorithm>
#include <catch2/catch.hpp>
#include <deque>
#include <map>

#include "base/random.h"
#include "dataplane/page_puller.h"
#include "invariants.h"
#include "page_shelf.h"

using namespace sluice;
using pages::Bytes;

namespace {

constexpr std::uint32_t slots = 6;
constexpr std::size_t keys = 10;
constexpr PageRegion region{slots, page_bytes};

Ref<Buffer> buffer_of(std::span<const std::byte> bytes) {
  Ref<Buffer> made = Buffer::zeros(bytes.size());
  std::ranges::copy(bytes, made->data());
  return made;
}

/// Memory with pages and stamps, as their owner writes it.
class Owner final : public PageLookup {
 public:
  explicit Owner(std::uint32_t life) : life_(life), server(hello_of(life), receipts) {
    server.met(client);
  }
  /// In place of what stands in the slot.
  void publish(std::uint32_t slot, std::uint64_t number) {
    std::erase_if(there_, [&](const auto& one) { return one.second == slot; });
    if (there_.contains(key_of(number))) return;
    std::ranges::fill(part(region.stamp(slot)), std::byte{0});
    fill(key_of(number), part(region.page(slot)));
    there_[key_of(number)] = slot;
    ++generation_;
  }
  bool has(const PageKey& key) const override { return there_.contains(key); }
  std::optional<ServedPage> append(const PageKey& key, Bytes& to) override {
    const auto one = place(key);
    if (!one) return std::nullopt;
    const auto content = part(region.page(one->page));
    to.insert(to.end(), content.begin(), content.end());
    return one->served;
  }
  std::optional<ServedPage> copy(const PageKey&, std::span<std::byte>) override { return {}; }
  std::optional<PlacedPage> place(const PageKey& key) override {
    const auto it = there_.find(key);
    if (it == there_.end()) return std::nullopt;
    const ServedPage served{generation_, crc32c(part(region.page(it->second)))};
    std::ranges::copy(stamp_of({0, life_, generation_, key, 0, page_bytes, served.crc32c}),
                      part(region.stamp(it->second)).begin());
    return PlacedPage{served, it->second};
  }
  std::span<std::byte> part(RemoteRegion::Part at) {
    return std::span(memory_).subspan(at.offset, at.size);
  }
  std::uint32_t life() const { return life_; }

 private:
  std::uint32_t life_;
  std::vector<std::byte> memory_ = std::vector<std::byte>(region.size());
  std::map<PageKey, std::uint32_t> there_;
  std::uint64_t generation_ = 1;

 public:
  PageServer server;
};

/// An owner, a reader, and what is between them in the test's hands.
class World {
 public:
  explicit World(std::uint64_t seed) : random_(seed) { begin_life(); }

  void step() {
    switch (random_.next() % 10) {
      case 0:
        begin_pull();
        break;
      case 1:
      case 2:
        deliver();
        break;
      case 3:
        if (!asked_.empty()) read_content();
        break;
      case 4:
      case 5:
        if (!under_way_.empty()) read_stamp();
        break;
      case 6:
        owner_->publish(static_cast<std::uint32_t>(random_.next() % slots), random_.next() % keys);
        break;
      case 7:
        now_ += random_.next() % 8 == 0 ? PagePuller::longest_pause
                                        : static_cast<std::int64_t>(random_.next() % 100'000'000);
        puller_.tick(now_);
        break;
      case 8:
        if (random_.next() % 40 == 0) begin_life();
        break;
      default:
        announce();
    }
    hear();
  }
  void finish() {
    puller_.lost(peer_, now_);
    hear();
    invariants.must("K6", puller_.pulls() == 0);
    for (const auto& [pull, times] : ended_) invariants.must("K8", times == 1);
    invariants.must("K8", ended_.size() == begun_);
  }

  Invariants invariants;
  std::size_t whole = 0, changed = 0;

 private:
  struct UnderWay {
    std::uint64_t number = 0;
    PageRead read;
    Bytes bytes;
    std::uint32_t life = 0;
  };

  void begin_life() {
    if (owner_) {
      puller_.lost(peer_, now_);
      hear();
      to_client_.clear();
    }
    owner_ = std::make_unique<Owner>(++life_);
    for (std::uint32_t slot = 0; slot < slots; ++slot) owner_->publish(slot, slot);
    peer_ = {1, life_};
    puller_.met(peer_, hello_of(life_), now_);
    open_ = 0;
  }
  /// What is said of a region, of an earlier life now and then.
  void announce() {
    const std::uint32_t life = random_.next() % 3 == 0 ? life_ - 1 : life_;
    if (!puller_.is_to_open(peer_, {life, slots, {}})) return;
    invariants.must("K16", life == life_);
    puller_.opened(peer_, slots);
    open_ = slots;
  }
  void begin_pull() {
    if (puller_.pulls() > 3) return;
    std::vector<PageKey> wanted;
    for (std::size_t i = 1 + random_.next() % 5; i > 0; --i)
      wanted.push_back(key_of(random_.next() % keys));
    if (!puller_.begin(begun_ + 1, wanted, now_)) return;
    wanted_[++begun_] = std::move(wanted);
  }
  void deliver() {
    if (to_client_.empty()) return;
    Bytes message = std::move(to_client_.front());
    to_client_.pop_front();
    if (random_.next() % 16 == 0) lie(message);
    puller_.take(peer_, std::move(message), now_);
  }
  void lie(Bytes& message) {
    const auto read = pages::decode(message);
    if (!read.has_value() || !std::holds_alternative<pages::Place>(*read)) return;
    auto place = std::get<pages::Place>(*read);
    constexpr std::uint32_t pages_said[] = {slots, slots + 1, 0xffffffff, 0};
    place.page = pages_said[random_.next() % 4];
    message = encode(place);
  }
  void read_content() {
    const std::size_t at = random_.next() % asked_.size();
    UnderWay one = std::move(asked_[at]);
    asked_.erase(asked_.begin() + static_cast<std::ptrdiff_t>(at));
    const auto content = owner_->part(one.read.content);
    one.bytes.assign(content.begin(), content.end());
    // Amid the copy something else is written there.
    if (random_.next() % 4 == 0)
      owner_->publish(static_cast<std::uint32_t>(random_.next() % slots), random_.next() % keys);
    const std::size_t from = random_.next() % page_bytes;
    std::ranges::copy(content.subspan(from), one.bytes.begin() + static_cast<std::ptrdiff_t>(from));
    under_way_.push_back(std::move(one));
  }
  void read_stamp() {
    const std::size_t at = random_.next() % under_way_.size();
    UnderWay one = std::move(under_way_[at]);
    under_way_.erase(under_way_.begin() + static_cast<std::ptrdiff_t>(at));
    const auto stamp = owner_->part(one.read.stamp);
    one.bytes.insert(one.bytes.end(), stamp.begin(), stamp.end());
    if (random_.next() % 64 == 0) {
      if (one.life == life_) open_ = 0;
      return puller_.read_ended(one.number, {}, now_);
    }
    puller_.read_ended(one.number, buffer_of(one.bytes), now_);
  }
  void hear() {
    for (PeerMessage& one : puller_.take_out()) {
      if (one.peer != peer_) continue;
      std::vector<PeerMessage> out;
      owner_->server.take(client, *pages::decode(one.bytes), *owner_, out);
      while (owner_->server.has_more()) owner_->server.go_on(*owner_, out);
      for (PeerMessage& said : out) to_client_.push_back(std::move(said.bytes));
    }
    for (const PageRead& one : puller_.take_reads()) {
      const bool is_there = one.peer == peer_ && open_ > 0 &&
                            one.content.offset + one.content.size <= region.stamps() &&
                            one.stamp.offset + one.stamp.size <= region.size();
      invariants.must("K16", is_there);
      if (is_there)
        asked_.push_back({one.number, one, {}, life_});
      else
        puller_.read_ended(one.number, {}, now_);
    }
    for (PullEvent& event : puller_.take_events()) hear(event);
  }
  void hear(PullEvent& event) {
    switch (event.kind) {
      case PullEvent::Kind::found:
        puller_.fetch(event.pull, event.pages, now_);
        break;
      case PullEvent::Kind::page: {
        invariants.must("K8", !ended_.contains(event.pull) && event.pages == came_[event.pull]++);
        const Bytes want = content_of(wanted_[event.pull][event.pages]);
        invariants.must("K2", std::ranges::equal(event.content, want));
        ++whole;
        break;
      }
      case PullEvent::Kind::ended:
        ++ended_[event.pull];
        changed += event.end == PullEnd::changed ? 1 : 0;
        break;
    }
  }

  SplitMix64 random_;
  PagePuller puller_{hello_of(99)};
  std::unique_ptr<Owner> owner_;
  PeerLife peer_;
  std::uint32_t life_ = 7, open_ = 0;
  std::int64_t now_ = 1000;
  std::deque<Bytes> to_client_;
  std::vector<UnderWay> asked_, under_way_;
  std::uint64_t begun_ = 0;
  std::map<std::uint64_t, std::vector<PageKey>> wanted_;
  std::map<std::uint64_t, std::size_t> came_;
  std::map<std::uint64_t, int> ended_;
};

}  // namespace

TEST_CASE("under random schedules what is read where it stands is what was published, or a miss") {
  std::size_t whole = 0, changed = 0;
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    World world(seed);
    for (int i = 0; i < 4000 && world.invariants.goes_on(); ++i) world.step();
    world.finish();
    INFO("seed " << seed << ": " << world.invariants.broken());
    REQUIRE(world.invariants.all_hold());
    whole += world.whole;
    changed += world.changed;
  }
  CHECK(whole > 500);
  CHECK(changed > 20);
}

TEST_CASE("a page and its stamp are whole together, whichever byte differs") {
  const pages::PageHead head{1, 2, 3, key_of(4), 0, page_bytes, crc32c(content_of(key_of(4)))};
  Bytes read = content_of(key_of(4));
  const auto stamp = stamp_of(head);
  read.insert(read.end(), stamp.begin(), stamp.end());
  CHECK(is_whole(read, head));
  for (std::size_t at = 0; at < read.size(); ++at) {
    read[at] ^= std::byte{2};
    CHECK_FALSE(is_whole(read, head));
    read[at] ^= std::byte{2};
  }
  for (std::size_t size = 0; size < read.size(); ++size)
    CHECK_FALSE(is_whole(std::span(read).first(size), head));
  pages::PageHead other = head;
  other.id = other.index = 9;  // of another question
  CHECK(is_whole(read, other));
}

TEST_CASE("places, regions and questions for them are read as they were written") {
  const Bytes key = content_of(key_of(1));
  const std::vector<Bytes> all{encode(pages::Ask{3, keys_of(9, 2), true}),
                               encode(pages::Place{{8, 2, 3, key_of(4), 5, page_bytes, 6}, 7}),
                               encode(pages::Region{4, 17, key})};
  CHECK(std::get<pages::Ask>(*pages::decode(all[0])).for_places);
  const auto place = std::get<pages::Place>(*pages::decode(all[1]));
  CHECK(place.page == 7);
  CHECK(place.head.key == key_of(4));
  CHECK(place.head.crc32c == 6);
  const auto said = std::get<pages::Region>(*pages::decode(all[2]));
  CHECK(said.pages == 17);
  CHECK(std::ranges::equal(said.key, key));
  for (std::size_t i = 0; i < 2; ++i)
    for (std::size_t size = 0; size < all[i].size(); ++size)
      CHECK_FALSE(pages::decode(std::span(all[i]).first(size)).has_value());
  CHECK_FALSE(pages::decode(encode(pages::Region{4, 0, key})).has_value());
  Bytes longer = all[2];
  longer.resize(longer.size() + pages::region_key_most);
  CHECK_FALSE(pages::decode(longer).has_value());
}
