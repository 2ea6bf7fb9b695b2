// What the command line is given and gives: lines of calls and results, values of inputs, files of
// outputs, files of one kind where another is wanted. All of it as sound as it can be, at its
// limits and wrong, beside what was said of it before.
#include <sys/stat.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>

#include "base/base64.h"
#include "cli/call_lines.h"
#include "cli/call_value.h"
#include "cli/file_kind.h"
#include "cli/given_inputs.h"
#include "cli/left_out.h"
#include "cli/output_files.h"
#include "cli/terminal_text.h"
#include "engine/picture/image_file.h"
#include "graph/check.h"
#include "roles/npy_file.h"
#include "tests/outcomes.h"
#include "tests/scratch_folder.h"
#include "workflows/load.h"

namespace sluice::cli {
namespace {

namespace fs = std::filesystem;

struct Planned {
  LoadedWorkflow loaded;
  Plan plan;
  explicit Planned(const std::string& yaml) : loaded(load_workflow("w.yaml", yaml)) {
    PluginDeclaration scripted;
    scripted.name = "scripted";
    scripted.any_ports = true;
    plan = plan_workflow(loaded, {scripted});
    for (const Diagnostic& one : loaded.diagnostics) UNSCOPED_INFO(one.message);
    REQUIRE(!has_errors(loaded.diagnostics));
  }
};

/// An input of each type, and a node that can do without some.
constexpr const char* all_types = R"(sluice: 1
workflow: types
inputs: { t: text, j: json, n: number, i: image, a: audio, x: tensor, b: bytes, y: bytes }
roles: { r: { plugin: scripted } }
nodes:
  most:
    run: r.go
    inputs: [ { t: inputs.t, j: inputs.j, n: inputs.n, i: inputs.i, a: inputs.a, x: inputs.x } ]
    outputs: [ v ]
  rest: { run: r.go, inputs: [ { b: inputs.b }, { y: inputs.y } ], outputs: [ v ] }
outputs: { one: most.v, two: rest.v }
)";

/// A folder of the test's own, in which it stands: names of files in it are the same anywhere.
class Place : public ScratchFolder {
 public:
  Place() { fs::current_path(path()); }
  ~Place() { fs::current_path(before_); }
  Place(const Place&) = delete;
  Place& operator=(const Place&) = delete;
  std::string write(const std::string& name, const std::string& bytes) const {
    const std::string file = path() + "/" + name;
    std::ofstream(file, std::ios::binary) << bytes;
    return file;
  }
  std::string said(std::string text) const {
    for (std::size_t at; (at = text.find(path())) != std::string::npos;)
      text.replace(at, path().size(), "SCRATCH");
    return text;
  }
  template <typename Made>
  std::string said_of(const Made& made) const {
    return made.ok()
               ? "well"
               : std::string(to_string(made.error().code)) + ": " + said(made.error().message);
  }

 private:
  fs::path before_ = fs::current_path();
};

Tensor tensor_of(Dtype dtype, std::vector<std::int64_t> shape) {
  Tensor made = Tensor::zeros(dtype, std::move(shape)).value();
  int value = 0;
  for (std::byte& byte : made.bytes()) byte = static_cast<std::byte>(value++);
  return made;
}

std::string words(const Payload& value) {
  std::string text(to_string(value.type));
  if (!value.tensor.shape().empty()) return text + " " + value.tensor.describe();
  return text + (value.type == ValueType::number ? " " + std::to_string(value.number)
                                                 : " '" + escaped_text(value.text) + "'");
}

std::string words(const CallInputs& inputs) {
  std::string text;
  for (const auto& [name, value] : inputs) text += ", " + name + " " + words(*value);
  return text;
}

std::string call_of(const Place& place, const Plan& plan, const std::string& line) {
  CallLine call;
  const Result<void> read = read_call(line, plan, call);
  return place.said_of(read) + "; id " + call.id + ", session '" + call.session + "', " +
         std::to_string(call.deadline.count()) + " ms" + (call.end_session ? ", ends" : "") +
         (call.lacks.empty() ? "" : ", " + call.lacks) + (read.ok() ? words(call.inputs) : "");
}

std::string many(const std::string& one, int count) {
  std::string text;
  for (int i = 0; i < count; ++i) text += one;
  return text;
}

}  // namespace

