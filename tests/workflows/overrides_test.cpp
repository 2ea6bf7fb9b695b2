// Values given beside a workflow file: where they go, and what is said of those that go nowhere.
#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>

#include "roles/catalog.h"
#include "tests/directories.h"
#include "workflows/load.h"

namespace sluice {
namespace {

namespace fs = std::filesystem;

class Folder {
 public:
  Folder() : path_(fs::path(SLUICE_BINARY_DIR) / "overrides_test") {
    fs::create_directories(path_);
    write("eyes.yaml",
          "sluice: 1\nroles: { vit: { plugin: scripted, replicas: 2, options: { a: 1 } } }\n");
    write("main.yaml", R"(sluice: 1
workflow: main
include: [eyes.yaml]
inputs: { x: text }
roles: { llm: { plugin: scripted } }
nodes:
  see:  { run: vit.see, inputs: [ { x: inputs.x } ], outputs: [y] }
  tell: { run: llm.tell, inputs: [ { y: see.y } ], outputs: [z] }
outputs: { z: tell.z }
)");
  }
  void write(const std::string& name, const std::string& text) const {
    std::ofstream(path_ / name) << text;
  }
  LoadedWorkflow load(const std::vector<std::string>& sets) const {
    std::vector<Override> overrides;
    for (const std::string& set : sets) overrides.push_back(parse_override(set).value());
    LoadedWorkflow loaded = load_workflow_file((path_ / "main.yaml").string(), overrides).value();
    Catalog catalog;
    add_builtin_plugins(catalog);
    plan_workflow(loaded, catalog.declarations());
    return loaded;
  }

 private:
  fs::path path_;
};

const RoleSpec& role(const LoadedWorkflow& loaded, const std::string& name) {
  for (const RoleSpec& role : loaded.spec.roles)
    if (role.name.text == name) return role;
  FAIL("no role " + name);
  return loaded.spec.roles[0];
}

void refused(const Folder& folder, const std::string& set, const std::string& words,
             const std::string& help) {
  CAPTURE(set);
  const LoadedWorkflow loaded = folder.load({set});
  REQUIRE(loaded.diagnostics.size() == 1);
  const Diagnostic& d = loaded.diagnostics[0];
  CAPTURE(d.message, d.suggestion);
  CHECK(d.message.find("--set " + set + ": ") != std::string::npos);
  CHECK(d.message.find(words) != std::string::npos);
  CHECK(d.suggestion.find(help) != std::string::npos);
}

TEST_CASE("A value beside the file stands in place of what it says, the last one counts") {
  const Folder folder;
  const LoadedWorkflow loaded =
      folder.load({"roles.llm.replicas=2", "roles.llm.replicas=3", "limits.deadline=5s",
                   "nodes.see.inputs.0.x=[inputs.x]", "roles.llm.balance=session"});
  CHECK(loaded.diagnostics.empty());
  CHECK(role(loaded, "llm").replicas == 3);
  CHECK(role(loaded, "llm").balance == Balance::session);
  CHECK(loaded.spec.limits.deadline == std::chrono::seconds(5));
  CHECK(loaded.spec.nodes[0].groups[0].fields[0].sources.size() == 1);
}

TEST_CASE("Roles of an included file take values too, and the file's own options stay") {
  const Folder folder;
  const LoadedWorkflow loaded = folder.load({"roles.vit.replicas=5", "roles.vit.options.b=2"});
  CHECK(role(loaded, "vit").replicas == 5);
  REQUIRE(role(loaded, "vit").options.size() == 2);
  CHECK(role(loaded, "vit").options[1].value.text == "2");
}

TEST_CASE("What is not there is an error, with the nearest that is") {
  const Folder folder;
  refused(folder, "role.llm.replicas=2", "there is no 'role'", "'roles.llm.replicas'");
  refused(folder, "roles.lm.replicas=2", "there is no 'roles.lm'", "'roles.llm.replicas'");
  refused(folder, "roles.vi.replicas=2", "there is no 'roles.vi'", "'roles.vit.replicas'");
  refused(folder, "roles.llm.replcas=2", "there is no 'roles.llm.replcas'", "'roles.llm.replicas'");
  refused(folder, "roles.vit.replcas=2", "there is no 'roles.vit.replcas'", "'roles.vit.replicas'");
  refused(folder, "limits.dedline=5s", "there is no 'limits.dedline'", "'limits.deadline'");
  refused(folder, "outputs.other=see.y", "there is no 'outputs.other'", "there are z");
  refused(folder, "nodes.see.run.more=1", "'nodes.see.run' is a single value", "");
  refused(folder, "nodes.see.inputs.1.x=inputs.x", "is a list without this entry",
          "its only entry is 0");
  refused(folder, "nodes.see.inputs.x=inputs.x", "is a list without this entry",
          "its only entry is 0");
  refused(folder, "nodes.see.inputs[0].x=inputs.x", "there is no 'nodes.see.inputs[0]'",
          "'nodes.see.inputs.0.x'");
  refused(folder, "roles.llm.global_params.0=kv", "is a list, of which the file has no entry",
          "--set roles.llm.global_params=[VALUE]");
  refused(folder, "limits.deadline.x=1", "deadline must be a single value, this is a map", "");
}

TEST_CASE("A wrong value says that it was given beside the file, wherever it is found wrong") {
  const Folder folder;
  refused(folder, "roles.llm.replicas=0", "whole number from 1 to 256", "");
  refused(folder, "outputs.z=tel.z", "no node 'tel'", "'tell'");
  refused(folder, "nodes.see.run={", "bracket is not closed", "");
  const LoadedWorkflow loaded = folder.load({"roles.vit.replicas=0"});
  REQUIRE(loaded.diagnostics.size() == 1);  // of the included file's role, and not once a file
  CHECK(loaded.diagnostics[0].message.starts_with("--set roles.vit.replicas=0: "));
}

TEST_CASE("What is no path with a value is refused") {
  for (const char* text : {"", "=1", "roles", ".a=1", "a.=1", "a..b=1"}) {
    CAPTURE(text);
    CHECK(!parse_override(text).ok());
  }
  std::string deep = "roles.llm.options";
  for (int i = 0; i < 100'000; ++i) deep += ".x";
  CHECK(!parse_override(deep + "=1").ok());
  std::string most = "a";  // of 16 parts, as the message says
  for (int i = 1; i < 16; ++i) most += ".x";
  CHECK(parse_override(most + "=1").ok());
  CHECK(parse_override(most + ".x=1").error().message.find("more than 16 parts") !=
        std::string::npos);
  CHECK(parse_override("a.b=c=d").value().value == "c=d");
}

}  // namespace
}  // namespace sluice
