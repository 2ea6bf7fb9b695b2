// Questions that are answered in one piece: what may be asked so, and what is said.
#include "dataplane/page_answers.h"

#include <algorithm>
#include <catch2/catch.hpp>

#include "page_shelf.h"

using namespace sluice;

namespace {

/// That knows where each page stands, by its number.
class Placed final : public PageLookup {
 public:
  explicit Placed(Shelf& shelf) : shelf_(shelf) {}
  bool has(const PageKey& key) const override { return shelf_.has(key); }
  std::optional<ServedPage> append(const PageKey& key, pages::Bytes& to) override {
    return shelf_.append(key, to);
  }
  std::optional<ServedPage> copy(const PageKey& key, std::span<std::byte> to) override {
    return shelf_.copy(key, to);
  }
  std::optional<PlacedPage> place(const PageKey& key) override {
    pages::Bytes content;
    const std::optional<ServedPage> page = shelf_.append(key, content);
    if (!page) return std::nullopt;
    return PlacedPage{*page, static_cast<std::uint32_t>(key.words[0])};
  }

 private:
  Shelf& shelf_;
};

struct World {
  std::uint32_t bytes;
  Shelf shelf{};
  PageServerCounts counts{};

  explicit World(std::size_t pages, std::uint32_t page_size = page_bytes) : bytes(page_size) {
    shelf.bytes = bytes;
    for (std::uint64_t i = 0; i < pages; ++i) shelf.there[key_of(i)] = i + 3;
  }
  pages::Bytes asked(const pages::Bytes& question) {
    Placed lookup(shelf);
    pages::Bytes answer;
    pages::answer_briefly(question, hello_of(5, bytes), lookup, counts, answer);
    return answer;
  }
};

}  // namespace

TEST_CASE("how many pages there are, and where, is told in one piece") {
  World world(5);
  const pages::Bytes found = world.asked(encode(pages::Find{8, keys_of(0, 9)}));
  auto pieces = pages::pieces_of(found);
  REQUIRE((pieces && pieces->size() == 1));
  const auto told = std::get<pages::Found>(*pages::decode((*pieces)[0].message));
  CHECK((told.id == 8 && told.pages == 5 && told.receipt == 0));

  const pages::Bytes placed = world.asked(encode(pages::Ask{9, keys_of(0, 9), true}));
  pieces = pages::pieces_of(placed);
  REQUIRE((pieces && pieces->size() == 1));
  const auto places = std::get<pages::Places>(*pages::decode((*pieces)[0].message));
  REQUIRE(places.places.size() == 5);
  CHECK((places.end.id == 9 && places.end.pages == 5 && places.end.receipt == 0));
  CHECK(places.end.status == pages::End::Status::missing);
  for (std::uint32_t i = 0; i < 5; ++i) {
    const pages::Place& one = places.places[i];
    CHECK((one.page == i && one.head.index == i && one.head.key == key_of(i)));
    CHECK((one.head.generation == i + 3 && one.head.incarnation == 5));
    CHECK((one.head.length == page_bytes && one.head.crc32c == crc32c(content_of(key_of(i)))));
  }
  CHECK((world.counts.placed == 5 && world.counts.missing == 1 && world.counts.pages == 0));
}

TEST_CASE("the content of few pages comes in one piece, as far as they are there") {
  for (const std::size_t there : {std::size_t{0}, std::size_t{2}, std::size_t{4}}) {
    World world(there);
    const pages::Bytes answer = world.asked(encode(pages::Ask{9, keys_of(0, 4)}));
    const auto pieces = pages::pieces_of(answer);
    REQUIRE((pieces && pieces->size() == there + 1));
    for (std::size_t i = 0; i < there; ++i) {
      const auto read = pages::decode((*pieces)[i].message, (*pieces)[i].body);
      REQUIRE(read);
      const auto& page = std::get<pages::PageContent>(*read);
      CHECK((page.head.id == 9 && page.head.index == i && page.head.key == key_of(i)));
      CHECK(std::ranges::equal(page.content, content_of(key_of(i))));
      CHECK(page.head.crc32c == crc32c(page.content));
    }
    const auto end = std::get<pages::End>(*pages::decode(pieces->back().message));
    CHECK((end.pages == there && end.receipt == 0));
    CHECK(end.status == (there == 4 ? pages::End::Status::done : pages::End::Status::missing));
    CHECK((world.counts.pages == there && world.counts.bytes == there * page_bytes));
    CHECK((world.counts.placed == 0 && world.counts.refused == 0));
  }
}

TEST_CASE("what is large, or no question, is not answered so") {
  constexpr std::uint32_t large = 64U << 10U;
  World world(8, large);
  const auto is_answered = [&](const pages::Bytes& question) {
    const bool is_brief = pages::is_brief(question, large);
    CHECK(world.asked(question).empty() != is_brief);
    return is_brief;
  };
  CHECK(is_answered(encode(pages::Ask{1, keys_of(0, 4)})));
  CHECK_FALSE(is_answered(encode(pages::Ask{1, keys_of(0, 5)})));
  CHECK(is_answered(encode(pages::Ask{1, keys_of(0, 8), true})));
  CHECK(is_answered(encode(pages::Ask{1, keys_of(0, 256), true})));  // 16 MiB
  CHECK_FALSE(is_answered(encode(pages::Ask{1, keys_of(0, 257), true})));
  CHECK(is_answered(encode(pages::Find{1, keys_of(0, 1)})));
  CHECK_FALSE(is_answered(encode(pages::Took{1})));
  CHECK_FALSE(is_answered(encode(pages::Found{1, 2, 3})));
  CHECK_FALSE(is_answered(pages::Bytes(40, std::byte{1})));
  CHECK_FALSE(is_answered({}));
  CHECK(world.counts.refused == 6);
  const std::uint32_t larger = large + 1;
  CHECK_FALSE(pages::is_brief(encode(pages::Ask{1, keys_of(0, 4)}), larger));
}

TEST_CASE("an answer that is cut, or of other sizes, has no pieces beyond its bytes") {
  World world(4);
  const pages::Bytes answer = world.asked(encode(pages::Ask{9, keys_of(0, 4)}));
  const auto is_within = [](std::span<const std::byte> all, std::span<const std::byte> part) {
    return part.data() >= all.data() && part.data() + part.size() <= all.data() + all.size();
  };
  for (std::size_t size = 0; size < answer.size(); ++size) {
    const auto pieces = pages::pieces_of(std::span(answer).first(size));
    if (pieces) CHECK(pieces->size() < 5);
  }
  std::size_t refused = 0;
  for (std::size_t at = 0; at < answer.size(); ++at)
    for (const unsigned by : {1U, 128U}) {
      pages::Bytes changed = answer;
      changed[at] ^= static_cast<std::byte>(by);
      const auto pieces = pages::pieces_of(changed);
      refused += pieces ? 0 : 1;
      if (!pieces) continue;
      for (const pages::Piece& one : *pieces)
        CHECK((is_within(changed, one.message) && is_within(changed, one.body)));
    }
  CHECK(refused >= 5);
  pages::Bytes many;
  for (int i = 0; i < 6; ++i)
    many.insert(many.end(), {std::byte{1}, {}, {}, {}, {}, {}, {}, {}, {}});
  CHECK_FALSE(pages::pieces_of(many));
  CHECK(pages::pieces_of(std::span(many).first(45)));
}
