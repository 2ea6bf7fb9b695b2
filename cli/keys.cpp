// `sluice keys DIR --machine NAME...`: a key pair for each machine of a cluster.
#include "cli/keys.h"

#include <sys/stat.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "runtime/zmq/keys.h"

namespace sluice::cli {

namespace {

int make_all(const std::string& directory, const std::vector<std::string>& machines) {
  if (mkdir(directory.c_str(), 0700) != 0 && errno != EEXIST)
    return fail(directory + ": cannot be made: " + std::strerror(errno));
  for (const std::string& machine : machines) {
    const Result<Keys> keys = make_keys();
    if (!keys) return fail(keys.error().message);
    if (const Result<void> written = write_keys(directory, machine, *keys); !written)
      return fail(written.error().message);
    std::printf("%s/%s.public  %s\n", directory.c_str(), machine.c_str(), keys->public_key.c_str());
  }
  std::printf("Each machine needs its own .secret, which nobody else may have, and all .public\n");
  return 0;
}

}  // namespace

void add_keys(CLI::App& app, Chosen& chosen) {
  struct Options {
    std::string directory;
    std::vector<std::string> machines;
  };
  auto options = std::make_shared<Options>();
  CLI::App* command = app.add_subcommand("keys", "Make the keys by which machines know each other");
  command->add_option("directory", options->directory, "Where to; made if it is not there")
      ->required();
  command->add_option("--machine", options->machines, "A machine's name; may be given many times")
      ->required();
  command->callback([&chosen, options] {
    chosen = [options] { return make_all(options->directory, options->machines); };
  });
}

}  // namespace sluice::cli