TEST_CASE("each place of a call's line that is changed is read or refused, as before") {
  test::Outcomes outcomes("call_lines");
  const Place place;
  const Planned types(all_types);
  const std::string png = base64_encode(encode_png(tensor_of(Dtype::u8, {2, 3, 3})));
  place.write("a.npy", encode_npy(tensor_of(Dtype::f32, {4})));
  const std::string line =
      "{\"id\": {\"a\": [1.50, 2e3]},\n\"session\": \"lisa\",\n"
      "\"deadline_ms\": 86400000,\n\"end_session\": true,\n\"inputs\": {\n"
      "\"t\": \"words\",\n\"j\": {\"k\": [1, 2.5]},\n\"n\": -7,\n\"i\": "
      "{\"base64\": \"" +
      png +
      "\"},\n\"a\": {\"file\": \"a.npy\"},\n\"x\": {\"file\": \"a.npy\"},\n\"b\": {\"base64\": "
      "\"AAEC\"},\n\"y\": null}}";
  outcomes.change_text("a line", line,
                       [&](const std::string& text) { return call_of(place, types.plan, text); });
  const Planned text(
      "sluice: 1\nworkflow: w\ninputs: { t: text }\nroles: { r: { plugin: scripted "
      "} }\nnodes: { a: { run: r.go, inputs: [ { t: inputs.t } ], outputs: [ v ] } "
      "}\noutputs: { o: a.v }\n");
  const auto inputs = [&](const std::string& value) {
    return call_of(place, text.plan, "{\"inputs\": {\"t\": " + value + "}}");
  };
  for (const char* value :
       {"\"\"", "\"\\u00e4\\u0000\"", "{\"base64\": \"/w==\"}", "{\"base64\": 1}",
        "{\"file\": \"/nowhere\"}", "{\"file\": \"/nowhere\", \"x\": 1}", "[]", "true", "\"\xff\""})
    outcomes.add("texts", inputs(value));
  for (const char* value :
       {"9223372036854775807", "9223372036854775808", "-9223372036854775808",
        "-9223372036854775809", "1.0", "1e2", "true", "\"1\"", "{\"base64\": \"MTI=\"}",
        "{\"base64\": \"MTIK\"}", "{\"base64\": \"MTIg\"}"})
    outcomes.add("numbers", call_of(place, types.plan,
                                    "{\"inputs\": {\"t\": null, \"j\": null, \"i\": null, \"a\": "
                                    "null, \"x\": null, \"b\": null, \"y\": null, \"n\": " +
                                        std::string(value) + "}}"));
  for (const char* whole : {"",
                            "1",
                            "[]",
                            "null",
                            "{}",
                            "{\"inputs\": []}",
                            "{\"session\": \"\"}",
                            "{\"session\": 1}",
                            "{\"end_session\": 1}",
                            "{\"inputs\": {\"u\": 1}}",
                            "{\"imputs\": {}}",
                            "{\"other\": {}}",
                            "{\"deadline_ms\": 0}",
                            "{\"deadline_ms\": 1}",
                            "{\"deadline_ms\": 86400001}",
                            "{\"deadline_ms\": 1.5}",
                            "{\"deadline_ms\": \"1\"}",
                            "{\"inputs\": {}, \"inputs\": {}}",
                            "{\"id\": 1, \"id\": 2}",
                            "{\"inputs\": {\"t\": \"x\"}} x",
                            "{\"inputs\": {\"t\": \"x\"}, \"end_session\": false}"})
    outcomes.add("lines", call_of(place, text.plan, whole));
  for (const int depth : {63, 64, 65})
    outcomes.add("depths", call_of(place, text.plan,
                                   "{\"id\": " + many("[", depth - 1) + many("]", depth - 1) +
                                       ", \"inputs\": {\"t\": \"x\"}}"));
  for (const int keys : {20'000, 20'001}) {
    std::string all;
    for (int i = 0; i < keys; ++i) all += (i == 0 ? "\"" : ",\"") + std::to_string(i) + "\":0";
    const std::string said = call_of(place, text.plan,
                                     "{\"id\": {" + all +
                                         "}, \"inputs\": "
                                         "{\"t\": \"x\"}}");
    outcomes.add("keys", std::to_string(keys) + ": " + said.substr(0, said.find(';')));
  }
  for (const char* id : {"1",
                         "1.5",
                         "1.50",
                         "150e-2",
                         "0.1",
                         "0.10000000000000001",
                         "1e400",
                         "-0.0",
                         "1E+2",
                         "12345678901234567890",
                         "1.2345678901234567890",
                         "-1.50e3",
                         "0.30000000000000004",
                         "0.300000000000000040",
                         "[1, {\"id\": 0.1234567890123456789}]",
                         "\"1.2345678901234567890\"",
                         "100.0",
                         "0.0e5",
                         "5e-324",
                         "4e-324",
                         "1.23456789012345678901234567890123456789012345678901234567890"})
    outcomes.add("ids", call_of(place, text.plan,
                                "{\"id\": " + std::string(id) +
                                    ", \"inputs\": {\"t\": \"1.00000000000000001\"}}"));
  outcomes.require_as_kept();
}

