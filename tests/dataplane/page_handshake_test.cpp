// Who may exchange pages: two that have the secret meet, and nothing that was heard is of use to
// who lacks it.
#include "dataplane/page_handshake.h"

#include <catch2/catch.hpp>

using namespace sluice;
using pages::Bytes;

namespace {

pages::Hello hello_of(std::uint64_t incarnation) {
  pages::Hello hello;
  hello.layout.fill(7);
  hello.incarnation = incarnation;
  hello.page_bytes = 96;
  return hello;
}

constexpr PageKeys::Secret secret{1, 2, 3};

PageHandshake::Nonce nonce_of(std::uint8_t number) {
  PageHandshake::Nonce nonce{};
  nonce.fill(number);
  return nonce;
}

template <typename Kind>
Kind said(const Bytes& bytes) {
  return std::get<Kind>(*pages::decode(bytes));
}

}  // namespace

TEST_CASE("two that have the secret meet, whoever's hello comes first") {
  for (const bool early : {false, true}) {
    PageHandshake a(secret, {1, 1}, hello_of(1)), b(secret, {2, 1}, hello_of(7));
    auto hello_a = a.joined({2, 1}, nonce_of(1));
    CHECK_FALSE(hello_a.proof.has_value());
    std::optional<Bytes> proof_b;
    PageHandshake::Greeting hello_b;
    if (early) {
      CHECK_FALSE(b.take({1, 1}, said<pages::Hello>(hello_a.hello)).say.has_value());
      hello_b = b.joined({1, 1}, nonce_of(2));
      proof_b = hello_b.proof;
    } else {
      hello_b = b.joined({1, 1}, nonce_of(2));
      proof_b = b.take({1, 1}, said<pages::Hello>(hello_a.hello)).say;
    }
    REQUIRE(proof_b.has_value());
    const auto proof_a = a.take({2, 1}, said<pages::Hello>(hello_b.hello)).say;
    REQUIRE(proof_a.has_value());
    const auto met = a.take({2, 1}, said<pages::Proof>(*proof_b)).met;
    REQUIRE(met.has_value());
    CHECK(met->incarnation == 7);
    CHECK(b.take({1, 1}, said<pages::Proof>(*proof_a)).met.has_value());
    // Nothing is said twice.
    CHECK(a.take({2, 1}, said<pages::Proof>(*proof_b)).is_refused);
    CHECK(a.take({2, 1}, said<pages::Hello>(hello_b.hello)).is_refused);
  }
}

TEST_CASE("a proof that was heard is of no use to who lacks the secret") {
  PageHandshake a(secret, {1, 1}, hello_of(1)), b(secret, {2, 1}, hello_of(1));
  const auto hello_a = said<pages::Hello>(a.joined({2, 1}, nonce_of(1)).hello);
  const auto hello_b = said<pages::Hello>(b.joined({1, 1}, nonce_of(2)).hello);
  const auto proof_b = said<pages::Proof>(*b.take({1, 1}, hello_a).say);
  CHECK(a.take({2, 1}, hello_b).say.has_value());
  SECTION("back to its maker") {
    // Machine 2 says to 1 what it has heard from it: the same hello, the same nonce.
    PageHandshake mirror(secret, {1, 1}, hello_of(1));
    const auto own = said<pages::Hello>(mirror.joined({2, 1}, nonce_of(1)).hello);
    const auto its = said<pages::Proof>(*mirror.take({2, 1}, own).say);
    CHECK(mirror.take({2, 1}, its).is_refused);
  }
  SECTION("in another's name") {
    // Machine 3, to which 2's proof is repeated under its own link.
    CHECK(said<pages::Hello>(a.joined({3, 1}, nonce_of(1)).hello) == hello_a);
    CHECK(a.take({3, 1}, hello_b).say.has_value());
    CHECK(a.take({3, 1}, proof_b).is_refused);
    CHECK_FALSE(a.take({3, 1}, proof_b).met.has_value());
  }
  SECTION("to another machine") {
    PageHandshake c(secret, {3, 1}, hello_of(1));
    (void)c.joined({2, 1}, nonce_of(1));
    CHECK(c.take({2, 1}, hello_b).say.has_value());
    CHECK(c.take({2, 1}, proof_b).is_refused);
  }
  SECTION("a second time") {
    CHECK(a.take({2, 1}, proof_b).met.has_value());
    a.lost({2, 1});
    (void)a.joined({2, 1}, nonce_of(9));
    CHECK(a.take({2, 1}, hello_b).say.has_value());
    CHECK_FALSE(a.take({2, 1}, proof_b).met.has_value());
    // Nor as the answer to the nonce of now.
    pages::Proof changed = proof_b;
    changed.nonce = nonce_of(9);
    CHECK(a.take({2, 1}, changed).is_refused);
  }
  SECTION("of another life") {
    (void)a.joined({2, 2}, nonce_of(1));
    CHECK(a.take({2, 2}, hello_b).say.has_value());
    CHECK(a.take({2, 2}, proof_b).is_refused);
  }
  SECTION("with other words about the pages") {
    PageHandshake other(secret, {1, 1}, hello_of(1));
    (void)other.joined({2, 1}, nonce_of(1));
    pages::Hello changed = hello_b;
    changed.incarnation += 1;
    CHECK(other.take({2, 1}, changed).say.has_value());
    CHECK(other.take({2, 1}, proof_b).is_refused);
  }
}

