// What plugins declare: shapes that agree, values that do not fit, options, and workflows of typed
// ports.
#include "graph/declaration.h"

#include <catch2/catch.hpp>
#include <string>
#include <utility>
#include <vector>

#include "graph/check.h"
#include "graph/plan.h"
#include "tests/outcomes.h"
#include "workflows/load.h"

namespace sluice {
namespace {

Port port_of(std::optional<Dtype> dtype, std::vector<std::int64_t> shape) {
  Port port;
  port.name = "p";
  port.type = ValueType::tensor;
  port.dtype = dtype;
  port.shape = std::move(shape);
  return port;
}

/// Two plugins of all that a workflow's fields may be.
Declarations typed() {
  const auto port = [](const char* name, ValueType type, bool counts = false) {
    Port made;
    made.name = name;
    made.type = type;
    made.count_source = counts;
    return made;
  };
  Port wide = port_of(Dtype::f32, {any_size, 7}), narrow = port_of(Dtype::f32, {any_size, 6}),
       other = port_of(Dtype::bf16, {});
  wide.name = "wide", narrow.name = "narrow", other.name = "other";
  PluginDeclaration maker;
  maker.name = "maker";
  maker.interfaces = {
      {"make",
       {port("text", ValueType::text)},
       {port("one", ValueType::text), port("two", ValueType::text),
        port("many", ValueType::number, true), port("plain", ValueType::number), wide},
       {{"one", "wide"}, {"two"}, {"many"}, {"plain"}},
       5}};
  maker.options = {{"size", "how large", {}, 1, 9, OptionType::whole, 0, 0, "3", false},
                   {"speed", "how fast", {"low", "high"}, 0, 0, OptionType::text, 0, 0, {}, true}};
  PluginDeclaration taker;
  taker.name = "taker";
  taker.session_state = true;
  taker.needs_model = true;
  taker.global_param_kinds = {"paged_kv"};
  taker.interfaces = {{"take",
                       {port("text", ValueType::text), wide, narrow, other,
                        port("any", ValueType::any), port("image", ValueType::image)},
                       {port("done", ValueType::json)},
                       {},
                       1}};
  return {maker, taker};
}

constexpr const char* workflow = R"(sluice: 1
workflow: typed
inputs: { text: text, n: number, image: image }
global_params:
  kv: { kind: paged_kv, page_tokens: 16, pages: 64, kv_dtype: f32 }
roles:
  m: { plugin: maker, options: { size: 4, speed: low } }
  t: { plugin: taker, balance: session, model: some, global_params: [ kv ] }
nodes:
  made: { run: m.make, inputs: [ { text: inputs.text } ] }
  took: { run: t.take, inputs: [ { text: made.one, wide: made.wide, any: inputs.n } ] }
  seen: { run: t.take, inputs: [ { image: inputs.image } ] }
  many: { run: t.take, inputs: [ { text: made.two } ], count: { text: made.many } }
outputs: { out: took.done, seen: seen.done, all: many.done }
)";

}  // namespace

TEST_CASE("shapes agree where one value can be in both") {
  struct Row {
    Port a, b;
    bool agree;
  };
  const Row rows[] = {
      {port_of({}, {}), port_of(Dtype::f32, {2}), true},
      {port_of(Dtype::f32, {}), port_of(Dtype::f32, {2, 3}), true},
      {port_of(Dtype::f32, {}), port_of(Dtype::u8, {}), false},
      {port_of(Dtype::f32, {2}), port_of({}, {2}), true},
      {port_of(Dtype::f32, {2}), port_of({}, {3}), false},
      {port_of({}, {any_size, 3}), port_of({}, {2, 3}), true},
      {port_of({}, {any_size, 3}), port_of({}, {3, 2}), false},
      {port_of({}, {any_size}), port_of({}, {any_size, 2}), false},
      {port_of({}, {any_size, 2}), port_of({}, {4, any_size}), true},
  };
  for (const Row& row : rows) {
    INFO(shape_text(row.a) << " and " << shape_text(row.b));
    CHECK(shapes_agree(row.a, row.b) == row.agree);
    CHECK(shapes_agree(row.b, row.a) == row.agree);
  }
  CHECK(shape_text(port_of({}, {})) == "any[...]");
  CHECK(shape_text(port_of(Dtype::u8, {any_size, 7, 1})) == "u8[?, 7, 1]");
}