TEST_CASE("a call's result is the line that it was before") {
  test::Outcomes outcomes("result_lines");
  CallLine call;
  CallOutcome outcome;
  outcome.ok = true;
  const auto line = [&](const std::string& title, const CallOutputs& outputs,
                        const std::vector<WrittenFile>& files = {}) {
    outcomes.add(title, result_line(call, outcome, outputs, files));
  };
  auto* const cut = new Payload;
  cut->type = ValueType::text;
  cut->text = "cut";
  const PayloadRef cut_off(cut);
  const PayloadRef one = make_text("one"), two = make_text("two"), seven = make_number(7),
                   json = make_json("{\"b\": 1, \"a\": 2.5}"), no_json = make_json("{"),
                   bytes = make_bytes(std::string("\0\xff", 2)), strange = make_text("\xff"),
                   tensor = make_tensor(tensor_of(Dtype::i32, {2, 3}));
  line("nothing", {});
  line("texts", {{"a", one}, {"b", two}, {"a", two}});
  line("of each type",
       {{"a", one}, {"n", seven}, {"j", json}, {"k", no_json}, {"b", bytes}, {"s", strange}});
  line("lists", {{"a", one}, {"a", seven}, {"a", two}, {"n", seven}, {"n", seven}});
  line("files", {{"t", tensor}, {"a", one}, {"t", tensor}, {"a", two}},
       {{0, "t.npy"}, {2, "t-2.npy"}});
  line("texts in files", {{"a", one}, {"a", two}, {"b", one}}, {{0, "a.txt"}, {1, "a.txt"}});
  for (const std::int64_t why : {0, 1, 2, 3, 4, 5}) {
    cut->attributes = {{"cut_off", why}};
    line("cut off " + std::to_string(why), {{"a", one}, {"a", cut_off}});
  }
  call.number = 12;
  call.id = "[1, \"x\"]";
  call.session = "lisa";
  call.lacks = "without the input 'x' nothing comes";
  outcome.warnings = {"take care"};
  line("a named call", {{"a", one}});
  outcome.ok = false;
  outcome.error = {ErrorCode::deadline, "too late"};
  line("an error", {{"a", one}});
  outcome.node = "act";
  line("an error of a node", {});
  outcomes.require_as_kept();
}

