// What a role does against its declaration, and what it throws: an error of its call, which names
// node, role and field, and of no other call.
#include <catch2/catch.hpp>
#include <stdexcept>

#include "world.h"

using namespace sluice;

namespace {

PluginDeclaration painter() {
  PluginDeclaration declaration;
  declaration.name = "painter";
  declaration.interfaces = {{.name = "paint",
                             .inputs = {{"x", ValueType::text, "", false}},
                             .outputs = {{"picture", ValueType::image, "", false, 0},
                                         {"word", ValueType::text, "", false, 8}},
                             .frames = {{"picture"}, {"word"}},
                             .yields_max = 2}};
  return declaration;
}

const std::string painting = R"(
sluice: 1
workflow: test
inputs: { x: text }
roles: { artist: { plugin: painter } }
nodes:
  draw: { run: artist.paint, inputs: [ { x: inputs.x } ] }
outputs: { words: draw.word, pictures: draw.picture }
)";

PayloadRef image(std::vector<std::int64_t> shape, Dtype dtype = Dtype::u8) {
  return make_image(std::move(Tensor::zeros(dtype, std::move(shape))).value());
}

}  // namespace

TEST_CASE("a breach of the declaration is an error that names node, role and field") {
  struct Row {
    std::function<void(Activation&)> does;
    std::string says;  // after "the role 'artist' "; empty: it is well
  };
  const std::vector<Row> rows{
      {[](Activation& a) {
         a.yield("picture", image({2, 2, 3}));
       },
       ""},
      {[](Activation& a) { a.yield("picture", make_text("a cat")); },
       "yielded text in 'picture', which is declared as image"},
      {[](Activation& a) { a.yield("word", make_number(1)); },
       "yielded number in 'word', which is declared as text"},
      {[](Activation& a) {
         a.yield("picture", image({2, 2}));
       },
       "yielded u8[2, 2] as a picture in 'picture'; a picture is u8 [height, width, 3]"},
      {[](Activation& a) {
         a.yield("picture", image({2, 2, 4}));
       },
       "yielded u8[2, 2, 4] as a picture in 'picture'; a picture is u8 [height, width, 3]"},
      {[](Activation& a) {
         a.yield("picture", image({2, 2, 3}, Dtype::f32));
       },
       "yielded f32[2, 2, 3] as a picture in 'picture'; a picture is u8 [height, width, 3]"},
      {[](Activation& a) { a.yield("word", make_text("12345678")); }, ""},
      {[](Activation& a) { a.yield("word", make_text("123456789")); },
       "yielded 9 bytes in 'word', at most 8 are declared"},
      {[](Activation& a) {
         for (int i = 0; i < 3; ++i) a.yield("word", make_text("a"));
       },
       "yielded frame 3 of 'word', it declares at most 2 (yields_max)"},
      {[](Activation& a) { a.yield("colour", make_text("red")); },
       "yielded the undeclared field 'colour'"},
      {[](Activation& a) { a.yield("word", PayloadRef()); }, "yielded no value in 'word'"},
      {[](Activation& a) { a.yield("word", make_text(a.input("y")->text)); },
       "read the field 'y', which it does not declare"},
      {[](Activation& a) {
         if (a.inputs("z").empty()) a.yield("word", make_text("none"));
       },
       "read the field 'z', which it does not declare"},
  };
  std::size_t row = 0;
  TestWorld world;
  world.add(painter(), [&](Activation& a, std::uint32_t) -> Result<void> {
    rows[row].does(a);
    return {};
  });
  world.run(painting);
  for (row = 0; row < rows.size(); ++row) {
    const CallOutcome outcome = world.runner->call({"s", {{"x", make_text("")}}}, nullptr);
    INFO(row);
    CHECK(outcome.ok == rows[row].says.empty());
    if (outcome.ok) continue;
    CHECK(outcome.node == "draw");
    CHECK(outcome.error.code == ErrorCode::corrupt);
    CHECK(outcome.error.message == "the role 'artist' " + rows[row].says);
  }
}

