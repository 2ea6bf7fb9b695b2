// Files that include others, values given beside them, and paths of models: what is said of each.
#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>

#include "tests/outcomes.h"
#include "tests/scratch_folder.h"
#include "workflows/load.h"
#include "workflows/model_paths.h"
#include "workflows/overrides.h"

namespace sluice {
namespace {

namespace fs = std::filesystem;

class Files {
 public:
  void write(const std::string& name, const std::string& text) const {
    fs::create_directories(fs::path(at(name)).parent_path());
    std::ofstream(at(name)) << text;
  }
  std::string at(const std::string& name) const { return scratch_.path() + "/" + name; }
  /// What is said of a file with these values beside it, and which roles are known then.
  std::string said(const std::string& name, const std::vector<std::string>& sets = {},
                   const Environment* environment = nullptr) const {
    std::vector<Override> overrides;
    for (const std::string& set : sets) {
      const Result<Override> read = parse_override(set);
      if (!read.ok()) return read.error().message;
      overrides.push_back(*read);
    }
    Result<LoadedWorkflow> loaded = load_workflow_file(at(name), overrides);
    if (!loaded.ok()) return plain(loaded.error().message);
    if (environment != nullptr) resolve_models(*loaded, *environment);
    std::string text;
    for (const Diagnostic& d : loaded->diagnostics)
      text += (file_of(d.mark) == 0 ? "" : loaded->included[file_of(d.mark) - 1].name + ":") +
              std::to_string(line_in_file(d.mark)) + ":" + std::to_string(d.mark.column) + " " +
              d.code + ": " + d.message + (d.suggestion.empty() ? "" : " [" + d.suggestion + "]") +
              "\n";
    text += "roles";
    for (const RoleSpec& role : loaded->spec.roles)
      text += " " + role.name.text + " x" + std::to_string(role.replicas) +
              (role.model ? " of " + role.model->text : "");
    return plain(text);
  }

