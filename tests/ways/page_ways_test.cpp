// The ways by which a page's content travels are held to the same: what comes is what was published
// under its key, whatever its owner does meanwhile, and each pull ends once.
#include <algorithm>
#include <atomic>

#include "two_pools.h"

using namespace sluice;

namespace {

/// Runs `body` for each of them.
template <typename Ways, typename Body>
void for_each_way(const Ways& ways, Body body) {
  for (const Way way : ways) {
    INFO(name_of(way));
    TwoPools pools(way);
    body(pools);
  }
}

template <typename Kind>
const Kind* as(const std::vector<std::byte>& bytes, std::optional<pages::Message>& read) {
  read = pages::decode(bytes);
  return read ? std::get_if<Kind>(&*read) : nullptr;
}

/// Is told of each page that leaves its owner, or of its places, before they have arrived.
void on_page(TwoPools& pools, std::function<void(std::vector<std::byte>&)> told) {
  pools.on_answer = [told = std::move(told)](std::vector<std::byte>& message) {
    // A page's message holds more than its own words.
    std::optional<pages::Message> read;
    const bool is_page = as<pages::Places>(message, read) != nullptr || message.size() == 76 ||
                         message.size() > 1000;
    if (is_page) told(message);
  };
  pools.hub.on_way = [&pools](PeerLife from, PeerLife, auto& message) {
    if (from.machine == 1) pools.on_answer(message);
    return true;
  };
}

}  // namespace

TEST_CASE("pages come by each way as they were published") {
  for_each_way(all_ways, [](TwoPools& pools) {
    REQUIRE(put(*pools.owner.pool, 1, 12) == 12);
    CHECK(pools.pull(1, 12) == 12);
    CHECK(there(*pools.reader.pool, 1, 12) == 12);
    CHECK(pools.ended(PullEnd::done) == 1);
    const KvPeers::Counts counts = pools.reader.peers->counts();
    const PageServerCounts served = pools.owner.peers->counts().served;
    CHECK(counts.pulled == 12);
    CHECK(counts.read == (pools.reads() ? 12 : 0));
    CHECK(served.pages == (pools.reads() ? 0 : 12));
    CHECK(served.placed == (pools.reads() ? 12 : 0));
    CHECK(pools.owner_port.notices.empty());
    CHECK(pools.reader_port.notices.empty());
  });
}

TEST_CASE(
    "what stands in memory that is mapped is found without a question once it was asked for") {
  for (const Way way : {Way::mapped, Way::ucx}) {
    INFO(name_of(way));
    TwoPools pools(way);
    std::atomic<std::size_t> said = 0;  // to the owner
    pools.hub.on_way = [&](PeerLife from, PeerLife, auto&) {
      said += from.machine == 2 ? 1 : 0;
      return true;
    };
    const auto forget_all = [&] {
      pools.reader = {};  // its name is free before the next has it
      pools.reader = TwoPools::among(pools.reader_port, TwoPools::room);
    };
    REQUIRE(put(*pools.owner.pool, 1, 6) == 6);
    CHECK(pools.pull(1, 4) == 4);
    CHECK(pools.owner.peers->counts().served.placed == 4);
    forget_all();
    CHECK(pools.pull(1, 1) == 1);  // asked for, and mapped meanwhile
    said = 0;
    CHECK(pools.pull(1, 4) == 3);
    CHECK(said == 0);
    CHECK(pools.reader.peers->counts().read == 4);
    CHECK(pools.pull(1, 6) == 2);  // nobody has asked for these yet
    CHECK(said > 0);
    forget_all();
    CHECK(pools.pull(1, 1) == 1);
    said = 0;
    CHECK(pools.pull(1, 8) == 5);  // all that there are
    CHECK(said == 0);
    forget_all();
    for (std::int32_t prompt = 2; there(*pools.owner.pool, 1, 1) == 1; ++prompt)
      REQUIRE(put(*pools.owner.pool, prompt, TwoPools::room) == TwoPools::room);
    CHECK(pools.pull(1, 4) == 0);
    CHECK(pools.owner_port.notices.empty());
    CHECK(pools.reader_port.notices.empty());
  }
}

