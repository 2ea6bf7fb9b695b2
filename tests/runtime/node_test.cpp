// Nodes of one cluster in one memory: the same calls as in one process, and machines that go.
#include "runtime/node/node.h"

#include "runtime/node/control.h"
#include "runtime/wire/codec.h"
#include "test_cluster.h"

namespace sluice {

TEST_CASE("a workflow over three machines gives what it gives in one process") {
  TestWorld world;
  world.add_scripted(chain_role);
  world.run(chain_yaml);
  const auto [alone, alone_text] = world.call("lisa", "x");
  REQUIRE(alone.ok);
  CHECK(alone_text == "lisa:x0+bx0 lisa:x1+bx1 lisa:x2+bx2 ");

  const std::vector<std::vector<std::uint32_t>> placements{
      {0, 1, 2}, {1, 2, 0}, {2, 2, 1}, {1, 1, 1}, {0, 0, 1}};
  for (const auto& placed : placements) {
    TestCluster cluster({chain_yaml}, placed, chain_role);
    for (int i = 0; i < 20; ++i) {
      const auto [outcome, text] = cluster.call("lisa", "x");
      INFO(outcome.error.message);
      CHECK(outcome.ok);
      CHECK(text == alone_text);
      CHECK(outcome.warnings == alone.warnings);
    }
    CHECK(eventually([&] { return cluster.home().runner(0).counts().calls == 0; }));
  }
}

TEST_CASE("a role's failure elsewhere is the call's, with its node and words") {
  TestCluster cluster({chain_yaml}, {0, 1, 2}, [](Activation& activation, std::uint32_t replica) {
    if (activation.node() == "b") return Result<void>(Error{ErrorCode::invalid_argument, "no b"});
    return chain_role(activation, replica);
  });
  const auto [outcome, text] = cluster.call();
  CHECK(!outcome.ok);
  CHECK(outcome.node == "b");
  CHECK(outcome.error.message == "no b");
}

TEST_CASE("a call whose machine is lost ends with its name, calls meanwhile too, later ones work") {
  HeldOnce held("b");
  TestCluster cluster({chain_yaml}, {0, 1, 2}, held.role());
  Waiting waiting;
  const auto handle =
      cluster.home().runner(0).start({"s", {{"x", make_text("x")}}, {}}, waiting.observer());
  held.reached.wait();
  cluster.kill(1);
  CHECK(!waiting.wait().ok);
  CHECK(waiting.outcome.node == "b");
  CHECK(waiting.outcome.error.message ==
        "machine 'gpu', where node 'b' runs, is lost: nothing was heard of it for 1000 ms");
  CHECK(waiting.outcome.error.code == ErrorCode::unavailable);
  const auto [away, nothing] = cluster.call();
  CHECK(!away.ok);
  CHECK(away.error.message == waiting.outcome.error.message);
  // It was alive, hears that its life is over, and begins another: its roles are the same.
  const int made = cluster.made;
  held.let_go.open();
  cluster.network.thaw(1);
  CHECK(eventually([&] { return cluster.node(1).lives() == 2; }));
  REQUIRE(cluster.node(1).wait_for_members(10s).ok());
  REQUIRE(cluster.home().wait_for_members(10s).ok());
  const auto [again, text] = cluster.call();
  INFO(again.error.message);
  CHECK(again.ok);
  CHECK(text == "s:x0+bx0 s:x1+bx1 s:x2+bx2 ");
  CHECK(cluster.made == made);
  CHECK(waiting.ends == 1);
}

TEST_CASE("a machine's restart that comes before its silence ends its calls, and lets it in") {
  HeldOnce held("b");
  TestCluster cluster({chain_yaml}, {0, 1, 2}, held.role());
  Waiting waiting;
  const auto handle =
      cluster.home().runner(0).start({"s", {{"x", make_text("x")}}, {}}, waiting.observer());
  held.reached.wait();
  cluster.network.freeze(1);
  held.let_go.open();
  cluster.network.forget(1);
  cluster.start(1, 5);
  CHECK(!waiting.wait().ok);
  CHECK(waiting.outcome.error.message ==
        "machine 'gpu', where node 'b' runs, is lost: it has begun anew");
  REQUIRE(cluster.home().wait_for_members(10s).ok());
  CHECK(cluster.call().first.ok);
}

TEST_CASE("a call is over for its caller though a role elsewhere does not let go") {
  HeldOnce held("a");
  TestCluster cluster({chain_yaml}, {2, 1, 0}, held.role());
  Waiting waiting;
  const auto handle =
      cluster.home().runner(0).start({"s", {{"x", make_text("x")}}, {}}, waiting.observer());
  held.reached.wait();
  cluster.kill(1);  // the role that holds on is on machine 2
  CHECK(!waiting.wait().ok);
  CHECK(waiting.outcome.node == "b");
  CHECK(cluster.home().runner(0).counts().given_up == 1);
  held.let_go.open();
  CHECK(eventually([&] { return cluster.home().runner(0).counts().calls == 0; }));
}

TEST_CASE("a role that lets go after the lost machine is back leaves nothing of its call behind") {
  HeldOnce held("a");
  TestCluster cluster({chain_yaml}, {2, 1, 0}, held.role());
  Waiting waiting;
  const auto handle =
      cluster.home().runner(0).start({"s", {{"x", make_text("x")}}, {}}, waiting.observer());
  held.reached.wait();
  cluster.network.freeze(1);
  cluster.network.forget(1);
  cluster.start(1, 5);
  CHECK(!waiting.wait().ok);
  REQUIRE(cluster.home().wait_for_members(10s).ok());
  REQUIRE(eventually([&] { return cluster.node(2).status().machines[1].known.incarnation == 5; }));
  REQUIRE(eventually([&] { return cluster.network.is_idle(); }));
  held.let_go.open();
  // What is left of the call would hold up the next of its session.
  CHECK(eventually([&] { return cluster.home().runner(0).counts().calls == 0; }));
  CHECK(cluster.call().first.ok);
}

TEST_CASE("a machine that another cannot hear is lost") {
  TestCluster cluster({chain_yaml}, {0, 1, 2}, chain_role);
  cluster.network.silence(1, 2);
  CHECK(eventually([&] {
    return cluster.noticed("machine 'gpu' is lost: machine 'disk' says: nothing was heard");
  }));
  CHECK(eventually([&] { return cluster.node(1).lives() == 2; }));
  REQUIRE(cluster.node(1).wait_for_members(10s).ok());
  REQUIRE(cluster.home().wait_for_members(10s).ok());
  CHECK(cluster.call().first.ok);
}

TEST_CASE("a machine that another could not hear before it was let in is lost, too") {
  TestCluster cluster({chain_yaml}, {0, 1, 2}, chain_role);
  cluster.network.hold(1, 0);  // it asks, and is not heard yet
  cluster.start(1, 5);
  const std::size_t heard = cluster.network.heard(2, 0);
  cluster.network.silence(1, 2);
  REQUIRE(eventually([&] { return cluster.network.heard(2, 0) == heard + 1; }));
  cluster.network.let_go(1, 0);
  CHECK(eventually([&] {
    return cluster.noticed("machine 'gpu' is lost: machine 'disk' says: nothing was heard");
  }));
  REQUIRE(eventually([&] { return cluster.node(1).lives() == 2; }));
  REQUIRE(cluster.node(1).wait_for_members(10s).ok());
  REQUIRE(cluster.home().wait_for_members(10s).ok());
  CHECK(cluster.call().first.ok);
}

TEST_CASE("when the home begins anew, so do the others, and no session is left of before") {
  std::atomic<int> lisa{0};
  TestCluster cluster({chain_yaml}, {0, 1, 2}, [&](Activation& activation, std::uint32_t replica) {
    if (activation.session() == "lisa") ++lisa;
    return chain_role(activation, replica);
  });
  CHECK(cluster.call("lisa").first.ok);
  CHECK(lisa == 7);
  cluster.start(0, 9);
  REQUIRE(cluster.home().wait_for_members(10s).ok());
  CHECK(cluster.node(1).lives() == 2);
  CHECK(cluster.node(2).lives() == 2);
  CHECK(cluster.call("lisa").first.ok);
  CHECK(lisa == 14);
}

TEST_CASE("a machine that sends nonsense is refused and named, and the rest goes on") {
  TestCluster cluster({chain_yaml}, {0, 1, 2}, chain_role);
  REQUIRE(cluster.call().first.ok);
  const auto nonsense = GENERATE(0, 1, 2, 3);
  wire::Bytes bytes;
  wire::ByteWriter out(bytes);
  if (nonsense == 1) out.number(7);               // a workflow that there is not
  if (nonsense == 2) out.bytes(wire::Bytes(40));  // no message
  if (nonsense == 3) out.u8(255);                 // no control parcel
  const Origin life = cluster.network.life_of(1);
  cluster.network.inject(life, 0, nonsense == 3 ? Channel::control : Channel::message, bytes);
  CHECK(eventually([&] { return cluster.noticed("what machine 'gpu' sent is refused"); }));
  CHECK(eventually([&] { return cluster.node(1).lives() == 2; }));
  REQUIRE(cluster.node(1).wait_for_members(10s).ok());
  REQUIRE(cluster.home().wait_for_members(10s).ok());
  CHECK(cluster.call().first.ok);
}

TEST_CASE("what only an engine refuses is its call's error, and nobody is fenced for it") {
  Gate reached;
  Gate hold;
  TestCluster cluster({chain_yaml}, {0, 1, 2}, [&](Activation& activation, std::uint32_t replica) {
    if (activation.node() == "b") {
      reached.open();
      hold.wait();
    }
    return chain_role(activation, replica);
  });
  Waiting waiting;
  const auto handle =
      cluster.home().runner(0).start({"s", {{"x", make_text("x")}}, 20s}, waiting.observer());
  reached.wait();
  // Machine 1 gives back all credit of the first call, though parts of it are with others: it may
  // have been told that it had so much.
  Message message;
  message.kind = Message::Kind::credit;
  message.to = entry_node;
  message.call = {1, cluster.network.life_of(0)};
  message.credit = Credit::whole();
  wire::Bytes bytes;
  wire::ByteWriter out(bytes);
  out.number(0);  // the workflow
  out.number(0);  // what it has heard of the home's news
  REQUIRE(wire::encode(cluster.plan(), message, {}, {.machines = 3}, bytes).ok());
  cluster.network.inject(cluster.network.life_of(1), 0, Channel::message, bytes);
  CHECK(!waiting.wait().ok);
  CHECK(waiting.outcome.error.code == ErrorCode::corrupt);
  hold.open();
  CHECK(!cluster.noticed("is refused"));
  CHECK(cluster.call().first.ok);
  CHECK(cluster.node(1).lives() == 1);
  CHECK(cluster.node(2).lives() == 1);
}

TEST_CASE("what only the keeper may say is refused when another says it") {
  TestCluster cluster({chain_yaml}, {0, 1, 2}, chain_role);
  Control control{.kind = Control::Kind::lost};
  control.life = cluster.network.life_of(2);
  cluster.network.inject(cluster.network.life_of(1), 2, Channel::control, encode_control(control));
  CHECK(eventually([&] { return cluster.noticed("it says what only the keeper may say"); }));
  REQUIRE(eventually([&] { return cluster.node(1).lives() == 2; }));
  REQUIRE(cluster.node(1).wait_for_members(10s).ok());
  REQUIRE(cluster.home().wait_for_members(10s).ok());
  CHECK(cluster.call().first.ok);
}

TEST_CASE("much that waits for the home's word is refused, however small its parts are") {
  TestCluster cluster({chain_yaml}, {0, 1, 2}, chain_role);
  wire::Bytes bytes;
  wire::ByteWriter out(bytes);
  out.number(0);
  out.number(99);  // more news than the home has told anybody
  for (int i = 0; i < (64 << 20) / 200; ++i)
    cluster.network.inject(cluster.network.life_of(1), 2, Channel::message, bytes);
  CHECK(eventually([&] { return cluster.noticed("it sends too much before the keeper"); }));
}

TEST_CASE("what overtakes the home's word of its sender waits for it") {
  TestCluster cluster({chain_yaml}, {1, 2, 0}, chain_role);
  // Machine 2 begins anew; the home's word to it is late, machine 1's frames are not.
  cluster.network.hold(0, 2);
  cluster.network.silence(2, 0);
  REQUIRE(eventually([&] { return cluster.node(2).lives() == 2; }));
  REQUIRE(cluster.home().wait_for_members(10s).ok());
  const std::size_t heard = cluster.network.heard(1, 2);
  Waiting waiting;
  const auto handle =
      cluster.home().runner(0).start({"s", {{"x", make_text("x")}}, 20s}, waiting.observer());
  // A session's name, and three frames of `a`.
  REQUIRE(eventually([&] { return cluster.network.heard(1, 2) == heard + 4; }));
  CHECK(!waiting.ended());
  cluster.network.let_go(0, 2);
  CHECK(waiting.wait().ok);
  CHECK(waiting.text == "s:x0+bx0 s:x1+bx1 s:x2+bx2 ");
}

TEST_CASE("what overtakes the home's word of whom it causes messages to waits for it") {
  TestCluster cluster({chain_yaml}, {3, 1, 2}, chain_role, {4, {}});
  // Machine 2 begins anew; the home's word of it comes to 3, which sends to 1, before it comes
  // to 1.
  cluster.network.hold(0, 1);
  cluster.network.silence(2, 0);
  REQUIRE(eventually([&] { return cluster.node(2).lives() == 2; }));
  REQUIRE(cluster.home().wait_for_members(10s).ok());
  const std::size_t heard = cluster.network.heard(3, 1);
  Waiting waiting;
  const auto handle =
      cluster.home().runner(0).start({"s", {{"x", make_text("x")}}, 5s}, waiting.observer());
  REQUIRE(eventually([&] { return cluster.network.heard(3, 1) == heard + 4; }));
  cluster.network.let_go(0, 1);
  CHECK(waiting.wait().ok);
  INFO(waiting.outcome.error.message);
  CHECK(waiting.text == "s:x0+bx0 s:x1+bx1 s:x2+bx2 ");
}

TEST_CASE("what cannot be sent ends its call, and says which limit") {
  TestCluster cluster({chain_yaml}, {1, 2, 0}, [](Activation& activation, std::uint32_t) {
    activation.yield("v", make_text(std::string((std::size_t{64} << 20U) + 1, 'x')));
    return Result<void>();
  });
  const auto [outcome, text] = cluster.call();
  CHECK(!outcome.ok);
  CHECK(outcome.node == "a");
  CHECK(outcome.error.message.find("cannot be sent to machine 'disk'") != std::string::npos);
  CHECK(eventually([&] { return cluster.home().runner(0).counts().calls == 0; }));
}

TEST_CASE("a caller who gives up is heard elsewhere") {
  Gate reached;
  TestCluster cluster({chain_yaml}, {0, 1, 2}, [&](Activation& activation, std::uint32_t replica) {
    if (activation.node() != "b") return chain_role(activation, replica);
    reached.open();
    while (!activation.cancelled()) std::this_thread::yield();
    return Result<void>(Error{ErrorCode::cancelled, "stopped"});
  });
  Waiting waiting;
  const auto handle =
      cluster.home().runner(0).start({"s", {{"x", make_text("x")}}, {}}, waiting.observer());
  reached.wait();
  handle->cancel();
  CHECK(waiting.wait().error.message == "the caller cancelled the call");
  CHECK(eventually([&] { return cluster.home().runner(0).counts().calls == 0; }));
}

TEST_CASE("workflows that run together keep apart on the way") {
  TestCluster cluster({chain_yaml, chain_yaml}, {0, 1, 2}, chain_role);
  for (int i = 0; i < 10; ++i) {
    CHECK(cluster.call("s", "x", 0).second == "s:x0+bx0 s:x1+bx1 s:x2+bx2 ");
    CHECK(cluster.call("t", "y", 1).second == "t:y0+by0 t:y1+by1 t:y2+by2 ");
  }
}

}  // namespace sluice
