// Pages that are read where they stand, by a machine that nobody waits for: whatever their owner
// writes there meanwhile, says of it, or is, nothing but published content is taken, nothing is
// read outside of what it has announced in this life, and each pull ends once.
#include <algorithm>
#include <catch2/catch.hpp>
#include <deque>
#include <map>
#include <set>
#include <utility>

#include "base/random.h"
#include "dataplane/page_directory.h"
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
    std::erase_if(there_, [&](const auto& one) {
      if (one.second == slot) directory_.remove(one.first, slot);
      return one.second == slot;
    });
    if (there_.contains(key_of(number))) return;
    std::ranges::fill(part(region.stamp(slot)), std::byte{0});
    fill(key_of(number), part(region.page(slot)));
    there_[key_of(number)] = slot;
    directory_.add(key_of(number), slot);
    ++generation_;
  }
  std::span<const std::byte> memory() const { return memory_; }
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
  PageDirectory directory_{std::span(memory_).subspan(region.directory())};
  std::map<PageKey, std::uint32_t> there_;
  std::uint64_t generation_ = 1;

 public:
  PageServer server;
};

/// An owner, a reader, and what is between them in the test's hands.
class World {
 public:
  explicit World(std::uint64_t seed)
      : random_(seed), puller_(hello_of(99), seed % 2 * 3 * page_bytes) {
    begin_life();
  }

