#include "workflows/load_scenario.h"

#include <algorithm>
#include <array>
#include <filesystem>

#include "base/file.h"
#include "graph/print.h"
#include "workflows/yaml_reader.h"

namespace sluice {

namespace {

using Kind = YamlNode::Kind;
namespace fs = std::filesystem;

constexpr std::array<std::string_view, 5> scenario_part{"scenario", "workflow", "calls", "nodes",
                                                        "expect"};
constexpr std::array<std::string_view, 2> profile_part{"profile", "nodes"};
constexpr std::array<std::string_view, 2> call_part{"session", "inputs"};
constexpr std::array<std::string_view, 8> node_part{
    "yields",  "by_iteration", "by_replica",          "values",
    "latency", "fail",         "fail_when_iteration", "fail_on_replica"};
constexpr std::array<std::string_view, 2> expect_part{"calls", "firings"};
constexpr std::array<std::string_view, 3> expected_call_part{"status", "outputs", "cause"};
constexpr std::int64_t count_max = 1'000'000'000;
constexpr std::size_t calls_max = 10'000;
constexpr std::size_t yields_max = 100'000;

class ScenarioLoader : public YamlReader {
 public:
  ScenarioLoader(ScenarioSpec& spec, Diagnostics& diagnostics)
      : YamlReader(diagnostics), spec_(spec) {}

  void load(const YamlNode& root) {
    if (root.kind != Kind::map)
      return error(root.mark.line == 0 ? Mark{1, 1, 1} : root.mark, "not-a-scenario",
                   "a scenario is a map, this is " + std::string(kind_name(root.kind)),
                   "begin with `scenario: what it shows`, a profile with `profile: NAME`");
    if (const YamlNode* profile = meant_profile(root)) {
      check_keys(root, profile_part, "a profile");
      if (expect(*profile, Kind::scalar, "a profile's name")) spec_.name = profile->scalar;
      if (find(root, "nodes") == nullptr && root.entries.size() == 1)
        error(profile->mark, "missing-key", "the profile says nothing about any node",
              "nodes: { NODE: { latency: [1ms, 9ms] } }");
      return load_nodes(root);
    }
    check_keys(root, scenario_part, "a scenario");
    if (const YamlNode* scenario = find(root, "scenario"); scenario == nullptr)
      error({1, 1, 1}, "missing-key", "the scenario has no name", "scenario: what it shows");
    else if (expect(*scenario, Kind::scalar, "a scenario's name"))
      spec_.name = scenario->scalar;
    if (const YamlNode* workflow = find(root, "workflow"); workflow == nullptr)
      error({1, 1, 1}, "missing-key", "the scenario does not say which workflow it tests",
            "workflow: FILE, relative to this file");
    else if (expect(*workflow, Kind::scalar, "workflow"))
      spec_.workflow = {workflow->scalar, workflow->mark};
    load_calls(root);
    load_nodes(root);
    const YamlNode* node = find(root, "expect");
    if (node != nullptr) load_expect(*node);
    if (node == nullptr || expects_nothing(*node))
      warning(node != nullptr                     ? node->mark
              : find(root, "scenario") == nullptr ? Mark{1, 1, 1}
                                                  : find(root, "scenario")->mark,
              "expects-nothing",
              "the scenario expects nothing: it is ok when its calls end, however they do",
              "expect: { calls: [ { status: ok } ] }, an entry for each call");
  }

 private:
  /// The value of `profile`, of a misspelt one in a file that names nothing to test.
  static const YamlNode* meant_profile(const YamlNode& root) {
    const YamlNode* profile = root.find("profile");
    if (profile != nullptr || root.find("scenario") != nullptr ||
        root.find("workflow") != nullptr || root.find("calls") != nullptr)
      return profile;
    for (const auto& [key, value] : root.entries)
      if (!nearest_name(key.scalar, {"profile"}).empty()) return &value;
    return nullptr;
  }
  /// A map without anything to compare. What could not be read may have expected something.
  static bool expects_nothing(const YamlNode& node) {
    const auto empty = [](const YamlNode& map) {
      return map.kind == Kind::map && map.entries.empty();
    };
    return node.kind == Kind::map && std::ranges::all_of(node.entries, [&](const YamlEntry& entry) {
             return entry.key.scalar == "calls" && entry.value.kind == Kind::list &&
                    std::ranges::all_of(entry.value.items, empty);
           });
  }
  void load_nodes(const YamlNode& root) {
    if (const YamlNode* nodes = find(root, "nodes"); nodes && expect(*nodes, Kind::map, "nodes"))
      for (const auto& [key, value] : nodes->entries) load_node(key, value);
  }

