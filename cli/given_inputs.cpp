#include "cli/given_inputs.h"

#include <algorithm>

#include "base/nearest.h"
#include "cli/call_value.h"
#include "cli/input_file.h"

namespace sluice::cli {

namespace {

bool holds(const CallInputs& inputs, std::string_view name) {
  return std::ranges::any_of(inputs, [&](const auto& input) { return input.first == name; });
}

/// Neither given nor said to be left out, though something reads it.
bool is_missing(const Plan& plan, const CallInputs& inputs, const std::vector<std::string>& without,
                const std::string& name) {
  return !holds(inputs, name) && std::ranges::find(without, name) == without.end() &&
         is_read(plan, name);
}

}  // namespace

Result<std::size_t> find_input(const Plan& plan, const std::string& name) {
  const auto it = std::ranges::find(plan.inputs, name);
  if (it != plan.inputs.end()) return static_cast<std::size_t>(it - plan.inputs.begin());
  std::string all;
  for (std::size_t i = 0; i < plan.inputs.size(); ++i)
    all += (i == 0 ? "" : ", ") + plan.inputs[i] + " (" +
           std::string(to_string(plan.input_types[i])) + ")";
  const std::string near = nearest_name(name, {plan.inputs.begin(), plan.inputs.end()});
  const bool one_request = plan.inputs.size() == 1 && plan.inputs[0] == "request" &&
                           plan.input_types[0] == ValueType::json;
  const std::string how =
      one_request ? "; --image FILE and --prompt TEXT put a picture and words into its request"
                  : "";
  return Error{ErrorCode::not_found,
               "the workflow has no input '" + name + "'; " +
                   (near.empty() ? "it has " + all + how : "did you mean '" + near + "'?")};
}

bool is_read(const Plan& plan, std::string_view name) {
  const auto reads = [&](const Edge& edge, std::uint16_t field) {
    return edge.from == entry_node && plan.inputs[field] == name;
  };
  for (const Edge& edge : plan.edges)
    for (const FieldMap& map : edge.fields)
      if (reads(edge, map.from)) return true;
  for (const PlanNode& node : plan.nodes)
    for (const PlanGroup& group : node.groups)
      for (const PlanCount& count : group.counts)
        if (count.kind == PlanCount::Kind::runtime &&
            reads(plan.edges[count.source], count.source_field))
          return true;
  return false;
}

Result<void> read_input(const Plan& plan, const std::string& given, CallInputs& inputs) {
  const std::size_t equals = given.find('=');
  const std::string name = given.substr(0, equals);
  const Result<std::size_t> index = find_input(plan, name);
  if (!index.ok())
    return Error{index.error().code, "--input " + name + ": " + index.error().message};
  const ValueType type = plan.input_types[*index];
  std::string value = given.substr(equals + 1);
  std::string from = name;  // how messages call it
  if (value == "-") {
    from = name + "=-";
    Result<std::string> bytes = read_standard_input();
    if (!bytes.ok())
      return Error{bytes.error().code, "--input " + from + ": " + bytes.error().message};
    value = std::move(bytes).value();
  } else if (value.starts_with("@") && !value.starts_with("@@")) {
    from = given;
    if (value == "@") return invalid_argument("--input " + name + ": @ needs the name of a file");
    Result<std::string> bytes = read_file(value.substr(1));
    if (!bytes.ok())
      return Error{bytes.error().code, "--input " + name + ": " + bytes.error().message};
    value = std::move(bytes).value();
  } else if (is_file_type(type)) {
    return invalid_argument("--input " + name + ": its type is " + std::string(to_string(type)) +
                            ", which comes from a file: " + how_to_give(name, type));
  } else if (value.starts_with("@@")) {
    value.erase(0, 1);
  }
  Result<PayloadRef> made = value_of(type, std::move(value));
  if (!made.ok())
    return Error{made.error().code, "--input " + from + " (" + std::string(to_string(type)) +
                                        "): " + made.error().message};
  inputs.emplace_back(name, std::move(made).value());
  return {};
}

std::string missing_inputs(const Plan& plan, const CallInputs& inputs,
                           const std::vector<std::string>& without) {
  std::string missing;
  for (std::size_t i = 0; i < plan.inputs.size(); ++i) {
    const std::string& name = plan.inputs[i];
    if (!is_missing(plan, inputs, without, name)) continue;
    missing += (missing.empty() ? "'" : ", '") + name + "' (" +
               std::string(to_string(plan.input_types[i])) + ")";
  }
  return missing;
}

Result<void> check_whole(const Plan& plan, const CallInputs& inputs,
                         const std::vector<std::string>& without) {
  for (const std::string& name : without) {
    const Result<std::size_t> index = find_input(plan, name);
    if (!index.ok())
      return Error{index.error().code, "--without " + name + ": " + index.error().message};
    if (holds(inputs, name))
      return invalid_argument("--without " + name + ": the input is given, too");
  }
  const std::string missing = missing_inputs(plan, inputs, without);
  if (missing.empty()) return {};
  const auto first = std::ranges::find_if(plan.inputs, [&](const std::string& name) {
    return is_missing(plan, inputs, without, name);
  });
  const auto index = static_cast<std::size_t>(first - plan.inputs.begin());
  return invalid_argument("the call lacks " + missing + ": " +
                          how_to_give(*first, plan.input_types[index]) +
                          "; --without NAME runs what can run without one");
}

std::string file_of_input(const std::string& given) {
  const std::string value = given.substr(given.find('=') + 1);
  return value.starts_with("@") && !value.starts_with("@@") ? value.substr(1) : "";
}

bool reads_standard_input(const std::string& given) {
  return given.substr(given.find('=') + 1) == "-";
}

}  // namespace sluice::cli