namespace {

/// A reader of a pool that has read of it before, so its way is open, and what it says from now on.
void begin_to_read(TwoPools& pools, std::atomic<std::size_t>& said) {
  REQUIRE(put(*pools.owner.pool, 1, 6) == 6);
  REQUIRE(put(*pools.owner.pool, 2, 6) == 6);
  CHECK(pools.pull(1, 6) == 6);
  said = 0;
  pools.hub.on_way = [&](PeerLife, PeerLife, auto&) {
    ++said;
    return true;
  };
}

constexpr Way asked_ways[] = {Way::tcp, Way::tcp_encrypted};

}  // namespace

TEST_CASE("over tcp pages are found, and few of them come, without a message") {
  for (const std::size_t count : {1, 3, 6})  // the content of few comes with the answer
    for_each_way(asked_ways, [count](TwoPools& pools) {
      std::atomic<std::size_t> said = 0;
      begin_to_read(pools, said);
      const PageServerCounts before = pools.owner.peers->counts().served;
      CHECK(pools.pull(2, count) == count);
      CHECK(there(*pools.reader.pool, 2, count) == count);
      CHECK(said == 0);
      const PageServerCounts served = pools.owner.peers->counts().served;
      CHECK(served.placed - before.placed == (count > 4 ? count : 0));
      CHECK(served.pages - before.pages == (count > 4 ? 0 : count));
      CHECK(pools.pull(3, count) == 0);  // of which there are none
      CHECK(pools.pull(2, 9) == 6 - count);
      CHECK(said == 0);
      CHECK(pools.ended(PullEnd::done) == (count == 6 ? 2 : 3));
      CHECK(pools.reader.peers->counts().stale == 0);
    });
}

TEST_CASE("a pool that goes is asked nothing any more") {
  for_each_way(asked_ways, [](TwoPools& pools) {
    const auto& memory = static_cast<const ToldAnswers&>(*pools.owner_port.readable);
    CHECK(memory.guides() == 1);
    pools.owner = {};
    CHECK(memory.guides() == 0);
  });
}

TEST_CASE("what is not answered by the way itself is asked for by the link") {
  for (const std::size_t count : {1, 6})
    for_each_way(asked_ways, [count](TwoPools& pools) {
      std::atomic<std::size_t> said = 0, asked = 0;
      begin_to_read(pools, said);
      pools.on_answer = [&](std::vector<std::byte>& message) {
        ++asked;
        message.clear();
      };
      CHECK(pools.pull(2, count) == count);
      CHECK(there(*pools.reader.pool, 2, count) == count);
      CHECK(asked == 1);
      CHECK(said > 0);
    });
}

TEST_CASE("an answer that makes no sense is none, and one that nobody waits for is dropped") {
  struct Region final : RemoteRegion {
    std::uint64_t asked = 0;
    bool rests = true;
    std::uint64_t size() const override { return 0; }
    void read(std::uint64_t, Part, Part, Ref<Buffer>) override {}
    bool ask(std::uint64_t number, std::span<const std::byte>) override {
      if (rests) asked = number;
      return rests;
    }
  } region;
  PageQuestions questions;
  const PeerMessage question{{1, 1}, encode(pages::Find{5, {PageKey{{1, 2, 3, 4}}}})};
  const PeerMessage other{{1, 1}, encode(pages::Took{5})};
  CHECK_FALSE(questions.ask(region, other, 1024));
  region.rests = false;
  CHECK_FALSE(questions.ask(region, question, 1024));
  region.rests = true;
  const auto heard = [&](const std::vector<std::byte>& said) {
    CHECK(questions.ask(region, question, 1024));
    Ref<Buffer> answer = said.empty() ? Ref<Buffer>() : Buffer::zeros(said.size());
    std::ranges::copy(said, answer ? answer->data() : nullptr);
    return questions.answered(region.asked, answer);
  };
  for (const std::size_t size : {0, 3, 8, 20}) {
    const auto none = heard(std::vector<std::byte>(size, std::byte{9}));
    REQUIRE(none.size() == 1);
    CHECK_FALSE(none[0].is_answer);
    CHECK((none[0].from == question.peer && none[0].message == question.bytes));
  }
  const std::vector<std::byte> said{std::byte{2}, {}, {},           {},           std::byte{1}, {},
                                    {},           {}, std::byte{7}, std::byte{8}, std::byte{9}};
  const auto some = heard(said);
  REQUIRE(some.size() == 1);
  CHECK((some[0].is_answer && some[0].message.size() == 2 && some[0].body->size() == 1));
  CHECK(questions.answered(region.asked, {}).empty());  // a second time
  CHECK(questions.ask(region, question, 1024));
  questions.lost(question.peer);
  CHECK(questions.answered(region.asked, {}).empty());
}

