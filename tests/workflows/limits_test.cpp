// The loader's limits and units, where an import comes from, and paths of models.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "graph/print.h"
#include "workflows/load.h"
#include "workflows/model_paths.h"

using namespace sluice;
using namespace std::chrono_literals;
namespace fs = std::filesystem;

namespace {

/// A folder of files that goes away with the test.
class Folder {
 public:
  Folder() {
    std::string pattern = (fs::temp_directory_path() / "sluice-load-XXXXXX").string();
    REQUIRE(mkdtemp(pattern.data()) != nullptr);
    path_ = pattern;
  }
  ~Folder() { fs::remove_all(path_); }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;

  std::string write(const std::string& name, const std::string& text) const {
    std::ofstream(path_ / name, std::ios::binary) << text;
    return (path_ / name).string();
  }
  const fs::path& path() const { return path_; }

 private:
  fs::path path_;
};

std::vector<std::string> codes(const Diagnostics& diagnostics) {
  std::vector<std::string> all;
  for (const Diagnostic& d : diagnostics) all.push_back(d.code);
  return all;
}

LoadedWorkflow with_limits(const std::string& limits) {
  return load_workflow("test.yaml", "sluice: 1\nworkflow: w\nlimits: { " + limits + " }\n");
}

constexpr const char* head = "sluice: 1\nworkflow: w\ninputs: { q: json }\n";

std::string group_of(std::size_t fields) {
  std::string group;
  for (std::size_t i = 0; i < fields; ++i)
    group += (i == 0 ? "" : ", ") + std::string("f") + std::to_string(i) + ": inputs.q";
  return std::string(head) +
         "roles: { r: { plugin: scripted } }\nnodes:\n  n: { run: r.n, inputs: [ { " + group +
         " } ] }\noutputs: { o: n.o }\n";
}

}  // namespace