TEST_CASE("each input that is given on the command line is a value, or refused as before") {
  test::Outcomes outcomes("given_inputs");
  const Place place;
  const Planned types(all_types);
  place.write("picture.png", encode_png(tensor_of(Dtype::u8, {2, 3, 3})));
  place.write("numbers.npy", encode_npy(tensor_of(Dtype::f32, {4})));
  place.write("words.txt", "words\n");
  place.write("number.txt", "-12\r\n\n");
  place.write("empty", "");
  for (const std::string& name : types.plan.inputs)
    for (const std::string& value : {std::string("word"),
                                     std::string("12"),
                                     std::string("-12"),
                                     std::string(""),
                                     std::string(" 1"),
                                     std::string("1 "),
                                     std::string("{\"a\": 1}"),
                                     std::string("{\"a\""),
                                     std::string("[1, 1e999]"),
                                     std::string("{\"a\": 1, \"a\": 2}"),
                                     std::string("\xe4"),
                                     std::string("ab\xc3"),
                                     std::string("@"),
                                     std::string("@@"),
                                     std::string("@@x"),
                                     "@" + place.path() + "/picture.png",
                                     "@" + place.path() + "/numbers.npy",
                                     "@" + place.path() + "/words.txt",
                                     "@" + place.path() + "/number.txt",
                                     "@" + place.path() + "/empty",
                                     "@" + place.path() + "/nowhere",
                                     "@" + place.path()}) {
      CallInputs inputs;
      const Result<void> read = read_input(types.plan, name + "=" + value, inputs);
      outcomes.add(name, place.said(escaped_text(value)) + ": " +
                             escaped_text(place.said_of(read)) + words(inputs));
    }
  for (const char* given : {"", "=", "t", "u=1", "tt=1", "t=-", "t=--", "-", "t=x=-"}) {
    CallInputs inputs;
    const bool from_input = reads_standard_input(given);
    outcomes.add("given",
                 std::string(given) + (from_input ? ": standard input" : ": ") +
                     (from_input ? "" : place.said_of(read_input(types.plan, given, inputs))) +
                     words(inputs));
  }
  const Planned request(
      "sluice: 1\nworkflow: w\ninputs: { request: json }\nroles: { r: { plugin: "
      "scripted } }\nnodes: { a: { run: r.go, inputs: [ { t: inputs.request } ], "
      "outputs: [ v ] } }\noutputs: { o: a.v }\n");
  outcomes.add("given", place.said_of(find_input(request.plan, "prompt")));
  outcomes.add("given", place.said_of(find_input(request.plan, "requests")));
  std::vector<std::string> without;
  CallInputs some;
  outcomes.add("whole", place.said_of(check_whole(types.plan, some, without)));
  for (const std::string& name : types.plan.inputs) {
    some.emplace_back(name, make_text("x"));
    outcomes.add("whole", place.said_of(check_whole(types.plan, some, without)));
    outcomes.add("whole", place.said_of(check_whole(types.plan, some, {name})));
    outcomes.add("whole", place.said_of(check_whole(types.plan, {}, {name})));
    outcomes.add("left out", left_out_text(types.plan, {name}));
  }
  outcomes.add("whole", place.said_of(check_whole(types.plan, some, {"u"})));
  outcomes.add("left out", left_out_text(types.plan, {}));
  outcomes.add("left out", left_out_text(types.plan, {"b", "y"}));
  outcomes.add("left out", left_out_text(types.plan, types.plan.inputs));
  outcomes.require_as_kept();
}

TEST_CASE("what cannot run names six nodes and outputs, and counts the others") {
  test::Outcomes outcomes("left_out");
  for (const int nodes : {1, 5, 6, 7, 9}) {
    std::string yaml =
                    "sluice: 1\nworkflow: w\ninputs: { x: text, y: text }\nroles: { r: { plugin: "
                    "scripted } }\nnodes:\n  free: { run: r.go, inputs: [ { x: inputs.y } ], "
                    "outputs: [ v ] }\n",
                outputs = "outputs: { o: free.v";
    for (int i = 0; i < nodes; ++i) {
      const std::string n = std::to_string(i),
                        before = i == 0 ? "inputs.x" : "n" + std::to_string(i - 1) + ".v";
      yaml += "  n" + n + ": { run: r.go, inputs: [ { x: " + before + " } ], outputs: [ v ] }\n";
      outputs += ", o" + n + ": n" + n + ".v";
    }
    const Planned chain(yaml + outputs + " }\n");
    for (const std::vector<std::string>& without :
         {std::vector<std::string>{"x"}, {"y"}, {"x", "y"}})
      outcomes.add(std::to_string(nodes) + " nodes", left_out_text(chain.plan, without));
  }
  outcomes.require_as_kept();
}

