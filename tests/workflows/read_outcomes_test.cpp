// What is read of clusters, scenarios and manifests whose every place is changed, in short: all of
// it, with the places of what is said. And how a manifest differs from each that was changed.
#include <catch2/catch.hpp>
#include <fstream>
#include <functional>
#include <iterator>
#include <type_traits>

#include "tests/directories.h"
#include "tests/journal.h"
#include "tests/outcomes.h"
#include "workflows/cluster.h"
#include "workflows/load_manifest.h"
#include "workflows/load_scenario.h"

namespace sluice {
namespace {

std::string corpus(const std::string& name) {
  std::ifstream file(std::string(SLUICE_SOURCE_DIR) + "/tests/fuzz/corpus/" + name);
  std::string text(std::istreambuf_iterator<char>(file), {});
  REQUIRE_FALSE(text.empty());
  return text;
}

/// Words of what was read, one after the other.
class Words {
 public:
  template <typename... Values>
  Words& add(const char* name, const Values&... values) {
    text_ += std::string(" ") + name;
    (add_one(values), ...);
    return *this;
  }
  const std::string& text() const { return text_; }

 private:
  void add_one(const std::string& value) { text_ += "'" + value + "'"; }
  void add_one(const Mark& mark) {
    text_ += "@" + std::to_string(mark.line) + ":" + std::to_string(mark.column) + "+" +
             std::to_string(mark.length);
  }
  void add_one(const Name& name) {
    add_one(name.text);
    add_one(name.mark);
  }
  void add_one(std::chrono::milliseconds time) { text_ += std::to_string(time.count()); }
  void add_one(double value) { text_ += " " + std::to_string(value); }
  template <typename Value>
  requires std::is_integral_v<Value>
  void add_one(Value value) { text_ += " " + std::to_string(value); }
  template <typename Value>
  void add_one(const std::optional<Value>& value) {
    if (value) add_one(*value);
  }
  template <typename Value>
  void add_one(const std::vector<Value>& values) {
    text_ += " [";
    for (const Value& value : values) add_one(value);
    text_ += "]";
  }
  template <typename First, typename Second>
  void add_one(const std::pair<First, Second>& pair) {
    add_one(pair.first);
    add_one(pair.second);
  }
  std::string text_;
};

void add(const Diagnostics& diagnostics, Words& words) {
  for (const Diagnostic& d : diagnostics) words.add(d.code.c_str(), d.mark, d.message);
}

std::string text_of(const LoadedCluster& loaded) {
  Words words;
  const ClusterSpec& spec = loaded.spec;
  words.add("cluster", spec.workflows, spec.machines_mark, spec.lease, spec.keys, spec.registry,
            loaded.all_workflows, loaded.all_machines);
  for (const ClusterMachine& machine : spec.machines) {
    words.add("machine", machine.name, machine.address, machine.pages, machine.home, machine.roles);
    for (const ClusterHost& host : machine.hosts) words.add("host", host.name, host.roles);
  }
  add(loaded.diagnostics, words);
  return words.text();
}

std::string text_of(const LoadedScenario& loaded) {
  Words words;
  const ScenarioSpec& spec = loaded.spec;
  words.add("scenario", spec.name, spec.workflow, spec.expected_mark, spec.expected_firings);
  for (const ScenarioCallSpec& call : spec.calls) words.add("call", call.session, call.inputs);
  for (const NodeScriptSpec& node : spec.nodes)
    words.add("node", node.node, node.by_iteration, node.values, node.latency_least,
              node.latency_most, node.fail, node.fail_when_iteration);
  for (const ExpectedCall& call : spec.expected_calls)
    words.add("expected", call.status, call.cause, call.outputs);
  add(loaded.diagnostics, words);
  return words.text();
}

void add(const char* what, const std::vector<Port>& ports, Words& words) {
  for (const Port& port : ports)
    words.add(what, port.name, static_cast<int>(port.type), port.meaning, port.count_source,
              static_cast<int>(port.frames), port.bytes_max,
              port.dtype ? static_cast<int>(*port.dtype) : -1, port.shape);
}

std::string text_of(const LoadedManifest& loaded) {
  Words words;
  const RoleManifest& manifest = loaded.manifest;
  const PluginDeclaration& role = manifest.declaration;
  words.add("manifest", manifest.abi_major, manifest.abi_minor, manifest.stepped,
            manifest.name_mark, manifest.abi_mark, role.name, role.meaning, role.session_state,
            role.needs_model, role.any_ports, role.global_param_kinds);
  for (const InterfaceDeclaration& one : role.interfaces) {
    words.add("interface", one.name, one.frames, one.yields_max);
    add("takes", one.inputs, words);
    add("yields", one.outputs, words);
  }
  for (const OptionDeclaration& option : role.options)
    words.add("option", option.name, option.meaning, option.choices, option.least, option.most,
              static_cast<int>(option.type), option.real_least, option.real_most, option.fallback,
              option.required);
  add(loaded.diagnostics, words);
  return words.text();
}

constexpr const char* cluster = R"(cluster: 1
workflows: [ chat.yaml, "draw.yaml" ]
lease: 60ms
keys: keys
registry: "tcp://127.0.0.1:6379"
machines:
  front: { home: true, address: "tcp://10.0.0.1:5000", roles: [ ] }
  side: { address: "ipc:///run/side", roles: [ c ] }
  back:
    address: "tcp://10.0.0.2:5000"
    pages: "tcp://10.0.0.2:5001"
    roles: [ a, b ]
    hosts: { h: [ a ], i: [ b ] }
)";

/// The sample with each value changed, and with each character left out or another put before it.
void change(const std::string& title, const std::string& sample, test::Outcomes& outcomes,
            const std::function<std::string(const std::string&)>& read) {
  std::vector<std::string> journal;
  test::Outcomes values("none");
  values.change_text(title, sample, [&](const std::string& text) {
    journal.push_back(read(text));
    return std::string();
  });
  outcomes.add(title + ", values", test::digest_of(journal));
  journal.clear();
  for (std::size_t at = 0; at < sample.size(); ++at) {
    const std::string before = sample.substr(0, at), behind = sample.substr(at);
    journal.push_back(read(before + behind.substr(1)));
    for (const char* put : {"x", "1", ", ", "[", "{", "\n", "-"})
      journal.push_back(read(before + put + behind));
  }
  outcomes.add(title + ", characters", test::digest_of(journal));
}

}  // namespace