 private:
  std::string plain(std::string text) const {
    for (std::size_t at; (at = text.find(scratch_.path())) != std::string::npos;)
      text.replace(at, scratch_.path().size(), "HERE");
    return text;
  }
  ScratchFolder scratch_;
};

std::string library(const std::string& role, const std::string& more = "") {
  return "sluice: 1\n" + more + "roles: { " + role + ": { plugin: scripted } }\n";
}
std::string flow(const std::string& includes, const std::string& role) {
  return "sluice: 1\nworkflow: main\ninclude: [ " + includes +
         " ]\ninputs: { x: text }\nroles: { own: { plugin: scripted, replicas: 2, options: { a: 1 "
         "} } }\nnodes:\n  see: { run: " +
         role + ".go, inputs: [ { x: inputs.x } ], outputs: [ y ] }\noutputs: { y: see.y }\n";
}

}  // namespace

TEST_CASE("what is wrong with files that others include is said at its place there, as before") {
  const Files files;
  test::Outcomes outcomes("includes");
  const auto add = [&](const std::string& title, const std::string& text) {
    files.write("main.yaml", text);
    outcomes.add(title, files.said("main.yaml"));
  };
  files.write("eyes.yaml", library("vit"));
  files.write("twin.yaml", library("vit"));
  files.write("own.yaml", library("own"));
  files.write("params.yaml",
              "sluice: 1\nglobal_params: { kv: { kind: paged_kv } }\n" + library("p").substr(10));
  files.write("wrong.yaml", "sluice: 1\nroles: { vit: { plugin: scripted, replicas: 0 } }\n");
  files.write("plain.yaml", "plain");
  files.write("a.yaml", library("a", "include: [ b.yaml ]\n"));
  files.write("b.yaml", library("b", "include: [ a.yaml ]\n"));
  files.write("self.yaml", library("self", "include: [ self.yaml ]\n"));
  files.write("deep/far.yaml", library("far", "include: [ ../eyes.yaml ]\n"));
  add("one", flow("eyes.yaml", "vit"));
  add("one below a folder, with another", flow("deep/far.yaml", "far"));
  files.write("gathers.yaml", "sluice: 1\ninclude: [ eyes.yaml, own.yaml ]\n");
  add("one that only includes", flow("gathers.yaml", "vit"));
  outcomes.add("that one by itself", files.said("gathers.yaml"));
  add("the same by two ways", flow("eyes.yaml, deep/far.yaml", "far"));
  add("twice", flow("eyes.yaml, eyes.yaml", "vit"));
  add("two of a name", flow("eyes.yaml, twin.yaml", "vit"));
  add("a name of its own", flow("own.yaml", "own"));
  add("parameters", flow("params.yaml", "p"));
  add("not there", flow("nowhere.yaml", "vit"));
  add("a folder", flow("deep", "vit"));
  add("wrong", flow("wrong.yaml", "vit"));
  files.write("deep/wrong.yaml", library("far", "include: [ ../wrong.yaml ]\n"));
  add("wrong, behind another", flow("deep/wrong.yaml", "far"));
  add("wrong, by two ways", flow("wrong.yaml, deep/wrong.yaml", "far"));
  files.write("profile.yaml", "profile: p\nnodes: { see: { latency: 1ms, yields: [ [ y ] ] } }\n");
  add("a profile", flow("profile.yaml", "vit"));
  add("no map", flow("plain.yaml", "vit"));
  add("a circle of two", flow("a.yaml", "a"));
  add("itself", flow("self.yaml", "self"));
  add("the main file", flow("main.yaml", "own"));
  for (const int depth : {7, 8, 9}) {
    for (int i = 1; i <= depth; ++i)
      files.write("d" + std::to_string(i) + ".yaml",
                  library("r" + std::to_string(i),
                          i == depth ? "" : "include: [ d" + std::to_string(i + 1) + ".yaml ]\n"));
    add("so deep: " + std::to_string(depth), flow("d1.yaml", "r1"));
  }
  for (const int count : {100, 101}) {
    std::string names;
    for (int i = 0; i < count; ++i) names += (i == 0 ? "" : ", ") + std::string("eyes.yaml");
    add("so many: " + std::to_string(count), flow(names, "vit"));
  }
  outcomes.add("none", files.said("nowhere.yaml"));
  outcomes.require_as_kept();
}

TEST_CASE("a value beside a file stands in its place, or is refused with what could stand there") {
  const Files files;
  files.write("eyes.yaml", library("vit"));
  files.write("main.yaml", flow("eyes.yaml", "vit"));
  test::Outcomes outcomes("overrides");
  for (const char* set : {"=",
                          "x",
                          "x=",
                          "=1",
                          ".=1",
                          "a..b=1",
                          "roles=1",
                          "roles.=1",
                          "roles.vit.replicas=3",
                          "roles.own.replicas=257",
                          "roles.vit.replica=2",
                          "roles.vitt.replicas=2",
                          "roles.zzzzzz.x=1",
                          "roles.own.plugin.x=1",
                          "roles.own.options.a=2",
                          "roles.own.options.b=2",
                          "nodes.see.run=own.go",
                          "nodes.se.run=own.go",
                          "nodes.see.inputs.0.x=inputs.x",
                          "nodes.see.inputs.1.x=inputs.x",
                          "nodes.see.inputs.a=1",
                          "inclde=[]",
                          "limits.deadline.x=1",
                          "limits.frames=10",
                          "limits.frame=10",
                          "limits.frames=[",
                          "limits.frames={a: 1}",
                          "limits={}",
                          "workflow=other",
                          "sluice=2",
                          "outputs.z=see.y",
                          "outputs.y=see.z",
                          "a.b.c.d.e.f.g.h=1",
                          "a.b.c.d.e.f.g.h.i.j.k.l.m.n.o.p.q=1"})
    outcomes.add(set, files.said("main.yaml", {set}));
  outcomes.add("two", files.said("main.yaml", {"roles.vit.replicas=3", "roles.vit.replicas=4"}));
  outcomes.add("two that are wrong", files.said("main.yaml", {"x=1", "roles.own.replicas=a"}));
  for (const std::size_t size : {1000U, 1024U, 4096U, 5000U, 70'000U})
    outcomes.add("long paths",
                 files.said("main.yaml", {std::string(size, 'a') + "=1"}).substr(0, 40));
  outcomes.require_as_kept();
}

TEST_CASE("a model's path is expanded, looked for, and refused with what to write") {
  const Files files;
  fs::create_directories(files.at("models/one"));
  files.write("one.gguf", "x");
  files.write("one.bin", "x");
  const Environment environment = [&](const std::string& name) -> std::optional<std::string> {
    if (name == "HOME") return files.at("models");
    if (name == "ONE") return "one";
    if (name == "EMPTY") return "";
    return std::nullopt;
  };
  const Environment nothing = [](const std::string&) { return std::optional<std::string>(); };
  test::Outcomes outcomes("model_paths");
  for (const char* path : {"~",
                           "",
                           "~/one",
                           "~one",
                           "~/two",
                           "a~",
                           "${ONE}",
                           "${ONE}x",
                           "x${ONE}${ONE}",
                           "${TWO}",
                           "${TWO:-two}",
                           "${EMPTY:-full}",
                           "${EMPTY}",
                           "${ONE:-two}",
                           "${ONE",
                           "${}",
                           "$ONE",
                           "models/one",
                           "models/one/",
                           "models/./one",
                           "one.gguf",
                           "one.bin",
                           "models/two",
                           "/nowhere",
                           "\xe2\x80\x9cmodels",
                           "\xe2\x80\x98models"}) {
    const std::string quoted = "'" + std::string(path) + "'";
    const Result<std::string> expanded = expand_path(path, environment);
    outcomes.add("expanded: " + quoted, expanded.ok() ? "taken" : expanded.error().message);
    const Result<std::string> alone = expand_path(path, nothing);
    outcomes.add("of nothing: " + quoted, alone.ok() ? *alone : alone.error().message);
    files.write("main.yaml", "sluice: 1\nroles: { own: { plugin: scripted, model: '" +
                                 std::string(path) + "' } }\n");
    outcomes.add(quoted, files.said("main.yaml", {}, &environment));
  }
  outcomes.require_as_kept();
}

}  // namespace sluice