  void load_calls(const YamlNode& root) {
    const YamlNode* calls = find(root, "calls");
    if (calls == nullptr)
      return error({1, 1, 1}, "missing-key", "the scenario makes no calls",
                   "calls: [ { session: a, inputs: { name: value } } ]");
    if (!expect(*calls, Kind::list, "calls")) return;
    if (calls->items.empty())
      error(calls->mark, "no-calls", "the scenario makes no calls",
            "calls: [ { session: a, inputs: { name: value } } ]");
    if (calls->items.size() > calls_max)
      return error(calls->mark, "too-many-calls",
                   "a scenario makes at most " + std::to_string(calls_max) + " calls",
                   "take it apart; `sluice simulate --calls N` makes more");
    for (const YamlNode& item : calls->items) {
      if (!expect(item, Kind::map, "a call")) continue;
      check_keys(item, call_part, "a call");
      ScenarioCallSpec call;
      call.session = {"default", item.mark};
      if (const YamlNode* session = find(item, "session");
          session && expect(*session, Kind::scalar, "a session"))
        call.session = {session->scalar, session->mark};
      if (const YamlNode* inputs = find(item, "inputs");
          inputs && expect(*inputs, Kind::map, "a call's inputs"))
        for (const YamlEntry& entry : inputs->entries) {
          const auto& [key, value] = parted(entry);
          if (auto input = name(key, "an input's name");
              input && expect(value, Kind::scalar, "input '" + key.scalar + "'"))
            call.inputs.emplace_back(*input, Name{value.scalar, value.mark});
        }
      spec_.calls.push_back(std::move(call));
    }
  }

  /// Nothing, with an error, where it is no list of frames.
  std::optional<YieldsSpec> yields(const YamlNode& node) {
    YieldsSpec frames;
    if (node.kind == Kind::scalar)
      return expect(node, Kind::list, "yields", frames_help({&node, 1})), std::nullopt;
    if (!expect(node, Kind::list, "yields")) return std::nullopt;
    if (node.items.size() > yields_max)
      error(node.mark, "too-many-yields",
            "a script yields at most " + std::to_string(yields_max) + " frames", "write fewer");
    for (const YamlNode& item : node.items) {
      if (item.kind != Kind::list)
        return expect(item, Kind::list, "a frame", frames_help(node.items)), std::nullopt;
      if (!item.items.empty() && item.items[0].kind == Kind::list)
        return error(item.items[0].mark, "wrong-kind", "a field of a frame is a name, not a list",
                     "yields: [ [ a ], [ b ] ] is two frames; for each turn of a loop such a list "
                     "stands in by_iteration"),
               std::nullopt;
      load_frame(item, frames.emplace_back());
    }
    return frames;
  }
  void load_frame(const YamlNode& node, std::vector<Name>& frame) {
    for (const YamlNode& item : node.items) {
      auto field = name(item, "a field's name");
      if (!field) continue;
      if (std::ranges::find(frame, field->text, &Name::text) != frame.end())
        error(item.mark, "duplicate-field",
              "the field " + in_quotes(field->text) + " stands twice in this frame",
              "remove one of them; [ " + field->text + " ], [ " + field->text +
                  " ] is two frames with it");
      frame.push_back(std::move(*field));
    }
  }
  /// How names in place of frames are written as frames of one field each.
  static std::string frames_help(std::span<const YamlNode> names) {
    std::string frames;
    for (const YamlNode& one : names) {
      if (frames.size() > 60) {
        frames += ", ...";
        break;
      }
      if (is_name(one.scalar)) frames += (frames.empty() ? "[ " : ", [ ") + one.scalar + " ]";
    }
    return "each frame is a list of its fields: [ " + (frames.empty() ? "[ field ]" : frames) +
           " ]";
  }

