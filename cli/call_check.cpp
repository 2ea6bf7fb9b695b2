#include "cli/call_check.h"

#include <algorithm>
#include <cctype>
#include <iterator>
#include <nlohmann/json.hpp>

#include "roles/check_model.h"

namespace sluice::cli {

namespace {

using Json = nlohmann::json;

bool is_blank(const std::string& text) {
  return std::ranges::all_of(text, [](unsigned char c) { return std::isspace(c) != 0; });
}

/// What a request holds, as far as it can be read: what is wrong with it, its role says.
struct Content {
  bool is_list = false;  // of one piece at least, each a text or an image
  bool has_words = false;
  bool has_blanks = false;  // a text without words, or a picture behind which there is no text
  std::vector<std::string> pictures;  // their names; empty: it has none
};

Content content_of(const Payload& request) {
  Content content;
  const Json json = Json::parse(request.text, nullptr, false);
  if (!json.is_object() || !json.contains("content") || !json["content"].is_array() ||
      json["content"].empty())
    return content;
  content.is_list = true;
  for (const Json& piece : json["content"]) {
    const Json type = piece.is_object() ? piece.value("type", Json()) : Json();
    if (type == Json("text")) {
      const Json text = piece.value("text", Json());
      const bool blank = text.is_string() && is_blank(text);
      content.has_words = content.has_words || !blank;
      content.has_blanks = content.has_blanks || blank;
    } else if (type == Json("image")) {
      const Json name = piece.value("name", Json());
      content.pictures.push_back(name.is_string() ? name.get<std::string>() : std::string());
      content.has_blanks = content.has_blanks || &piece == &json["content"].back();
    } else {
      return {};
    }
  }
  return content;
}

}  // namespace

/// A role that reads `tokens` does not look at the words beside them.
bool CallCheck::Reader::must_have_words(const CallCheck& check) const {
  return node != nullptr && !node->skip_errors && needs_words(check.plugin_of(*node), field) &&
         std::ranges::find(group->fields, "tokens") == group->fields.end();
}

const std::string& CallCheck::plugin_of(const PlanNode& node) const {
  return spec_.roles[node.role].plugin.text;
}

std::string CallCheck::model_of(const PlanNode& node) const {
  const std::optional<Name>& model = spec_.roles[node.role].model;
  return model.has_value() ? model->text : std::string();
}

std::vector<CallCheck::Reader> CallCheck::readers_of(const PlanNode& from,
                                                     std::string_view field) const {
  const bool is_entry = from.id == entry_node;
  const auto name_of = [&](std::uint16_t output) -> std::string_view {
    return is_entry ? plan_.inputs[output] : from.outputs[output];
  };
  std::vector<Reader> readers;
  for (const EdgeId id : from.edges) {
    const Edge& edge = plan_.edges[id];
    const PlanNode* node = edge.is_output() ? nullptr : &plan_.nodes[edge.to];
    for (const FieldMap& map : edge.fields)
      if (name_of(map.from) == field)
        readers.push_back(node == nullptr ? Reader{}
                                          : Reader{node, &node->groups[edge.group],
                                                   node->groups[edge.group].fields[map.to]});
  }
  for (const PlanNode& node : plan_.nodes)
    for (const PlanGroup& group : node.groups)
      for (const PlanCount& count : group.counts)
        if (count.kind == PlanCount::Kind::runtime && plan_.edges[count.source].from == from.id &&
            name_of(count.source_field) == field)
          readers.push_back({&node, &group, {}});
  return readers;
}

/// Pictures that nobody takes, or only models that see none.
Result<void> CallCheck::check_pictures(const std::vector<Reader>& readers,
                                       const std::string& name) const {
  const std::string which = name.empty() ? "" : " " + name;
  if (readers.empty())
    return invalid_argument("no node reads the picture" + which +
                            " of the request: connect the field `image` of the node that takes "
                            "the request apart, or leave the picture out");
  Result<void> why;
  for (const Reader& reader : readers) {
    if (reader.node == nullptr) return {};
    Result<void> reads = check_sees(model_of(*reader.node), plugin_of(*reader.node), reader.field);
    if (reads.ok()) return {};
    if (why.ok())
      why = Error{ErrorCode::invalid_argument,
                  "the picture" + which + " of the request goes to node '" + reader.node->name +
                      "': " + reads.error().message};
  }
  return why;
}

Result<void> CallCheck::check_request(const Payload& request) const {
  const std::vector<Reader> parsers = readers_of(plan_.nodes[entry_node], "request");
  const Content content = content_of(request);
  if (!content.is_list) return {};
  const bool lines = by_ == GivenBy::lines;
  const std::string words = lines ? R"({"type": "text", "text": TEXT} in its content gives them)"
                                  : "--prompt TEXT gives them";
  std::vector<Reader> texts, images;
  for (const Reader& parser : parsers) {
    // Roles that we do not know may do with a request what they like.
    if (parser.node == nullptr || plugin_of(*parser.node) != "parse_request") return {};
    std::ranges::copy(readers_of(*parser.node, "text"), std::back_inserter(texts));
    std::ranges::copy(readers_of(*parser.node, "image"), std::back_inserter(images));
  }
  if (!content.pictures.empty())
    if (Result<void> read = check_pictures(images, content.pictures.front()); !read.ok())
      return read;
  if (!content.has_words && content.pictures.empty())
    return invalid_argument(
        std::string("the prompt is empty, and there is no picture: ") +
        (lines ? "put a text or an image into the request's content"
               : "--prompt TEXT says what you want to know or draw, --image FILE shows a picture"));
  for (const Reader& text : texts) {
    if (!text.must_have_words(*this)) continue;
    const std::string needs =
        "node '" + text.node->name + "' needs them as its `" + std::string(text.field) + "`: ";
    if (!content.has_words)
      return invalid_argument("the request has no words, and " + needs + words);
    if (content.has_blanks)
      return invalid_argument(
          "a text of the request has no words, or its last piece is a picture, and " + needs +
          "put words behind the pictures");
  }
  return {};
}

Result<void> CallCheck::check_text(const std::string& input, const Payload& text) const {
  if (!is_blank(text.text)) return {};
  for (const Reader& reader : readers_of(plan_.nodes[entry_node], input))
    if (reader.must_have_words(*this))
      return invalid_argument(
          "the input '" + input + "' has no words, and node '" + reader.node->name +
          "' needs them as its `" + std::string(reader.field) + "`" +
          (by_ == GivenBy::lines ? "" : ": --input " + input + "=TEXT gives them"));
  return {};
}

/// A picture that only nodes take which see none, and which fail the call.
Result<void> CallCheck::check_sight(const std::string& input) const {
  Result<void> why;
  for (const Reader& reader : readers_of(plan_.nodes[entry_node], input)) {
    if (reader.node == nullptr) return {};
    const Result<void> sees =
        check_sees(model_of(*reader.node), plugin_of(*reader.node), reader.field);
    if (sees.ok() || reader.node->skip_errors) return {};
    if (why.ok())
      why = invalid_argument("the input '" + input + "' goes to node '" + reader.node->name +
                             "': " + sees.error().message);
  }
  return why;
}

Result<void> CallCheck::check(const CallInputs& inputs) const {
  for (const auto& [name, value] : inputs) {
    if (!is_read(plan_, name))
      return invalid_argument("no node reads the input '" + name + "': leave it out, or connect `" +
                              "inputs." + name + "` to a node");
    Result<void> fits;
    if (name == "request" && value->type == ValueType::json) fits = check_request(*value);
    if (value->type == ValueType::text) fits = check_text(name, *value);
    if (value->type == ValueType::image) fits = check_sight(name);
    if (!fits.ok()) return fits;
  }
  return {};
}

}  // namespace sluice::cli
