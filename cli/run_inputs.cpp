#include "cli/run_inputs.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>

#include "base/base64.h"
#include "cli/call_value.h"
#include "cli/input_file.h"

namespace sluice::cli {

namespace {

using Json = nlohmann::json;

/// Text that was typed or piped as a prompt: the end of its line is not part of it.
Result<std::string> prompt_of(const RunOptions& options) {
  if (options.prompt != "-") return checked_text("--prompt", *options.prompt);
  Result<std::string> text = read_standard_input();
  if (!text.ok()) return Error{text.error().code, "--prompt: " + text.error().message};
  if (text->ends_with('\n')) text->pop_back();
  if (text->ends_with('\r')) text->pop_back();
  return checked_text("--prompt", std::move(text).value());
}

/// The whole request, as a file or standard input brings it.
Result<PayloadRef> given_request(const std::string& from) {
  Result<std::string> text = from == "-" ? read_standard_input() : read_file(from);
  if (!text.ok()) return Error{text.error().code, "--request: " + text.error().message};
  Result<PayloadRef> made = value_of(ValueType::json, std::move(text).value());
  if (!made.ok())
    return Error{made.error().code, "--request " + from + ": " + made.error().message};
  return made;
}

Result<PayloadRef> make_request(const RunOptions& options) {
  if (!options.request.empty()) return given_request(options.request);
  Json content = Json::array();
  for (const std::string& path : options.images) {
    const bool piped = path == "-";
    Result<std::string> bytes = piped ? read_standard_input() : read_file(path);
    if (!bytes.ok())
      return Error{bytes.error().code, (piped ? "--image -: " : "") + bytes.error().message};
    content.push_back({{"type", "image"}, {"data", base64_encode(*bytes)}, {"name", path}});
  }
  if (options.prompt) {
    Result<std::string> prompt = prompt_of(options);
    if (!prompt.ok()) return prompt.error();
    content.push_back({{"type", "text"}, {"text", *prompt}});
  }
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
  add("tenant", options.tenant);
  return make_json(Json{{"content", content}, {"options", chosen}}.dump(
      -1, ' ', false, Json::error_handler_t::replace));
}

}  // namespace

Result<CallInputs> inputs_of(const RunOptions& options, const Plan& plan) {
  CallInputs inputs;
  for (const std::string& given : options.inputs)
    if (Result<void> read = read_input(plan, given, inputs); !read.ok()) return read.error();
  const auto request = std::ranges::find(plan.inputs, "request");
  const bool takes_request =
      request != plan.inputs.end() &&
      plan.input_types[static_cast<std::size_t>(request - plan.inputs.begin())] == ValueType::json;
  const bool given =
      std::ranges::any_of(inputs, [](const auto& input) { return input.first == "request"; });
  const bool left_out = std::ranges::find(options.without, "request") != options.without.end();
  if (options.tenant && !takes_request)
    return invalid_argument("--tenant is a part of an input `request: json`, which " +
                            options.file +
                            " does not have: give the workflow one that parse_request reads, as "
                            "workflows/chat.yaml has");
  if (options.asks() && !takes_request)
    return invalid_argument(
        "--prompt, --image and the options beside them make an input `request: json`, which " +
        options.file + " does not have: give its inputs as " +
        how_to_give(plan.inputs[0], plan.input_types[0]) +
        ", and what a role is told otherwise as --set roles.ROLE.options.NAME=VALUE");
  if (options.asks() && given)
    return invalid_argument(
        "--input request is the whole request: --prompt, --image and their like do not go with it");
  if (options.asks() && left_out)
    return invalid_argument(
        "--without request: --prompt, --image and their like make it; leave one of them out");
  if (takes_request && !given && !left_out && (options.asks() || is_read(plan, "request"))) {
    const bool is_said = options.prompt || !options.images.empty() || !options.request.empty();
    if (!is_said && is_read(plan, "request"))
      return invalid_argument(
          "the call asks nothing: --prompt TEXT says what to answer or to draw, --request FILE "
          "brings the whole request");
    Result<PayloadRef> made = make_request(options);
    if (!made.ok()) return made.error();
    inputs.emplace_back("request", std::move(made).value());
  }
  if (Result<void> whole = check_whole(plan, inputs, options.without); !whole.ok())
    return whole.error();
  return inputs;
}

}  // namespace sluice::cli