  void step() {
    switch (random_.next() % 12) {
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
      case 9:
        if (!found_.empty()) fetch();
        break;
      case 10:
        if (random_.next() % 8 == 0) cancel();
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
    invariants.must("K8", ended_.size() + cancelled_.size() == begun_);
  }

  Invariants invariants;
  std::size_t whole = 0, changed = 0, found_near = 0;

 private:
  struct UnderWay {
    std::uint64_t number = 0;
    PageRead read;
    std::uint32_t life = 0;
    std::optional<std::uint32_t> sum = {};  // where it was summed as it was read
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
    puller_.opened(peer_, slots, life_ % 2 == 0);
    open_ = slots;
  }
  void begin_pull() {
    if (puller_.pulls() > 3) return;
    std::vector<PageKey> wanted;
    for (std::size_t i = 1 + random_.next() % 5; i > 0; --i)
      wanted.push_back(key_of(random_.next() % keys));
    if (begin_near(wanted)) return;
    if (!puller_.begin(begun_ + 1, wanted, now_)) return;
    wanted_[++begun_] = std::move(wanted);
  }
  /// Who has the memory mapped looks itself.
  bool begin_near(std::vector<PageKey>& wanted) {
    const PagePuller::Near near = puller_.near(now_);
    if (near.peers.empty() || random_.next() % 4 == 0) return false;
    invariants.must("K16", near.peers[0].life == peer_ && open_ > 0);
    NearPages found = find_places(region, owner_->memory(), near.peers[0].incarnation, wanted);
    if (!puller_.begin_near(begun_ + 1, wanted, peer_, std::move(found.places), now_)) return false;
    ++found_near;
    wanted_[++begun_] = std::move(wanted);
    return true;
  }
  /// Of what was found as much as is wanted.
  void fetch() {
    const auto [pull, pages] = found_.front();
    found_.pop_front();
    std::vector<Ref<Buffer>> to = places(1 + random_.next() % pages);
    if (random_.next() % 2 == 0) return fetch_into(puller_, pull, std::move(to), now_);
    puller_.fetch(pull, to.size(), now_);
    puller_.place(pull, std::move(to), now_);
  }
  void cancel() {
    const std::uint64_t pull = 1 + random_.next() % (begun_ + 1);
    if (pull > begun_ || ended_.contains(pull)) return;
    puller_.cancel(pull);
    cancelled_.insert(pull);
    std::erase_if(found_, [&](const auto& one) { return one.first == pull; });
  }
  void deliver() {
    if (to_client_.empty()) return;
    Bytes message = std::move(to_client_.front());
    to_client_.pop_front();
    lie(message, random_.next() % 8 == 0);
    puller_.take(peer_, std::move(message), now_);
  }
  void lie(Bytes& message, bool does) {
    const auto read = pages::decode(message);
    if (!read.has_value()) return;
    if (const auto* page = std::get_if<pages::PageContent>(&*read); page != nullptr)
      return does || page->head.id == mixed_ ? mix(*page, message) : void();
    if (!does || !std::holds_alternative<pages::Places>(*read)) return;
    auto said = std::get<pages::Places>(*read);
    if (said.places.empty()) return;
    constexpr std::uint32_t pages_said[] = {slots, slots + 1, 0xffffffff, 0};
    said.places[random_.next() % said.places.size()].page = pages_said[random_.next() % 4];
    message = encode(said);
  }
  /// Other bytes first, and what follows in places.
  void mix(const pages::PageContent& page, Bytes& message) {
    if (page.head.index == 0) {
      mixed_ = page.head.id;
      message.back() ^= std::byte{1};
      return;
    }
    const pages::End end{page.head.id, 1, pages::End::Status::done, 0};
    message = encode(pages::Places{{{page.head, 0}}, end});
  }
  void read_content() {
    const std::size_t at = random_.next() % asked_.size();
    UnderWay one = std::move(asked_[at]);
    asked_.erase(asked_.begin() + static_cast<std::ptrdiff_t>(at));
    const auto content = owner_->part(one.read.content);
    const std::span<std::byte> to(one.read.place->data(), one.read.place->size());
    std::ranges::copy(content, to.begin());
    // Amid the copy something else is written there.
    if (random_.next() % 4 == 0)
      owner_->publish(static_cast<std::uint32_t>(random_.next() % slots), random_.next() % keys);
    const std::size_t from = random_.next() % page_bytes;
    std::ranges::copy(content.subspan(from), to.subspan(from).begin());
    if (random_.next() % 2 == 0) one.sum = crc32c(to);
    under_way_.push_back(std::move(one));
  }
  void read_stamp() {
    const std::size_t at = random_.next() % under_way_.size();
    UnderWay one = std::move(under_way_[at]);
    under_way_.erase(under_way_.begin() + static_cast<std::ptrdiff_t>(at));
    const Ref<Buffer> stamp = buffer_of(owner_->part(one.read.stamp));
    const bool whole = is_whole(bytes_of(one.read.place), bytes_of(stamp), one.read.head, one.sum);
    one.read.place = {};
    if (random_.next() % 64 == 0) {
      if (one.life == life_) open_ = 0;
      return puller_.read_ended(one.number, {}, now_);
    }
    if (one.sum)
      puller_.verified(one.number, whole, now_);
    else
      puller_.read_ended(one.number, stamp, now_);
  }
  void hear() {
    for (PeerMessage& one : puller_.take_out()) {
      if (one.peer != peer_) continue;
      std::vector<PeerMessage> out;
      owner_->server.take(client, *pages::decode(one.bytes), *owner_, out);
      while (owner_->server.has_more()) owner_->server.go_on(*owner_, out);
      for (PeerMessage& said : out) to_client_.push_back(std::move(said.bytes));
    }
    for (PullEvent& event : puller_.take_events()) hear(event);
    for (const PageRead& one : puller_.take_reads()) {
      const bool is_there = one.peer == peer_ && open_ > 0 &&
                            one.content.offset + one.content.size <= region.stamps() &&
                            one.stamp.offset + one.stamp.size <= region.size();
      invariants.must("K16", is_there);
      if (is_there)
        asked_.push_back({one.number, one, life_});
      else
        puller_.read_ended(one.number, {}, now_);
    }
  }
  void hear(PullEvent& event) {
    switch (event.kind) {
      case PullEvent::Kind::found:
        found_.emplace_back(event.pull, event.pages);
        if (random_.next() % 2 == 0) fetch();
        break;
      case PullEvent::Kind::page: {
        invariants.must("K8", !is_over(event.pull) && event.pages == came_[event.pull]++);
        const Bytes want = content_of(wanted_[event.pull][event.pages]);
        invariants.must("K2", std::ranges::equal(bytes_of(event.place), want));
        invariants.must("K1", event.place->references() == 1);  // nobody writes there any more
        ++whole;
        break;
      }
      case PullEvent::Kind::ended:
        invariants.must("K8", !cancelled_.contains(event.pull));
        std::erase_if(found_, [&](const auto& one) { return one.first == event.pull; });
        ++ended_[event.pull];
        changed += event.end == PullEnd::changed ? 1 : 0;
        break;
    }
  }

  bool is_over(std::uint64_t pull) const {
    return ended_.contains(pull) || cancelled_.contains(pull);
  }

  SplitMix64 random_;
  PagePuller puller_;
  std::unique_ptr<Owner> owner_;
  PeerLife peer_;
  std::uint32_t life_ = 7, open_ = 0;
  std::int64_t now_ = 1000;
  std::deque<Bytes> to_client_;
  std::vector<UnderWay> asked_, under_way_;
  std::uint64_t begun_ = 0, mixed_ = 0;  // pulls; the question of an answer that was changed
  std::map<std::uint64_t, std::vector<PageKey>> wanted_;
  std::map<std::uint64_t, std::size_t> came_;
  std::map<std::uint64_t, int> ended_;
  std::set<std::uint64_t> cancelled_;
  std::deque<std::pair<std::uint64_t, std::size_t>> found_;  // pulls, and pages of each
};

/// Of a page: then three places are asked for at once.
constexpr std::uint32_t three_a_question = 5U << 20U;

/// Two machines whose pages are read where they stand.
struct Asking {
  static constexpr PeerLife one{1, 7}, other{2, 7};
  const std::uint32_t bytes;  // of a page
  PagePuller puller{hello_of(99, bytes)};
  std::vector<PeerMessage> said;

