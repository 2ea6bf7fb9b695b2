// `sluice run FILE`: one call, outputs streamed as they are made.
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <optional>
#include <sstream>

#include "base/base64.h"
#include "cli/commands.h"
#include "cli/compiled.h"
#include "cli/input_file.h"
#include "cli/interrupt.h"
#include "cli/progress.h"
#include "cli/trace.h"
#include "roles/image_file.h"
#include "runtime/call_stream.h"
#include "runtime/runner.h"

namespace sluice::cli {

namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

struct RunOptions {
  std::string file;
  std::vector<std::string> images;
  std::optional<std::string> prompt;
  std::string request;
  std::string out;
  std::string session = "default";
  std::string trace;
  std::optional<std::int64_t> max_tokens, top_k, seed, steps;
  std::optional<double> temperature, top_p, guidance, strength;
};

Result<std::string> request_json(const RunOptions& options) {
  if (!options.request.empty()) return read_file(options.request);
  Json content = Json::array();
  for (const std::string& path : options.images) {
    Result<std::string> bytes = read_file(path);
    if (!bytes.ok()) return bytes.error();
    content.push_back({{"type", "image"}, {"data", base64_encode(*bytes)}, {"name", path}});
  }
  content.push_back({{"type", "text"}, {"text", options.prompt.value_or("")}});
  Json chosen = Json::object();
  const auto add = [&](const char* name, const auto& value) {
    if (value.has_value()) chosen[name] = *value;
  };
  add("max_tokens", options.max_tokens);
  add("top_k", options.top_k);
  add("seed", options.seed);
  add("steps", options.steps);
  add("temperature", options.temperature);
  add("top_p", options.top_p);
  add("guidance", options.guidance);
  add("strength", options.strength);
  return Json{{"content", content}, {"options", chosen}}.dump(-1, ' ', false,
                                                              Json::error_handler_t::replace);
}

/// Shows what comes out: text to standard output, a picture to a file.
class Printer {
 public:
  explicit Printer(std::string out) : out_(std::move(out)) {}

  void show(std::string_view output, const Payload& value) {
    if (value.type == ValueType::image) return save(output, value);
    std::fwrite(value.text.data(), 1, value.text.size(), stdout);
    std::fflush(stdout);
    text_ = true;
    cut_off_ = cut_off_ || value.attribute("cut_off").has_value();
  }
  /// The first thing that went wrong, or nothing.
  const std::string& finish() {
    if (text_) std::puts("");
    if (cut_off_) std::fputs("note: the answer reached --max-tokens and stops here\n", stderr);
    return problem_;
  }

 private:
  void save(std::string_view output, const Payload& value) {
    ++pictures_;
    std::string path = out_;
    if (path.empty()) {
      path = std::string(output) + ".png";
      for (int n = 2; fs::exists(path); ++n)
        path = std::string(output) + "-" + std::to_string(n) + ".png";
    } else if (pictures_ > 1) {
      const fs::path given(out_);
      path = (given.parent_path() / given.stem()).string() + "-" + std::to_string(pictures_) +
             given.extension().string();
    }
    const std::string png = encode_png(value.tensor);
    std::ofstream file(path, std::ios::binary);
    file.write(png.data(), static_cast<std::streamsize>(png.size()));
    file.close();
    if (!file) {
      problem_ = path + ": cannot be written";
      return;
    }
    std::printf("%s[%s: %s, %lld x %lld]\n", text_ ? "\n" : "", std::string(output).c_str(),
                path.c_str(), static_cast<long long>(value.tensor.dim(1)),
                static_cast<long long>(value.tensor.dim(0)));
    text_ = false;
  }

  std::string out_;
  std::string problem_;
  int pictures_ = 0;
  bool text_ = false;
  bool cut_off_ = false;
};

int run(const RunOptions& options, const Catalog& catalog) {
  Result<Compiled> compiled = compile_file(options.file, catalog);
  if (!compiled.ok()) return fail(compiled.error().message);
  find_models(*compiled, catalog);
  if (!compiled->ok()) {
    print_diagnostics(*compiled);
    return 1;
  }
  if (compiled->plan.inputs != std::vector<std::string>{"request"})
    return fail(options.file + ": `run` gives a workflow one input, `request: json`");
  Result<std::string> request = request_json(options);
  if (!request.ok()) return fail(request.error().message);

  Progress progress;
  RunnerOptions runner_options;
  runner_options.progress = [&](std::string_view what) { progress.show(std::string(what)); };
  if (!options.trace.empty()) runner_options.trace = trace_activations_max;
  auto runner = Runner::create(compiled->loaded.spec, compiled->plan, catalog, runner_options);
  if (!runner.ok()) return fail(runner.error().message);
  progress.show("running " + compiled->plan.workflow);
  Printer printer(options.out);
  CallRequest call;
  call.session = options.session;
  call.inputs.emplace_back("request", make_json(std::move(request).value()));
  CallStream stream;
  const auto handle = (*runner)->start(std::move(call), stream.observer());
  const StopOnInterrupt interrupt([&] {
    progress.show("cancelling; press Ctrl-C again to end at once");
    handle->cancel();
  });
  const CallOutcome outcome = stream.wait([&](std::string_view output, const PayloadRef& value) {
    progress.show("running " + compiled->plan.workflow);
    printer.show(output, *value);
  });
  const std::string& problem = printer.finish();
  if (!options.trace.empty()) {
    const Result<void> written = write_run_trace(options.trace, compiled->plan, (*runner)->trace());
    if (!written.ok()) return fail(written.error().message);
  }
  for (const std::string& warning : outcome.warnings)
    std::fprintf(stderr, "warning: %s\n", warning.c_str());
  if (!outcome.ok)
    return fail((outcome.node.empty() ? "" : outcome.node + ": ") + outcome.error.message);
  return problem.empty() ? 0 : fail(problem);
}

}  // namespace

void add_run(CLI::App& app, const Catalog& catalog, Chosen& chosen) {
  auto options = std::make_shared<RunOptions>();
  CLI::App* command = app.add_subcommand("run", "Run one call of a workflow");
  command->add_option("file", options->file, "A workflow file (YAML)")->required();
  command->add_option("--image", options->images, "A PNG or JPEG of any size; may be repeated");
  command->add_option("--prompt", options->prompt, "What to ask, or what to draw");
  command->add_option("--request", options->request, "The whole request as a JSON file instead");
  command->add_option("--out", options->out, "Where to write a picture (default: OUTPUT.png)");
  command->add_option("--session", options->session, "The session's name");
  command->add_option("--trace", options->trace, "Write a Chrome/Perfetto trace to this file");
  command->add_option("--max-tokens", options->max_tokens, "Longest answer in tokens");
  command->add_option("--temperature", options->temperature, "0 (default) is greedy");
  command->add_option("--top-k", options->top_k, "Sample among the k most likely");
  command->add_option("--top-p", options->top_p, "Sample among the likeliest of this probability");
  command->add_option("--seed", options->seed, "Of sampling and of a drawing's noise");
  command->add_option("--steps", options->steps, "Denoising steps of a drawing");
  command->add_option("--guidance", options->guidance, "How closely a drawing follows the words");
  command->add_option("--strength", options->strength,
                      "Below 1: a drawing starts from the given picture");
  command->callback([&catalog, &chosen, options] {
    chosen = [&catalog, options] { return run(*options, catalog); };
  });
}

}  // namespace sluice::cli