TEST_CASE("a page that is given up on its way is taken as it was, or not at all") {
  for_each_way(all_ways, [](TwoPools& pools) {
    REQUIRE(put(*pools.owner.pool, 1, TwoPools::room) == TwoPools::room);
    std::size_t left = 0;
    const std::size_t amid = pools.reads() ? 1 : 3;  // all places are told at once
    on_page(pools, [&](std::vector<std::byte>&) {
      if (++left == amid) CHECK(put(*pools.owner.pool, 9, TwoPools::room) == TwoPools::room);
    });
    const std::size_t came = pools.pull(1, TwoPools::room);
    CHECK(there(*pools.reader.pool, 1, TwoPools::room) == came);
    CHECK(pools.ended(PullEnd::broken) == 0);
    // What travels was copied before; who reads by itself finds that it has changed.
    CHECK((came < TwoPools::room) == pools.reads());
    CHECK(pools.ended(pools.reads() ? PullEnd::changed : PullEnd::done) == 1);
  });
}

TEST_CASE("a page with any byte changed is refused") {
  constexpr std::size_t places[] = {0, 1, 511, 1000, 1023};
  for (const std::size_t count : {1, 6})  // one comes with the first answer, where it is not near
    for (const std::size_t at : places)
      for_each_way(all_ways, [&](TwoPools& pools) {
        REQUIRE(put(*pools.owner.pool, 1, count) == count);
        const auto change = [&](std::byte* page) { page[at] ^= std::byte{16}; };
        on_page(pools, [&](std::vector<std::byte>& message) {
          if (message.size() > 1000)
            change(message.data() + message.size() - small_pages.page_bytes());
          else if (pools.reads())
            change(reinterpret_cast<std::byte*>(pools.owner.pool->keys(
                pools.owner.pool->open(pools.owner.pool->keys_of(origin(), tokens_of(1, 1)))
                    .pages()[0],
                0)));
        });
        pools.hub.on_body = [&](PeerLife, const Ref<Buffer>& body) { change(body->data()); };
        CHECK(pools.pull(1, count) == 0);
        CHECK(there(*pools.reader.pool, 1, count) == 0);
        CHECK(pools.ended(PullEnd::changed) + pools.ended(PullEnd::broken) == 1);
        if (count > 1) CHECK(pools.ended(PullEnd::changed) == (pools.reads() ? 1 : 0));
      });
}

TEST_CASE("an owner that goes amid a pull leaves what came, and the pull ends") {
  for_each_way(all_ways, [](TwoPools& pools) {
    REQUIRE(put(*pools.owner.pool, 1, 4) == 4);
    const auto until = storage_clock() + 20'000'000'000;
    REQUIRE(pools.reader.peers->begin(1, origin(), tokens_of(1, 4), {}, storage_clock()));
    pools.owner = {};
    std::vector<PageSource::Ready> ready;
    while (ready.empty() && storage_clock() < until)
      pools.reader.peers->poll(storage_clock(), ready, std::chrono::milliseconds(10));
    REQUIRE(ready.size() == 1);
    CHECK(there(*pools.reader.pool, 1, 4) == ready[0].tokens / page_tokens);
    CHECK(pools.ended(PullEnd::lost) + pools.ended(PullEnd::done) == 1);
  });
}

