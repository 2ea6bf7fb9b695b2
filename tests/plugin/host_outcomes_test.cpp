// What a plugin's host gives, takes and refuses: every function with every argument sound, at its
// limit and wrong, beside what came of it before.
#include <array>
#include <catch2/catch.hpp>
#include <cstring>
#include <functional>

#include "plugin/host.h"
#include "plugin/text.h"
#include "plugin/value.h"
#include "tests/outcomes.h"
#include "tests/roles/fake_activation.h"

namespace sluice {
namespace {

std::string words(const Payload& payload) {
  std::string text = "type " + std::to_string(static_cast<int>(payload.type)) + ", text '" +
                     one_line(payload.text.substr(0, 9)) + "', number " +
                     std::to_string(payload.number);
  if (!payload.tensor.bytes().empty() || !payload.tensor.shape().empty())
    text += ", " + payload.tensor.describe();
  for (const std::byte byte : payload.tensor.bytes())
    text += ' ' + std::to_string(std::to_integer<int>(byte));
  for (const auto& [name, value] : payload.attributes)
    text += ", " + name + " = " + std::to_string(value);
  return text;
}

std::string words(const sluice_value& value) {
  std::string text =
      "type " + std::to_string(value.type) + ", dtype " + std::to_string(value.dtype) + ", text '" +
      std::string(text_of(value.text, 99).value_or("?")) + "', number " +
      std::to_string(value.number) + ", rank " + std::to_string(value.rank) + ", bytes " +
      std::to_string(value.data_size) + ", attributes " + std::to_string(value.attribute_count) +
      ", handle " + std::to_string(value.handle) + ", size " + std::to_string(value.struct_size);
  for (std::uint64_t i = 0; i < value.rank; ++i) text += ' ' + std::to_string(value.shape[i]);
  for (std::uint64_t i = 0; i < value.attribute_count; ++i)
    text += ", " + std::string(text_of(value.attributes[i].name, 99).value_or("?")) + " = " +
            std::to_string(value.attributes[i].value);
  return text;
}

PayloadRef tensor(Dtype dtype, std::vector<std::int64_t> shape, int first) {
  auto* made = new Payload;
  made->type = ValueType::tensor;
  made->tensor = Tensor::zeros(dtype, std::move(shape)).value();
  for (std::byte& byte : made->tensor.bytes()) byte = static_cast<std::byte>(first++);
  made->attributes = {{"width", 3}, {"height", -4}};
  return PayloadRef(made);
}

/// A host, an activation with inputs, and a value that is sound.
struct World {
  explicit World(bool stepped = false) : host("painter", stepped) {
    activation.give("x", make_text("one"));
    activation.give("x", make_number(7));
    activation.give("t", tensor(Dtype::bf16, {2, 1}, 1));
    id = host.begin(activation);
    value.struct_size = sizeof value;
    value.type = SLUICE_TENSOR;
    value.dtype = SLUICE_I32;
    value.shape = shape.data();
    value.rank = 2;
    value.data = data.data();
    value.data_size = 8;
    value.text = to_c("text");
    value.number = 5;
    value.attributes = attributes.data();
    value.attribute_count = 2;
  }
  /// Yields the value, ends the activation, and says what came of both.
  std::string yielded(std::string_view name = "out") {
    const sluice_field field{to_c(name), &value};
    return said(host.yield(&host, id, &field, 1));
  }
  std::string said(std::int32_t code) {
    const Result<void> ended = host.end(id, {});
    std::string text = std::to_string(code) + (ended.ok() ? "" : ", " + ended.error().message);
    for (const auto& [field, given] : activation.frames)
      text += "; " + field + ": " + words(*given);
    return text;
  }