  void load_latency(NodeScriptSpec& spec, const YamlNode& node) {
    const bool pair = node.kind == Kind::list && node.items.size() == 2;
    if (!pair && node.kind != Kind::scalar)
      return error(node.mark, "bad-latency", "a latency is a duration, or a list of two",
                   "latency: 5ms, or latency: [1ms, 9ms]");
    const auto least = duration(pair ? node.items[0] : node, "latency", 0);
    const auto most = pair ? duration(node.items[1], "latency", 0) : least;
    if (!least || !most) return;
    if (*least > *most)
      return error(node.mark, "bad-latency", "the least latency is above the most",
                   "latency: [least, most]");
    spec.latency_least = *least;
    spec.latency_most = *most;
  }

  /// One field's name in place of a list of lists of frames; empty: it is something else.
  static std::string script_help(const std::string& what, const YamlNode& node) {
    if (node.kind != Kind::scalar || !is_name(node.scalar)) return "";
    return what + ": [ [ [ " + node.scalar + " ] ] ] is one entry: one frame with one field";
  }

  void load_failure(NodeScriptSpec& spec, const YamlNode& node) {
    if (const YamlNode* fail = find(node, "fail"))
      choice<bool>(*fail, "fail", {{"true", true}, {"false", false}}, spec.fail);
    if (const YamlNode* turn = find(node, "fail_when_iteration")) {
      spec.fail_when_iteration = number(*turn, "fail_when_iteration", 0, 65'535);
      spec.fail_when_iteration_mark = turn->mark;
    }
    if (const YamlNode* replica = find(node, "fail_on_replica")) {
      spec.fail_on_replica = number(*replica, "fail_on_replica", 0, 255);
      spec.fail_on_replica_mark = replica->mark;
    }
  }

  void load_yields(NodeScriptSpec& spec, const std::string& name, const YamlNode& node) {
    std::string_view given;
    if (const YamlNode* list = find(node, "yields")) {
      given = "yields";
      spec.by_iteration.push_back(yields(*list).value_or(YieldsSpec{}));
      spec.yields_marks.push_back(list->mark);
    }
    for (const std::string what : {"by_iteration", "by_replica"}) {
      const YamlNode* entries = find(node, what);
      if (entries == nullptr || !expect(*entries, Kind::list, what, script_help(what, *entries)))
        continue;
      if (!given.empty())
        error(entries->mark, "two-scripts",
              "'" + name + "' has both `" + std::string(given) + "` and `" + what + "`",
              "remove one of them");
      if (entries->items.empty())
        error(entries->mark, "bad-script", what + " needs an entry", what + ": [ [ ] ]");
      given = what == "by_iteration" ? "by_iteration" : "by_replica";
      spec.by_iteration.clear();
      spec.yields_marks.clear();
      for (const YamlNode& entry : entries->items) {
        auto frames = yields(entry);
        if (!frames) break;  // the next are most likely written in the same way
        spec.by_iteration.push_back(std::move(*frames));
        spec.yields_marks.push_back(entry.mark);
      }
      if (what == "by_replica") spec.by_replica = Name{what, entries->mark};
    }
  }

  void load_node(const YamlNode& key, const YamlNode& node) {
    const auto node_name = name(key, "a node's name");
    if (!node_name || !expect(node, Kind::map, "the script of '" + key.scalar + "'")) return;
    check_keys(node, node_part, "the script of '" + key.scalar + "'");
    NodeScriptSpec spec;
    spec.node = *node_name;
    load_yields(spec, key.scalar, node);
    if (const YamlNode* values = find(node, "values");
        values && expect(*values, Kind::map, "values"))
      for (const YamlEntry& entry : values->entries) {
        const auto& [field, value] = parted(entry);
        if (auto known = name(field, "a field's name"))
          if (const auto count =
                  number(value, "the value of '" + field.scalar + "'", -count_max, count_max))
            spec.values.emplace_back(std::move(*known), *count);
      }
    if (const YamlNode* latency = find(node, "latency")) load_latency(spec, *latency);
    load_failure(spec, node);
    spec_.nodes.push_back(std::move(spec));
  }

  void counts(const YamlNode& node, const std::string& what,
              std::vector<std::pair<Name, std::int64_t>>& to) {
    if (!expect(node, Kind::map, what)) return;
    if (node.entries.empty())
      error(node.mark, "empty-expectation",
            what + " is empty, and what is not named is not compared: this expects nothing",
            what == "outputs" ? "outputs: none expects no output at all, outputs: { NAME: 0 } none "
                                "of NAME; or remove this"
                              : what + ": { NAME: 0 } expects none of NAME; or remove this");
    for (const YamlEntry& entry : node.entries) {
      const auto& [key, value] = parted(entry);
      if (auto known = name(key, "a name"))
        if (const auto count = number(value, "the number of '" + key.scalar + "'", 0, count_max))
          to.emplace_back(std::move(*known), *count);
    }
  }

  void load_expected_call(const YamlNode& item) {
    ExpectedCall& call = spec_.expected_calls.emplace_back();
    if (!expect(item, Kind::map, "an expected call")) return;
    check_keys(item, expected_call_part, "an expected call");
    if (const YamlNode* status = find(item, "status")) {
      bool ok = true;
      choice<bool>(*status, "status", {{"ok", true}, {"error", false}}, ok);
      call.status = Name{ok ? "ok" : "error", status->mark};
    }
    if (const YamlNode* cause = find(item, "cause")) {
      const YamlNode* node = cause->kind == Kind::map ? cause->find("node") : cause;
      if (node != nullptr) call.cause = name(*node, "a node's name");
    }
    if (const YamlNode* outputs = find(item, "outputs")) {
      call.no_outputs = outputs->kind == Kind::scalar && outputs->scalar == "none";
      if (!call.no_outputs) counts(*outputs, "outputs", call.outputs);
    }
  }

  void load_expect(const YamlNode& node) {
    if (!expect(node, Kind::map, "expect")) return;
    check_keys(node, expect_part, "expect");
    if (const YamlNode* calls = find(node, "calls"); calls && expect(*calls, Kind::list, "calls")) {
      spec_.expected_mark = calls->mark;
      for (const YamlNode& item : calls->items) load_expected_call(item);
    }
    if (const YamlNode* firings = find(node, "firings"))
      counts(*firings, "firings", spec_.expected_firings);
  }

  ScenarioSpec& spec_;
};

}  // namespace

LoadedScenario load_scenario(std::string file_name, std::string_view text) {
  LoadedScenario loaded;
  loaded.spec.file = std::move(file_name);
  loaded.text = text;
  const YamlNode root = read_yaml(text, loaded.diagnostics);
  if (is_readable(loaded.diagnostics)) ScenarioLoader(loaded.spec, loaded.diagnostics).load(root);
  sort_diagnostics(loaded.diagnostics);
  return loaded;
}

Result<LoadedScenario> load_scenario_file(const std::string& path) {
  Result<std::string> text = read_whole_file(path, yaml_bytes_max);
  if (!text.ok()) return text.error();
  LoadedScenario loaded = load_scenario(path, *text);
  const Name& workflow = loaded.spec.workflow;
  if (workflow.text.empty()) return loaded;
  const std::string file = (fs::path(path).parent_path() / workflow.text).string();
  if (const Result<bool> there = is_there(file); !there.ok() || !*there) {
    report(loaded.diagnostics,
           {Severity::error, workflow.mark, "no-such-workflow",
            there.ok() ? "there is no file " + in_quotes(file) + " with the workflow"
                       : there.error().message,
            "write where it is, relative to this file"});
    sort_diagnostics(loaded.diagnostics);
  }
  return loaded;
}

bool is_scenario(std::string_view text) {
  Diagnostics ignored;
  const YamlNode root = read_yaml(text, ignored);
  // One that cannot be read, or whose first key is misspelt, is one that fails.
  if (root.kind != Kind::map)
    return text.starts_with("scenario:") || text.find("\nscenario:") != std::string_view::npos;
  const auto meant = [](const YamlEntry& entry) {
    return !nearest_name(entry.key.scalar, {"scenario"}).empty();
  };
  return root.find("scenario") != nullptr ||
         ((root.find("calls") != nullptr || root.find("workflow") != nullptr) &&
          root.find("sluice") == nullptr && std::ranges::any_of(root.entries, meant));
}

bool is_profile(std::string_view text) {
  Diagnostics ignored;
  const YamlNode root = read_yaml(text, ignored);
  return root.find("profile") != nullptr && root.find("sluice") == nullptr;
}

}  // namespace sluice
