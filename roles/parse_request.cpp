#include "roles/parse_request.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <memory>
#include <nlohmann/json.hpp>

#include "base/base64.h"
#include "base/nearest.h"
#include "engine/picture/image_file.h"
#include "roles/tenant.h"

namespace sluice {

namespace {

using Json = nlohmann::json;

constexpr std::size_t pieces_max = 16;
constexpr std::size_t depth_max = 32;
constexpr std::size_t request_bytes_max = std::size_t{64} << 20;

struct Option {
  std::string_view name;
  std::string_view attribute;
  double scale;  // the attribute is the value times this
  double least, most;
};
constexpr std::array<Option, 9> options_known{{{"max_tokens", "max_tokens", 1, 1, 99'999},
                                               {"temperature", "temperature_milli", 1000, 0, 100},
                                               {"top_k", "top_k", 1, 0, 1'000'000},
                                               {"top_p", "top_p_milli", 1000, 0.001, 1},
                                               {"seed", "seed", 1, 0, 9'007'199'254'740'991},
                                               {"steps", "steps", 1, 1, 1000},
                                               {"guidance", "guidance_milli", 1000, 0, 100},
                                               {"strength", "strength_milli", 1000, 0.001, 1},
                                               {"step", "step", 1, -1, 1'000'000}}};

Error wrong(const std::string& what) { return invalid_argument("the request: " + what); }

/// What the caller wrote, cut to a length that fits a message.
std::string shortened(std::string text) {
  constexpr std::size_t shown_max = 60;
  if (text.size() <= shown_max) return text;
  std::size_t end = shown_max;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xc0U) == 0x80U) --end;
  return text.substr(0, end) + "...";
}

/// How deep objects and lists lie in each other, before anything is parsed.
std::size_t depth_of(std::string_view json) {
  std::size_t depth = 0;
  std::size_t deepest = 0;
  bool quoted = false;
  for (std::size_t i = 0; i < json.size(); ++i) {
    const char c = json[i];
    if (quoted && c == '\\') ++i;
    if (c == '"') quoted = !quoted;
    if (quoted) continue;
    if (c == '{' || c == '[') deepest = std::max(deepest, ++depth);
    if ((c == '}' || c == ']') && depth > 0) --depth;
  }
  return deepest;
}

std::string shown(double value) {
  constexpr double exact_most = 9'007'199'254'740'992;  // 2^53
  if (value == std::trunc(value) && std::abs(value) <= exact_most)
    return std::to_string(static_cast<std::int64_t>(value));
  std::string text = Json(value).dump();
  if (text.ends_with(".0")) text.resize(text.size() - 2);
  return text;
}

template <std::size_t N>
Result<void> check_keys(const Json& object, const std::array<std::string_view, N>& known,
                        const std::string& where) {
  for (const auto& [key, value] : object.items()) {
    if (std::ranges::find(known, key) != known.end()) continue;
    const std::string near =
        nearest_name(shortened(key), std::vector<std::string_view>(known.begin(), known.end()));
    return wrong("unknown key '" + shortened(key) + "' in " + where +
                 (near.empty() ? "" : "; did you mean '" + near + "'?"));
  }
  return {};
}

using Attributes = std::vector<std::pair<std::string, std::int64_t>>;

constexpr std::string_view tenant_option = "tenant";

/// What a request says beside its pieces.
struct Options {
  Attributes attributes;
  std::string tenant{};  // empty: none
};

Result<std::string> read_tenant(const Json& value) {
  if (value.is_string() && is_tenant_name(value.get_ref<const std::string&>()))
    return value.get<std::string>();
  return wrong("option 'tenant' is " + shortened(value.dump()) +
               ", it must be a name of 1 to 64 letters, digits, '.', '_' and '-'; leave it out for "
               "no tenant");
}

Result<Options> read_options(const Json& options) {
  Options read;
  if (!options.is_object()) return wrong("'options' must be an object");
  for (const auto& [key, value] : options.items()) {
    if (key == tenant_option) {
      Result<std::string> tenant = read_tenant(value);
      if (!tenant.ok()) return tenant.error();
      read.tenant = std::move(tenant).value();
      continue;
    }
    const auto it = std::ranges::find(options_known, key, &Option::name);
    if (it == options_known.end()) {
      std::vector<std::string_view> names{tenant_option};
      for (const Option& option : options_known) names.push_back(option.name);
      const std::string near = nearest_name(shortened(key), names);
      return wrong("unknown option '" + shortened(key) + "'" +
                   (near.empty() ? "" : "; did you mean '" + near + "'?"));
    }
    const bool whole = it->scale == 1;
    if (!value.is_number() || (whole && !value.is_number_integer()) ||
        value.get<double>() < it->least || value.get<double>() > it->most)
      return wrong("option '" + key + "' is " + shortened(value.dump()) + ", it must be a " +
                   (whole ? "whole number" : "number") + " from " + shown(it->least) + " to " +
                   shown(it->most));
    read.attributes.emplace_back(std::string(it->attribute),
                                 std::llround(value.get<double>() * it->scale));
  }
  return read;
}

struct Piece {
  PayloadRef text;  // one of the two
  PayloadRef image;
};

Result<Piece> read_piece(const Json& piece, std::size_t index, const std::string& tenant,
                         Activation& activation) {
  const std::string where = "content[" + std::to_string(index) + "]";
  if (!piece.is_object()) return wrong(where + " must be an object");
  const auto type = piece.find("type");
  if (type == piece.end() || !type->is_string())
    return wrong(where + " needs \"type\": \"text\" or \"image\"");
  if (*type == "text") {
    if (Result<void> keys = check_keys<2>(piece, {"type", "text"}, where); !keys.ok())
      return keys.error();
    const auto text = piece.find("text");
    if (text == piece.end() || !text->is_string()) return wrong(where + " needs a string 'text'");
    // A text ends its message, and is answered, unless it says that more of it follows.
    auto* const more = new Payload;
    more->type = ValueType::text;
    more->text = text->get<std::string>();
    more->attributes = {{"generate", 0}};
    add_tenant(tenant, more->attributes);
    return Piece{PayloadRef(more), {}};
  }
  if (*type != "image")
    return wrong(where + ": type must be text or image, it is " + shortened(type->dump()));
  if (Result<void> keys = check_keys<3>(piece, {"type", "data", "name"}, where); !keys.ok())
    return keys.error();
  const auto data = piece.find("data");
  if (data == piece.end() || !data->is_string())
    return wrong(where + " needs a string 'data': the file's bytes in base64");
  const auto name = piece.find("name");
  if (name != piece.end() && !name->is_string()) return wrong(where + ": 'name' must be a string");
  const std::string shown_name = name != piece.end() ? shortened(name->get<std::string>()) : where;
  const std::optional<std::string> bytes = base64_decode(data->get_ref<const std::string&>());
  if (!bytes.has_value()) return wrong(where + ": 'data' of " + shown_name + " is not base64");
  Result<Tensor> image = decode_image(*bytes, [&](std::vector<std::int64_t> shape) {
    return activation.make_output("image", Dtype::u8, std::move(shape));
  });
  if (!image.ok()) return Error{image.error().code, shown_name + ": " + image.error().message};
  auto* const shown_image = new Payload;
  shown_image->type = ValueType::image;
  shown_image->tensor = std::move(image).value();
  add_tenant(tenant, shown_image->attributes);
  return Piece{{}, PayloadRef(shown_image)};
}

bool is_blank(const std::string& text) {
  return std::ranges::all_of(text, [](unsigned char c) { return std::isspace(c) != 0; });
}

class ParseRequest final : public Role {
 public:
  Result<void> run(Activation& activation) override {
    const std::string& text = activation.input("request")->text;
    if (text.size() > request_bytes_max)
      return wrong("it has " + std::to_string(text.size()) + " bytes, the limit is " +
                   std::to_string(request_bytes_max));
    if (const std::size_t depth = depth_of(text); depth > depth_max)
      return wrong("it nests " + std::to_string(depth) + " deep, the limit is " +
                   std::to_string(depth_max));
    const Json request = Json::parse(text, nullptr, false);
    if (request.is_discarded()) return wrong("it is not JSON");
    if (!request.is_object()) return wrong("it must be a JSON object");
    if (Result<void> keys = check_keys<2>(request, {"content", "options"}, "the request");
        !keys.ok())
      return keys;
    Options said;
    if (const auto options = request.find("options"); options != request.end()) {
      Result<Options> read = read_options(*options);
      if (!read.ok()) return read.error();
      said = std::move(read).value();
    }
    return send(activation, request, std::move(said));
  }

