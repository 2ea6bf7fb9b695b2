// The command line: what the program knows, and which command runs.
#include <fcntl.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <new>
#include <string>
#include <vector>

#include "cli/commands.h"
#include "cli/keys.h"
#include "cli/option_checks.h"
#include "cli/terminal_text.h"
#include "cli/usage.h"
#ifdef SLUICE_CUDA
#include "engine/device/device_text.h"
#endif

namespace sluice::cli {

namespace {

constexpr const char* examples = R"(
Examples
  sluice validate workflows/*.yaml            all errors at once, with line, caret and help
  sluice plan workflows/image_chat.yaml       nodes, groups, buckets, control edges
  sluice plan workflows/image_chat.yaml --explain generate
  sluice run workflows/image_chat.yaml --image scene.png --prompt "what color is the circle"
  sluice run workflows/image_chat.yaml --prompt "draw a red circle" --out circle.png
  sluice run --cluster examples/cluster/laptop.yaml --prompt "draw a star"   as several processes
  sluice test workflows/                      scenarios: what a workflow does, without models
  sluice simulate workflows/image_chat.yaml --calls 200 --rate 20 --trace t.json
  sluice why t.json 17                        what call 17 waited for
  sluice roles                                what a workflow's roles can run
  sluice new role shout                       a project of a role of your own, with its tests
  sluice keys DIR --machine arm --machine gpu  keys by which machines know each other
  sluice chat model.gguf                      a conversation in the terminal
  sluice model inspect DIR                    what a checkpoint is, and the memory it takes
  sluice model check DIR --inputs in.safetensors --outputs out.safetensors

Exit status: 0 well; 1 a file or an input is wrong, or a call failed; 2 the command line is not
understood; 130 Ctrl-C ended it, 143 SIGTERM, 129 SIGHUP. `node` and `up` run until one of these
comes, and give 0 then.)";

/// Words to a model may be none; a name of a file, say, may not: "$UNSET" would leave the option
/// out.
bool may_be_empty(const CLI::Option& option) {
  const std::string name = option.get_name();
  return option.get_positional() || option.get_items_expected_max() == 0 || name == "--prompt" ||
         name == "--system";
}

/// What holds for every option: it takes one value each time, so that what stands behind it is a
/// file; there is a value; and a number is the one that was typed.
void check_all_options(CLI::App& app) {
  for (CLI::Option* option : app.get_options()) {
    if (!option->get_positional()) option->allow_extra_args(false);
    const std::string type = option->get_type_name();
    if (type.starts_with("INT")) option->check(fits_64_bits<std::int64_t>);
    if (type.starts_with("FLOAT")) option->check(a_number);
    if (type.starts_with("UINT")) option->check(fits_64_bits<std::uint64_t>);
    if (!may_be_empty(*option)) option->check(not_empty);
  }
  for (CLI::App* command : app.get_subcommands({})) check_all_options(*command);
}

/// What was typed, the last word first, as the parser takes it. `help run` is `run --help`, and
/// `version` is --version: what people try first.
std::vector<std::string> words_of(int argc, const char* const* argv) {
  std::vector<std::string> words;
  bool options = true;  // until `--`
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    options = options && word != "--";
    // The parser would take what follows `--trace=` for its value.
    const bool is_empty = options && word.starts_with("--") && word.find('=') == word.size() - 1;
    words.push_back(is_empty ? word.substr(0, word.size() - 1) : word);
    if (is_empty) words.emplace_back();
  }
  if (!words.empty() && words[0] == "help") {
    words.erase(words.begin());
    words.emplace_back("--help");
  } else if (words.size() == 1 && words[0] == "version") {
    words[0] = "--version";
  }
  std::ranges::reverse(words);
  return words;
}

/// Some launchers start a program with standard streams closed. The next file that it opens would
/// take such a number, and be read or written as if it were the stream. With these in their places
/// reading and writing fail, as of what is closed.
void open_standard_streams() {
  for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; ++fd)
    if (fcntl(fd, F_GETFD) == -1 && errno == EBADF &&
        open("/dev/null", fd == STDIN_FILENO ? O_WRONLY : O_RDONLY) != fd)
      std::abort();
}

/// A file that may grow no more (`ulimit -f`) is then an error of writing, as a full disk is, and
/// not the end of the program.
void ignore_file_limit() { std::signal(SIGXFSZ, SIG_IGN); }

/// What `See ... --help` names: " run", " model ask"; empty before a command is known.
std::string& typed_command() {
  static std::string words;
  return words;
}

/// The GPU that roles may run on; null: this program was built without CUDA.
const TextDevice* cuda() {
#ifdef SLUICE_CUDA
  return &cuda_texts();
#else
  return nullptr;
#endif
}

}  // namespace

int fail(const std::string& message) {
  std::fprintf(stderr, "error: %s\n", escaped_text(message).c_str());
  return 1;
}

int finished(int status) {
  errno = 0;
  const bool failed = std::fflush(stdout) != 0 || std::ferror(stdout) != 0;
  if (!failed) return status;
  return fail(std::string("standard output cannot be written") +
              (errno != 0 ? std::string(": ") + std::strerror(errno) : std::string()));
}

int fail_usage(const std::string& message) {
  std::fprintf(stderr, "error: %s\nSee `sluice%s --help`.\n", escaped_text(message).c_str(),
               typed_command().c_str());
  return 2;
}

}  // namespace sluice::cli

int main(int argc, char** argv) {
  using namespace sluice;
  cli::open_standard_streams();
  cli::ignore_file_limit();
  Catalog catalog;
  add_builtin_plugins(catalog, cli::cuda());

  CLI::App app{"Sluice runs multimodal inference as a dataflow graph.", "sluice"};
  app.footer(cli::examples);
  app.set_version_flag("--version", "sluice 0.1.0");
  app.require_subcommand(1);
  app.option_defaults()->always_capture_default();  // --help shows what holds without an option
  cli::Chosen chosen;
  std::vector<std::string> plugin_folders;
  cli::add_validate(app, catalog, chosen);
  cli::add_plan(app, catalog, chosen);
  cli::add_run(app, catalog, chosen, plugin_folders);
  cli::add_node(app, catalog, chosen);
  cli::add_up(app, catalog, chosen, plugin_folders);
  cli::add_status(app, chosen);
  cli::add_down(app, chosen);
  cli::add_test(app, catalog, chosen);
  cli::add_simulate(app, catalog, chosen, plugin_folders);
  cli::add_why(app, chosen);
  cli::add_model(app, chosen);
  cli::add_pool(app, chosen);
  cli::add_chat(app, chosen);
  cli::add_role_host(app, catalog, chosen);
  cli::add_roles(app, catalog, chosen);
  cli::add_new(app, catalog, chosen);
  cli::add_keys(app, chosen);
  cli::accept_plugins(app, plugin_folders);
  cli::add_examples(app);
  cli::check_all_options(app);
  try {
    app.parse(cli::words_of(argc, argv));
    cli::typed_command() = cli::command_of(app);
  } catch (const CLI::Success& asked) {
    for (const std::string& word : app.remaining(true))
      if (const std::string unknown = cli::unknown_command(word, app);
          !word.starts_with('-') && !unknown.empty())
        return cli::fail_usage(unknown);
    return cli::finished(app.exit(asked));
  } catch (const CLI::ParseError& error) {
    cli::typed_command() = cli::command_of(app);
    return cli::fail_usage(cli::usage_problem(app, error));
  }
  if (const int status = cli::add_plugin_folders(catalog, plugin_folders)) return status;
  try {
    return cli::finished(chosen());
  } catch (const std::bad_alloc&) {
    return cli::fail(
        "memory ran out: the machine, or a limit of this process (`ulimit -v`), gives no more; "
        "take a narrower --precision or --kv-dtype, fewer --tokens, or pages for fewer tokens");
  }
}
