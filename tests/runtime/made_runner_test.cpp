// What a runner needs to be made, and what it says where that is not there.
#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "graph/check.h"
#include "roles/catalog.h"
#include "runtime/runner.h"
#include "workflows/load.h"

namespace sluice {

namespace {

constexpr const char* yaml = R"(
sluice: 1
workflow: two
inputs: { x: text }
global_params: { kept: { kind: memory } }
roles:
  first: { plugin: plain, replicas: 3 }
  second: { plugin: keeping, global_params: [kept] }
nodes:
  a: { run: first.a, inputs: [ { x: inputs.x } ], outputs: [v] }
  b: { run: second.b, inputs: [ { x: a.v } ], outputs: [v] }
outputs: { out: b.v }
)";

class Nothing final : public Role, public GlobalParam {
 public:
  Result<void> run(Activation&) override { return {}; }
  void end_session(std::string_view) override {}
};

PluginDeclaration declared(const std::string& name) {
  PluginDeclaration made;
  made.name = name;
  made.any_ports = true;
  if (name == "keeping") made.global_param_kinds = {"memory"};
  return made;
}

struct Parts {
  LoadedWorkflow loaded = load_workflow("w.yaml", yaml);
  Plan plan = plan_workflow(loaded, {declared("plain"), declared("keeping")});
  std::vector<std::string> steps;
  std::uint32_t fails_at = 99;  // the replica of which `plain` cannot be made
  bool has_room = true;

  Catalog catalog(const std::vector<std::string>& plugins, bool has_kind) {
    Catalog made;
    for (const std::string& name : plugins)
      made.add({declared(name), [this, name](const RoleMaking& making) -> Result<RoleInstance> {
                  steps.push_back(name + " " + std::to_string(making.replica) + " of " +
                                  std::to_string(making.global_params.size()) + " on " +
                                  std::to_string(making.threads));
                  if (name == "plain" && making.replica == fails_at)
                    return Error{ErrorCode::exhausted, "no room for it"};
                  return RoleInstance(std::unique_ptr<Role>(std::make_unique<Nothing>()));
                }});
    if (has_kind)
      made.add_global_param(
          "memory",
          [this](const GlobalParamMaking& making) -> Result<std::unique_ptr<GlobalParam>> {
            steps.push_back("parameter " + making.spec->name.text);
            if (!has_room) return Error{ErrorCode::exhausted, "no room"};
            return std::unique_ptr<GlobalParam>(std::make_unique<Nothing>());
          });
    return made;
  }
  std::string made(const Catalog& from) {
    RunnerOptions options;
    options.threads = 2;
    options.progress = [this](std::string_view line) { steps.push_back("> " + std::string(line)); };
    const auto runner = Runner::create(loaded.spec, plan, from, std::move(options));
    return runner.ok()
               ? "made"
               : std::string(to_string(runner.error().code)) + ": " + runner.error().message;
  }
};

using Steps = std::vector<std::string>;

}  // namespace

TEST_CASE("a runner makes parameters, then each replica of each role, and says which it is at") {
  Parts parts;
  REQUIRE(!has_errors(parts.loaded.diagnostics));
  const Catalog catalog = parts.catalog({"plain", "keeping"}, true);
  CHECK(parts.made(catalog) == "made");
  CHECK(parts.steps == Steps{"> preparing kept", "parameter kept", "> preparing first",
                             "plain 0 of 0 on 2", "> preparing first", "plain 1 of 0 on 2",
                             "> preparing first", "plain 2 of 0 on 2", "> preparing second",
                             "keeping 0 of 1 on 2"});
}

TEST_CASE("a runner of which a part cannot be made is none, and the part is named") {
  Parts parts;
  CHECK(parts.made(parts.catalog({"keeping"}, true)) ==
        "not_found: role 'first': no plugin 'plain'");
  CHECK(parts.made(parts.catalog({"plain"}, true)) ==
        "not_found: role 'second': no plugin 'keeping'");
  CHECK(parts.made(parts.catalog({"plain", "keeping"}, false)).find("memory") != std::string::npos);
  parts.has_room = false;
  CHECK(parts.made(parts.catalog({"plain", "keeping"}, true)) ==
        "exhausted: global parameter 'kept': no room");
  parts.has_room = true;
  for (const std::uint32_t replica : {0U, 2U}) {
    parts.steps.clear();
    parts.fails_at = replica;
    CHECK(parts.made(parts.catalog({"plain", "keeping"}, true)) ==
          "exhausted: role 'first': no room for it");
    CHECK(parts.steps.size() == 2 * (replica + 2));
  }
  parts.fails_at = 99;
  parts.loaded.spec.roles[1].global_params[0].text = "other";
  CHECK(parts.made(parts.catalog({"plain", "keeping"}, true)) ==
        "not_found: role 'second': no global parameter 'other'");
}

}  // namespace sluice
