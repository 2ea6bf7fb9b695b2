#include "cli/file_kind.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <initializer_list>
#include <string_view>
#include <utility>
#include <vector>

#include "base/file.h"
#include "base/nearest.h"
#include "graph/diagnostic.h"
#include "workflows/yaml_reader.h"
#include "workflows/yaml_tree.h"

namespace sluice::cli {

namespace {

namespace fs = std::filesystem;

/// Nothing in it where it cannot be read.
YamlNode read_root(const std::string& path) {
  const Result<std::string> text = read_whole_file(path, yaml_bytes_max);
  Diagnostics ignored;
  return text.ok() ? read_yaml(*text, ignored) : YamlNode{};
}

/// Whether the file's outermost keys have this one, and not the other.
bool has_key(const YamlNode& root, const char* wanted, const char* other) {
  return root.kind == YamlNode::Kind::map && root.find(wanted) != nullptr &&
         root.find(other) == nullptr;
}

bool has_any(const YamlNode& root, std::initializer_list<const char*> keys) {
  return root.kind == YamlNode::Kind::map &&
         std::ranges::any_of(keys, [&](const char* key) { return root.find(key) != nullptr; });
}

/// By what stands in it, whatever it begins with.
bool looks_like_cluster(const YamlNode& root) {
  return has_any(root, {"machines"}) &&
         !has_any(root, {"nodes", "roles", "inputs", "outputs", "global_params"});
}
bool looks_like_workflow(const YamlNode& root) {
  // Lists and words of these names are other programs'.
  const auto has_map = [&](const char* key) {
    const YamlNode* const part = root.kind == YamlNode::Kind::map ? root.find(key) : nullptr;
    return part != nullptr && part->kind == YamlNode::Kind::map;
  };
  return (has_map("nodes") || has_map("roles") || has_map("global_params")) &&
         has_any(root, {"inputs", "outputs", "roles", "global_params", "include"}) &&
         !has_any(root, {"machines", "workflows"});
}

/// A cluster file that begins as another; empty: it is none, or begins as one does.
std::string misnamed_cluster(const YamlNode& root) {
  if (!looks_like_cluster(root) || has_any(root, {"cluster", "scenario", "profile", "sluice_role"}))
    return "";
  return root.find("sluice") != nullptr
             ? "this has `machines:`, as a cluster file has; write `cluster: 1` in place of "
               "`sluice: 1`"
             : "this has `machines:`, as a cluster file has, and lacks `cluster: 1`";
}

/// What a file without `cluster` is instead, and what it is for; empty: perhaps a cluster file that
/// lacks it.
std::string instead_of_cluster(const YamlNode& root, const std::string& path) {
  if (root.find("sluice") != nullptr && looks_like_cluster(root)) return misnamed_cluster(root);
  if (root.find("sluice") != nullptr)
    return "this is a workflow, not a cluster file; `sluice run " + path +
           "` runs it in one process, and a cluster file names it in `workflows:`";
  if (root.find("scenario") != nullptr)
    return "this is a scenario, not a cluster file; `sluice test " + path + "` runs it";
  if (root.find("profile") != nullptr)
    return "this is a profile, not a cluster file; `sluice simulate WORKFLOW --profile " + path +
           "` runs a workflow as it says";
  if (root.find("sluice_role") != nullptr)
    return "this is a role's manifest, not a cluster file; `sluice validate " + path +
           "` checks it, `--plugins FOLDER` lets workflows use it";
  if (looks_like_workflow(root))
    return "this looks like a workflow that lacks `sluice: 1`, not a cluster file, which has "
           "`cluster: 1`, `workflows:` and `machines:` (docs/CLUSTER.md)";
  const std::vector<std::string_view> wanted{"cluster", "workflows", "machines"};
  constexpr std::size_t shown_most = 3;
  std::string keys;
  for (std::size_t i = 0; i < root.entries.size(); ++i) {
    const std::string& key = root.entries[i].key.scalar;
    if (root.find("workflows") != nullptr || root.find("machines") != nullptr ||
        !nearest_name(key, wanted).empty())
      return "";
    if (i < shown_most) keys += (keys.empty() ? "" : ", ") + in_quotes(key);
  }
  if (root.entries.size() > shown_most) keys += ", ...";
  return "this is not a cluster file: it begins with " + keys +
         "; a cluster file has `cluster: 1`, `workflows:` and `machines:` (docs/CLUSTER.md)";
}

/// The line, from 1, of a comment above what is otherwise lines of JSON; 0: there is none.
std::size_t commented_line(const std::string& path) {
  const Result<std::string> text = read_whole_file(path, yaml_bytes_max);
  if (!text.ok()) return 0;
  std::size_t line = 1, comment = 0;
  for (std::size_t at = 0; at < text->size(); ++line) {
    const std::size_t end = std::min(text->find('\n', at), text->size());
    const std::size_t first = std::min(text->find_first_not_of(" \t\r", at), end);
    const std::string_view rest = std::string_view(*text).substr(first, end - first);
    if (rest.starts_with('#')) {
      comment = comment == 0 ? line : comment;
    } else if (!rest.empty()) {
      return rest.starts_with("{\"") ? comment : 0;
    }
    at = end + 1;
  }
  return 0;
}

/// Of a file that is YAML and not JSON; empty: it may be lines of JSON.
std::string yaml_kind(const std::string& path) {
  const Result<std::string> text = read_whole_file(path, yaml_bytes_max);
  if (!text.ok()) return "";
  const std::size_t mark = text->starts_with("\xef\xbb\xbf") ? 3 : 0;  // as some editors begin
  const std::size_t first = text->find_first_not_of(" \t\r\n", mark);
  if (first == std::string::npos || (*text)[first] == '{' || (*text)[first] == '[') return "";
  Diagnostics ignored;
  const YamlNode root = read_yaml(*text, ignored);
  const std::string ending = fs::path(path).extension().string();
  const bool is_map = root.kind == YamlNode::Kind::map && !root.entries.empty();
  if (!is_map) return ending == ".yaml" || ending == ".yml" ? "YAML" : "";
  constexpr std::array<std::pair<const char*, const char*>, 5> kinds{
      {{"sluice", "a workflow"},
       {"scenario", "a scenario"},
       {"cluster", "a cluster file"},
       {"profile", "a profile"},
       {"sluice_role", "a role's manifest"}}};
  for (const auto& [key, kind] : kinds)
    if (root.find(key) != nullptr) return kind;
  return "YAML";
}

/// A folder without a configuration is none; what it holds may be what was meant.
Result<void> check_holds_checkpoint(const fs::path& folder) {
  std::error_code failed, ignored;
  const Result<bool> has_configuration = is_there((folder / "config.json").string());
  if (!has_configuration.ok()) return has_configuration.error();
  if (*has_configuration) return {};
  std::vector<std::string> inside;
  for (fs::directory_iterator at(folder, failed); !failed && at != fs::directory_iterator();
       at.increment(failed))
    if (at->path().extension() == ".gguf" || fs::exists(at->path() / "config.json", ignored))
      inside.push_back(at->path().string());
  std::ranges::sort(inside);
  return invalid_argument(folder.string() +
                          ": this is no checkpoint; name a GGUF file (.gguf), or a folder with "
                          "config.json and safetensors" +
                          (inside.empty() ? "" : ", as " + inside.front()));
}

}  // namespace

Result<void> check_is_workflow(const std::string& path) {
  const YamlNode root = read_root(path);
  if (has_key(root, "scenario", "sluice"))
    return invalid_argument(path + ": this is a scenario, not a workflow; `sluice test " + path +
                            "` runs it, and its `workflow:` names the workflow");
  if (has_key(root, "cluster", "sluice"))
    return invalid_argument(path +
                            ": this is a cluster file, not a workflow; `sluice run "
                            "--cluster " +
                            path + "` runs what its `workflows:` name");
  if (has_key(root, "profile", "sluice"))
    return invalid_argument(path +
                            ": this is a profile, not a workflow; `sluice simulate WORKFLOW "
                            "--profile " +
                            path + "` runs a workflow as it says");
  if (has_key(root, "sluice_role", "sluice"))
    return invalid_argument(path +
                            ": this is a role's manifest, not a workflow; `sluice validate " +
                            path + "` checks it, `--plugins FOLDER` lets workflows use it");
  if (const std::string cluster = misnamed_cluster(root); !cluster.empty())
    return invalid_argument(path + ": " + cluster + "; it is no workflow");
  return {};
}

Result<void> check_is_cluster(const std::string& path) {
  const YamlNode root = read_root(path);
  if (root.kind != YamlNode::Kind::map || root.entries.empty() || root.find("cluster") != nullptr)
    return {};
  const std::string what = instead_of_cluster(root, path);
  return what.empty() ? Result<void>{} : invalid_argument(path + ": " + what);
}

bool lacks_cluster(const std::string& path) {
  const YamlNode root = read_root(path);
  return root.find("sluice") == nullptr && !misnamed_cluster(root).empty();
}

bool is_manifest(const std::string& path) {
  return has_key(read_root(path), "sluice_role", "sluice");
}

Result<void> check_is_scenario(const std::string& path) {
  const YamlNode root = read_root(path);
  if (has_key(root, "sluice", "scenario"))
    return invalid_argument(path +
                            ": this is a workflow, not a scenario; `sluice test` takes scenarios "
                            "of it (files with `scenario:`), or the folder that has them");
  if (has_key(root, "cluster", "scenario"))
    return invalid_argument(path +
                            ": this is a cluster file, not a scenario; `sluice test` takes "
                            "scenarios of the workflows that it names");
  if (has_key(root, "profile", "scenario"))
    return invalid_argument(path +
                            ": this is a profile, not a scenario; `sluice simulate WORKFLOW "
                            "--profile " +
                            path + "` runs a workflow as it says");
  return {};
}

Result<void> check_is_profile(const std::string& path) {
  const YamlNode root = read_root(path);
  const std::string what =
      "a profile begins with `profile: NAME`, and a scenario can stand for one";
  if (has_key(root, "sluice", "scenario"))
    return invalid_argument(path + ": this is a workflow, not a profile; " + what);
  const bool meant = std::ranges::any_of(root.entries, [](const YamlEntry& entry) {
    return !nearest_name(entry.key.scalar, {"profile"}).empty();
  });
  // One that is misspelt is said where the file is read, with its place.
  if (has_key(root, "nodes", "scenario") && !meant && root.find("sluice") == nullptr)
    return invalid_argument(path + ": this has no `profile:`; " + what);
  return {};
}

Result<void> check_is_calls(const std::string& path) {
  if (const std::size_t line = commented_line(path); line != 0)
    return invalid_argument(path + ":" + std::to_string(line) +
                            ": JSON has no comments: remove this line, which begins with '#'");
  const std::string kind = yaml_kind(path);
  if (kind.empty()) return {};
  return invalid_argument(path + ": this is " + kind +
                          ", not calls; --calls takes JSON, a call a line: {\"inputs\": {...}}");
}

Result<void> check_is_checkpoint(const std::string& path) {
  std::error_code failed;
  const Result<bool> there = is_there(path);
  if (!there.ok()) return there.error();
  if (!*there) return Error{ErrorCode::not_found, path + ": no such file"};
  const std::string ending = fs::path(path).extension().string();
  if (fs::is_directory(path, failed)) return check_holds_checkpoint(path);
  if (ending == ".gguf") return {};
  if (ending != ".safetensors" && ending != ".json")
    return invalid_argument(path +
                            ": this is no checkpoint; name a GGUF file (.gguf), or a folder with "
                            "config.json and safetensors");
  const std::string folder = fs::path(path).parent_path().string();
  return invalid_argument(path + ": this is one file of a checkpoint; name its folder, " +
                          (folder.empty() ? "." : folder));
}

}  // namespace sluice::cli
