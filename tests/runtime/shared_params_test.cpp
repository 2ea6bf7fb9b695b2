// What a global parameter is called among machines whose roles share it.
#include <catch2/catch.hpp>
#include <deque>
#include <fstream>

#include "graph/check.h"
#include "runtime/inproc/role_host.h"
#include "tests/peer_hub.h"
#include "tests/scratch_folder.h"
#include "workflows/load.h"
#include "world.h"

using namespace sluice;

namespace {

class Nothing final : public GlobalParam {
 public:
  void end_session(std::string_view) override {}
  std::vector<std::pair<std::string, std::uint64_t>> counts() const override {
    return {{"made", 1}};
  }
};

const std::string library = R"(
sluice: 1
workflow: library
global_params: { said: { kind: memory } }
)";
/// Two roles over one parameter, of the file `library` or its own.
std::string workflow(const std::string& begin, const std::string& end) {
  return "sluice: 1\nworkflow: w\n" + begin + "inputs: { x: text }\nroles:\n  first" + end +
         ": { plugin: scripted, global_params: [said] }\n  second" + end +
         ": { plugin: scripted, global_params: [said] }\nnodes:\n  a: { run: first" + end +
         ".say, inputs: [ { v: inputs.x } ], outputs: [v] }\n  b: { run: second" + end +
         ".say, inputs: [ { v: a.v } ], outputs: [v] }\noutputs: { o: b.v }\n";
}
const std::string included = "include: [library.yaml]\n";
const std::string own = "global_params: { said: { kind: memory } }\n";

/// Of the parameters that a machine makes: what each is called among others; empty: with nobody.
/// `elsewhere`: roles of the first workflow that run on another machine too.
std::vector<std::string> names_of(const std::vector<std::string>& workflows,
                                  const std::vector<std::vector<bool>>& here,
                                  std::uint64_t* made = nullptr,
                                  std::vector<bool> elsewhere = {false, false}) {
  const ScratchFolder folder;
  std::ofstream(folder.path() + "/library.yaml") << library;
  Catalog catalog;
  std::vector<std::string> names;
  catalog.add_global_param(
      "memory", [&](const GlobalParamMaking& making) -> Result<std::unique_ptr<GlobalParam>> {
        CHECK((making.peers == nullptr) == making.shared_name.empty());
        names.push_back(making.shared_name);
        return std::unique_ptr<GlobalParam>(std::make_unique<Nothing>());
      });
  Plugin plugin;
  plugin.declaration.name = "scripted";
  plugin.declaration.any_ports = true;
  plugin.declaration.global_param_kinds = {"memory"};
  plugin.make = [](const RoleMaking& making) -> Result<RoleInstance> {
    return RoleInstance(std::unique_ptr<Role>(std::make_unique<ScriptedRole>(
        [](Activation&, std::uint32_t) { return Result<void>(); }, making.replica)));
  };
  catalog.add(std::move(plugin));
  PeerHub hub;
  RunnerOptions options;
  options.peers = std::shared_ptr<PeerPort>(&hub.add(0), [](PeerPort*) {});
  RoleHost host(catalog, options);
  std::deque<LoadedWorkflow> loaded;
  std::deque<Plan> plans;
  for (std::size_t i = 0; i < workflows.size(); ++i) {
    const std::string path = folder.path() + "/" + std::to_string(i) + ".yaml";
    std::ofstream(path) << workflows[i];
    loaded.push_back(load_workflow_file(path).value());
    plans.push_back(plan_workflow(loaded[i], catalog.declarations()));
    REQUIRE_FALSE(has_errors(loaded[i].diagnostics));
    if (i != 0) elsewhere = {false, false};
    for (std::size_t role = 0; role < here[i].size(); ++role)
      elsewhere[role] = elsewhere[role] || !here[i][role];
    host.expect(loaded[i].spec, here[i], elsewhere);
  }
  for (std::size_t i = 0; i < workflows.size(); ++i)
    REQUIRE(host.add(loaded[i].spec, plans[i], here[i]).ok());
  if (made != nullptr) *made = host.param_counts().at(0).counts.at(0).second;
  return names;
}

using Names = std::vector<std::string>;

}  // namespace

TEST_CASE("parameters of one name in two workflows are two, and each has its own name") {
  std::uint64_t made = 0;
  CHECK(names_of({workflow(own, ""), workflow(own, "2")}, {{true, false}, {true, false}}, &made) ==
        Names{"1/said", "2/said"});
  CHECK(made == 2);
  // On a machine that has roles of the second alone it is called the same.
  CHECK(names_of({workflow(own, ""), workflow(own, "2")}, {{false, false}, {false, true}}) ==
        Names{"2/said"});
  // Nobody shares it.
  CHECK(names_of({workflow(own, "")}, {{true, true}}) == Names{""});
}

TEST_CASE("a role on several machines shares its parameter with itself, whoever else is here") {
  const std::vector<std::string> one{workflow(own, "")};
  CHECK(names_of(one, {{true, true}}, nullptr, {true, true}) == Names{"1/said"});
  CHECK(names_of(one, {{true, true}}, nullptr, {false, true}) == Names{"1/said"});
  CHECK(names_of(one, {{true, true}}, nullptr, {false, false}) == Names{""});
}

TEST_CASE("a parameter that workflows include from one file is one, named by the first of them") {
  const Names one{"1/said"};
  const std::vector<std::string> both{workflow(included, ""), workflow(included, "2")};
  CHECK(names_of(both, {{true, false}, {true, false}}) == one);
  CHECK(names_of(both, {{false, false}, {true, false}}) == one);
  // The workflow that is made first uses it here alone, the other shares it.
  CHECK(names_of(both, {{true, true}, {true, false}}) == one);
}