  PluginHost host;
  FakeActivation activation;
  std::uint64_t id = 0;
  std::array<std::int64_t, 9> shape{2, 1, 1, 1, 1, 1, 1, 1, 1};
  std::array<unsigned char, 72> data{1, 2, 3, 4, 5, 6, 7, 8};
  std::vector<sluice_attribute> attributes =
      std::vector<sluice_attribute>(65, sluice_attribute{to_c("a"), 9});
  sluice_value value{};
};

const std::string name64(64, 'n'), name65(65, 'n');

/// What may be wrong with a value, one thing at a time.
std::vector<std::function<void(World&)>> changes() {
  std::vector<std::function<void(World&)>> changes{
      [](World&) {},
      [](World& w) { w.value.struct_size = sizeof(sluice_value) - 1; },
      [](World& w) { w.value.struct_size = sizeof(sluice_value) + 8; },
      [](World& w) { w.value.shape = nullptr; },
      [](World& w) { w.value.shape = nullptr, w.value.rank = 0, w.value.data_size = 4; },
      [](World& w) { w.value.rank = 8; },
      [](World& w) { w.value.rank = 9; },
      [](World& w) { w.value.data = nullptr; },
      [](World& w) { w.value.data_size = 7; },
      [](World& w) { w.value.data_size = 9; },
      [](World& w) { w.shape[1] = -1; },
      [](World& w) { w.shape[0] = 0, w.value.data_size = 0, w.value.data = nullptr; },
      [](World& w) { w.shape[0] = std::int64_t{1} << 62; },
      [](World& w) { w.shape[1] = std::int64_t{1} << 62; },
      [](World& w) { w.value.attribute_count = 64; },
      [](World& w) { w.value.attribute_count = 65; },
      [](World& w) { w.value.attributes = nullptr; },
      [](World& w) { w.value.attributes = nullptr, w.value.attribute_count = 0; },
      [](World& w) { w.attributes[1].name = to_c("\xff"); },
      [](World& w) {
        w.attributes[1].name = {nullptr, 1};
      },
      [](World& w) {
        w.attributes[1].name = {nullptr, 0};
      },
      [](World& w) { w.attributes[1].name = to_c(name64); },
      [](World& w) { w.attributes[1].name = to_c(name65); },
      [](World& w) {
        w.value.type = SLUICE_TEXT, w.value.text = {nullptr, 4};
      },
      [](World& w) {
        w.value.type = SLUICE_TEXT, w.value.text = {nullptr, 0};
      },
      [](World& w) { w.value.type = SLUICE_TEXT, w.value.text.size = (1ULL << 36U) + 1; },
      [](World& w) { w.value.type = SLUICE_TEXT, w.value.text = to_c("\xff"); },
      [](World& w) { w.value.type = SLUICE_JSON, w.value.text = to_c("\xff"); },
      [](World& w) { w.value.type = SLUICE_BYTES, w.value.text = to_c("\xff"); },
      [](World& w) { w.value.handle = 1; }};
  for (std::uint32_t type = 0; type <= 9; ++type)
    changes.emplace_back([type](World& w) { w.value.type = type; });
  for (std::uint32_t dtype = 0; dtype <= 6; ++dtype)
    for (const std::uint64_t bytes : {2U, 4U, 8U, 16U})
      changes.emplace_back(
          [dtype, bytes](World& w) { w.value.dtype = dtype, w.value.data_size = bytes; });
  return changes;
}

TEST_CASE("a value that a plugin yields is taken or refused as it was before") {
  test::Outcomes outcomes("plugin_values");
  for (const auto& change : changes()) {
    World world;
    change(world);
    outcomes.add("values", world.yielded());
  }
  for (const std::string& name : {std::string("out"), name64, name65, std::string("\xff"),
                                  std::string(), std::string("a\nb")}) {
    World world, bad;
    outcomes.add("names", world.yielded(name));
    bad.value.type = 99;
    outcomes.add("names of bad values", bad.yielded(name));
  }
  outcomes.require_as_kept();
}

/// Inputs: which there are, and as much of them as the plugin's structure holds.
void show_inputs(test::Outcomes& outcomes) {
  for (const std::string_view field : {"x", "t", "y", "", "\xff"})
    for (const std::uint64_t index : {0U, 1U, 2U})
      for (const std::uint64_t size :
           {std::uint64_t{0}, std::uint64_t{8}, std::uint64_t{16},
            std::uint64_t{sizeof(sluice_value)}, std::uint64_t{sizeof(sluice_value) + 8}}) {
        World world;
        std::array<sluice_value, 2> shown{};
        shown[0].struct_size = size;
        const std::int32_t code =
            world.host.input(&world.host, world.id, to_c(field), index, shown.data());
        outcomes.add("inputs", std::to_string(code) + ": " + words(shown[0]) + "; behind it " +
                                   std::to_string(shown[1].struct_size));
        outcomes.add("counts", std::string(field) + ": " +
                                   std::to_string(
                                       world.host.input_count(&world.host, world.id, to_c(field))));
      }
  World asks;
  outcomes.add("inputs",
               std::to_string(asks.host.input(&asks.host, asks.id, to_c("x"), 0, nullptr)));
  outcomes.add("about", std::to_string(asks.host.about(&asks.host, asks.id, nullptr)));
  for (const std::uint64_t size :
       {std::size_t{0}, sizeof(std::uint64_t), sizeof(sluice_about) - 8, sizeof(sluice_about)}) {
    sluice_about about{};
    about.struct_size = size;
    asks.activation.call_number = 77;
    const std::int32_t code = asks.host.about(&asks.host, asks.id, &about);
    outcomes.add("about", std::to_string(code) + ' ' +
                              std::string(text_of(about.node, 99).value_or("?")) + ' ' +
                              std::string(text_of(about.interface_name, 99).value_or("?")) + ' ' +
                              std::string(text_of(about.session, 99).value_or("?")) + ' ' +
                              std::to_string(about.call) + ' ' + std::to_string(about.group));
  }
}

/// Tensors of the host's.
void make_tensors(test::Outcomes& outcomes) {
  for (std::uint32_t type = 0; type <= 8; ++type)
    for (std::uint32_t dtype = 0; dtype <= 6; ++dtype)
      for (const std::uint64_t rank : {0U, 2U, 8U, 9U}) {
        World world;
        sluice_value made{};
        made.struct_size = sizeof made;
        void* at = nullptr;
        std::int32_t code = world.host.make_tensor(&world.host, world.id, type, dtype,
                                                   world.shape.data(), rank, &made, &at);
        outcomes.add("tensors", std::to_string(type) + ' ' + std::to_string(dtype) + ' ' +
                                    std::to_string(rank) + " -> " + std::to_string(code) + ": " +
                                    words(made) + (at == nullptr ? "" : ", to be written"));
        if (code != SLUICE_OK) continue;
        std::memset(at, 9, made.data_size);
        world.value.handle = made.handle;
        outcomes.add("of them", world.yielded());
      }
  for (const std::int64_t size : {std::int64_t{-1}, std::int64_t{1} << 62, std::int64_t{1} << 50}) {
    World world;
    world.shape[0] = size;
    sluice_value made{};
    void* at = nullptr;
    outcomes.add("tensors that cannot be", std::to_string(world.host.make_tensor(
                                               &world.host, world.id, SLUICE_TENSOR, SLUICE_U8,
                                               world.shape.data(), 1, &made, &at)));
    outcomes.add("tensors that cannot be",
                 std::to_string(world.host.make_tensor(&world.host, world.id, SLUICE_TENSOR,
                                                       SLUICE_U8, nullptr, 1, &made, &at)));
    outcomes.add("tensors that cannot be",
                 std::to_string(world.host.make_tensor(&world.host, world.id, SLUICE_TENSOR,
                                                       SLUICE_U8, nullptr, 0, nullptr, &at)));
    outcomes.add("tensors that cannot be",
                 std::to_string(world.host.make_tensor(&world.host, world.id, SLUICE_TENSOR,
                                                       SLUICE_U8, nullptr, 0, &made, nullptr)));
  }
}

void yield_handles(test::Outcomes& outcomes) {
  for (std::uint64_t field = 0; field <= 3; ++field)
    for (std::uint64_t index = 0; index <= 3; ++index) {
      World world;
      sluice_value shown{};
      shown.struct_size = sizeof shown;
      void* at = nullptr;
      for (const std::string_view name : {"x", "t"})
        (void)world.host.input(&world.host, world.id, to_c(name), 0, &shown);
      for (int i = 0; i < 2; ++i)
        (void)world.host.make_tensor(&world.host, world.id, SLUICE_AUDIO, SLUICE_U8,
                                     world.shape.data(), 1, &shown, &at);
      world.value.handle = field << 40U | index;
      outcomes.add("handles",
                   std::to_string(field) + ' ' + std::to_string(index) + ": " + world.yielded());
    }
}

TEST_CASE("what a plugin's host shows, makes and takes back is what it was before") {
  test::Outcomes outcomes("plugin_host");
  show_inputs(outcomes);
  make_tensors(outcomes);
  yield_handles(outcomes);
  outcomes.require_as_kept();
}

void yield_frames(test::Outcomes& outcomes) {
  for (const std::uint64_t count : {0U, 1U, 2U, 64U, 65U}) {
    World world;
    std::vector<sluice_field> fields(65, {to_c("n"), &world.value});
    world.value.type = SLUICE_NUMBER;
    world.value.attribute_count = 0;
    outcomes.add("frames",
                 world.said(world.host.yield(&world.host, world.id, fields.data(), count)));
    World none;
    outcomes.add("frames of nothing",
                 none.said(none.host.yield(&none.host, none.id, nullptr, count)));
    World half;  // of a frame with one wrong field nothing goes on
    fields[0].value = &half.value;
    fields[1].value = nullptr;
    outcomes.add("frames with a wrong one",
                 half.said(half.host.yield(&half.host, half.id, fields.data(), count)));
  }
  World twice;  // the first mistake is told
  const sluice_field nameless{to_c(""), &twice.value}, empty{to_c("second"), nullptr};
  (void)twice.host.yield(&twice.host, twice.id, &nameless, 1);
  outcomes.add("two mistakes", twice.said(twice.host.yield(&twice.host, twice.id, &empty, 1)));
}

void retire(test::Outcomes& outcomes) {
  for (std::int32_t code = -1; code <= 9; ++code)
    for (const std::string& text : {std::string("why\n"), std::string(), std::string(4097, 'x')}) {
      const Error error = error_from(code, text);
      outcomes.add("errors", std::to_string(static_cast<int>(error.code)) + ' ' +
                                 std::to_string(error.message.size()) + ' ' +
                                 error.message.substr(0, 60));
      World world(true);
      const std::int32_t said = world.host.retire(&world.host, world.id, code, to_c(text));
      std::vector<StepOutcome> ended;
      const bool held = world.host.holds(world.id), any = world.host.holds_any();
      world.host.take_retired(ended);
      REQUIRE(ended.size() == 1);
      outcomes.add("retired",
                   std::to_string(said) + (held ? " held" : "") + (any ? " any" : "") +
                       (world.host.holds_any() ? " any still" : "") + ": " +
                       (ended[0].result.ok() ? std::string("well")
                                             : ended[0].result.error().message.substr(0, 60)));
    }
  World plain;
  outcomes.add("retired",
               plain.said(plain.host.retire(&plain.host, plain.id, SLUICE_OK, to_c(""))));
}

/// Of places that are used again, of none, and of what has ended.
void number(test::Outcomes& outcomes) {
  PluginHost host("painter", true);
  std::array<FakeActivation, 4> activations;
  std::vector<std::uint64_t> ids;
  for (FakeActivation& activation : activations) ids.push_back(host.begin(activation));
  (void)host.end(ids[1], {});
  (void)host.end(ids[2], {});
  activations[1].is_cancelled = true;
  ids.push_back(host.begin(activations[1]));
  ids.push_back(ids[0] + 1);
  ids.push_back(0);
  ids.push_back(~std::uint64_t{0});
  for (const std::uint64_t id : ids)
    outcomes.add("numbers", std::to_string(id) + (host.holds(id) ? " is held, " : ", ") +
                                std::to_string(host.cancelled(&host, id)) + ' ' +
                                std::to_string(host.yield(&host, id, nullptr, 0)) + ' ' +
                                std::to_string(host.input_count(&host, id, to_c("x"))));
  std::vector<StepOutcome> ended;
  host.end_all({ErrorCode::cancelled, "all end"}, ended);
  outcomes.add("all", std::to_string(ended.size()) + (host.holds_any() ? " any" : " none"));
  for (const StepOutcome& one : ended)
    outcomes.add("all",
                 std::to_string(static_cast<FakeActivation*>(one.activation) - activations.data()) +
                     ' ' + one.result.error().message);
}

TEST_CASE("frames, ends and numbers of activations come to what they came to before") {
  test::Outcomes outcomes("plugin_ends");
  yield_frames(outcomes);
  retire(outcomes);
  number(outcomes);
  for (const std::string_view text : {"plain",
                                      "a\nb\tc\x01\x7f"
                                      "d",
                                      "\xc3\xa4\xff", ""})
    outcomes.add("one line", one_line(text) + (is_utf8(text) ? "" : ", no UTF-8"));
  const PluginHost host("painter", false);
  outcomes.add("of a host", std::to_string(host.struct_size == sizeof(sluice_host)) + ' ' +
                                std::to_string(host.abi_major) + ' ' +
                                std::to_string(host.abi_minor));
  outcomes.require_as_kept();
}

}  // namespace
}  // namespace sluice
