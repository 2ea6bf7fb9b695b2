// `sluice keys DIR --machine NAME --machine NAME ...`: a key pair for each machine of a cluster.
#include "cli/keys.h"

#include <sys/stat.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "runtime/zmq/keys.h"
#include "workflows/yaml_reader.h"

namespace sluice::cli {

namespace {

/// Before anything is written: what a cluster file takes as a machine's name, each once.
Result<void> check_names(const std::vector<std::string>& machines) {
  std::set<std::string> seen;
  for (const std::string& machine : machines) {
    if (!is_name(machine))
      return invalid_argument("--machine " + in_quotes(machine) +
                              ": a machine's name is of a-z, 0-9 and _, begins with a letter and "
                              "has at most 64 characters");
    if (!seen.insert(machine).second)
      return invalid_argument("--machine " + machine + " is given twice");
  }
  return {};
}

/// Those that are there are kept: nothing is made beside them.
Result<void> check_are_new(const std::string& directory, const std::vector<std::string>& machines) {
  std::string there;
  struct stat facts {};
  for (const std::string& machine : machines)
    for (const char* ending : {".secret", ".public"})
      if (const std::string path = directory + "/" + machine + ending;
          ::lstat(path.c_str(), &facts) == 0)
        there += (there.empty() ? "" : ", ") + path;
  if (there.empty()) return {};
  return invalid_argument("there already, and never replaced: " + there +
                          "; no key was made: leave those machines out, or move the files away");
}

/// Without it machines share no pages, and their keys are not made again for it.
int make_shared_secret(const std::string& directory) {
  if (const Result<void> written = write_shared_secret(directory); !written)
    return fail(written.error().message);
  std::printf(
      "%s/%s was gone and is made anew; the keys are kept. Copy it to each machine that "
      "shares pages.\n",
      directory.c_str(), shared_secret_name);
  return 0;
}

int make_all(const std::string& directory, const std::vector<std::string>& machines) {
  struct stat facts {};
  const std::string shared = directory + "/" + shared_secret_name;
  const bool was_there = ::lstat(shared.c_str(), &facts) == 0;
  if (const Result<void> all_new = check_are_new(directory, machines); !all_new.ok())
    return was_there ? fail(all_new.error().message) : make_shared_secret(directory);
  if (mkdir(directory.c_str(), 0700) != 0 && errno != EEXIST)
    return fail(directory + ": cannot be made: " + std::strerror(errno));
  // Who may write there could put other keys in the place of these.
  if (::stat(directory.c_str(), &facts) == 0 && S_ISDIR(facts.st_mode) &&
      (facts.st_mode & 022U) != 0 && (facts.st_mode & S_ISVTX) == 0)
    return fail(directory +
                ": others may write in it, who could replace keys: chmod 0755 or 0700, "
                "or name a new folder");
  for (const std::string& machine : machines) {
    const Result<Keys> keys = make_keys();
    if (!keys) return fail(keys.error().message);
    if (const Result<void> written = write_keys(directory, machine, *keys); !written)
      return fail(written.error().message);
    std::printf("%s/%s.public  %s\n", directory.c_str(), machine.c_str(), keys->public_key.c_str());
  }
  if (const Result<void> written = write_shared_secret(directory); !written)
    return fail(written.error().message);
  std::printf("Beside each .public stands its .secret, which only this user may read. %s %s.\n",
              shared.c_str(), was_there ? "was there and is kept" : "is as secret");
  std::printf(
      "Next: write `keys: FOLDER` in the cluster file, FOLDER being %s as seen from that file; "
      "copy to each machine all .public and its own .secret, which nobody else may have. "
      "Those that share pages also need %s.\n",
      directory.c_str(), shared_secret_name);
  return 0;
}

}  // namespace

void add_keys(Command app, Chosen& chosen) {
  struct Options {
    std::string directory;
    std::vector<std::string> machines;
  };
  auto options = std::make_shared<Options>();
  Command command = app.add_subcommand("keys", "Make the keys by which machines know each other");
  command
      .add_option("directory", options->directory,
                  "The folder to write them to; made if it is not there")
      .required();
  command.add_option("--machine", options->machines, "A machine's name; may be given many times")
      .required();
  command.callback([&chosen, options] {
    chosen = [options] {
      const Result<void> names = options->directory.empty()
                                     ? invalid_argument("the folder's name is empty")
                                     : check_names(options->machines);
      return names.ok() ? make_all(options->directory, options->machines)
                        : fail_usage(names.error().message);
    };
  });
}

}  // namespace sluice::cli
