// Who belongs to a cluster: every event in every state, and whole stories.
#include "runtime/members.h"

#include <catch2/catch.hpp>
#include <map>

#include "base/random.h"
#include "control_sample.h"

namespace sluice {

namespace {

using Kind = MemberEffect::Kind;

std::string text_of(const MemberEffects& effects) {
  constexpr const char* names[] = {"refuse", "lost", "joined", "ask", "report", "anew"};
  std::string text;
  for (const MemberEffect& effect : effects) {
    text += std::string(text.empty() ? "" : " ") + names[static_cast<int>(effect.kind)];
    if (effect.kind != Kind::anew)
      text += std::to_string(effect.life.machine) + "." + std::to_string(effect.life.incarnation);
  }
  return text;
}

/// What follows from each word: c connected, a asked, l lost; machine 1 in the life that is named.
std::string home_says(const std::vector<std::pair<char, std::uint32_t>>& words) {
  Members members(3, 0);
  MemberEffects effects;
  for (const auto& [word, incarnation] : words) {
    effects.clear();
    const Origin life{1, incarnation};
    if (word == 'c') members.connected(life, effects);
    if (word == 'a') members.asked(life, effects);
    if (word == 'l') members.lost(life, "why", effects);
  }
  return text_of(effects);
}

std::string member_says(const std::vector<std::pair<char, Origin>>& words) {
  Member member(0);
  MemberEffects effects;
  for (const auto& [word, life] : words) {
    effects.clear();
    if (word == 'c') member.connected(life, effects);
    if (word == 'l') member.lost(life, "why", effects);
    if (word == 'r') member.refused(effects);
    if (word == 'j') member.joined(life, effects);
  }
  return text_of(effects);
}

}  // namespace

TEST_CASE("the home lets in who asks, once, and never a life that was lost") {
  CHECK(home_says({{'c', 5}}) == "");
  CHECK(home_says({{'a', 5}}) == "joined1.5");
  CHECK(home_says({{'c', 5}, {'a', 5}}) == "joined1.5");
  CHECK(home_says({{'a', 5}, {'a', 5}}) == "");
  CHECK(home_says({{'a', 5}, {'c', 5}}) == "");
  CHECK(home_says({{'a', 5}, {'l', 5}}) == "lost1.5 refuse1.5");
  CHECK(home_says({{'a', 5}, {'l', 5}, {'l', 5}}) == "");
  CHECK(home_says({{'a', 5}, {'l', 5}, {'c', 5}}) == "refuse1.5");
  CHECK(home_says({{'a', 5}, {'l', 5}, {'a', 5}}) == "refuse1.5");
  CHECK(home_says({{'a', 5}, {'l', 5}, {'a', 6}}) == "joined1.6");
  CHECK(home_says({{'a', 5}, {'c', 6}}) == "lost1.5");
  CHECK(home_says({{'a', 5}, {'a', 6}}) == "lost1.5 joined1.6");
  CHECK(home_says({{'a', 5}, {'c', 6}, {'a', 6}}) == "joined1.6");
  CHECK(home_says({{'a', 5}, {'a', 4}}) == "refuse1.4");
  CHECK(home_says({{'a', 5}, {'c', 4}}) == "refuse1.4");
  CHECK(home_says({{'a', 5}, {'l', 4}}) == "");
  CHECK(home_says({{'l', 5}}) == "");
}

TEST_CASE(
    "the home believes those who are there, and hears nothing of machines that there are not") {
  Members members(3, 0);
  MemberEffects effects;
  members.asked({1, 2}, effects);
  members.asked({2, 2}, effects);
  effects.clear();
  members.reported({2, 1}, {1, 2}, "why", effects);
  CHECK(text_of(effects) == "");
  members.reported({2, 2}, {1, 2}, "why", effects);
  CHECK(text_of(effects) == "lost1.2 refuse1.2");
  effects.clear();
  members.reported({1, 2}, {2, 2}, "why", effects);  // its own life is over
  members.connected({7, 1}, effects);
  members.asked({0, 9}, effects);
  members.lost({0, 9}, "why", effects);
  CHECK(text_of(effects) == "");
  CHECK(members.missing() == std::vector<std::uint32_t>{1});
}

TEST_CASE("a member asks the first life of the home that it hears, and lives as long as that") {
  CHECK(member_says({{'c', {0, 3}}}) == "ask0.3");
  CHECK(member_says({{'c', {2, 3}}}) == "");
  CHECK(member_says({{'c', {0, 3}}, {'c', {0, 3}}}) == "");
  CHECK(member_says({{'c', {0, 3}}, {'c', {0, 4}}}) == "anew");
  CHECK(member_says({{'c', {0, 3}}, {'l', {0, 3}}}) == "anew");
  CHECK(member_says({{'c', {0, 3}}, {'l', {0, 2}}}) == "");
  CHECK(member_says({{'c', {0, 3}}, {'l', {2, 5}}}) == "report2.5");
  CHECK(member_says({{'c', {0, 3}}, {'r', {}}}) == "anew");
  CHECK(member_says({{'r', {}}}) == "anew");
  CHECK(member_says({{'c', {0, 3}}, {'r', {}}, {'r', {}}}) == "");
  CHECK(member_says({{'c', {0, 3}}, {'r', {}}, {'c', {0, 4}}}) == "");
  CHECK(member_says({{'c', {0, 3}}, {'r', {}}, {'l', {2, 5}}}) == "");
}

TEST_CASE("a member says again whom it cannot hear when the home says that it is there") {
  CHECK(member_says({{'c', {0, 3}}, {'l', {2, 5}}, {'j', {2, 5}}}) == "report2.5");
  CHECK(member_says({{'l', {2, 5}}}) == "");  // there is nobody to tell
  CHECK(member_says({{'l', {2, 5}}, {'c', {0, 3}}, {'j', {2, 5}}}) == "report2.5");
  CHECK(member_says({{'c', {0, 3}}, {'l', {2, 5}}, {'j', {2, 6}}}) == "");
  CHECK(member_says({{'c', {0, 3}}, {'l', {2, 5}}, {'c', {2, 5}}, {'j', {2, 5}}}) == "");
  CHECK(member_says({{'c', {0, 3}}, {'j', {2, 5}}}) == "");
  CHECK(member_says({{'c', {0, 3}}, {'l', {2, 5}}, {'r', {}}, {'j', {2, 5}}}) == "");
}

TEST_CASE("whatever is said of machines, each life joins once, is lost once, and in this order") {
  for (std::uint64_t seed = 0; seed < 2000; ++seed) {
    SplitMix64 random(seed);
    Members members(4, 0);
    std::map<Origin, std::string> told;
    for (int i = 0; i < 200; ++i) {
      const Origin life{static_cast<std::uint32_t>(random.next() % 5),
                        static_cast<std::uint32_t>(1 + random.next() % 6)};
      const Origin by{static_cast<std::uint32_t>(random.next() % 4), life.incarnation};
      MemberEffects effects;
      switch (random.next() % 4) {
        case 0:
          members.connected(life, effects);
          break;
        case 1:
          members.asked(life, effects);
          break;
        case 2:
          members.lost(life, "why", effects);
          break;
        default:
          members.reported(by, life, "why", effects);
      }
      for (const MemberEffect& effect : effects) {
        if (effect.kind == Kind::joined) told[effect.life] += "j";
        if (effect.kind == Kind::lost) told[effect.life] += "l";
        if (effect.kind == Kind::refuse) CHECK_FALSE(members.is_there(effect.life));
      }
    }
    std::map<std::uint32_t, int> there;
    for (const auto& [life, story] : told) {
      CHECK((story == "j" || story == "jl"));
      there[life.machine] += story == "j" ? 1 : 0;
      CHECK(members.is_there(life) == (story == "j"));
    }
    for (const auto& [machine, lives] : there) CHECK(lives <= 1);
  }
}

TEST_CASE("a control parcel comes out as it went in, and no part or bent one is taken") {
  constexpr auto last = static_cast<std::uint8_t>(Control::Kind::session_denied);
  for (std::uint8_t kind = 0; kind <= last; ++kind) {
    Control control = control_of(static_cast<Control::Kind>(kind));
    control.calls = {1, 200, 3};
    const wire::Bytes bytes = encode_control(control);
    const Result<Control> read = decode_control(bytes);
    REQUIRE(read.ok());
    CHECK(encode_control(*read) == bytes);
    for (std::size_t size = 0; size < bytes.size(); ++size)
      CHECK_FALSE(decode_control(std::span(bytes).first(size)).ok());
    wire::Bytes longer = bytes;
    longer.push_back({});
    // Behind the head of a replica's stands a parcel of its own.
    CHECK(decode_control(longer).ok() == (control.kind == Control::Kind::replica));
  }
  for (int kind = last + 1; kind < 256; ++kind)
    for (const std::size_t size : {1U, 2U, 5U}) {
      wire::Bytes unknown(size);
      unknown[0] = static_cast<std::byte>(kind);
      CHECK_FALSE(decode_control(unknown).ok());
    }
  wire::Bytes many;
  wire::ByteWriter out(many);
  out.u8(static_cast<std::uint8_t>(Control::Kind::joined));
  for (const std::uint64_t number : {0ULL, 1ULL, 1ULL, 1ULL << 60U}) out.number(number);
  CHECK_FALSE(decode_control(many).ok());  // nothing is allocated for calls that are not there
  Control most{.kind = Control::Kind::admitted};
  most.calls.resize(std::size_t{1} << 20U);
  CHECK(decode_control(encode_control(most)).ok());
  most.calls.emplace_back();
  CHECK_FALSE(decode_control(encode_control(most)).ok());
}

}  // namespace sluice
