// Pages whose content stands in memory that both machines have: the same checks, no other message.
#include <catch2/catch.hpp>
#include <cstring>

#include "dataplane/page_puller.h"
#include "page_shelf.h"

using namespace sluice;

namespace {

constexpr PeerLife server_life{1, 1};

Ref<Buffer> buffer_of(std::span<const std::byte> bytes) {
  Ref<Buffer> made = Buffer::zeros(bytes.size());
  std::memcpy(made->data(), bytes.data(), bytes.size());
  return made;
}

/// A server and a puller that has asked it for pages 0 to 2.
struct Pair {
  PageServer server{hello_of(1), receipts};
  PagePuller puller{hello_of(2)};
  Shelf shelf;
  Pair() {
    for (std::uint64_t i = 0; i < 3; ++i) shelf.there[key_of(i)] = 5;
    server.met(client);
    puller.met(server_life, hello_of(1), 0);
    REQUIRE(puller.begin(1, keys_of(0, 3), 0));
    std::vector<PeerMessage> out;
    for (const PeerMessage& one : puller.take_out())
      server.take(client, *pages::decode(one.bytes), shelf, out);
    for (PeerMessage& one : out) puller.take(server_life, std::move(one.bytes), 0);
    REQUIRE(puller.take_events().size() == 1);
    fetch_into(puller, 1, places(3), 0);
    for (const PeerMessage& one : puller.take_out())
      server.take(client, *pages::decode(one.bytes), shelf, out);
  }
  /// All that is answered, made in such memory.
  std::vector<PeerMessage> answers(const MakeBody& make) {
    std::vector<PeerMessage> out;
    while (server.has_more()) server.go_on(shelf, out, make);
    return out;
  }
};

const MakeBody make_any = [](PeerLife, std::size_t size) { return Buffer::zeros(size); };

pages::Bytes sample_head(std::size_t length) {
  return encode(pages::PageHead{7, 1, 5, key_of(0), 0, static_cast<std::uint32_t>(length), 9});
}

}  // namespace

TEST_CASE("a page's head and its content elsewhere are one message, and nothing else is") {
  const pages::Bytes content = content_of(key_of(0));
  const pages::Bytes head = sample_head(content.size());
  const auto read = pages::decode(head, content);
  REQUIRE(read.has_value());
  const auto& page = std::get<pages::PageContent>(*read);
  CHECK(page.content.data() == content.data());
  CHECK(page.content.size() == content.size());
  CHECK(page.head.generation == 5);
  // Without it, with more or less of it, with content in both places, and cut.
  CHECK_FALSE(pages::decode(head).has_value());
  CHECK_FALSE(pages::decode(head, std::span(content).first(content.size() - 1)).has_value());
  pages::Bytes longer = content;
  longer.push_back({});
  CHECK_FALSE(pages::decode(head, longer).has_value());
  CHECK_FALSE(pages::decode(encode(pages::PageContent{page.head, content}), content).has_value());
  for (std::size_t size = 0; size < head.size(); ++size)
    CHECK_FALSE(pages::decode(std::span(head).first(size), content).has_value());
  // No other message has one.
  for (const pages::Bytes& other :
       {encode(hello_of(1)), encode(pages::Proof{}), encode(pages::Find{1, keys_of(0, 1)}),
        encode(pages::Found{1, 1, 1}), encode(pages::Ask{1, keys_of(0, 1)}),
        encode(pages::End{1, 0, pages::End::Status::done, 1}), encode(pages::Took{1}),
        encode(pages::Note{1, content}), encode(pages::Noted{1, 1})}) {
    CHECK(pages::decode(other).has_value());
    CHECK_FALSE(pages::decode(other, content).has_value());
  }
}

TEST_CASE(
    "pages are made where the peer reads them, and in messages where there is no such place") {
  Pair pair;
  int asked = 0;
  const std::vector<PeerMessage> out = pair.answers([&](PeerLife to, std::size_t size) {
    CHECK(to == client);
    return ++asked == 2 ? Ref<Buffer>() : Buffer::zeros(size);
  });
  REQUIRE(out.size() == 4);
  CHECK(asked == 3);
  CHECK(pair.server.counts().bytes == 3 * page_bytes);
  for (std::size_t i = 0; i < 3; ++i) {
    CHECK((out[i].body.get() == nullptr) == (i == 1));
    pair.puller.take(server_life, out[i].bytes, 1, out[i].body);
    const std::vector<PullEvent> events = pair.puller.take_events();
    REQUIRE(events.size() == 1);
    CHECK(events[0].kind == PullEvent::Kind::page);
    // What was checked is kept: the owner may do what it likes to its memory afterwards.
    if (i != 1) std::fill_n(out[i].body->data(), page_bytes, std::byte{0xee});
    CHECK(std::ranges::equal(bytes_of(events[0].place), content_of(key_of(i))));
  }
  pair.puller.take(server_life, out[3].bytes, 1);
  const std::vector<PullEvent> ended = pair.puller.take_events();
  REQUIRE(ended.size() == 1);
  CHECK(ended[0].end == PullEnd::done);
}

TEST_CASE("a page in place that was given up, or is another, is not taken") {
  Pair gone;
  gone.shelf.there.erase(key_of(1));
  const std::vector<PeerMessage> answered = gone.answers(make_any);
  REQUIRE(answered.size() == 2);
  for (const PeerMessage& one : answered) gone.puller.take(server_life, one.bytes, 1, one.body);
  CHECK(gone.puller.take_events().back().end == PullEnd::missing);

  for (std::size_t at = 0; at < page_bytes; ++at) {
    Pair pair;
    std::vector<PeerMessage> out = pair.answers(make_any);
    pages::Bytes changed(out[0].body->data(), out[0].body->data() + page_bytes);
    changed[at] ^= std::byte{1};
    pair.puller.take(server_life, out[0].bytes, 1, buffer_of(changed));
    const std::vector<PullEvent> events = pair.puller.take_events();
    REQUIRE(events.size() == 1);
    CHECK(events[0].end == PullEnd::broken);
  }
}

TEST_CASE("an answer that is content first and places then is broken, and nothing of it is read") {
  PagePuller puller(hello_of(2), 4 * page_bytes);
  puller.met(server_life, hello_of(1), 0);
  puller.opened(server_life, 8);
  REQUIRE(puller.begin(1, keys_of(0, 2), 0));
  const std::vector<PeerMessage> out = puller.take_out();
  const pages::Ask ask = read_as<pages::Ask>(out.at(0));
  REQUIRE_FALSE(ask.for_places);
  const pages::Bytes content = content_of(key_of(0));
  const auto head = [&](std::uint32_t index, std::uint32_t sum) {
    return pages::PageHead{ask.id, 1, 5, key_of(index), index, page_bytes, sum};
  };
  puller.take(server_life, encode(pages::PageContent{head(0, crc32c(content) ^ 1U), content}), 1);
  const pages::End end{ask.id, 1, pages::End::Status::done, 9};
  puller.take(server_life, encode(pages::Places{{{head(1, 7), 3}}, end}), 1);
  std::vector<PullEvent> events = puller.take_events();
  REQUIRE(events.size() == 1);
  CHECK((events[0].kind == PullEvent::Kind::ended && events[0].end == PullEnd::broken));
  CHECK(puller.take_reads().empty());
  CHECK(puller.pulls() == 0);
}
