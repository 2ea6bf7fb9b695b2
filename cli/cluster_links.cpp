#include "cli/cluster_links.h"

#include <algorithm>
#include <filesystem>

#include "base/file.h"
#include "cli/shell_word.h"
#include "runtime/zmq/address.h"
#include "runtime/zmq/keys.h"
#include "workflows/yaml_reader.h"

namespace sluice::cli {

namespace {

namespace fs = std::filesystem;

bool is_said(const Diagnostics& diagnostics, Mark mark) {
  return std::ranges::any_of(diagnostics, [&](const Diagnostic& d) {
    return d.code == "bad-address" && d.mark.line == mark.line && d.mark.column == mark.column;
  });
}

void check_addresses(LoadedCluster& cluster) {
  const auto check = [&](const std::optional<Name>& said) {
    if (!said || is_said(cluster.diagnostics, said->mark)) return;
    if (const auto address = links::read_address(said->text); !address.ok())
      report(cluster.diagnostics,
             {Severity::error, said->mark, "bad-address", address.error().message, ""});
  };
  for (const ClusterMachine& machine : cluster.spec.machines) {
    check(machine.address);
    check(machine.pages);
  }
}

std::string who_makes(const std::string& folder, const std::vector<std::string>& machines) {
  std::string command = "sluice keys " + shell_word(folder);
  for (const std::string& machine : machines) command += " --machine " + machine;
  return "`" + command + "` makes " + (machines.size() == 1 ? "it" : "them");
}

void check_keys(LoadedCluster& cluster) {
  const std::string folder = keys_folder(cluster.spec);
  const auto error = [&](const char* code, std::string message, std::string suggestion) {
    report(cluster.diagnostics, {Severity::error, cluster.spec.keys->mark, code, std::move(message),
                                 std::move(suggestion)});
  };
  std::error_code failed;
  const bool has_folder = fs::is_directory(folder, failed);
  // A file in it, though none: a folder that is there may be one that is not to be entered.
  for (const std::string& path : {folder, folder + "/" + shared_secret_name})
    if (const Result<bool> there = is_there(path); !there.ok())
      return error("bad-key", there.error().message,
                   "write where a folder is that this user may enter");
  std::vector<std::string> missing;
  std::string files;
  for (const ClusterMachine& machine : cluster.spec.machines) {
    if (!is_name(machine.name.text)) continue;  // as was said
    const std::string file = machine.name.text + ".public";
    if (has_folder && fs::exists(fs::symlink_status(folder + "/" + file, failed))) {
      if (const auto key = read_public(folder + "/" + file); !key.ok())
        error("bad-key", key.error().message, "");
      continue;
    }
    missing.push_back(machine.name.text);
    files += (files.empty() ? "" : ", ") + file;
  }
  if (missing.empty()) return;
  error("missing-keys",
        has_folder ? "the folder of keys " + folder + " has no " + files
                   : "there is no folder of keys " + folder,
        who_makes(folder, missing));
}

void check_registry(LoadedCluster& cluster) {
  if (!cluster.spec.registry_password) return;
  if (const auto password = read_password(registry_password_file(cluster.spec)); !password.ok())
    report(cluster.diagnostics,
           {Severity::error, cluster.spec.registry_password->mark, "bad-password-file",
            password.error().message,
            "a file of this user with mode 0600 whose one line is the password"});
}

}  // namespace

std::string registry_password_file(const ClusterSpec& spec) {
  return (fs::path(spec.file).parent_path() / spec.registry_password->text)
      .lexically_normal()
      .string();
}

std::string keys_folder(const ClusterSpec& spec) {
  if (!spec.keys) return "";
  return (fs::path(spec.file).parent_path() / spec.keys->text).lexically_normal().string();
}

void check_links(LoadedCluster& cluster) {
  check_addresses(cluster);
  if (cluster.spec.keys) check_keys(cluster);
  check_registry(cluster);
}

}  // namespace sluice::cli