  explicit Asking(std::uint32_t page = page_bytes) : bytes(page) {
    for (const PeerLife life : {one, other}) {
      puller.met(life, hello_of(7, bytes), 0);
      puller.opened(life, slots);
    }
  }
  bool begin(std::uint64_t pull, std::size_t pages, std::optional<PeerLife> first = {}) {
    const bool begun = puller.begin(pull, keys_of(0, pages), 1, first);
    said = puller.take_out();
    return begun;
  }
  /// What was said to it last.
  std::string said_to(PeerLife to) const {
    std::string words;
    for (const PeerMessage& message : said) {
      const auto read = *pages::decode(message.bytes);
      if (message.peer != to) continue;
      if (std::holds_alternative<pages::Find>(read)) words += "find ";
      if (const auto* ask = std::get_if<pages::Ask>(&read))
        words +=
            (ask->for_places ? "places " : "content ") + std::to_string(ask->keys.size()) + " ";
    }
    return words;
  }
  /// The number of that question.
  template <typename Question>
  std::uint64_t asked(PeerLife to) const {
    for (const PeerMessage& message : said) {
      const auto read = *pages::decode(message.bytes);
      const auto* question = std::get_if<Question>(&read);
      if (message.peer == to && question != nullptr) return question->id;
    }
    return 0;
  }
  void find(PeerLife from, std::uint32_t pages) {
    puller.take(from, encode(pages::Found{asked<pages::Find>(from), pages, 2}), 1);
  }
  void place(PeerLife from, std::uint32_t pages, pages::End::Status status = {}) {
    const std::uint64_t id = asked<pages::Ask>(from);
    pages::Places said{{}, {id, pages, status, 1}};
    for (std::uint32_t i = 0; i < pages; ++i)
      said.places.push_back({{id, 7, 1, key_of(i), i, bytes, 1}, i});
    puller.take(from, encode(said), 1);
  }
};

}  // namespace

TEST_CASE("under random schedules what is read where it stands is what was published, or a miss") {
  std::size_t whole = 0, changed = 0, found_near = 0;
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    World world(seed);
    for (int i = 0; i < 4000 && world.invariants.goes_on(); ++i) world.step();
    world.finish();
    INFO("seed " << seed << ": " << world.invariants.broken());
    REQUIRE(world.invariants.all_hold());
    whole += world.whole;
    found_near += world.found_near;
    changed += world.changed;
  }
  CHECK(whole > 500);
  CHECK(changed > 20);
  CHECK(found_near > 50);
}

TEST_CASE("who is asked alone, or first, is asked for the first places with the question") {
  PagePuller puller(hello_of(99));
  puller.met(Asking::one, hello_of(7), 0);
  REQUIRE(puller.begin(1, keys_of(0, 40), 0));
  CHECK(puller.take_out().size() == 1);  // nothing of it can be read yet
  puller.opened(Asking::one, slots);
  REQUIRE(puller.begin(2, keys_of(0, pages::keys_most + 1), 0));
  CHECK(puller.take_out().size() == 1);  // of all of them the answer says how many there are

  Asking pair(three_a_question);
  REQUIRE(pair.begin(3, 40));
  CHECK(pair.said_to(Asking::one) + pair.said_to(Asking::other) == "find find ");
  REQUIRE(pair.begin(4, 40, Asking::other));
  CHECK(pair.said_to(Asking::one) == "find ");
  CHECK(pair.said_to(Asking::other) == "find places 3 ");
  REQUIRE(pair.begin(5, 3, Asking::other));
  CHECK(pair.said_to(Asking::one) == "find ");
  CHECK(pair.said_to(Asking::other) == "places 3 ");
}