 private:
  /// Behind which turn of the session a message goes is known before its first piece is read.
  static void send_step(Activation& activation, const Options& said) {
    const auto step = std::ranges::find(said.attributes, "step", &Attributes::value_type::first);
    if (step == said.attributes.end()) return;
    auto* const leading = new Payload;
    leading->type = ValueType::text;
    leading->attributes = {{"generate", 0}, *step};
    add_tenant(said.tenant, leading->attributes);
    activation.yield("text", PayloadRef(leading));
  }

  static Result<void> send(Activation& activation, const Json& request, Options said) {
    const auto content = request.find("content");
    if (content != request.end() && content->is_array() && content->empty())
      return wrong("'content' is empty: it needs a piece, a text or an image");
    if (content == request.end() || !content->is_array())
      return wrong("'content' must be a list of pieces, each a text or an image");
    if (content->size() > pieces_max)
      return wrong("'content' has " + std::to_string(content->size()) + " pieces, the limit is " +
                   std::to_string(pieces_max));
    std::vector<Piece> pieces;
    bool words = false;
    for (std::size_t i = 0; i < content->size(); ++i) {
      Result<Piece> piece = read_piece((*content)[i], i, said.tenant, activation);
      if (!piece.ok()) return piece.error();
      words = words || (piece->text && !is_blank(piece->text->text));
      pieces.push_back(std::move(piece).value());
    }
    // Whether a picture can be answered without words is for those to say who read it.
    if (!words &&
        std::ranges::none_of(pieces, [](const Piece& piece) { return bool(piece.image); }))
      return invalid_argument("the prompt is empty: say what you want to know or draw");
    if (pieces.size() > 1 || pieces[0].image) send_step(activation, said);
    auto* closing = new Payload;
    closing->type = ValueType::text;
    closing->attributes = std::move(said.attributes);
    closing->attributes.emplace_back("generate", 1);
    add_tenant(said.tenant, closing->attributes);
    PayloadRef last(closing);
    if (pieces.back().text) {
      closing->text = pieces.back().text->text;
      pieces.pop_back();
    }
    for (Piece& piece : pieces)
      piece.text ? activation.yield("text", std::move(piece.text))
                 : activation.yield("image", std::move(piece.image));
    activation.yield("text", std::move(last));
    return {};
  }
};

}  // namespace

Plugin parse_request_plugin() {
  Plugin plugin;
  plugin.declaration = {
      .name = "parse_request",
      .meaning = "takes a JSON request apart into texts and pictures, in order",
      .interfaces =
          {{.name = "parse",
            .inputs = {{.name = "request",
                        .type = ValueType::json,
                        .meaning = "the request",
                        .frames = PortFrames::one}},
            .outputs = {{"text", ValueType::text, "a piece of text", false, request_bytes_max},
                        {"image", ValueType::image, "a picture", false, image_pixels_max * 3}},
            .frames = {{"text"}, {"image"}},
            .yields_max = 0}},
      .session_state = false,
      .needs_model = false,
      .any_ports = false,
      .global_param_kinds = {}};
  plugin.make = [](const RoleMaking&) -> Result<RoleInstance> {
    return RoleInstance(std::unique_ptr<Role>(std::make_unique<ParseRequest>()));
  };
  return plugin;
}

}  // namespace sluice
