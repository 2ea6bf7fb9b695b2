#include "cli/cluster_links.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "base/file.h"
#include "cli/cluster_pages.h"
#include "cli/shell_word.h"
#include "runtime/zmq/address.h"
#include "runtime/zmq/ipc_socket.h"
#include "runtime/zmq/keys.h"
#include "runtime/zmq/zmq_transport.h"
#include "workflows/yaml_reader.h"

namespace sluice::cli {

namespace {

namespace fs = std::filesystem;

bool is_said(const Diagnostics& diagnostics, Mark mark) {
  return std::ranges::any_of(diagnostics, [&](const Diagnostic& d) {
    return d.code == "bad-address" && d.mark.line == mark.line && d.mark.column == mark.column;
  });
}

/// Where the sockets of an ipc address, which is always of this computer, are to stand. `folders`:
/// of which this was said. `maps_pages`: one more stands beside it, where others map them.
void check_place(const Name& said, bool maps_pages, const std::string& folder,
                 std::set<std::string>& folders, Diagnostics& diagnostics) {
  if (!folders.insert(folder).second) return;
  if (const Result<void> closed = links::check_directory(folder); !closed.ok()) {
    report(diagnostics,
           {Severity::error, said.mark, "bad-address", closed.error().message,
            "an ipc address is in a folder that is there, is yours alone and has mode 0700"});
    return;
  }
  folders.erase(folder);
  std::vector<std::string> paths{links::ipc_path(said.text), shared_memory_socket(said.text)};
  if (maps_pages) paths.push_back(paths[0] + region_socket_end);
  for (const std::string& path : paths) {
    std::error_code failed;
    const fs::file_status found = fs::symlink_status(path, failed);
    if (!fs::exists(found) || fs::is_socket(found)) continue;
    report(diagnostics, {Severity::error, said.mark, "bad-address",
                         path + " is there and is no socket, so no machine takes it",
                         "move it away, or name another address"});
  }
}

void check_addresses(LoadedCluster& cluster) {
  std::set<std::string> folders;
  const auto check = [&](const std::optional<Name>& said, bool maps_pages = false) {
    if (!said || is_said(cluster.diagnostics, said->mark)) return;
    const auto address = links::read_address(said->text);
    if (!address.ok())
      report(cluster.diagnostics,
             {Severity::error, said->mark, "bad-address", address.error().message, ""});
    else if (!address->directory.empty())
      check_place(*said, maps_pages, address->directory, folders, cluster.diagnostics);
  };
  for (const ClusterMachine& machine : cluster.spec.machines) {
    check(machine.address);
    check(machine.pages, machine.maps_pages());
  }
  check(cluster.spec.registry_forward);
}

std::string who_makes(const std::string& folder, const std::vector<std::string>& machines) {
  std::string command = "sluice keys " + shell_word(folder);
  for (const std::string& machine : machines) command += " --machine " + machine;
  return "`" + command + "` makes " + (machines.size() == 1 ? "it" : "them");
}

/// Whether this user owns the file: the secrets of others are not looked into.
bool is_mine(const std::string& path) {
  struct stat found {};
  return ::lstat(path.c_str(), &found) == 0 && found.st_uid == ::geteuid();
}

/// The files of keys that are there, each in itself and beside the others.
class KeyFiles {
 public:
  using Say = std::function<void(const char* code, std::string message, std::string suggestion)>;
  KeyFiles(std::string folder, const Say& say) : folder_(std::move(folder)), say_(say) {}

  void add_public(const std::string& machine) {
    const std::string file = folder_ + "/" + machine + ".public";
    const Result<std::string> key = read_public(file);
    if (!key.ok()) return say_("bad-key", key.error().message, "");
    public_[machine] = *key;
    const auto [owner, is_new] = owners_.try_emplace(*key, machine);
    if (!is_new)
      say_("bad-key", file + " has the same key as " + folder_ + "/" + owner->second + ".public",
           anew(machine, owner->second));
  }
  /// Behind all that are public. Each machine needs only its own, so others may be missing.
  void check_secret(const std::string& machine) const {
    const std::string file = folder_ + "/" + machine + ".secret";
    if (!is_mine(file)) return;
    const Result<Keys> pair = read_secret(file);
    if (!pair.ok()) return say_("bad-key", pair.error().message, "");
    const auto known = public_.find(machine);
    if (known == public_.end() || known->second == pair->public_key) return;
    const auto owner = owners_.find(pair->public_key);
    say_("bad-key",
         file + " is not the secret of " + folder_ + "/" + machine + ".public" +
             (owner == owners_.end() ? "" : ": it is that of '" + owner->second + "'"),
         "put back the two files that `sluice keys` made for '" + machine + "'");
  }

 private:
  static std::string anew(const std::string& one, const std::string& other) {
    return "put back what `sluice keys` made for '" + one + "' and for '" + other +
           "': by its key a machine is known";
  }

  const std::string folder_;
  const Say& say_;
  std::map<std::string, std::string> public_;  // by machine
  std::map<std::string, std::string> owners_;  // machines by key, the first of each
};

void check_keys(LoadedCluster& cluster) {
  const std::string folder = keys_folder(cluster.spec);
  const KeyFiles::Say error = [&](const char* code, std::string message, std::string suggestion) {
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
  KeyFiles kept(folder, error);
  std::vector<std::string> missing;
  std::string files;
  for (const ClusterMachine& machine : cluster.spec.machines) {
    if (!is_name(machine.name.text)) continue;  // as was said
    const std::string file = machine.name.text + ".public";
    if (has_folder && fs::exists(fs::symlink_status(folder + "/" + file, failed))) {
      kept.add_public(machine.name.text);
      continue;
    }
    missing.push_back(machine.name.text);
    files += (files.empty() ? "" : ", ") + file;
  }
  for (const ClusterMachine& machine : cluster.spec.machines)
    if (is_name(machine.name.text)) kept.check_secret(machine.name.text);
  // Which may be elsewhere too; who starts a machine that needs it is told.
  if (const std::string shared = folder + "/" + shared_secret_name; is_mine(shared))
    if (const auto secret = read_shared_secret(folder); !secret.ok())
      error("bad-key", secret.error().message, "");
  if (missing.empty()) return;
  // A pair that is made anew is another identity, which nobody knows.
  const std::string copies = "copy " + std::string(missing.size() == 1 ? "it" : "them") +
                             " from where `sluice keys` made the pair; for a machine that has "
                             "none, ";
  error("missing-keys",
        has_folder ? "the folder of keys " + folder + " has no " + files
                   : "there is no folder of keys " + folder,
        (missing.size() < cluster.spec.machines.size() ? copies : "") + who_makes(folder, missing));
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
