// What the C++ layer of plugins does for an author who makes a mistake: it is said, not swallowed.
#include <catch2/catch.hpp>
#include <cstdint>
#include <optional>
#include <sluice/role_test.hpp>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

using namespace sluice::plugin;

extern "C" {
extern const char sluice_role_name[] = "author";
extern const char sluice_role_declaration[] = "";
extern const std::uint64_t sluice_role_declaration_size = 0;
}

namespace {

/// Hands its input on; says with what, when an attribute is to be added to it.
class HandsOn final : public Role {
 public:
  Status run(Activation activation) override {
    const Value text = *activation.input("text");
    const std::int64_t shape[]{2};
    const Filled<float> made = activation.make<float>(Type::tensor, shape);
    made.elements[1] = 7;
    activation.yield({{"text", text}, {"grid", made.value}});
    const sluice_attribute seven[]{{to_c("n"), 7}};
    activation.yield("text", Output::text("new").with(seven));
    activation.yield("text", Output(text).with(seven));
    return {};
  }
};

/// Writes half of what it makes.
class Half final : public Role {
 public:
  Status run(Activation activation) override {
    const std::int64_t shape[]{2};
    const Filled<std::uint8_t> made =
        activation.make_output<std::uint8_t>("grid", Type::tensor, shape);
    made.elements[0] = 7;
    activation.yield("grid", made.value);
    return {};
  }
};

class Mistyped final : public Role {
 public:
  explicit Mistyped(const Making& making) : times_(making.whole("tmies")) {}
  Status run(Activation) override { return {}; }

 private:
  std::int64_t times_;
};

/// Does at each step what the text says.
class Stepping final : public SteppedRole {
 public:
  Status admit(Activation activation) override {
    if (activation.text("text") == "refuse") return invalid("not this one");
    held_ = activation;
    return {};
  }
  Status step() override {
    if (held_->text("text") == "fail") return invalid("not this step");
    if (held_->text("text") == "retire") held_->retire();
    return {};
  }

 private:
  std::optional<Activation> held_;
};

class Throwing final : public Param {
 public:
  explicit Throwing(const sluice_param_making&) {}
  void end_session(std::string_view session) override {
    throw std::runtime_error("no session " + std::string(session));
  }
};

template <typename T>
TestCall played(const std::string& text, std::size_t steps_max = 10) {
  TestCall call("any");
  call.steps_max = steps_max;
  call.text("text", text).run(make_table<T, NoParam>());
  return call;
}

}  // namespace

TEST_CASE("a value handed on keeps its attributes; an attempt to change them is an error") {
  const TestCall call = played<HandsOn>("old");
  CHECK(call.status.code() == Code::invalid_argument);
  CHECK(call.status.message() ==
        "a value handed on keeps its attributes: make a new one to give it others");
  REQUIRE(call.frames.size() == 2);
  CHECK(call.frames[0].fields.at("text").text == "old");
  const TestValue& grid = call.frames[0].fields.at("grid");
  CHECK(grid.data == std::string("\0\0\0\0\0\0\xe0\x40", 8));  // 0 and 7
  CHECK(call.frames[1].fields.at("text").attributes.at("n") == 7);
}

TEST_CASE("an option that is not there refuses the start by its name") {
  const TestCall call = played<Mistyped>("");
  CHECK(call.status.code() == Code::invalid_argument);
  CHECK(call.status.message() == "no option 'tmies'");
}

TEST_CASE("a test sees a stepped role end well, end with an error, and not end") {
  const TestCall well = played<Stepping>("retire");
  CHECK(well.status.ok());
  CHECK(well.ended);
  for (const char* how : {"refuse", "fail"}) {
    const TestCall failed = played<Stepping>(how);
    CHECK(failed.status.code() == Code::invalid_argument);
    CHECK(failed.ended);
  }
  const TestCall endless = played<Stepping>("never", 3);
  CHECK(endless.status.code() == Code::deadline);
  CHECK(endless.status.message() == "not retired after 3 steps");
  CHECK_FALSE(endless.ended);
}

TEST_CASE("what a parameter throws when a session ends does not cross the C interface") {
  const sluice_plugin table = make_table<HandsOn, Throwing>();
  sluice_param_making making{};
  sluice_error error{};
  void* param = nullptr;
  REQUIRE(table.create_param(&making, &param, &error) == SLUICE_OK);
  CHECK_NOTHROW(table.end_session(param, to_c("s")));
  table.destroy_param(param);
}

TEST_CASE("a test sees what a role has not written of its output") {
  const TestCall call = played<Half>("x");
  REQUIRE(call.frames.size() == 1);
  const TestValue& grid = call.frames[0].fields.at("grid");
  CHECK(grid.data == "\x07\xa5");
  CHECK(grid.shape == std::vector<std::int64_t>{2});
}
