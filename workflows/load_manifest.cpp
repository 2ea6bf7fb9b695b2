#include "workflows/load_manifest.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <map>
#include <utility>

#include "graph/print.h"
#include "workflows/yaml_reader.h"

namespace sluice {

namespace {

using Kind = YamlNode::Kind;

constexpr std::size_t things_max = 64;  // of each kind
constexpr std::size_t words_max = 200;  // characters of a meaning or a choice
constexpr std::int64_t whole_max = std::int64_t{1} << 53;
constexpr std::int64_t size_max = std::int64_t{1} << 40;

constexpr std::array<std::string_view, 10> manifest_part{
    "sluice_role", "name",    "meaning", "abi",           "kind",
    "interfaces",  "options", "params",  "session_state", "needs_model"};
constexpr std::array<std::string_view, 4> interface_part{"inputs", "outputs", "frames",
                                                         "yields_max"};
constexpr std::array<std::string_view, 7> port_part{"type",      "meaning",      "dtype", "shape",
                                                    "bytes_max", "count_source", "frames"};
constexpr std::array<std::string_view, 6> option_part{"type", "meaning", "least",
                                                      "most", "choices", "default"};
constexpr std::array<KnownKeys, 4> tables{{{"manifest", manifest_part},
                                           {"interface", interface_part},
                                           {"port", port_part},
                                           {"option", option_part}}};

enum class Written : std::uint8_t { whole, real, text, choice };

class ManifestLoader : public YamlReader {
 public:
  ManifestLoader(RoleManifest& manifest, Diagnostics& diagnostics)
      : YamlReader(diagnostics), manifest_(manifest), declared_(manifest.declaration) {}

  void load(const YamlNode& root);

 private:
  bool bounded(const YamlNode& node, const std::string& what) {
    const std::size_t count = std::max(node.entries.size(), node.items.size());
    if (count <= things_max) return true;
    error(node.mark, "too-many",
          "a plugin has at most " + std::to_string(things_max) + " " + what + ", here are " +
              std::to_string(count),
          "make two plugins of it");
    return false;
  }
  const YamlNode* needed(const YamlNode& map, std::string_view key, const std::string& example) {
    const YamlNode* value = find(map, key);
    if (value == nullptr)
      error(map.mark, "missing-key", "the manifest needs '" + std::string(key) + "'", example);
    return value;
  }
  /// A sentence, or a choice: printable, and not long.
  std::string words(const YamlNode& node, const std::string& what) {
    if (!expect(node, Kind::scalar, what)) return "";
    const bool plain = std::ranges::none_of(
        node.scalar, [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7f; });
    if (plain && node.scalar.size() <= words_max) return node.scalar;
    error(node.mark, "bad-text",
          what + " is " + in_quotes(node.scalar) + ", it must be one line of at most " +
              std::to_string(words_max) + " bytes",
          "write it shorter, without control characters");
    return "";
  }
  bool truth(const YamlNode& node, const std::string& what) {
    bool value = false;
    choice(node, what,
           std::vector<std::pair<std::string_view, bool>>{{"true", true}, {"false", false}}, value);
    return value;
  }
  /// One more item of a list of different ones.
  void add(std::vector<std::string>& to, std::string item, const YamlNode& node,
           const std::string& list) {
    if (std::ranges::find(to, item) != to.end())
      return error(node.mark, "twice", in_quotes(item) + " stands twice in " + list,
                   "remove one of them");
    to.push_back(std::move(item));
  }
  /// Keys that an option of this type does not have: they would be ignored.
  void refuse_keys(const YamlNode& node, Written type) {
    const std::vector<const char*> others =
        type == Written::choice ? std::vector{"least", "most"} : std::vector{"choices"};
    for (const char* key : others)
      if (const YamlNode* value = find(node, key))
        error(value->mark, "wrong-key",
              std::string("'") + key + "' is " +
                  (type == Written::choice ? "not for a choice, which has 'choices'"
                                           : "for an option of the type choice only"),
              "remove it, or change the option's type");
  }
  bool load_choices(OptionDeclaration& option, const YamlNode& key, const YamlNode& node);
  bool refused(const YamlNode& key, const std::string& message, const std::string& help = "") {
    error(key.mark, "missing-key", message, help);
    return false;
  }
  std::optional<double> real(const YamlNode& node, const std::string& what);
  void load_abi(const YamlNode& node);
  void load_interface(const YamlNode& key, const YamlNode& node);
  void load_frames(InterfaceDeclaration& to, const YamlNode& node);
  std::vector<Port> load_ports(const YamlNode& node, const std::string& what);
  Port load_port(const YamlNode& key, const YamlNode& node);
  void load_shape(Port& port, const YamlNode& node);
  void load_option(const YamlNode& key, const YamlNode& node);
  Written option_type(const YamlNode& key, const YamlNode& node);
  /// False: its bounds are wrong, so no value says anything about it.
  bool load_bounds(OptionDeclaration& option, Written type, const YamlNode& key,
                   const YamlNode& node);
  void load_params(const YamlNode& node);