TEST_CASE("a value that is not what its port declares is told by what it is") {
  const auto breach = [](const Port& port, const PayloadRef& value) {
    return breach_of(port, *value).value_or("");
  };
  const auto zeros = [](Dtype dtype, std::vector<std::int64_t> shape) {
    return Tensor::zeros(dtype, std::move(shape)).value();
  };
  const Port tensor = port_of(Dtype::f32, {any_size, 2});
  CHECK(breach(tensor, make_tensor(zeros(Dtype::f32, {5, 2}), {})).empty());
  const std::string declared = " in 'p', which is declared as ";
  CHECK(breach(tensor, make_tensor(zeros(Dtype::f32, {2, 5}), {})) ==
        "f32[2, 5]" + declared + "f32[?, 2]");
  CHECK(breach(tensor, make_tensor(zeros(Dtype::f32, {2}), {})) ==
        "f32[2]" + declared + "f32[?, 2]");
  CHECK(breach(tensor, make_tensor(zeros(Dtype::i32, {5, 2}), {})) ==
        "i32[5, 2]" + declared + "f32[?, 2]");
  CHECK(breach(tensor, make_text("t")) == "text" + declared + "tensor");
  Port any = port_of({}, {});
  any.type = ValueType::any;
  CHECK(breach(any, make_text("t")).empty());
  CHECK(breach(any, make_tensor(zeros(Dtype::i32, {5, 2}), {})).empty());
  CHECK(breach(any, make_image(zeros(Dtype::u8, {1, 2, 3}))).empty());
  const std::string picture = " as a picture in 'p'; a picture is u8 [height, width, 3]";
  CHECK(breach(any, make_image(zeros(Dtype::u8, {1, 3, 2}))) == "u8[1, 3, 2]" + picture);
  CHECK(breach(any, make_image(zeros(Dtype::f32, {1, 2, 3}))) == "f32[1, 2, 3]" + picture);
  CHECK(breach(any, make_image(zeros(Dtype::u8, {2, 3}))) == "u8[2, 3]" + picture);
  any.bytes_max = 4;
  CHECK(breach(any, make_text("four")).empty());
  CHECK(breach(any, make_text("fifth")) == "5 bytes in 'p', at most 4 are declared");
  CHECK(breach(any, make_tensor(zeros(Dtype::u8, {4}), {})).empty());
  CHECK(breach(any, make_tensor(zeros(Dtype::u8, {5}), {})) ==
        "5 bytes in 'p', at most 4 are declared");
}

TEST_CASE("an option is allowed from its least to its most, and nothing but") {
  OptionDeclaration option;
  option.name = "o";
  option.least = 2;
  option.most = 5;
  const auto allowed = [&](const char* value) { return option_problem(option, value).empty(); };
  for (const char* value : {"2", "5"}) CHECK(allowed(value));
  for (const char* value : {"1", "6", "", "3.0", "3x", " 3", "-3"}) CHECK_FALSE(allowed(value));
  CHECK(option_problem(option, "6") == "o is '6', it must be a whole number from 2 to 5");
  option.type = OptionType::text;
  for (const char* value : {"ab", "abcde"}) CHECK(allowed(value));
  for (const char* value : {"a", "abcdef", ""}) CHECK_FALSE(allowed(value));
  CHECK(option_problem(option, "a") == "o is 'a', it must be a text of 2 to 5 bytes");
  option.type = OptionType::real;
  option.real_least = -0.5;
  option.real_most = 1.25;
  for (const char* value : {"-0.5", "1.25", "0", "1e-3"}) CHECK(allowed(value));
  for (const char* value : {"-0.51", "1.26", "", "1.0x", "nan"}) CHECK_FALSE(allowed(value));
  CHECK(option_problem(option, "2") == "o is '2', it must be a number from -0.5 to 1.25");
  option.choices = {"low", "high"};
  CHECK(allowed("high"));
  CHECK(option_problem(option, "1") == "o is '1', it must be one of low, high");
}

TEST_CASE(
    "each place of a workflow of typed fields that is changed is refused or read, as before") {
  test::Outcomes outcomes("typed_workflows");
  const Declarations declarations = typed();
  const auto said = [&](const std::string& text) {
    LoadedWorkflow loaded = load_workflow("w.yaml", text);
    std::string words;
    if (has_errors(loaded.diagnostics)) return std::string("not a workflow");
    check(loaded.spec, declarations, loaded.diagnostics);
    if (!has_errors(loaded.diagnostics)) compile(loaded.spec, declarations, loaded.diagnostics);
    for (const Diagnostic& d : loaded.diagnostics)
      words += (words.empty() ? "" : "\n") + d.code + " " + std::to_string(d.mark.column) + ": " +
               d.message + (d.suggestion.empty() ? "" : " [" + d.suggestion + "]");
    return words.empty() ? std::string("nothing is said") : words;
  };
  outcomes.change_text("typed", workflow, said);
  // Each field from each source.
  const std::string text = workflow;
  for (const char* field : {"text", "wide", "narrow", "other", "any", "image", "none"})
    for (const char* from : {"inputs.text", "inputs.n", "inputs.image", "made.one", "made.two",
                             "made.many", "made.wide", "took.done", "made.none", "none.one"}) {
      std::string other = text;
      const std::string was = "{ image: inputs.image } ]";
      other.replace(other.find(was), was.size(), "{ " + std::string(field) + ": " + from + " } ]");
      outcomes.add("fields", std::string(field) + ": " + from + "\n" + said(other));
    }
  outcomes.require_as_kept();
}

}  // namespace sluice