TEST_CASE("a duration is milliseconds, seconds or minutes, to a day and no more") {
  CHECK(with_limits("deadline: 1ms").spec.limits.deadline == 1ms);
  CHECK(with_limits("deadline: 2m").spec.limits.deadline == 120'000ms);
  CHECK(with_limits("deadline: 86400s").spec.limits.deadline == 86'400'000ms);
  CHECK(with_limits("deadline: 1440m").spec.limits.deadline == 86'400'000ms);
  for (const char* wrong :
       {"86401s", "90000s", "1441m", "86400001ms", "0s", "-1s", "1h", "1", "s"}) {
    INFO(wrong);
    CHECK(codes(with_limits("deadline: " + std::string(wrong)).diagnostics) ==
          std::vector<std::string>{"bad-duration"});
  }
}

TEST_CASE("a session ends without a call only where that is said") {
  CHECK(with_limits("calls: 1").spec.limits.session_idle == 0ms);
  CHECK(with_limits("session_idle: 30m").spec.limits.session_idle == 1'800'000ms);
  for (const char* wrong : {"0s", "2h", "never", "1441m"})
    CHECK(codes(with_limits("session_idle: " + std::string(wrong)).diagnostics) ==
          std::vector<std::string>{"bad-duration"});
}

TEST_CASE("numbers are taken up to their limits, and not beyond") {
  CHECK(with_limits("loop_iterations: 65535").spec.limits.loop_iterations == 65'535);
  CHECK(with_limits("frames: 1000000000").spec.limits.frames == 1'000'000'000);
  CHECK(codes(with_limits("loop_iterations: 65536").diagnostics) ==
        std::vector<std::string>{"bad-number"});
  CHECK(codes(with_limits("frames: 1000000001").diagnostics) ==
        std::vector<std::string>{"bad-number"});
  CHECK(codes(with_limits("frames: 0").diagnostics) == std::vector<std::string>{"bad-number"});
  CHECK(with_limits("frames: 1").spec.limits.calls == 10'000);
  CHECK(with_limits("calls: 1").spec.limits.calls == 1);
  CHECK(with_limits("calls: 1000000").spec.limits.calls == 1'000'000);
  for (const char* wrong : {"calls: 0", "calls: 1000001", "calls: -1", "calls: many", "calls: 1.5"})
    CHECK(codes(with_limits(wrong).diagnostics) == std::vector<std::string>{"bad-number"});
}

TEST_CASE("a group has sixty fields and not sixty-one") {
  CHECK(load_workflow("test.yaml", group_of(60)).diagnostics.empty());
  const LoadedWorkflow more = load_workflow("test.yaml", group_of(61));
  CHECK(codes(more.diagnostics) == std::vector<std::string>{"too-many-fields"});
  CHECK(more.diagnostics[0].message.find("at most 60 fields, this has 61") != std::string::npos);
}

TEST_CASE("what has too many parts is refused before it is planned") {
  std::string roles = std::string(head) + "roles:\n";
  for (std::size_t i = 0; i <= WorkflowBounds::roles; ++i)
    roles += "  r" + std::to_string(i) + ": { plugin: scripted }\n";
  LoadedWorkflow loaded = load_workflow("test.yaml", roles);
  CHECK(codes(loaded.diagnostics) == std::vector<std::string>{"too-many"});
  CHECK_FALSE(loaded.readable);
  CHECK(plan_workflow(loaded, {}).nodes.empty());
}

TEST_CASE("what two files include from one file is one thing, and knows where it is from") {
  const Folder folder;
  folder.write("base.yaml", "sluice: 1\nroles: { shared: { plugin: scripted } }\n");
  folder.write("left.yaml",
               "sluice: 1\ninclude: [base.yaml]\nroles: { left: { plugin: scripted } }\n");
  folder.write("right.yaml",
               "sluice: 1\ninclude: [base.yaml]\nroles: { right: { plugin: scripted } }\n");
  const std::string top =
      folder.write("top.yaml",
                   "sluice: 1\nworkflow: top\ninclude: [left.yaml, right.yaml]\nroles: {}\n"
                   "nodes: {}\noutputs: {}\n");
  const Result<LoadedWorkflow> loaded = load_workflow_file(top);
  REQUIRE(loaded.ok());
  CHECK(loaded->diagnostics.empty());
  REQUIRE(loaded->spec.roles.size() == 3);
  const auto from = [&](const char* name) {
    for (const RoleSpec& role : loaded->spec.roles)
      if (role.name.text == name) return fs::path(role.included_from).filename().string();
    return std::string("not there");
  };
  CHECK(from("shared") == "base.yaml");
  CHECK(from("left") == "left.yaml");
  CHECK(from("right") == "right.yaml");
}

TEST_CASE("includes that multiply are counted, not followed without end") {
  const Folder folder;
  for (int level = 0; level < 7; ++level) {
    std::string list;
    for (int i = 0; i < 20; ++i)
      list += (i == 0 ? "" : ", ") + std::string("l") + std::to_string(level + 1) + ".yaml";
    folder.write("l" + std::to_string(level) + ".yaml",
                 "sluice: 1\ninclude: [" + list + "]\nroles: {}\n");
  }
  folder.write("l7.yaml", "sluice: 1\nroles: { r: { plugin: scripted } }\n");
  const Result<LoadedWorkflow> loaded = load_workflow_file((folder.path() / "l0.yaml").string());
  REQUIRE(loaded.ok());
  CHECK(has_errors(loaded->diagnostics));
}

TEST_CASE("a model's path knows the home directory and variables with defaults") {
  const Environment environment = [](const std::string& name) -> std::optional<std::string> {
    if (name == "HOME") return "/home/me";
    if (name == "MODELS") return "/data";
    return std::nullopt;
  };
  const auto expanded = [&](const char* path) {
    const Result<std::string> result = expand_path(path, environment);
    return result.ok() ? *result : "refused: " + result.error().message;
  };
  CHECK(expanded("models/scenes") == "models/scenes");
  CHECK(expanded("/abs/olute") == "/abs/olute");
  CHECK(expanded("~/models") == "/home/me/models");
  CHECK(expanded("a~b") == "a~b");
  CHECK(expanded("${MODELS}/scenes") == "/data/scenes");
  CHECK(expanded("${NONE:-models}/${MODELS}") == "models//data");
  CHECK(expanded("${NONE}/x").find("'NONE' of the environment is not set") != std::string::npos);
  CHECK(expanded("${NONE").find("not closed") != std::string::npos);
  for (const char* wrong : {"${}", "${1A}", "${A B}"})
    CHECK(expanded(wrong).find("names no variable") != std::string::npos);
}

TEST_CASE("models are found where they are, and said to be missing where they are named") {
  const Folder folder;
  fs::create_directories(folder.path() / "checkpoints/one");
  const std::string file = folder.write(
      "w.yaml",
      "sluice: 1\nroles:\n  a: { plugin: p, model: checkpoints/one }\n  b: { plugin: p, model: \"" +
          (folder.path() / "checkpoints/one").string() +
          "\" }\n  c: { plugin: p, model: checkpoints/two }\n");
  Result<LoadedWorkflow> loaded = load_workflow_file(file);
  REQUIRE(loaded.ok());
  resolve_models(*loaded, process_environment());
  CHECK(loaded->spec.roles[0].model->text == (folder.path() / "checkpoints/one").string());
  CHECK(loaded->spec.roles[1].model->text == (folder.path() / "checkpoints/one").string());
  REQUIRE(codes(loaded->diagnostics) == std::vector<std::string>{"no-such-model"});
  CHECK(loaded->diagnostics[0].mark.line == 5);
  // Where nobody can look, nothing is said to be missing.
  fs::create_symlink("round", folder.path() / "round");
  const std::string path = (folder.path() / "round/model").string();
  LoadedWorkflow unknown =
      load_workflow("w.yaml", "sluice: 1\nroles: { a: { plugin: p, model: \"" + path + "\" } }\n");
  resolve_models(unknown, process_environment());
  REQUIRE(codes(unknown.diagnostics) == std::vector<std::string>{"no-such-model"});
  CHECK(unknown.diagnostics[0].message.starts_with(path + ": cannot be read: "));
}

TEST_CASE("a model that is missing is said once, at the first place that names it") {
  LoadedWorkflow loaded = load_workflow(
      "w.yaml",
      "sluice: 1\nglobal_params: { kv: { kind: paged_kv, model: /no/such } }\nroles:\n"
      "  a: { plugin: chat_model, model: /no/such }\n"
      "  b: { plugin: chat_model, model: /no/other }\n"
      "  c: { plugin: chat_model, model: '${NO}' }\n  d: { plugin: chat_model, model: '${NO}' }\n");
  resolve_models(loaded, [](const std::string&) { return std::optional<std::string>(); });
  REQUIRE(loaded.diagnostics.size() == 3);
  sort_diagnostics(loaded.diagnostics);
  CHECK(loaded.diagnostics[0].mark.line == 2);
  CHECK(loaded.diagnostics[0].message ==
        "there is no directory '/no/such' with the model (named in 2 places)");
  CHECK(loaded.diagnostics[1].message == "there is no directory '/no/other' with the model");
  CHECK(loaded.diagnostics[2].mark.line == 6);
  CHECK(loaded.diagnostics[2].message.ends_with("(named in 2 places)"));
}

TEST_CASE("what to write in place of a model's path depends on what stands there") {
  const Folder folder;
  const std::string file = folder.write("weights.bin", "x");
  const auto help = [&](const std::string& model) {
    const std::string text = "sluice: 1\nroles: { a: { plugin: p, model: \"" + model + "\" } }\n";
    Result<LoadedWorkflow> loaded = load_workflow_file(folder.write("w.yaml", text));
    REQUIRE(loaded.ok());
    resolve_models(*loaded, process_environment());
    REQUIRE(codes(loaded->diagnostics) == std::vector<std::string>{"no-such-model"});
    return loaded->diagnostics[0].suggestion;
  };
  CHECK(help(file).starts_with("this is a file: "));
  CHECK(help("“models/scenes”").starts_with("remove the typographic quotes"));
  CHECK(help("$HOME/models").find("${NAME}") != std::string::npos);
  CHECK(help("Qwen/Qwen2.5-VL").find("nothing is downloaded") != std::string::npos);
  CHECK(help("https://a.example/model").starts_with("nothing is downloaded: fetch"));
  fs::create_directories(folder.path() / "checkpoints/scenes");
  std::ofstream(folder.path() / "checkpoints/scenes/config.json") << "{}";
  CHECK(help("checkpoints/scene") == "did you mean 'checkpoints/scenes'?");
  CHECK(help("checkpoints/other").find("did you mean") == std::string::npos);
}

TEST_CASE("a workflow of one MiB is read, and refused with one byte more") {
  std::string text =
      "sluice: 1\nworkflow: large\ninputs: { x: text }\nroles: { a: { plugin: scripted } }\n"
      "nodes: { n: { run: a.n, inputs: [ { x: inputs.x } ], outputs: [v] } }\n"
      "outputs: { out: n.v }\n# ";
  text.append((std::size_t{1} << 20) - text.size(), 'x');
  CHECK(!has_errors(load_workflow("w.yaml", text).diagnostics));
  const LoadedWorkflow refused = load_workflow("w.yaml", text + "x");
  REQUIRE(has_errors(refused.diagnostics));
  CHECK(refused.diagnostics[0].message.find("1048576") != std::string::npos);
}
