#include "cli/file_kind.h"

#include <algorithm>
#include <filesystem>

#include "base/file.h"
#include "graph/diagnostic.h"
#include "workflows/yaml_reader.h"
#include "workflows/yaml_tree.h"

namespace sluice::cli {

namespace {

namespace fs = std::filesystem;

/// Whether the file's outermost keys have this one, and not the other.
bool has_key(const std::string& path, const char* wanted, const char* other) {
  const Result<std::string> text = read_whole_file(path, yaml_bytes_max);
  if (!text.ok()) return false;
  Diagnostics ignored;
  const YamlNode root = read_yaml(*text, ignored);
  return root.kind == YamlNode::Kind::map && root.find(wanted) != nullptr &&
         root.find(other) == nullptr;
}

}  // namespace

Result<void> check_is_workflow(const std::string& path) {
  if (has_key(path, "scenario", "sluice"))
    return invalid_argument(path + ": this is a scenario, not a workflow; `sluice test " + path +
                            "` runs it, and its `workflow:` names the workflow");
  if (has_key(path, "cluster", "sluice"))
    return invalid_argument(path +
                            ": this is a cluster file, not a workflow; `sluice run "
                            "--cluster " +
                            path + "` runs what its `workflows:` name");
  if (has_key(path, "profile", "sluice"))
    return invalid_argument(path +
                            ": this is a profile, not a workflow; `sluice simulate WORKFLOW "
                            "--profile " +
                            path + "` runs a workflow as it says");
  if (is_manifest(path))
    return invalid_argument(path +
                            ": this is a role's manifest, not a workflow; `sluice validate " +
                            path + "` checks it, `--plugins FOLDER` lets workflows use it");
  return {};
}

Result<void> check_is_cluster(const std::string& path) {
  if (!has_key(path, "sluice", "cluster")) return {};
  return invalid_argument(path + ": this is a workflow, not a cluster file; `sluice run " + path +
                          "` runs it in one process, and a cluster file names it in `workflows:`");
}

bool is_manifest(const std::string& path) { return has_key(path, "sluice_role", "sluice"); }

Result<void> check_is_scenario(const std::string& path) {
  if (has_key(path, "sluice", "scenario"))
    return invalid_argument(path +
                            ": this is a workflow, not a scenario; `sluice test` takes scenarios "
                            "of it (files with `scenario:`), or the folder that has them");
  if (has_key(path, "profile", "scenario"))
    return invalid_argument(path +
                            ": this is a profile, not a scenario; `sluice simulate WORKFLOW "
                            "--profile " +
                            path + "` runs a workflow as it says");
  return {};
}

Result<void> check_is_profile(const std::string& path) {
  const std::string what =
      "a profile begins with `profile: NAME`, and a scenario can stand for one";
  if (has_key(path, "sluice", "scenario"))
    return invalid_argument(path + ": this is a workflow, not a profile; " + what);
  if (has_key(path, "nodes", "scenario") && !has_key(path, "profile", "sluice"))
    return invalid_argument(path + ": this has no `profile:`; " + what);
  return {};
}

Result<void> check_is_checkpoint(const std::string& path) {
  std::error_code failed;
  if (!fs::exists(path, failed)) return Error{ErrorCode::not_found, path + ": no such file"};
  const std::string ending = fs::path(path).extension().string();
  if (fs::is_directory(path, failed) || ending == ".gguf") return {};
  if (ending != ".safetensors" && ending != ".json")
    return invalid_argument(path +
                            ": this is no checkpoint; name a GGUF file (.gguf), or a folder with "
                            "config.json and safetensors");
  const std::string folder = fs::path(path).parent_path().string();
  return invalid_argument(path + ": this is one file of a checkpoint; name its folder, " +
                          (folder.empty() ? "." : folder));
}

}  // namespace sluice::cli