TEST_CASE("a file of another kind than a command wants is named as what it is, as before") {
  test::Outcomes outcomes("file_kinds");
  const Place place;
  const std::vector<std::pair<std::string, std::string>> files{
      {"workflow.yaml", "sluice: 1\nworkflow: w\nnodes: {}\n"},
      {"lacks_sluice.yaml", "workflow: w\ninputs: {}\nroles: {}\nnodes: {}\n"},
      {"roles_alone.yaml", "roles: {}\n"},
      {"nodes_alone.yaml", "nodes: {}\n"},
      {"params.yaml", "global_params: {}\n"},
      {"cluster.yaml", "cluster: 1\nworkflows: [ w.yaml ]\nmachines: {}\n"},
      {"as_workflow.yaml", "sluice: 1\nmachines: {}\n"},
      {"lacks_cluster.yaml", "workflows: [ w.yaml ]\nmachines: {}\n"},
      {"machines_and_nodes.yaml", "machines: {}\nnodes: {}\n"},
      {"clutser.yaml", "clutser: 1\nworkflows: []\n"},
      {"clusters.yaml", "clusters: 1\nthings: []\n"},
      {"scenario.yaml", "scenario: s\nworkflow: w.yaml\n"},
      {"scenario_and_workflow.yaml", "scenario: s\nsluice: 1\n"},
      {"profile.yaml", "profile: p\nnodes: {}\n"},
      {"profiel.yaml", "profiel: p\nnodes: {}\n"},
      {"manifest.yaml", "sluice_role: 1\nname: r\n"},
      {"manifest_and_workflow.yaml", "sluice_role: 1\nsluice: 1\n"},
      {"other.yaml", "a: 1\nb: 2\nc: 3\n"},
      {"others.yml", "a: 1\nb: 2\nc: 3\nd: 4\n"},
      {"list.yaml", "- a\n- b\n"},
      {"list.txt", "- a\n- b\n"},
      {"empty.yaml", ""},
      {"blank.yaml", " \n\t\r\n"},
      {"no_yaml.yaml", "a: [\n"},
      {"calls.jsonl", "{\"inputs\": {}}\n"},
      {"calls_behind_blanks.jsonl", " \n\t\r{\"inputs\": {}}\n"},
      {"calls_below_a_comment.jsonl", "\n# these\n{\"inputs\": {}}\n"},
      {"calls_in_a_list.json", "[{}]\n"},
      {"words.txt", "some words\n"},
      {"weights.safetensors", "x"},
      {"config.json", "{}"},
      {"weights.gguf", "x"},
      {"weights.bin", "x"}};
  using Check = std::function<std::string(const std::string&)>;
  const std::vector<std::pair<std::string, Check>> checks{
      {"a workflow",
       [&](const std::string& file) { return place.said_of(check_is_workflow(file)); }},
      {"a cluster", [&](const std::string& file) { return place.said_of(check_is_cluster(file)); }},
      {"a scenario",
       [&](const std::string& file) { return place.said_of(check_is_scenario(file)); }},
      {"a profile", [&](const std::string& file) { return place.said_of(check_is_profile(file)); }},
      {"calls", [&](const std::string& file) { return place.said_of(check_is_calls(file)); }},
      {"a checkpoint",
       [&](const std::string& file) { return place.said_of(check_is_checkpoint(file)); }},
      {"a manifest", [&](const std::string& file) { return is_manifest(file) ? "yes" : "no"; }}};
  for (const auto& [name, text] : files) {
    const std::string file = place.write(name, text);
    for (const auto& [wanted, check] : checks) outcomes.add(wanted, name + ": " + check(file));
  }
  for (const std::string& path : {place.path() + "/nowhere", place.path()})
    for (const auto& [wanted, check] : checks)
      outcomes.add(wanted, place.said(path) + ": " + check(path));
  for (const char* name : {"empty", "models/b", "models/a", "ggufs"})
    fs::create_directories(place.path() + "/" + name);
  place.write("models/b/config.json", "{}");
  place.write("models/a/config.json", "{}");
  place.write("ggufs/z.gguf", "x");
  place.write("ggufs/other", "x");
  for (const char* name : {"empty", "models", "models/a", "ggufs"})
    outcomes.add("folders", std::string(name) + ": " +
                                place.said_of(check_is_checkpoint(place.path() + "/" + name)));
  outcomes.add("folders", place.said_of(check_is_checkpoint("config.json")));
  outcomes.require_as_kept();
}