TEST_CASE("places of all pages say how many there are, and are read when they are wanted") {
  Asking pair;
  REQUIRE(pair.begin(4, 3, Asking::other));
  pair.find(Asking::one, 1);
  SECTION("all") {
    pair.place(Asking::other, 3);
    const auto found = pair.puller.take_events();
    REQUIRE(found.size() == 1);
    CHECK(found[0].pages == 3);
    CHECK(found[0].peer == Asking::other);
    fetch_into(pair.puller, 4, places(3), 1);
    for (const PageRead& one : pair.puller.take_reads()) pair.puller.verified(one.number, true, 2);
    CHECK(pair.puller.take_events().back().end == PullEnd::done);
  }
  SECTION("some, and others do not have more") {
    pair.place(Asking::other, 2, pages::End::Status::missing);
    REQUIRE(pair.puller.take_events().at(0).pages == 2);
    fetch_into(pair.puller, 4, places(2), 1);
    CHECK(pair.puller.take_reads().size() == 2);
  }
  SECTION("none: another machine has one") {
    pair.place(Asking::other, 0, pages::End::Status::missing);
    CHECK(pair.puller.take_events().at(0).peer == Asking::one);
    fetch_into(pair.puller, 4, places(1), 1);
    pair.said = pair.puller.take_out();
    CHECK(pair.said_to(Asking::one) == "places 1 ");
  }
  SECTION("it does not answer in time, and another machine has one") {
    pair.puller.tick(PagePuller::find_patience + 2);
    CHECK(pair.puller.take_events().at(0).peer == Asking::one);
    pair.place(Asking::other, 3);
    fetch_into(pair.puller, 4, places(1), 1);
    CHECK(pair.puller.take_reads().empty());
  }
}

TEST_CASE("the first places are read when it is known that they are wanted, and no others") {
  constexpr std::uint32_t large = three_a_question;
  Asking pair(large);
  REQUIRE(pair.begin(4, 4, Asking::other));
  SECTION("as many as there is room for") {
    pair.place(Asking::other, 3);
    CHECK(pair.puller.take_reads().empty());
    pair.find(Asking::other, 3);
    pair.find(Asking::one, 0);
    REQUIRE(pair.puller.take_events().size() == 1);
    fetch_into(pair.puller, 4, places(2, large), 1);
    const auto reads = pair.puller.take_reads();
    REQUIRE(reads.size() == 2);
    for (std::uint32_t i = 0; i < 2; ++i)
      CHECK(reads[i].content.offset == std::uint64_t{i} * large);
    pair.said = pair.puller.take_out();
    CHECK(pair.said_to(Asking::other).empty());  // nothing more is asked for
    for (const PageRead& one : reads) pair.puller.verified(one.number, true, 2);
    const auto ended = pair.puller.take_events();
    REQUIRE(ended.size() == 3);
    CHECK(ended[2].end == PullEnd::done);
  }
  SECTION("of a machine that has given up some of them they are a miss") {
    pair.find(Asking::other, 3);
    fetch_into(pair.puller, 4, places(3, large), 1);
    pair.place(Asking::other, 2, pages::End::Status::missing);
    for (const PageRead& one : pair.puller.take_reads()) pair.puller.verified(one.number, true, 2);
    CHECK(pair.puller.take_events().back().end == PullEnd::missing);
  }
  SECTION("not where another machine has more") {
    pair.place(Asking::other, 1, pages::End::Status::missing);
    pair.find(Asking::other, 1);
    pair.find(Asking::one, 3);
    fetch_into(pair.puller, 4, places(3, large), 1);
    CHECK(pair.puller.take_reads().empty());
    pair.said = pair.puller.take_out();
    CHECK(pair.said_to(Asking::one) == "places 3 ");
  }
  SECTION("not of a machine that was lost") {
    pair.place(Asking::other, 3);
    pair.find(Asking::one, 1);
    pair.puller.lost(Asking::other, 1);
    CHECK(pair.puller.take_events().size() == 1);
    fetch_into(pair.puller, 4, places(1, large), 1);
    CHECK(pair.puller.take_reads().empty());
    pair.puller.cancel(4);
    CHECK(pair.puller.pulls() == 0);
  }
}

