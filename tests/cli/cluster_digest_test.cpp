// Two machines have one digest exactly when they agree on all that frames are checked against.
#include "cli/cluster_digest.h"

#include <catch2/catch.hpp>
#include <functional>
#include <set>

namespace sluice::cli {

namespace {

constexpr const char* workflow_text = R"(sluice: 1
name: two
roles: { ear: { plugin: hear }, mind: { plugin: think } }
)";

Port port(const char* name, ValueType type) {
  Port made;
  made.name = name;
  made.type = type;
  return made;
}

InterfaceDeclaration interface(const char* name) {
  InterfaceDeclaration made;
  made.name = name;
  return made;
}

OptionDeclaration option(const char* name) {
  OptionDeclaration made;
  made.name = name;
  return made;
}

Plugin plugin(const char* name) {
  Plugin made;
  made.declaration.name = name;
  return made;
}

Plugin hear() {
  Plugin made = plugin("hear");
  InterfaceDeclaration& run = made.declaration.interfaces.emplace_back(interface("run"));
  run.inputs = {port("sound", ValueType::audio)};
  run.inputs[0].dtype = Dtype::f32;
  run.outputs = {port("words", ValueType::text)};
  run.yields_max = 1;
  return made;
}

std::array<std::byte, 32> digest_with(const Plugin& known) {
  Catalog catalog;
  catalog.add(known);
  ClusterDigest digest;
  digest.add_workflow(load_workflow("two.yaml", workflow_text), catalog);
  return digest.with({});
}

}  // namespace

TEST_CASE("machines whose plugins declare something else of frames have other digests") {
  const std::function<void(PluginDeclaration&)> changes[] = {
      [](auto&) {},
      [](auto& p) { p.session_state = true; },
      [](auto& p) { p.interfaces.push_back(interface("walk")); },
      [](auto& p) { p.options.push_back(option("gain")); },
      [](auto& p) { p.options.emplace_back(option("gain")).fallback = "1"; },
      [](auto& p) { p.interfaces[0].name = "walk"; },
      [](auto& p) { p.interfaces[0].yields_max = 2; },
      [](auto& p) { p.interfaces[0].frames = {{"words"}}; },
      [](auto& p) { p.interfaces[0].inputs[0].name = "noise"; },
      [](auto& p) { p.interfaces[0].inputs[0].type = ValueType::tensor; },
      [](auto& p) { p.interfaces[0].inputs[0].dtype = Dtype::bf16; },
      [](auto& p) {
        p.interfaces[0].inputs[0].shape = {any_size, 2};
      },
      [](auto& p) { p.interfaces[0].inputs[0].frames = PortFrames::one; },
      [](auto& p) { p.interfaces[0].inputs[0].bytes_max = 9; },
      [](auto& p) { p.interfaces[0].inputs[0].content = "rows of sound"; },
      [](auto& p) { p.interfaces[0].outputs[0].count_source = true; },
      [](auto& p) { std::swap(p.interfaces[0].inputs, p.interfaces[0].outputs); },
  };
  std::set<std::array<std::byte, 32>> seen;
  for (const auto& change : changes) {
    Plugin changed = hear();
    change(changed.declaration);
    seen.insert(digest_with(changed));
  }
  CHECK(seen.size() == std::size(changes));
}

TEST_CASE("what is only read by people, and plugins that no role names, are in no digest") {
  const std::array<std::byte, 32> plain = digest_with(hear());
  CHECK(digest_with(hear()) == plain);
  Plugin other_words = hear();
  other_words.declaration.meaning = "listens";
  other_words.declaration.interfaces[0].inputs[0].meaning = "what was said";
  CHECK(digest_with(other_words) == plain);

  Catalog catalog;
  catalog.add(hear());
  catalog.add(plugin("walk"));
  ClusterDigest digest;
  digest.add_workflow(load_workflow("two.yaml", workflow_text), catalog);
  CHECK(digest.with({}) == plain);
}

TEST_CASE("places, overrides and workflows are in the digest") {
  const LoadedWorkflow workflow = load_workflow("two.yaml", workflow_text);
  LoadedWorkflow overridden = workflow;
  overridden.overrides.push_back({"name", "three"});
  ClusterSpec spec;
  spec.machines.resize(1);
  spec.machines[0].name.text = "front";
  ClusterSpec placed = spec;
  placed.machines[0].roles.emplace_back().text = "ear";
  const auto of = [](std::initializer_list<const LoadedWorkflow*> workflows,
                     const ClusterSpec& with) {
    ClusterDigest digest;
    for (const LoadedWorkflow* each : workflows) digest.add_workflow(*each, {});
    return digest.with(with);
  };
  const std::set<std::array<std::byte, 32>> seen = {of({}, {}),
                                                    of({&workflow}, {}),
                                                    of({&workflow, &workflow}, {}),
                                                    of({&overridden}, {}),
                                                    of({&workflow}, spec),
                                                    of({&workflow}, placed)};
  CHECK(seen.size() == 6);
}

}  // namespace sluice::cli