TEST_CASE("what is read of a file is what it was, wherever it is changed") {
  test::Outcomes outcomes("files_read");
  change("a cluster", cluster, outcomes,
         [](const std::string& text) { return text_of(load_cluster("c.yaml", text)); });
  change("a scenario", corpus("scenario/full.yaml"), outcomes,
         [](const std::string& text) { return text_of(load_scenario("s.yaml", text)); });
  change("a manifest", corpus("manifest/full.yaml"), outcomes,
         [](const std::string& text) { return text_of(load_manifest(text)); });
  outcomes.add("a cluster", text_of(load_cluster("c.yaml", cluster)));
  outcomes.add("a scenario", text_of(load_scenario("s.yaml", corpus("scenario/full.yaml"))));
  outcomes.add("a manifest", text_of(load_manifest(corpus("manifest/full.yaml"))));
  outcomes.require_as_kept();
}

TEST_CASE("a manifest that is another in one place is said to be that, either way") {
  const std::string sample = corpus("manifest/full.yaml");
  const LoadedManifest first = load_manifest(sample);
  test::Outcomes outcomes("manifest_differences");
  outcomes.change_text("a manifest", sample, [&](const std::string& text) {
    const LoadedManifest other = load_manifest(text);
    if (has_errors(other.diagnostics)) return std::string("it is no manifest");
    const std::string said = difference(first.manifest, "the file", other.manifest, "the code");
    return (said.empty() ? "they agree" : said) + "\n" +
           difference(other.manifest, "the file", first.manifest, "the code");
  });
  outcomes.require_as_kept();
}

}  // namespace sluice
