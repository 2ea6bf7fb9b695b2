// What is asked of replicas elsewhere and run for others, as tables: each activation ends once, and
// what nobody may say is told from what comes late.
#include <catch2/catch.hpp>

#include "graph/replica_split.h"
#include "runtime/node/control.h"
#include "runtime/replicas/asked.h"
#include "runtime/replicas/parcel.h"
#include "runtime/replicas/served.h"
#include "runtime/wire/codec.h"

namespace sluice {

namespace {

AskedActivations::Asked at(Origin life) { return {life, {0, 3, 2}, "replica 2 of node 'ask'"}; }

ReplicaSaid frame(std::size_t weight) { return {.weight = weight}; }
ReplicaSaid end() { return {.end = ReplicaEnded{}}; }

}  // namespace

TEST_CASE("replicas are divided in blocks in the machines' order, as equal as can be") {
  using Machines = std::vector<std::uint32_t>;
  CHECK(split_replicas(3, {4, 7}) == Machines{4, 4, 7});
  CHECK(split_replicas(2, {4, 7}) == Machines{4, 7});
  CHECK(split_replicas(8, {2, 0, 1}) == Machines{2, 2, 2, 0, 0, 0, 1, 1});
  CHECK(split_replicas(5, {6}) == Machines(5, 6));
  RoleSpec role;
  CHECK_FALSE(is_split(role, {1, 2}));
  role.balance = Balance::broadcast;
  CHECK(is_split(role, {1, 2}));
  CHECK_FALSE(is_split(role, {1}));
}

TEST_CASE("what was asked for is taken in order, and ends once") {
  AskedActivations asked({"front", "gpu"});
  const Origin life{1, 5};
  CHECK(asked.life_of(1, "it").error().message ==
        "machine 'gpu', where it runs, is lost: it has not joined yet");
  asked.joined(life);
  REQUIRE(asked.life_of(1, "it").value() == life);
  CHECK(asked.next_number() == 1);
  const std::uint64_t number = asked.add(at(life));
  CHECK(number == 1);
  CHECK(asked.problem(life, 2) == "it speaks of an activation that it was not asked for");
  CHECK(!asked.problem({1, 6}, number).empty());  // another life of it
  CHECK(!asked.problem({0, 5}, number).empty());  // another machine
  REQUIRE(asked.problem(life, number).empty());
  asked.said(number, frame(7));
  asked.said(number, end());
  CHECK(asked.problem(life, number) == "it speaks of an activation that has ended");
  CHECK(asked.has_news(number));
  CHECK(asked.take(number)->weight == 7);
  CHECK(asked.take(number)->end);
  CHECK(asked.size() == 0);
  CHECK_FALSE(asked.has_news(number));
  CHECK(asked.gone_on(number, 7) == 0);
  CHECK(asked.problem(life, number) == "it speaks of an activation that it was not asked for");
}

TEST_CASE("what was asked of a life that is over ends with its name and why, behind what it said") {
  AskedActivations asked({"front", "gpu", "disk"});
  asked.joined({1, 5});
  asked.joined({2, 1});
  const std::uint64_t first = asked.add(at({1, 5})), other = asked.add(at({2, 1}));
  const std::uint64_t done = asked.add(at({1, 5}));
  asked.said(first, frame(1));
  asked.said(done, end());
  SECTION("by the keeper's word") {
    CHECK(asked.lost({1, 5}, "it was stopped") == std::vector{first});
    CHECK(asked.lost({1, 5}, "again").empty());  // nobody is woken for what is known
    CHECK(asked.take(first)->weight == 1);
    CHECK(asked.take(first)->end->error->message ==
          "machine 'gpu', where replica 2 of node 'ask' runs, is lost: it was stopped");
    CHECK(asked.life_of(1, "it").error().code == ErrorCode::unavailable);
    CHECK(asked.is_late({1, 5}));
    asked.joined({1, 5});  // late news of it
    CHECK_FALSE(asked.life_of(1, "it").ok());
  }
  SECTION("by a later life") {
    CHECK(asked.joined({1, 6}) == std::vector{first});
    CHECK(asked.joined({1, 6}).empty());
    CHECK(asked.take(first)->weight == 1);
    CHECK(asked.take(first)->end->error->message.ends_with("is lost: it has begun anew"));
    CHECK(asked.life_of(1, "it").value() == Origin{1, 6});
    CHECK(asked.lost({1, 5}, "late").empty());
    CHECK(asked.life_of(1, "it").ok());
  }
  CHECK_FALSE(asked.has_news(other));
  CHECK(!asked.take(done)->end->error);
  CHECK(asked.all_lost("begins anew") == std::vector{other});
  CHECK(asked.take(other)->end->error->message == "begins anew");
  CHECK(asked.size() == 0);
  CHECK_FALSE(asked.life_of(2, "it").ok());
  CHECK_FALSE(asked.is_late({2, 1}));  // it may be let in again, in the same life
}

TEST_CASE("bytes that went on are told by quarters of a window, and too many unread are wrong") {
  AskedActivations asked({"front", "gpu"});
  const Origin life{1, 1};
  asked.joined(life);
  const std::uint64_t number = asked.add(at(life));
  const std::size_t quarter = replica_window / 4;
  CHECK(asked.gone_on(number, quarter - 1) == 0);
  CHECK(asked.gone_on(number, 1) == quarter);
  CHECK(asked.gone_on(number, quarter - 1) == 0);
  asked.said(number, frame(AskedActivations::unread_max));
  CHECK(asked.problem(life, number).empty());
  asked.said(number, frame(1));
  CHECK(asked.problem(life, number) == "it yields more than 268435456 bytes that wait");
  (void)asked.take(number);
  CHECK(asked.problem(life, number).empty());
}

TEST_CASE("what runs for others is theirs by life and number, and nothing else is") {
  ServedActivations<int> served(3);
  const Origin owner{1, 4};
  CHECK(served.begin_problem(owner, 1, 0, 10).empty());
  served.begin(owner, 1, 0, 10, 71);
  CHECK(served.begin_problem(owner, 1, 0, 10) == "it asks for an activation twice");
  CHECK(served.begin_problem(owner, 2, 0, replica_window - 10).empty());
  CHECK(!served.begin_problem(owner, 2, 0, replica_window - 9).empty());  // beside the first
  CHECK(served.begin_problem(owner, 2, 1, 16 * replica_window).empty());  // alone on its replica
  CHECK(served.find(owner, 1) == 71);
  CHECK(served.order_problem(owner, 1).empty());
  CHECK(!served.order_problem(owner, 2).empty());
  CHECK(!served.order_problem({2, 4}, 1).empty());
  served.yielded(owner, 1, replica_window - 1);
  CHECK(served.may_yield(owner, 1));
  served.yielded(owner, 1, 5 * replica_window);  // one frame is always let through
  CHECK_FALSE(served.may_yield(owner, 1));
  CHECK_FALSE(served.taken(owner, 1, 6 * replica_window));  // more than was sent
  CHECK(served.taken(owner, 1, 5 * replica_window));
  CHECK(served.may_yield(owner, 1));
  CHECK(served.ended(owner, 1));
  CHECK_FALSE(served.ended(owner, 1));
  CHECK(served.find(owner, 1) == 0);
  CHECK(served.order_problem(owner, 1).empty());  // late: it has ended meanwhile
  CHECK(served.taken(owner, 1, 99));
  CHECK(served.begin_problem(owner, 2, 0, replica_window).empty());
}

TEST_CASE("an owner's life that is over takes what ran for it along, and no other's") {
  ServedActivations<int> served(3);
  served.begin({1, 4}, 1, 0, 10, 1);
  served.begin({2, 9}, 1, 0, 10, 2);
  std::vector<int> stopped;
  const auto stop = [&](int one) { stopped.push_back(one); };
  served.over({1, 3}, stop);
  CHECK(stopped.empty());
  served.over({1, 4}, stop);
  served.over({1, 4}, stop);
  CHECK(stopped == std::vector{1});
  CHECK(served.is_late({1, 4}));
  CHECK_FALSE(served.is_late({1, 5}));
  CHECK(served.may_yield({1, 4}, 1));  // goes nowhere
  CHECK_FALSE(served.ended({1, 4}, 1));
  CHECK(served.begin_problem({1, 5}, 1, 0, replica_window).empty());  // numbers begin anew
  served.begin({1, 5}, 8, 0, 10, 3);
  served.all_over(stop);
  CHECK(stopped == std::vector{1, 3, 2});
  CHECK(served.size() == 0);
}

TEST_CASE("a parcel of a replica comes out as it went in, and no part or bent one is taken") {
  std::vector<ReplicaParcel> parcels(5);
  for (std::size_t i = 0; i < parcels.size(); ++i) parcels[i].activation = 300 + i;
  parcels[0].what =
      ReplicaBegin{4, 2, 1, 77, "lisa@west", {{0, make_text("x")}, {1, make_text("")}}};
  parcels[1].what = ReplicaCancel{};
  parcels[2].what = ReplicaTaken{1U << 20U};
  parcels[3].what = ReplicaYielded{{{2, make_text("seven")}}, {"slow", "very"}};
  parcels[4].what = ReplicaEnded{Error{ErrorCode::deadline, "too late"}, {"so"}};
  for (const ReplicaParcel& parcel : parcels) {
    wire::Lending lending;
    const wire::Bytes whole = encode_replica(parcel, lending).value();
    const Result<Control> control = decode_control(whole);
    REQUIRE(control.ok());
    CHECK(control->kind == Control::Kind::replica);
    const std::span<const std::byte> bytes = std::span(whole).subspan(control->body);
    Result<ReplicaParcel> read = decode_replica(bytes, lending);
    REQUIRE(read.ok());
    CHECK(read->activation == parcel.activation);
    CHECK(encode_replica(*read, lending).value() == whole);
    for (std::size_t size = 0; size < bytes.size(); ++size)
      CHECK_FALSE(decode_replica(bytes.first(size), lending).ok());
    wire::Bytes longer(bytes.begin(), bytes.end());
    longer.push_back({});
    CHECK_FALSE(decode_replica(longer, lending).ok());
    // Every byte changed: refused, or another parcel that is written the same again.
    for (std::size_t i = 0; i < bytes.size(); ++i)
      for (const unsigned bits : {1U, 2U, 16U, 128U, 255U}) {
        wire::Bytes bent(bytes.begin(), bytes.end());
        bent[i] ^= static_cast<std::byte>(bits);
        const Result<ReplicaParcel> other = decode_replica(bent, lending);
        if (!other.ok()) continue;
        const wire::Bytes again = encode_replica(*other, lending).value();
        CHECK(std::equal(again.end() - static_cast<std::ptrdiff_t>(bent.size()), again.end(),
                         bent.begin()));
      }
  }
}

TEST_CASE("values that do not fit into a message are refused by the limit, and texts are cut") {
  wire::Lending lending;
  auto* const large = new Payload;
  large->type = ValueType::text;
  large->text.assign(wire::Limits{}.bytes_max, 'x');
  ReplicaParcel parcel{.activation = 1, .what = ReplicaYielded{{{0, PayloadRef(large)}}, {}}};
  const Result<wire::Bytes> encoded = encode_replica(parcel, lending);
  REQUIRE(!encoded.ok());
  CHECK(encoded.error().code == ErrorCode::exhausted);
  CHECK(encoded.error().message.find("67108864 bytes") != std::string::npos);
  parcel.what = ReplicaEnded{Error{ErrorCode::corrupt, std::string(wire::words_max + 1, 'w')},
                             std::vector<std::string>(wire::warnings_max + 1, "w")};
  const wire::Bytes whole = encode_replica(parcel, lending).value();
  const Result<ReplicaParcel> read =
      decode_replica(std::span(whole).subspan(decode_control(whole)->body), lending);
  REQUIRE(read.ok());
  CHECK(std::get<ReplicaEnded>(read->what).error->message.size() == wire::words_max);
  CHECK(std::get<ReplicaEnded>(read->what).warnings.size() == wire::warnings_max);
}

}  // namespace sluice