TEST_CASE("two meet of which one has joined anew while its words before were on their way") {
  // 1 was given up as silent and does not know it: its hello comes first, then the one that it says
  // when it has heard of the break. 2 sees no change.
  PageHandshake a(secret, {1, 1}, hello_of(1)), b(secret, {2, 1}, hello_of(7));
  const auto before = said<pages::Hello>(a.joined({2, 1}, nonce_of(1)).hello);
  const auto hello_b = said<pages::Hello>(b.joined({1, 1}, nonce_of(2)).hello);
  const auto early = said<pages::Proof>(*b.take({1, 1}, before).say);
  a.lost({2, 1});
  const auto after = said<pages::Hello>(a.joined({2, 1}, nonce_of(3)).hello);
  // What 2 has said comes to 1, what 1 says now to 2.
  const auto proof_a = said<pages::Proof>(*a.take({2, 1}, hello_b).say);
  const PageHandshake::Outcome stale = a.take({2, 1}, early);
  CHECK_FALSE(stale.is_refused);
  CHECK_FALSE(stale.met.has_value());
  const PageHandshake::Outcome again = b.take({1, 1}, after);
  REQUIRE(again.say.has_value());
  CHECK(b.take({1, 1}, proof_a).met.has_value());
  CHECK(a.take({2, 1}, said<pages::Proof>(*again.say)).met.has_value());
  // From then on nothing is said anew.
  CHECK(b.take({1, 1}, before).is_refused);
  CHECK(b.take({1, 1}, after).is_refused);
}

TEST_CASE("after a wrong proof nothing is taken of a peer until it joins anew") {
  PageHandshake a(secret, {1, 1}, hello_of(1)), b(secret, {2, 1}, hello_of(1));
  const auto hello_a = said<pages::Hello>(a.joined({2, 1}, nonce_of(1)).hello);
  const auto hello_b = said<pages::Hello>(b.joined({1, 1}, nonce_of(2)).hello);
  const auto proof_b = said<pages::Proof>(*b.take({1, 1}, hello_a).say);
  CHECK(a.take({2, 1}, hello_b).say.has_value());
  // Each word of it counts.
  const std::size_t word = GENERATE(0U, 1U, 2U, 3U);
  pages::Proof wrong = proof_b;
  wrong.mac.words[word] ^= std::uint64_t{1} << (word * 20);
  const PageHandshake::Outcome outcome = a.take({2, 1}, wrong);
  CHECK(outcome.is_refused);
  CHECK(outcome.mismatch == PageMismatch::secret);
  CHECK(a.take({2, 1}, proof_b).is_refused);
  CHECK(a.take({2, 1}, hello_b).is_refused);
  a.lost({2, 1});
  const auto anew = said<pages::Hello>(a.joined({2, 1}, nonce_of(3)).hello);
  CHECK(a.take({2, 1}, hello_b).say.has_value());
  CHECK(a.take({2, 1}, said<pages::Proof>(*b.take({1, 1}, anew).say)).met.has_value());
}

TEST_CASE("another secret, layout or size of pages is refused") {
  PageHandshake a(secret, {1, 1}, hello_of(1)), b({9}, {2, 1}, hello_of(1));
  const auto hello_a = said<pages::Hello>(a.joined({2, 1}, nonce_of(1)).hello);
  const auto hello_b = said<pages::Hello>(b.joined({1, 1}, nonce_of(2)).hello);
  CHECK(a.take({2, 1}, hello_b).say.has_value());
  const auto its = a.take({2, 1}, said<pages::Proof>(*b.take({1, 1}, hello_a).say));
  CHECK(its.is_refused);
  CHECK(its.mismatch == PageMismatch::secret);
  pages::Hello layout = hello_b, size = hello_b;
  layout.layout[31] = 8;
  size.page_bytes += 4;
  for (const pages::Hello& other : {layout, size}) {
    (void)a.joined({3, 1}, nonce_of(3));
    const PageHandshake::Outcome outcome = a.take({3, 1}, other);
    CHECK(outcome.is_refused);
    CHECK(outcome.mismatch == PageMismatch::layout);
    CHECK_FALSE(outcome.say.has_value());
    a.lost({3, 1});
  }
  CHECK(a.take({4, 1}, pages::Proof{}).is_refused);  // of nobody
}
