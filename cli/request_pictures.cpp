#include "cli/request_pictures.h"

#include <algorithm>
#include <nlohmann/json.hpp>

namespace sluice::cli {

namespace {

using Json = nlohmann::json;

bool yields_pictures_to_somebody(const Plan& plan, const PlanNode& parser) {
  return std::ranges::any_of(parser.edges, [&](EdgeId id) {
    return std::ranges::any_of(plan.edges[id].fields, [&](const FieldMap& map) {
      return parser.outputs[map.from] == "image";
    });
  });
}

}  // namespace

bool reads_pictures(const WorkflowSpec& spec, const Plan& plan) {
  for (const EdgeId id : plan.nodes[entry_node].edges) {
    const Edge& edge = plan.edges[id];
    const bool has_request = std::ranges::any_of(
        edge.fields, [&](const FieldMap& map) { return plan.inputs[map.from] == "request"; });
    if (!has_request) continue;
    if (edge.is_output()) return true;
    const PlanNode& node = plan.nodes[edge.to];
    if (spec.roles[node.role].plugin.text != "parse_request") return true;
    if (yields_pictures_to_somebody(plan, node)) return true;
  }
  return false;
}

Result<void> check_no_picture(const CallInputs& inputs) {
  for (const auto& [name, value] : inputs) {
    if (name != "request" || value->type != ValueType::json) continue;
    const Json request = Json::parse(value->text, nullptr, false);
    if (!request.is_object() || !request.contains("content")) continue;
    for (const Json& piece : request["content"]) {
      if (!piece.is_object() || piece.value("type", Json()) != Json("image")) continue;
      const Json file = piece.value("name", Json());
      return invalid_argument("no node reads the picture" +
                              (file.is_string() ? " " + file.get<std::string>() : std::string()) +
                              " of the request: connect the field `image` of the node that takes "
                              "the request apart, or leave the picture out");
    }
  }
  return {};
}

}  // namespace sluice::cli