TEST_CASE("a reader that goes amid a pull harms nobody") {
  for_each_way(all_ways, [](TwoPools& pools) {
    REQUIRE(put(*pools.owner.pool, 1, 8) == 8);
    REQUIRE(pools.reader.peers->begin(1, origin(), tokens_of(1, 8), {}, storage_clock()));
    std::vector<PageSource::Ready> ready;
    pools.reader.peers->poll(storage_clock(), ready, {});  // asks; reads are under way
    pools.reader = {};
    pools.reader = TwoPools::among(pools.reader_port, TwoPools::room);
    CHECK(pools.pull(1, 8) == 8);
    CHECK(there(*pools.reader.pool, 1, 8) == 8);
  });
}

TEST_CASE("a page that is overwritten between its content and its stamp is a miss, once") {
  TwoPools pools(Way::one_memory);
  REQUIRE(put(*pools.owner.pool, 1, TwoPools::room) == TwoPools::room);
  pools.world.amid = [&] {
    pools.world.amid = {};
    CHECK(put(*pools.owner.pool, 9, TwoPools::room) == TwoPools::room);
  };
  // All of its content was read before: the stamp alone says that it may be another's.
  CHECK(pools.pull(1, TwoPools::room) == 0);
  CHECK(pools.ended(PullEnd::changed) == 1);
  // For a while the pages of that peer come in messages, and count as before.
  const std::size_t reads = pools.world.reads;
  CHECK(pools.pull(9, TwoPools::room) == TwoPools::room);
  CHECK(pools.world.reads == reads);
  CHECK(there(*pools.reader.pool, 9, TwoPools::room) == TwoPools::room);
}

TEST_CASE("memory that cannot be reached is left, and pages come in messages") {
  TwoPools pools(Way::one_memory);
  REQUIRE(put(*pools.owner.pool, 1, 6) == 6);
  pools.world.is_reachable = false;
  CHECK(pools.pull(1, 6) == 0);
  CHECK(pools.ended(PullEnd::lost) == 1);
  CHECK(pools.reader.peers->counts().not_read > 0);
  CHECK(pools.pull(1, 6) == 6);
  CHECK(pools.reader.peers->counts().read == 0);
  CHECK(there(*pools.reader.pool, 1, 6) == 6);
  // Said once.
  REQUIRE(pools.reader_port.notices.size() == 1);
  CHECK(pools.reader_port.notices[0].first == 1);
  CHECK(pools.reader_port.notices[0].second.find("cannot be read where they stand") !=
        std::string::npos);
}

TEST_CASE("a pool that can have no memory that others read gives its pages in messages") {
  TwoPools pools(Way::one_memory);
  pools.owner = {};
  pools.world.has_memory = false;
  PeerHub::Port& next = pools.add(1, 2);
  pools.owner = TwoPools::among(next, TwoPools::room);
  pools.world.has_memory = true;
  // Said by whom it concerns, and why.
  REQUIRE(next.notices.size() == 1);
  CHECK(next.notices[0].first == 1);
  CHECK(next.notices[0].second.find("none that others map") != std::string::npos);
  REQUIRE(put(*pools.owner.pool, 1, 6) == 6);
  CHECK(pools.pull(1, 6) == 6);
  CHECK(there(*pools.reader.pool, 1, 6) == 6);
  CHECK(pools.reader.peers->counts().read == 0);
  // What the other has is still read where it stands.
  REQUIRE(put(*pools.reader.pool, 2, 6) == 6);
  std::swap(pools.owner, pools.reader);
  CHECK(pools.pull(2, 6) == 6);
  CHECK(pools.reader.peers->counts().read == 6);
}

