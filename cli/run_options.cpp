#include "cli/run_options.h"

#include <set>
#include <utility>

#include "cli/call_value.h"
#include "cli/given_inputs.h"
#include "cli/run_calls.h"

namespace sluice::cli {

namespace {

/// Of workflows whose input is `request: json`.
void add_request_options(Command command, RunOptions& options) {
  constexpr const char* group = "For an input `request: json`";
  const auto add = [&](const char* name, auto& to, const char* what) {
    return command.add_option(name, to, what).group(group);
  };
  add("--prompt", options.prompt, "What to ask, or what to draw; - reads standard input");
  add("--image", options.images,
      "A PNG or JPEG of any size, or - (standard input); may be repeated");
  add("--request", options.request, "The whole request as a JSON file instead, or -");
  add("--max-tokens,--tokens", options.max_tokens,
      "Longest answer in tokens (default: the role's)");
  add("--temperature", options.temperature, "0 takes the likeliest (default: 0)");
  add("--top-k", options.top_k, "Sample among the k most likely (default: 0, all)");
  add("--top-p", options.top_p, "Sample among the likeliest of this probability (default: 1)");
  add("--seed", options.seed, "Of sampling and of a drawing's noise (default: 0)");
  add("--steps", options.steps, "Denoising steps of a drawing (default: the role's)");
  add("--guidance", options.guidance,
      "How closely a drawing follows the words (default: the role's)");
  add("--strength", options.strength,
      "Below 1: a drawing starts from the given picture (default: 1)");
  add("--tenant", options.tenant,
      "Whose the call and its session are: what is kept of them nobody else finds");
}

void add_calls_options(Command command, RunOptions& options) {
  command
      .add_option(
          "--calls", options.calls,
          "Many calls, a JSON object a line: {\"id\", \"session\", \"inputs\", "
          "\"deadline_ms\", \"end_session\"}; an input is its value, or {\"file\": PATH} as "
          "pictures are; in a request a picture is {\"type\": \"image\", \"data\": BASE64}; "
          "results come as JSON lines when they are there")
      .type_name("FILE|-");
  command.add_option("--concurrency", options.concurrency, "Of --calls, so many at once")
      .needs("--calls")
      .check(Range(1, 1024))
      .shown_default(std::to_string(concurrency_usual));
  command.add_option("--session", options.session,
                     "The name of the calls' session, within this run; without it each line of "
                     "--calls that names none has one of its own");
}

}  // namespace

void add_run_options(Command command, RunOptions& options) {
  command.add_option("file", options.file,
                     "A workflow file (YAML); with --cluster one of its workflows, or its name");
  command
      .add_option("--cluster", options.cluster,
                  "Run it on the machines of a cluster file (YAML); those that nobody has started "
                  "are started here, and stopped afterwards, where it has one home")
      .type_name("FILE");
  command
      .add_option("--name", options.name,
                  "Of --cluster: the machine that this is, one on which calls begin (default: the "
                  "first)")
      .needs("--cluster")
      .type_name("MACHINE");
  command
      .add_option("--join-within", options.join_seconds,
                  "Of --cluster: how long to wait for the other machines, in seconds")
      .needs("--cluster")
      .check(Range(1, 3600))
      .shown_default();
  command
      .add_option("--input", options.inputs,
                  "An input, read as its declared type: text, JSON and numbers as they stand, "
                  "pictures (PNG, JPEG) and tensors (.npy) from @FILE or - (standard input)")
      .type_name("NAME=VALUE|@FILE|-")
      .check([](const std::string& given) {
        return given.find('=') != std::string::npos
                   ? std::string()
                   : "'" + given + "' is not NAME=VALUE, NAME=@FILE or NAME=-";
      })
      .repeated();
  command.add_option("--without", options.without, "An input that this call does not bring")
      .type_name("NAME")
      .repeated();
  command
      .add_option("--out", options.outs,
                  "Where an output goes; a lone FILE is for the one picture or tensor "
                  "(default: OUTPUT.png or .npy here, text to standard output)")
      .type_name("NAME=FILE|FOLDER|FILE")
      .repeated();
  add_calls_options(command, options);
  command.add_option("--trace", options.trace,
                     "Write what ran when to this file: for ui.perfetto.dev, and `sluice why`");
  add_isolate_options(command, options.isolate);
  add_request_options(command, options);
  add_workflow_options(command, options.workflow);
}

Result<void> check_run_options(const RunOptions& options) {
  if (!options.isolate.roles.empty() && !options.cluster.empty())
    return invalid_argument("--isolate: a cluster file says it, as `hosts` of a machine");
  if (options.file.empty() && options.cluster.empty())
    return invalid_argument("name a workflow file, or a cluster with --cluster FILE");
  std::set<std::string> named;
  for (const std::string& given : options.inputs)
    if (const std::string name = given.substr(0, given.find('=')); !named.insert(name).second)
      return invalid_argument("the input '" + name + "' is given twice");
  std::vector<std::string> reading;
  if (options.calls == "-") reading.emplace_back("--calls");
  if (options.prompt == "-") reading.emplace_back("--prompt");
  if (options.request == "-") reading.emplace_back("--request");
  for (const std::string& image : options.images)
    if (image == "-") reading.emplace_back("--image");
  for (const std::string& given : options.inputs)
    if (reads_standard_input(given)) reading.push_back("--input " + given);
  if (reading.size() > 1)
    return invalid_argument(reading[1] + ": standard input can be read once, and " + reading[0] +
                            " reads it");
  if (!options.request.empty() && (options.prompt || !options.images.empty() || options.samples()))
    return invalid_argument(
        "--request is the whole request: --prompt, --image and their like do not go with it");
  if (const auto session = checked_text("--session", options.session); !session.ok())
    return session.error();
  if (options.trace == "-")
    return invalid_argument("a trace goes to a file; one called '-' is ./-");
  if (options.calls.empty()) return {};
  if (options.asks() || !options.inputs.empty() || !options.without.empty())
    return invalid_argument("--calls: each line brings its inputs, no other input goes with it");
  if (options.outs.size() > 1 ||
      (options.outs.size() == 1 && options.outs[0].find('=') != std::string::npos))
    return invalid_argument("with --calls, --out names a folder: each call has outputs of its own");
  return {};
}

}  // namespace sluice::cli