TEST_CASE("where outputs go is taken or refused, and what is written stands there, as before") {
  test::Outcomes outcomes("output_files");
  const Place place;
  const std::string in = place.path() + "/";
  fs::create_directory(in + "folder");
  place.write("there.png", "x");
  place.write("text.txt", "before");
  fs::create_symlink(in + "there.png", in + "link.png");
  const std::vector<OutputType> several{{"picture", ValueType::image},
                                        {"grid", ValueType::tensor},
                                        {"words", ValueType::text},
                                        {"sound", ValueType::audio}};
  const std::vector<OutputType> texts{{"words", ValueType::text}, {"more", ValueType::json}};
  const std::vector<OutputType> one{{"words", ValueType::text}, {"what", ValueType::any}};
  const std::vector<std::vector<std::string>> given{
      {},
      {in + "folder"},
      {in + "folder/"},
      {in + "made/"},
      {in + "folder", in + "made/"},
      {in + "there.png/below/"},
      {in + "picture.png"},
      {"picture=" + in + "p.png"},
      {"picture=" + in + "p.PNG"},
      {"picture=" + in + "p.jpg"},
      {"picture=" + in + "p.npy"},
      {"picture=" + in + "p.txt"},
      {"picture=" + in + "p"},
      {"grid=" + in + "g.npy"},
      {"grid=" + in + "g.npz"},
      {"grid=" + in + "g.safetensors"},
      {"sound=" + in + "s.png"},
      {"sound=" + in + "s.wav"},
      {"words=" + in + "w.png"},
      {"words="},
      {"words=-"},
      {"nothing=" + in + "x"},
      {"Words=" + in + "x"},
      {"words=" + in + "w.txt", "words=" + in + "v.txt"},
      {"words=" + in + "w.txt", "words=" + in + "w.txt"},
      {"words=" + in + "w.txt", "grid=" + in + "folder/../w.txt"},
      {"words=" + in + "there.png", "picture=" + in + "link.png"},
      {"words=/dev/null", "grid=/dev/null"},
      {"words=" + in + "folder"},
      {"words=" + in + "nowhere/w.txt"},
      {"words=" + in + "there.png/w.txt"},
      {"="},
      {""}};
  for (const auto& [title, outputs] :
       {std::pair("several", several), std::pair("texts", texts), std::pair("one", one)})
    for (const std::vector<std::string>& each : given) {
      std::string text;
      for (const std::string& word : each) text += place.said(word) + " ";
      const Result<OutputFiles> made = OutputFiles::make(each, outputs);
      std::string what = place.said_of(made);
      if (made.ok()) {
        for (const OutputType& output : outputs)
          what += made->is_named(output.name) ? ", " + output.name : "";
        for (const std::string& line : made->unwritten()) what += "; " + place.said(line);
      }
      outcomes.add(title, text + ": " + what);
    }
  auto files = OutputFiles::make(
      {"picture=" + in + "p.png", "words=" + in + "text.txt", in + "folder"}, several);
  REQUIRE(files.ok());
  const PayloadRef picture = make_image(tensor_of(Dtype::u8, {1, 2, 3}));
  const PayloadRef grid = make_tensor(tensor_of(Dtype::f32, {2}));
  const auto write = [&](const char* output, const PayloadRef& value,
                         const std::string& prefix = "") {
    const Result<std::string> written = files->write(output, *value, prefix);
    std::string line =
        std::string(output) + (files->takes(output, *value) ? "" : ", not its own") + ": ";
    line += written.ok() ? place.said(*written) + " of " + std::to_string(fs::file_size(*written))
                         : place.said_of(written);
    outcomes.add("written", line);
  };
  for (int i = 0; i < 3; ++i) write("picture", picture);
  for (int i = 0; i < 2; ++i) write("grid", grid);
  write("grid", grid, "call-3-");
  write("words", make_text("some "));
  write("words", make_text("words"));
  write("words", make_number(-5));
  write("words", make_json("{}"));
  write("words", make_bytes(std::string("\0\1", 2)));
  outcomes.add("written", "unwritten: " + std::to_string(files->unwritten().size()));
  std::ifstream file(in + "text.txt", std::ios::binary);
  outcomes.add("written", escaped_text(std::string(std::istreambuf_iterator<char>(file), {})));
  outcomes.add("written", "names " + files->name_of(in + "folder/../p.png") + ", " +
                              files->name_of(in + "other") + ".");
  fs::remove_all(in + "folder");
  write("grid", grid);
  outcomes.require_as_kept();
}

TEST_CASE("what a terminal is given commands nothing") {
  for (int c = 0; c < 256; ++c) {
    const std::string text = "a" + std::string(1, static_cast<char>(c)) + "b";
    const bool is_plain = (c >= ' ' && c != 0x7f) || c == '\n' || c == '\t';
    INFO(c);
    CHECK((plain_text(text) == text) == is_plain);
    CHECK((escaped_text(text) == text) == is_plain);
    const std::string wide = std::string("\xc2") + static_cast<char>(c);
    if (c >= 0x80) CHECK(plain_text(wide).empty() == (c < 0xa0));
  }
  CHECK(escaped_text(std::string("\0\x1b[m\x7f", 5)) == "\\x00\\x1b[m\\x7f");
  CHECK(escaped_line("a\n\tb\x1b") == "a\\n\\tb\\x1b");
  CHECK(escaped_text("\xc2\x80\xc2\x9f\xc2\xa0\xc2") == "\\x80\\x9f\xc2\xa0\xc2");
  CHECK(plain_text("\x1b[1m\xc3\xa4\n") == "[1m\xc3\xa4\n");
}

}  // namespace sluice::cli