TEST_CASE("of large pages two are on their way where they are read, else one") {
  constexpr std::uint32_t large = 16U << 20U;
  for (const bool is_read : {true, false}) {
    PagePuller puller(hello_of(99, large));
    puller.met(Asking::one, hello_of(7, large), 0);
    if (is_read) puller.opened(Asking::one, slots);
    REQUIRE(puller.begin_at(1, keys_of(0, 4), Asking::one, 4, 1));
    fetch_into(puller, 1, places(4, large), 1);
    CHECK(puller.take_out().size() == (is_read ? 2 : 1));
  }
}

TEST_CASE("pulls that are given up leave no question for places behind") {
  const bool is_all = GENERATE(false, true);
  Asking pair(is_all ? page_bytes : three_a_question);
  for (std::uint64_t pull = 1; pull < 4 * PagePuller::questions_most; ++pull) {
    REQUIRE(pair.begin(pull, is_all ? 3 : 4, Asking::other));
    REQUIRE(pair.said_to(Asking::other) == (is_all ? "places 3 " : "find places 3 "));
    // Before its places have been told, or behind.
    if (pull % 2 == 0) pair.puller.cancel(pull);
    pair.place(Asking::other, 0, pages::End::Status::missing);
    if (!is_all) pair.find(Asking::other, 0);
    pair.find(Asking::one, 0);
    pair.puller.cancel(pull);
    (void)pair.puller.take_events();
    (void)pair.puller.take_out();
  }
}

TEST_CASE("a page and its stamp are whole together, whichever byte differs") {
  const pages::PageHead head{1, 2, 3, key_of(4), 0, page_bytes, crc32c(content_of(key_of(4)))};
  Bytes page = content_of(key_of(4));
  auto stamp = stamp_of(head);
  CHECK(is_whole(page, stamp, head));
  for (const std::span<std::byte> part : {std::span(page), std::span<std::byte>(stamp)})
    for (std::byte& byte : part) {
      byte ^= std::byte{2};
      CHECK_FALSE(is_whole(page, stamp, head));
      byte ^= std::byte{2};
    }
  for (std::size_t size = 0; size < page.size(); ++size)
    CHECK_FALSE(is_whole(std::span(page).first(size), stamp, head));
  for (std::size_t size = 0; size < stamp.size(); ++size)
    CHECK_FALSE(is_whole(page, std::span(stamp).first(size), head));
  // A sum that was made as the page was written there is taken for it, and no other is.
  CHECK(is_whole(page, stamp, head, head.crc32c));
  CHECK_FALSE(is_whole(page, stamp, head, head.crc32c ^ 1U));
  page[0] ^= std::byte{1};
  CHECK(is_whole(page, stamp, head, head.crc32c));
  page[0] ^= std::byte{1};
  pages::PageHead other = head;
  other.id = other.index = 9;  // of another question
  CHECK(is_whole(page, stamp, other));
}

TEST_CASE("places, regions and questions for them are read as they were written") {
  const Bytes key = content_of(key_of(1));
  const std::vector<Bytes> all{encode(pages::Ask{3, keys_of(9, 2), true}),
                               encode(pages::Places{{{{8, 2, 3, key_of(4), 5, page_bytes, 6}, 7},
                                                     {{8, 2, 9, key_of(5), 6, page_bytes, 8}, 1}},
                                                    {8, 2, pages::End::Status::missing, 11}}),
                               encode(pages::Region{4, 17, key})};
  CHECK(std::get<pages::Ask>(*pages::decode(all[0])).for_places);
  const auto read = std::get<pages::Places>(*pages::decode(all[1]));
  REQUIRE(read.places.size() == 2);
  CHECK(read.end.id == 8);
  CHECK(read.end.status == pages::End::Status::missing);
  CHECK(read.end.receipt == 11);
  for (std::uint32_t i = 0; i < 2; ++i) {
    const pages::Place& place = read.places[i];
    CHECK(place.page == (i == 0 ? 7 : 1));
    CHECK(place.head.id == 8);
    CHECK(place.head.generation == (i == 0 ? 3 : 9));
    CHECK(place.head.key == key_of(4 + i));
    CHECK(place.head.index == 5 + i);
    CHECK(place.head.crc32c == (i == 0 ? 6 : 8));
  }
  const auto none = pages::decode(encode(pages::Places{{}, {8, 0, pages::End::Status::busy, 11}}));
  CHECK(std::get<pages::Places>(*none).places.empty());
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