TEST_CASE("of a frame with one wrong field nothing goes on, whichever field it is") {
  const FieldValue good{"word", make_text("a")}, bad{"picture", make_text("no picture")};
  const FieldValue nowhere{"colour", make_text("red")}, again{"word", make_text("b")};
  const std::string no_picture = "text in 'picture', which is declared as image";
  const std::vector<std::pair<std::vector<FieldValue>, std::string>> rows{
      {{good, bad}, no_picture},
      {{bad, good}, no_picture},
      {{good, nowhere}, "the undeclared field 'colour'"},
      {{good, again}, "the field 'word' twice in one frame"}};
  std::size_t row = 0;
  TestWorld world;
  world.add(painter(), [&](Activation& a, std::uint32_t) -> Result<void> {
    a.yield(rows[row].first);
    return {};
  });
  world.run(painting);
  for (row = 0; row < rows.size(); ++row) {
    const auto [outcome, came] = world.call();
    INFO(row);
    CHECK(outcome.error.message == "the role 'artist' yielded " + rows[row].second);
    CHECK(came.empty());
  }
}

TEST_CASE("what a plain role throws costs its activation only") {
  TestWorld world;
  world.add_scripted([](Activation& a, std::uint32_t) -> Result<void> {
    if (a.input("x")->text == "bad") throw std::runtime_error("no");
    if (a.input("x")->text == "odd") throw 7;
    a.yield("v", make_text("well"));
    return {};
  });
  world.run(one_node());
  CHECK(world.call("s", "bad").first.error.message == "the role threw: no");
  CHECK(world.call("s", "odd").first.error.message ==
        "the role threw something that is no std::exception");
  CHECK(world.call("s", "good").second == "well ");
}

namespace {

/// Two roles, so that one of them has something to lose.
const std::string two_stepped = R"(
sluice: 1
workflow: test
inputs: { x: text }
roles:
  a: { plugin: stepped }
  b: { plugin: plain, colocate: a }
nodes:
  work: { run: a.work, inputs: [ { x: inputs.x } ], outputs: [v] }
  pass: { run: b.pass, inputs: [ { x: work.v } ], outputs: [v] }
outputs: { out: pass.v }
)";

}  // namespace

TEST_CASE("an exception in admit or step costs what is admitted, and the role goes on") {
  TestWorld world;
  Gate all;
  std::atomic<int> admitted{0};
  world.add_stepped("stepped", [&](const RoleMaking&) -> std::unique_ptr<SteppedRole> {
    return std::make_unique<SteppedScript>(
        [&](Activation& a) {
          ++admitted;
          if (a.input("x")->text == "admit") throw std::runtime_error("not this one");
          return true;
        },
        [&](Activation& a) {
          if (a.input("x")->text == "step" && admitted >= 2) throw std::runtime_error("in a step");
          if (a.input("x")->text == "wait" || a.input("x")->text == "step") return false;
          a.yield("v", make_text(a.input("x")->text));
          return true;
        });
  });
  PluginDeclaration plain;
  plain.name = "plain";
  plain.any_ports = true;
  world.add(plain, [](Activation& a, std::uint32_t) -> Result<void> {
    a.yield("v", make_text("passed " + a.input("x")->text));
    return {};
  });
  world.run(two_stepped);
  CHECK(world.call("s", "admit").first.error.message == "the role threw: not this one");
  CHECK(world.call("s", "good").second == "passed good ");
  admitted = 0;
  Waiting one, two;
  const auto first = world.runner->start({"one", {{"x", make_text("wait")}}}, one.observer());
  const auto second = world.runner->start({"two", {{"x", make_text("step")}}}, two.observer());
  for (Waiting* waiting : {&one, &two}) {
    CHECK(waiting->wait().error.message == "the role threw: in a step");
    CHECK(waiting->outcome.node == "work");
  }
  world.until_idle();  // the role has let go of them too
  CHECK(world.call("two", "good").second == "passed good ");
}
