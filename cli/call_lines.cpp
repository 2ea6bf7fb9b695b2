#include "cli/call_lines.h"

#include <algorithm>
#include <array>
#include <functional>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>

#include "base/base64.h"
#include "base/nearest.h"
#include "cli/call_numbers.h"
#include "cli/call_value.h"
#include "cli/input_file.h"
#include "cli/json_look.h"
#include "cli/left_out.h"
#include "cli/printer.h"

namespace sluice::cli {

namespace {

using Json = nlohmann::ordered_json;  // keys come back in the order in which they came

constexpr std::int64_t deadline_ms_max = std::int64_t{24} * 60 * 60 * 1000;
constexpr std::array<std::string_view, 5> keys{"id", "session", "inputs", "deadline_ms",
                                               "end_session"};

/// Not deeper than we take apart without fear for the stack, and no key twice.
Result<Json> parse_checked(std::string_view text) {
  JsonLook look(2);  // of {"inputs": {NAME: VALUE}}
  Json line = Json::parse(text, std::ref(look), false);
  if (!look.problem().empty()) return invalid_argument(look.problem());
  if (line.is_discarded()) return invalid_argument(what_is_wrong(text));
  if (!line.is_object()) return invalid_argument("a call is a JSON object: {\"inputs\": {...}}");
  return line;
}

std::string dumped(const Json& value) {
  return value.dump(-1, ' ', false, Json::error_handler_t::replace);
}

bool has_float(const Json& value) {
  if (!value.is_structured()) return value.is_number_float();
  return std::ranges::any_of(value, has_float);
}

/// Fails of a number in what stands at `key` of the line that would go on as another one.
Result<void> check_numbers(std::string_view text, const Json& value, std::string_view key,
                           std::string_view member = {}) {
  const std::string changes = has_float(value) ? number_that_changes(text, key, member) : "";
  if (changes.empty()) return {};
  return invalid_argument("the number " + changes.substr(0, 40) +
                          " would come back as another one; write it as a string");
}

/// The bytes of {"file": PATH} or {"base64": BYTES}.
Result<std::string> bytes_of(const Json& value, ValueType type) {
  const bool one = value.is_object() && value.size() == 1 && value.begin()->is_string();
  if (one && value.contains("file")) return read_file(value.begin()->get<std::string>());
  if (one && value.contains("base64")) {
    std::optional<std::string> bytes = base64_decode(value.begin()->get_ref<const std::string&>());
    if (!bytes.has_value()) return invalid_argument("'base64' is not base64");
    return std::move(*bytes);
  }
  const std::string simple = is_file_type(type)          ? ""
                             : type == ValueType::number ? "a number, "
                                                         : "a string, ";
  return invalid_argument("it must be " + simple + "{\"file\": PATH} or {\"base64\": BYTES}");
}

Result<PayloadRef> value_in_line(const Json& value, ValueType type) {
  if (type == ValueType::json) return make_json(dumped(value));
  if (type == ValueType::number && value.is_number()) {
    if (value.is_number_integer() &&
        !(value.is_number_unsigned() &&
          value.get<std::uint64_t>() > std::uint64_t{std::numeric_limits<std::int64_t>::max()}))
      return make_number(value.get<std::int64_t>());
    return invalid_argument("it is not a whole number of 64 bits");
  }
  const bool is_text = type == ValueType::text || type == ValueType::bytes;
  Result<std::string> bytes =
      is_text && value.is_string() ? value.get<std::string>() : bytes_of(value, type);
  return bytes.ok() ? value_of(type, std::move(bytes).value()) : bytes.error();
}

Result<void> read_inputs(std::string_view text, const Json& inputs, const Plan& plan,
                         CallLine& call) {
  if (!inputs.is_object()) return invalid_argument("'inputs' must be an object of names");
  std::vector<std::string> without;
  for (const auto& [name, value] : inputs.items()) {
    const Result<std::size_t> index = find_input(plan, name);
    if (!index.ok()) return index.error();
    if (value.is_null()) {
      without.push_back(name);
      continue;
    }
    const ValueType type = plan.input_types[*index];
    Result<void> kept;
    if (type == ValueType::json) kept = check_numbers(text, value, "inputs", name);
    Result<PayloadRef> made = kept.ok() ? value_in_line(value, type) : kept.error();
    if (!made.ok())
      return Error{made.error().code, "inputs." + name + " (" + std::string(to_string(type)) +
                                          "): " + made.error().message};
    call.inputs.emplace_back(name, std::move(made).value());
  }
  call.lacks = left_out_text(plan, without);
  const std::string missing = missing_inputs(plan, call.inputs, without);
  if (missing.empty()) return {};
  return invalid_argument("the call lacks " + missing + "; null runs what can run without one");
}

Result<void> read_deadline(const Json& value, CallLine& call) {
  if (!value.is_number_integer() || value < 1 || value > deadline_ms_max)
    return invalid_argument("'deadline_ms' is " + dumped(value).substr(0, 40) +
                            ", it must be a whole number from 1 to " +
                            std::to_string(deadline_ms_max));
  call.deadline = std::chrono::milliseconds(value.get<std::int64_t>());
  return {};
}

Result<void> read_id(std::string_view text, const Json& id, CallLine& call) {
  if (const Result<void> kept = check_numbers(text, id, "id"); !kept.ok())
    return invalid_argument("'id': " + kept.error().message);
  call.id = dumped(id);
  return {};
}

Json value_json(const Payload& value) {
  if (value.type == ValueType::number) return value.number;
  if (value.type == ValueType::bytes) return {{"base64", base64_encode(value.text)}};
  if (value.type != ValueType::json) return value.text;
  Json parsed = Json::parse(value.text, nullptr, false);
  return parsed.is_discarded() ? Json(value.text) : parsed;
}

Json file_json(const Payload& value, const std::string& path) {
  Json json{{"file", path}};
  if (!is_file_type(value.type)) return json;
  json["type"] = to_string(value.tensor.dtype());
  json["shape"] = value.tensor.shape();
  return json;
}

}  // namespace

Result<void> read_call(std::string_view text, const Plan& plan, CallLine& call) {
  Result<Json> line = parse_checked(text);
  if (!line.ok()) return line.error();
  // Before what may be wrong with the rest: its result says which call it is of.
  Result<void> named;
  if (const auto id = line->find("id"); id != line->end()) named = read_id(text, *id, call);
  if (const auto session = line->find("session"); session != line->end()) {
    if (!session->is_string() || session->get_ref<const std::string&>().empty())
      return invalid_argument("'session' must be a string that is not empty");
    call.session = session->get<std::string>();
  }
  // Before what may be wrong with the call itself: its session ends all the same.
  if (const auto end = line->find("end_session"); end != line->end()) {
    if (!end->is_boolean()) return invalid_argument("'end_session' must be true or false");
    call.end_session = end->get<bool>();
  }
  if (!named.ok()) return named;
  for (const auto& [key, value] : line->items()) {
    if (std::ranges::find(keys, key) != keys.end()) continue;
    const std::string near = nearest_name(key, {keys.begin(), keys.end()});
    return invalid_argument("unknown key '" + key.substr(0, 40) + "'" +
                            (near.empty()
                                 ? "; a call has id, session, inputs, deadline_ms and end_session"
                                 : "; did you mean '" + near + "'?"));
  }
  if (const auto deadline = line->find("deadline_ms"); deadline != line->end())
    if (Result<void> read = read_deadline(*deadline, call); !read.ok()) return read;
  const auto inputs = line->find("inputs");
  return read_inputs(text, inputs == line->end() ? Json::object() : *inputs, plan, call);
}

std::string result_line(const CallLine& call, const CallOutcome& outcome,
                        const CallOutputs& outputs, const std::vector<WrittenFile>& files) {
  Json line{{"line", call.number},
            {"id", Json::parse(call.id)},
            {"session", call.session.empty() ? Json() : Json(call.session)},
            {"ok", outcome.ok},
            {"outputs", Json::object()},
            {"warnings", outcome.warnings}};
  if (!call.lacks.empty()) line["warnings"].push_back(call.lacks);
  Json& values = line["outputs"];
  const auto file_of = [&](std::size_t i) {
    const auto it = std::ranges::lower_bound(files, i, {}, &WrittenFile::output);
    return it != files.end() && it->output == i ? it : files.end();
  };
  std::set<std::string_view> lists;  // outputs whose values are not all texts that stand here
  for (std::size_t i = 0; i < outputs.size(); ++i)
    if (file_of(i) != files.end() || outputs[i].second->type != ValueType::text)
      lists.insert(outputs[i].first);
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    const auto& [name, value] = outputs[i];
    const auto file = file_of(i);
    if (const auto why = value->attribute("cut_off"); why.has_value())
      line["warnings"].push_back(std::string(name) + ": the answer " + reached(*why) +
                                 " and stops here");
    Json& shown = values[std::string(name)];
    if (file != files.end()) {
      shown.push_back(file_json(*value, file->path));
    } else if (lists.contains(name)) {
      shown.push_back(value_json(*value));
    } else if (shown.is_null()) {
      shown = value->text;
    } else {
      shown.get_ref<std::string&>() += value->text;
    }
  }
  if (!outcome.ok) {
    line["error"] = {{"code", to_string(outcome.error.code)}, {"message", outcome.error.message}};
    if (!outcome.node.empty()) line["error"]["node"] = outcome.node;
  }
  return line.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace sluice::cli
