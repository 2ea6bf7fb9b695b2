// What machines that ask for pages are owed: bounded for each, whatever they say that they have
// read.
#include <catch2/catch.hpp>
#include <vector>

#include "page_shelf.h"

using namespace sluice;

TEST_CASE("what a peer that does not read is owed is bounded, and others are answered") {
  constexpr std::uint32_t large = 1U << 20U;
  PageServer server(hello_of(1, large), receipts);
  Shelf shelf;
  shelf.bytes = large;
  for (std::uint64_t i = 0; i < 8; ++i) shelf.there[key_of(i)] = 0;
  std::vector<PeerMessage> out;
  const PeerLife greedy{1, 1}, modest{2, 1};
  server.met(greedy);
  server.met(modest);
  serve(server, greedy, pages::Ask{1, keys_of(0, 5)}, shelf, out);  // 5 MiB in one answer
  CHECK(server.counts().refused == 1);
  std::size_t sent = 0;
  std::vector<std::uint64_t> ends;
  for (std::uint64_t id = 2; id < 100; ++id) {
    out.clear();
    serve(server, greedy, pages::Ask{id, keys_of(0, 4)}, shelf, out);
    for (const PeerMessage& one : out) sent += one.bytes.size() > large ? large : 0;
    ends.push_back(read_as<pages::End>(out.back()).receipt);
    CHECK(server.owed(greedy) <= PageServer::owed_most);
  }
  CHECK(sent == PageServer::owed_most);
  CHECK(server.counts().busy == 98 - 8);
  out.clear();
  serve(server, modest, pages::Ask{1, keys_of(0, 4)}, shelf, out);
  CHECK(out.size() == 5);
  // That it took what it has not read, or took twice, frees nothing.
  const std::uint64_t refused = server.counts().refused;
  for (std::uint64_t made_up = 0; made_up < 1000; ++made_up)
    serve(server, greedy, pages::Took{made_up}, shelf, out);
  serve(server, modest, pages::Took{ends[0]}, shelf, out);
  CHECK(server.owed(greedy) == PageServer::owed_most);
  CHECK(server.counts().refused == refused + 1001);
  serve(server, greedy, pages::Took{ends[1]}, shelf, out);  // and with it what came before
  CHECK(server.owed(greedy) == PageServer::owed_most - 8 * large);
  serve(server, greedy, pages::Took{ends[0]}, shelf, out);
  CHECK(server.counts().refused == refused + 1002);
  server.lost(greedy);
  CHECK(server.owed(greedy) == 0);
}

TEST_CASE("small questions of a peer that does not read are answered so many times, and counted") {
  PageServer server(hello_of(1), receipts);
  Shelf shelf;
  shelf.there[key_of(0)] = 0;
  server.met(client);
  std::vector<PeerMessage> out;
  const int kind = GENERATE(0, 1, 2, 3);
  constexpr std::uint64_t asked = 5000;
  for (std::uint64_t id = 1; id <= asked; ++id) {
    if (kind == 0) serve(server, client, pages::Find{id, keys_of(0, 1)}, shelf, out);
    if (kind == 1) serve(server, client, pages::Ask{id, keys_of(5, 1)}, shelf, out);  // not there
    if (kind == 2) serve(server, client, pages::Ask{id, keys_of(0, 1)}, shelf, out);
    if (kind == 3) (void)server.take_note(client, id, out);
  }
  std::size_t replies = 0;
  for (const PeerMessage& one : out)
    replies += std::holds_alternative<pages::PageContent>(*pages::decode(one.bytes)) ? 0 : 1;
  CHECK(replies == PageServer::replies_most);
  CHECK(server.counts().refused == asked - PageServer::replies_most);
  if (kind == 2) CHECK(server.counts().pages == PageServer::answers_most);
  // Once it has read them it is answered again.
  std::uint64_t last = 0;
  const auto read = *pages::decode(out.back().bytes);
  if (const auto* found = std::get_if<pages::Found>(&read)) last = found->receipt;
  if (const auto* end = std::get_if<pages::End>(&read)) last = end->receipt;
  if (const auto* noted = std::get_if<pages::Noted>(&read)) last = noted->receipt;
  serve(server, client, pages::Took{last}, shelf, out);
  out.clear();
  serve(server, client, pages::Find{1, keys_of(0, 1)}, shelf, out);
  REQUIRE(out.size() == 1);
  CHECK(read_as<pages::Found>(out[0]).pages == 1);
}

TEST_CASE("an answer is made page by page, and what is given up meanwhile ends it") {
  PageServer server(hello_of(1), receipts);
  Shelf shelf;
  for (std::uint64_t i = 0; i < 4; ++i) shelf.there[key_of(i)] = 0;
  server.met(client);
  server.met({8, 1});
  std::vector<PeerMessage> out;
  server.take(client, pages::Ask{1, keys_of(0, 4)}, shelf, out);
  server.take({8, 1}, pages::Ask{2, keys_of(0, 4)}, shelf, out);
  CHECK(out.empty());
  CHECK(server.owed(client) == 4 * page_bytes);
  server.go_on(shelf, out);
  CHECK(out.size() == 1);
  shelf.there.erase(key_of(1));
  server.lost({8, 1});  // nobody to answer
  while (server.has_more()) server.go_on(shelf, out);
  REQUIRE(out.size() == 2);
  const auto end = read_as<pages::End>(out[1]);
  CHECK(end.status == pages::End::Status::missing);
  CHECK(end.pages == 1);
  CHECK(server.owed(client) == page_bytes);
}