TEST_CASE("an owner that says what cannot be of its pages is read nowhere") {
  enum class Lie : std::uint8_t { page, length, incarnation, key, generation, checksum };
  for (const Lie lie :
       {Lie::page, Lie::length, Lie::incarnation, Lie::key, Lie::generation, Lie::checksum}) {
    INFO(static_cast<int>(lie));
    for_each_way(read_ways, [lie](TwoPools& pools) {
      REQUIRE(put(*pools.owner.pool, 1, 6) == 6);
      const std::size_t reads = pools.world.reads;
      on_page(pools, [&](std::vector<std::byte>& message) {
        std::optional<pages::Message> read;
        const auto* said = as<pages::Places>(message, read);
        REQUIRE(said != nullptr);
        pages::Places places = *said;
        pages::Place& place = places.places.front();
        if (lie == Lie::page) place.page = TwoPools::room;  // the first that there is not
        if (lie == Lie::length) place.head.length = 2048;
        if (lie == Lie::incarnation) ++place.head.incarnation;
        if (lie == Lie::key) ++place.head.key.words[3];
        if (lie == Lie::generation) ++place.head.generation;
        if (lie == Lie::checksum) ++place.head.crc32c;
        message = encode(places);
      });
      CHECK(pools.pull(1, 6) == 0);
      CHECK(there(*pools.reader.pool, 1, 6) == 0);
      const bool is_read = lie == Lie::generation || lie == Lie::checksum;
      CHECK(pools.ended(is_read ? PullEnd::changed : PullEnd::broken) == 1);
      if (pools.way == Way::one_memory && !is_read) CHECK(pools.world.reads == reads);
    });
  }
}

TEST_CASE("what is said of a region counts if it is of this life and can be") {
  enum class Lie : std::uint8_t { earlier_life, other_size, no_key };
  for (const Lie lie : {Lie::earlier_life, Lie::other_size, Lie::no_key}) {
    INFO(static_cast<int>(lie));
    for (const Way way : read_ways) {
      INFO(name_of(way));
      TwoPools pools(way);
      pools.reader = {};
      pools.hub.on_way = [&](PeerLife from, PeerLife, auto& message) {
        std::optional<pages::Message> read;
        const auto* said = as<pages::Region>(message, read);
        if (from.machine != 1 || said == nullptr) return true;
        pages::Region region = *said;
        const std::vector<std::byte> nonsense(40, std::byte{3});
        if (lie == Lie::earlier_life) --region.incarnation;
        if (lie == Lie::other_size) --region.pages;
        if (lie == Lie::no_key) region.key = nonsense;
        message = encode(region);
        return true;
      };
      pools.reader = TwoPools::among(pools.reader_port, TwoPools::room);
      REQUIRE(put(*pools.owner.pool, 1, 3) == 3);
      CHECK(pools.pull(1, 3) == 3);  // in messages
      CHECK(pools.reader.peers->counts().read == 0);
      CHECK(there(*pools.reader.pool, 1, 3) == 3);
      CHECK(pools.reader_port.notices.size() == (lie == Lie::earlier_life ? 0 : 1));
    }
  }
}

TEST_CASE("nobody is told where pages stand before it has proved that it has the secret") {
  TwoPools pools(Way::one_memory);
  std::size_t told = 0;
  pools.hub.on_way = [&](PeerLife, PeerLife to, auto& message) {
    std::optional<pages::Message> read;
    if (to.machine == 3 && as<pages::Region>(message, read) != nullptr) ++told;
    return true;
  };
  PeerHub::Port& stranger = pools.hub.add(3, 1, 8);
  stranger.readable = std::make_shared<OneMemory>(pools.world);
  const KeptPool other = TwoPools::among(stranger, 4);
  CHECK(told == 0);
  CHECK_FALSE(pools.owner.peers->has_met(3));
}

TEST_CASE("a machine that begins a next life is read in that one") {
  for_each_way(read_ways, [](TwoPools& pools) {
    REQUIRE(put(*pools.owner.pool, 1, 6) == 6);
    CHECK(pools.pull(1, 6) == 6);
    pools.owner = {};
    PeerHub::Port& next = pools.add(1, 2);
    pools.owner = TwoPools::among(next, TwoPools::room);
    REQUIRE(put(*pools.owner.pool, 2, 6) == 6);
    CHECK(pools.pull(2, 6) == 6);
    CHECK(there(*pools.reader.pool, 2, 6) == 6);
    CHECK(pools.reader.peers->counts().read == 12);
  });
}