  RoleManifest& manifest_;
  PluginDeclaration& declared_;
};

std::optional<double> ManifestLoader::real(const YamlNode& node, const std::string& what) {
  double value = 0;
  const char* end = node.scalar.data() + node.scalar.size();
  const auto [stop, failed] = std::from_chars(node.scalar.data(), end, value);
  if (node.kind == Kind::scalar && failed == std::errc() && stop == end && value >= -1e300 &&
      value <= 1e300)
    return value;
  error(node.mark, "bad-number", what + " must be a number", "write it as 0.5 or 1e-3");
  return std::nullopt;
}

void ManifestLoader::load_abi(const YamlNode& node) {
  manifest_.abi_mark = node.mark;
  const std::string& text = node.scalar;
  const char* end = text.data() + text.size();
  const auto [dot, bad] = std::from_chars(text.data(), end, manifest_.abi_major);
  if (node.kind == Kind::scalar && bad == std::errc() && dot != end && *dot == '.') {
    const auto [stop, failed] = std::from_chars(dot + 1, end, manifest_.abi_minor);
    if (failed == std::errc() && stop == end) return;
  }
  error(node.mark, "bad-version", "abi must be a version, as 1.0", "abi: 1.0");
}

void ManifestLoader::load_shape(Port& port, const YamlNode& node) {
  if (!expect(node, Kind::list, "shape")) return;
  if (node.items.empty() || node.items.size() > Tensor::rank_max)
    return error(node.mark, "bad-shape",
                 "a shape has 1 to " + std::to_string(Tensor::rank_max) + " sizes, this has " +
                     std::to_string(node.items.size()),
                 "shape: [ 16, any ]");
  for (const YamlNode& item : node.items)
    port.shape.push_back(
        item.kind == Kind::scalar && item.scalar == "any"
            ? any_size
            : number(item, "a size ('any', or a number)", 0, size_max).value_or(0));
}

Port ManifestLoader::load_port(const YamlNode& key, const YamlNode& node) {
  Port port;
  port.name = key.scalar;
  const std::string what = "field " + in_quotes(key.scalar);
  if (!expect(node, Kind::map, what,
              node.kind == Kind::scalar ? "write { type: " + node.scalar + " }" : ""))
    return port;
  check_keys(node, port_part, what);
  if (const YamlNode* type = find(node, "type"))
    choice(*type, "type",
           std::vector<std::pair<std::string_view, ValueType>>{{"json", ValueType::json},
                                                               {"text", ValueType::text},
                                                               {"image", ValueType::image},
                                                               {"audio", ValueType::audio},
                                                               {"tensor", ValueType::tensor},
                                                               {"number", ValueType::number},
                                                               {"bytes", ValueType::bytes}},
           port.type);
  else
    error(key.mark, "missing-key", what + " needs a 'type'", "type: text");
  if (const YamlNode* meaning = find(node, "meaning")) port.meaning = words(*meaning, "meaning");
  if (const YamlNode* bytes = find(node, "bytes_max"))
    port.bytes_max =
        static_cast<std::uint64_t>(number(*bytes, "bytes_max", 1, size_max).value_or(0));
  if (const YamlNode* count = find(node, "count_source"))
    port.count_source = truth(*count, "count_source");
  if (port.count_source && find(node, "type") && port.type != ValueType::number)
    error(find(node, "count_source")->mark, "not-a-number",
          what + " is no number, so nothing can count by it", "type: number");
  const bool shaped = port.type == ValueType::tensor || port.type == ValueType::audio;
  for (const char* name : {"dtype", "shape"})
    if (const YamlNode* value = find(node, name); value && !shaped)
      error(value->mark, "not-a-tensor", std::string(name) + " is for tensor and audio only",
            "remove it, or write type: tensor");
  if (const YamlNode* dtype = find(node, "dtype"); dtype && shaped) {
    Dtype to = Dtype::f32;
    choice(*dtype, "dtype",
           std::vector<std::pair<std::string_view, Dtype>>{{"u8", Dtype::u8},
                                                           {"i32", Dtype::i32},
                                                           {"i64", Dtype::i64},
                                                           {"f32", Dtype::f32},
                                                           {"bf16", Dtype::bf16}},
           to);
    port.dtype = to;
  }
  if (const YamlNode* shape = find(node, "shape"); shape && shaped) load_shape(port, *shape);
  if (const YamlNode* frames = find(node, "frames"))
    choice(*frames, "frames",
           std::vector<std::pair<std::string_view, PortFrames>>{
               {"any", PortFrames::any},
               {"at_most_one", PortFrames::at_most_one},
               {"one", PortFrames::one}},
           port.frames);
  return port;
}

std::vector<Port> ManifestLoader::load_ports(const YamlNode& node, const std::string& what) {
  std::vector<Port> ports;
  if (!expect(node, Kind::map, what) || !bounded(node, "fields a side")) return ports;
  for (const auto& [key, value] : node.entries)
    if (name(key, "a field's name")) {
      ports.push_back(load_port(key, value));
      const YamlNode* frames = value.kind == Kind::map ? find(value, "frames") : nullptr;
      if (frames != nullptr && what == "outputs")
        error(frames->mark, "not-an-input", "frames is for inputs: how many one activation reads",
              "remove it; `yields_max` bounds what an activation yields");
    }
  return ports;
}

void ManifestLoader::load_frames(InterfaceDeclaration& to, const YamlNode& node) {
  if (!expect(node, Kind::list, "frames") || !bounded(node, "kinds of frames")) return;
  for (const YamlNode& frame : node.items) {
    std::vector<std::string>& fields = to.frames.emplace_back();
    if (!expect(frame, Kind::list, "a frame") || !bounded(frame, "fields a frame")) continue;
    for (const YamlNode& item : frame.items) {
      if (!expect(item, Kind::scalar, "a field of a frame")) continue;
      if (find_port(to.outputs, item.scalar) == nullptr) {
        std::vector<std::string_view> names;
        for (const Port& port : to.outputs) names.push_back(port.name);
        const std::string near = nearest_name(item.scalar, names);
        error(item.mark, "unknown-field",
              "'" + to.name + "' has no output " + in_quotes(item.scalar),
              near.empty() ? "" : "did you mean '" + near + "'?");
      }
      add(fields, item.scalar, item, "a frame");
    }
  }
}

void ManifestLoader::load_interface(const YamlNode& key, const YamlNode& node) {
  const std::string what = "interface " + in_quotes(key.scalar);
  if (!name(key, "an interface's name") || !expect(node, Kind::map, what)) return;
  check_keys(node, interface_part, what);
  InterfaceDeclaration& to = declared_.interfaces.emplace_back();
  to.name = key.scalar;
  if (const YamlNode* inputs = find(node, "inputs")) to.inputs = load_ports(*inputs, "inputs");
  if (const YamlNode* outputs = find(node, "outputs")) to.outputs = load_ports(*outputs, "outputs");
  const auto lacks = [&](const YamlNode* side) {
    return side == nullptr || (side->kind == Kind::map && side->entries.empty());
  };
  if (lacks(find(node, "inputs")) || lacks(find(node, "outputs")))
    error(key.mark, "missing-key", what + " needs inputs and outputs",
          "inputs: { text: { type: text } }");
  if (const YamlNode* frames = find(node, "frames")) load_frames(to, *frames);
  if (const YamlNode* most = find(node, "yields_max"))
    to.yields_max =
        static_cast<std::uint32_t>(number(*most, "yields_max", 0, 1'000'000'000).value_or(0));
}

Written ManifestLoader::option_type(const YamlNode& key, const YamlNode& node) {
  Written type = Written::text;
  if (const YamlNode* value = find(node, "type"))
    choice(*value, "an option's type",
           std::vector<std::pair<std::string_view, Written>>{{"whole", Written::whole},
                                                             {"real", Written::real},
                                                             {"text", Written::text},
                                                             {"choice", Written::choice}},
           type);
  else
    error(key.mark, "missing-key", "option " + in_quotes(key.scalar) + " needs a 'type'",
          "type: whole, real, text or choice");
  return type;
}

bool ManifestLoader::load_choices(OptionDeclaration& option, const YamlNode& key,
                                  const YamlNode& node) {
  const YamlNode* choices = find(node, "choices");
  if (choices == nullptr || (choices->kind == Kind::list && choices->items.empty()))
    return refused(key, "option " + in_quotes(key.scalar) + " needs 'choices'",
                   "choices: [low, high]");
  if (!expect(*choices, Kind::list, "choices") || !bounded(*choices, "choices")) return false;
  for (const YamlNode& item : choices->items)
    add(option.choices, words(item, "a choice"), item, "the choices");
  return true;
}

bool ManifestLoader::load_bounds(OptionDeclaration& option, Written type, const YamlNode& key,
                                 const YamlNode& node) {
  const YamlNode* least = find(node, "least");
  const YamlNode* most = find(node, "most");
  if (type == Written::choice) return load_choices(option, key, node);
  if (most == nullptr || (type != Written::text && least == nullptr))
    return refused(key, "option " + in_quotes(key.scalar) + " needs " +
                            (type == Written::text ? "'most', in bytes" : "'least' and 'most'"));
  if (type == Written::real) {
    option.type = OptionType::real;
    const auto lowest = real(*least, "least");
    const auto highest = real(*most, "most");
    option.real_least = lowest.value_or(0);
    option.real_most = highest.value_or(0);
    if (lowest && highest && *lowest > *highest)
      error(most->mark, "bad-number", "most is below least",
            "least: the smaller one, most: the larger");
    return lowest && highest && *lowest <= *highest;
  }
  const bool text = type == Written::text;
  option.type = text ? OptionType::text : OptionType::whole;
  const std::int64_t lowest = text ? 0 : -whole_max;
  const std::int64_t highest = text ? static_cast<std::int64_t>(manifest_bytes_max) : whole_max;
  const auto from = least == nullptr ? std::optional<std::int64_t>(option.least)
                                     : number(*least, "least", lowest, highest);
  option.least = from.value_or(0);
  const auto to = number(*most, "most", option.least, highest);
  option.most = to.value_or(option.least);
  return from && to;
}

void ManifestLoader::load_option(const YamlNode& key, const YamlNode& node) {
  const std::string what = "option " + in_quotes(key.scalar);
  if (!name(key, "an option's name") || !expect(node, Kind::map, what)) return;
  check_keys(node, option_part, what);
  OptionDeclaration option;
  option.name = key.scalar;
  if (const YamlNode* meaning = find(node, "meaning")) option.meaning = words(*meaning, "meaning");
  const Written type = option_type(key, node);
  refuse_keys(node, type);
  const bool bounded = load_bounds(option, type, key, node);
  const YamlNode* fallback = find(node, "default");
  option.required = fallback == nullptr;
  if (fallback != nullptr && expect(*fallback, Kind::scalar, "default")) {
    const std::string problem = bounded ? option_problem(option, fallback->scalar) : "";
    if (!problem.empty()) error(fallback->mark, "bad-option", "the default: " + problem);
    option.fallback = fallback->scalar;
  }
  declared_.options.push_back(std::move(option));
}

void ManifestLoader::load_params(const YamlNode& node) {
  if (!expect(node, Kind::list, "params") || !bounded(node, "kinds of global parameters")) return;
  for (const YamlNode& item : node.items)
    if (auto kind = name(item, "a kind of global parameter")) {
      add(declared_.global_param_kinds, std::move(kind->text), item, "params");
      manifest_.param_marks.resize(declared_.global_param_kinds.size(), item.mark);
    }
  declared_.session_state = true;
}

void ManifestLoader::load(const YamlNode& root) {
  if (!expect(root, Kind::map, "a manifest")) return;
  check_keys(root, manifest_part, "the manifest");
  if (const YamlNode* version = needed(root, "sluice_role", "sluice_role: 1"))
    number(*version, "sluice_role, the version of this format,", 1, 1);
  if (const YamlNode* own = needed(root, "name", "name: the file's name without .role.yaml")) {
    declared_.name = name(*own, "a plugin's name").value_or(Name{}).text;
    manifest_.name_mark = own->mark;
  }
  if (const YamlNode* meaning = find(root, "meaning"))
    declared_.meaning = words(*meaning, "meaning");
  if (const YamlNode* abi = needed(root, "abi", "abi: 1.0")) load_abi(*abi);
  if (const YamlNode* kind = needed(root, "kind", "kind: plain, or kind: stepped"))
    choice(*kind, "kind",
           std::vector<std::pair<std::string_view, bool>>{{"plain", false}, {"stepped", true}},
           manifest_.stepped);
  if (const YamlNode* state = find(root, "session_state"))
    declared_.session_state = truth(*state, "session_state");
  if (const YamlNode* model = find(root, "needs_model"))
    declared_.needs_model = truth(*model, "needs_model");
  if (const YamlNode* interfaces = needed(root, "interfaces", "what its nodes can run");
      interfaces && expect(*interfaces, Kind::map, "interfaces") &&
      bounded(*interfaces, "interfaces"))
    for (const auto& [key, value] : interfaces->entries) load_interface(key, value);
  if (const YamlNode* options = find(root, "options");
      options && expect(*options, Kind::map, "options") && bounded(*options, "options"))
    for (const auto& [key, value] : options->entries) load_option(key, value);
  if (const YamlNode* params = find(root, "params")) load_params(*params);
}

/// Everything declared, as a path and what stands there.
using Facts = std::map<std::string, std::string>;

void add_ports(Facts& facts, const std::string& path, const std::vector<Port>& ports) {
  for (const Port& port : ports) {
    const std::string at = path + "." + port.name;
    facts[at] = "there";
    facts[at + ".type"] = to_string(port.type);
    facts[at + ".shape"] = shape_text(port);
    facts[at + ".bytes_max"] = std::to_string(port.bytes_max);
    facts[at + ".count_source"] = port.count_source ? "true" : "false";
  }
}

Facts facts_of(const RoleManifest& manifest) {
  const PluginDeclaration& declared = manifest.declaration;
  Facts facts{
      {"name", declared.name},
      {"abi", std::to_string(manifest.abi_major) + "." + std::to_string(manifest.abi_minor)},
      {"kind", manifest.stepped ? "stepped" : "plain"},
      {"session_state", declared.session_state ? "true" : "false"},
      {"needs_model", declared.needs_model ? "true" : "false"}};
  for (const InterfaceDeclaration& interface : declared.interfaces) {
    const std::string at = "interfaces." + interface.name;
    facts[at] = "there";
    add_ports(facts, at + ".inputs", interface.inputs);
    add_ports(facts, at + ".outputs", interface.outputs);
    facts[at + ".yields_max"] = std::to_string(interface.yields_max);
    std::string& frames = facts[at + ".frames"];
    if (interface.frames.empty()) frames = "none";
    for (const std::vector<std::string>& frame : interface.frames) {
      frames += "[";
      for (const std::string& field : frame) frames += " " + field;
      frames += " ]";
    }
  }
  for (const OptionDeclaration& option : declared.options) {
    facts["options." + option.name] = option_range(option);
    if (option.fallback)
      facts["options." + option.name + ".default"] = "'" + *option.fallback + "'";
  }
  for (const std::string& kind : declared.global_param_kinds) facts["params." + kind] = "there";
  return facts;
}

}  // namespace

LoadedManifest load_manifest(std::string_view text) {
  LoadedManifest loaded;
  if (text.size() > manifest_bytes_max) {
    report(loaded.diagnostics,
           {Severity::error,
            {1, 1, 1},
            "too-large",
            "the manifest has " + std::to_string(text.size()) + " bytes, at most " +
                std::to_string(manifest_bytes_max) + " are read",
            ""});
    return loaded;
  }
  loaded.text = text;
  const YamlNode root = read_yaml(text, loaded.diagnostics);
  if (is_readable(loaded.diagnostics))
    ManifestLoader(loaded.manifest, loaded.diagnostics).load(root);
  sort_diagnostics(loaded.diagnostics);
  return loaded;
}

std::string difference(const RoleManifest& a, std::string_view name_of_a, const RoleManifest& b,
                       std::string_view name_of_b) {
  const Facts first = facts_of(a);
  const Facts second = facts_of(b);
  std::map<std::string, std::string> all = first;
  all.insert(second.begin(), second.end());
  const auto in = [](const Facts& facts, const std::string& path) {
    const auto it = facts.find(path);
    return it == facts.end() ? std::string("not there") : it->second;
  };
  for (const auto& [path, ignored] : all)
    if (in(first, path) != in(second, path))
      return path + " is " + in(first, path) + " in " + std::string(name_of_a) + ", " +
             in(second, path) + " in " + std::string(name_of_b);
  return "";
}

std::span<const KnownKeys> manifest_keys() { return tables; }

}  // namespace sluice
