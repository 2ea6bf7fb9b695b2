// Each role over each checkpoint, given what chance draws of the types that it declares: values
// that other roles have made, pictures and tensors of odd shapes, texts with options. Each
// activation ends, well or with words that say why not, and the same seed gives the same frames:
// of tensors the shapes, of words that there are some. What models compute stands elsewhere.
#include <catch2/catch.hpp>
#include <deque>
#include <filesystem>
#include <map>

#include "base/random.h"
#include "fake_activation.h"
#include "roles/catalog.h"
#include "tests/directories.h"

using namespace sluice;

namespace {

const std::string root = SLUICE_SOURCE_DIR;

std::map<std::string, std::string> checkpoints() {
  std::map<std::string, std::string> found{{"scenes", root + "/models/scenes"}};
  for (const auto& entry : std::filesystem::directory_iterator(root + "/tests/golden"))
    if (std::filesystem::exists(entry.path() / "config.json"))
      found[entry.path().filename()] = entry.path();
  return found;
}

std::string without_root(std::string text) {
  for (std::size_t at; (at = text.find(root + "/")) != std::string::npos;)
    text.erase(at, root.size() + 1);
  return text;
}

/// A role of the world, and the activations that it has and has ended.
struct Played {
  const PluginDeclaration* declared = nullptr;
  std::vector<const InterfaceDeclaration*> interfaces = {};  // that its checkpoint is for
  RoleInstance instance;
  SteppedRole* stepped() {
    auto* held = std::get_if<std::unique_ptr<SteppedRole>>(&instance);
    return held == nullptr ? nullptr : held->get();
  }
};

class World {
 public:
  World(const std::string& directory, std::uint64_t seed) : chance_(seed) {
    add_builtin_plugins(catalog_);
    declarations_ = catalog_.declarations();
    GlobalParamSpec kv;
    kv.name.text = "kv";
    kv.kind.text = "paged_kv";
    kv.pages = 64;
    if (auto made = catalog_.make_global_param({&kv, directory}); made.ok()) {
      kv_ = std::move(*made);
    }
    for (const PluginDeclaration& declared : declarations_)
      if (declared.needs_model) play(declared, directory);
  }

  bool is_empty() const { return roles_.empty(); }
  std::vector<std::string> play_some(int turns) {
    for (int i = 0; i < turns; ++i) turn();
    return std::move(journal_);
  }

 private:
  std::uint64_t pick(std::uint64_t most) { return chance_.next() % (most + 1); }
  template <typename List>
  auto of(const List& list) {
    return list[pick(std::size(list) - 1)];
  }

  void play(const PluginDeclaration& declared, const std::string& directory) {
    RoleSpec& spec = specs_.emplace_back();
    spec.name.text = declared.name;
    RoleMaking making;
    making.role = &spec;
    making.model_directory = directory;
    if (kv_ != nullptr && !declared.global_param_kinds.empty()) making.global_params = {kv_.get()};
    const Plugin& plugin = *catalog_.find(declared.name);
    for (const OptionDeclaration& option : declared.options)
      if (option.name == "max_tokens") spec.options.push_back({{"max_tokens", {}}, {"6", {}}});
    std::vector<const InterfaceDeclaration*> interfaces;
    for (const InterfaceDeclaration& one : declared.interfaces)
      if (!plugin.check_interface || plugin.check_interface(directory, one.name).ok())
        interfaces.push_back(&one);
    Result<RoleInstance> made = plugin.make(making);
    if (made.ok() && !interfaces.empty())
      roles_.push_back({&declared, interfaces, std::move(made).value()});
  }

  std::vector<std::pair<std::string, std::int64_t>> attributes() {
    const std::pair<const char*, std::vector<std::int64_t>> known[] = {
        {"generate", {0, 1, 1}},
        {"max_tokens", {-1, 0, 1, 2, 5}},
        {"steps", {-1, 0, 1, 2}},
        {"seed", {0, 7}},
        {"guidance_milli", {0, 1500}},
        {"strength_milli", {0, 500, 1000}},
        {"temperature_milli", {0, 700}},
        {"top_k", {0, 1}},
        {"top_p_milli", {0, 500, 1000}},
        {"end", {0, 1}},
        {"length", {0, 3}}};
    std::vector<std::pair<std::string, std::int64_t>> made;
    for (const auto& [name, values] : known)
      if (pick(3) == 0) made.emplace_back(name, of(values));
    return made;
  }
  std::optional<Tensor> tensor(const Port& port) {
    std::vector<std::int64_t> shape = port.shape;
    if (shape.empty())
      for (std::uint64_t rank = pick(2); rank < 3; ++rank) shape.push_back(any_size);
    constexpr std::int64_t sizes[] = {0, 1, 2, 3, 7, 16, 32, 64};
    for (std::int64_t& size : shape)
      if (size == any_size) size = of(sizes);
    constexpr Dtype types[] = {Dtype::f32, Dtype::f32, Dtype::i32, Dtype::u8};
    Result<Tensor> made = Tensor::zeros(port.dtype.value_or(of(types)), shape);
    if (!made.ok()) return {};
    return std::move(*made);
  }
  PayloadRef value(const Port& port) {
    auto* const made = new Payload;
    const PayloadRef held(made);
    made->type = port.type == ValueType::any ? ValueType::number : port.type;
    if (pick(1) == 0) made->attributes = attributes();
    constexpr const char* texts[] = {
        "", "what color is the circle", "draw a red circle", "pick it up", "<image>", "\xff"};
    constexpr std::int64_t numbers[] = {-1, 0, 1, 2, 9, 1000, std::int64_t{1} << 40};
    constexpr std::int64_t sides[] = {1, 3, 8, 20, 33};
    switch (made->type) {
      case ValueType::image:
        made->tensor = Tensor::zeros(Dtype::u8, {of(sides), of(sides), 3}).value();
        for (std::byte& byte : made->tensor.bytes()) byte = static_cast<std::byte>(chance_.next());
        return held;
      case ValueType::number:
        made->number = of(numbers);
        return held;
      case ValueType::tensor:
      case ValueType::audio:
        break;
      default:
        made->text = of(texts);
        return held;
    }
    if (!values_[port.content].empty() && pick(4) != 0) return of(values_[port.content]);
    std::optional<Tensor> drawn = tensor(port);
    if (!drawn.has_value()) return {};
    made->tensor = std::move(*drawn);
    return held;
  }

  std::string give(FakeActivation& activation, const InterfaceDeclaration& interface) {
    std::string words;
    for (const Port& port : interface.inputs) {
      std::uint64_t count = 1;
      if (port.frames == PortFrames::at_most_one) count = pick(1);
      if (port.frames == PortFrames::any) count = pick(2);
      for (; count > 0; --count) {
        const PayloadRef given = value(port);
        if (!given || breach_of(port, *given)) continue;
        words += " " + port.name + words_of(*given, true);
        activation.give(port.name, given);
      }
      if (port.frames == PortFrames::one && activation.inputs(port.name).empty()) return "";
    }
    return words + " ";
  }

  static std::string words_of(const Payload& value, bool whole) {
    std::string text;
    std::string shown = value.text;
    std::ranges::replace_if(
        shown, [](char c) { return c < ' '; }, '?');
    if (whole && !shown.empty()) text += " '" + shown + "'";
    if (value.type == ValueType::number) text += " " + std::to_string(value.number);
    if (!value.tensor.shape().empty()) text += " " + value.tensor.describe();
    for (const auto& [name, number] : value.attributes)
      text += " " + name + "=" + std::to_string(number);
    return text;
  }

  void turn() {
    struct Under {
      FakeActivation* activation;
      std::string words;
    };
    std::vector<Under> under_way;
    const bool ends = kv_ != nullptr && pick(15) == 0;
    for (std::uint64_t many = 1 + pick(2); many > 0; --many) {
      Played& role = roles_[pick(roles_.size() - 1)];
      const InterfaceDeclaration& interface = *of(role.interfaces);
      FakeActivation& made = activations_.emplace_back(interface.name, pick(2) == 0 ? "b" : "a");
      made.call_number = calls_ += pick(2);
      const std::string given = give(made, interface);
      if (given.empty()) continue;
      under_way.push_back({&made, role.declared->name + "." + interface.name + " of " +
                                      std::string(made.session()) + given});
      if (SteppedRole* const stepped = role.stepped()) {
        stepped->admit(made);
      } else {
        const Result<void> done = std::get<std::unique_ptr<Role>>(role.instance)->run(made);
        ended_.push_back({&made, done});
      }
      if (pick(9) == 0) made.is_cancelled = true;
    }
    for (int step = 0; step < 2000; ++step) {
      bool busy = false;
      for (Played& role : roles_)
        if (SteppedRole* const stepped = role.stepped(); stepped != nullptr && stepped->busy()) {
          stepped->step(ended_);
          busy = true;
        }
      if (!busy) break;
    }
    if (ends) kv_->end_session(pick(1) == 0 ? "a" : "b");
    for (const Under& one : under_way)
      journal_.push_back(one.words + "-> " + end_of(*one.activation));
    ended_.clear();
  }

  std::string end_of(const FakeActivation& activation) {
    std::string text, last;
    int times = 0;
    const auto flush = [&] {
      if (times > 0) text += last + (times > 1 ? " x" + std::to_string(times) : "") + "; ";
      times = 0;
    };
    for (const auto& [field, value] : activation.frames) {
      const std::string words = field + words_of(*value, false);
      if (words != last) flush();
      last = words;
      // How many words an answer has is for those who look at models.
      times = value->type == ValueType::text ? 1 : times + 1;
      keep(activation, field, value);
    }
    flush();
    for (const std::string& warning : activation.warnings) text += "warns " + warning + "; ";
    for (const StepOutcome& outcome : ended_)
      if (outcome.activation == &activation)
        return text + (outcome.result.ok()
                           ? "well"
                           : std::string(to_string(outcome.result.error().code)) + ": " +
                                 without_root(outcome.result.error().message));
    return text + "has not ended";
  }
  /// For what reads such values.
  void keep(const FakeActivation& activation, const std::string& field, const PayloadRef& value) {
    for (const Played& role : roles_)
      for (const InterfaceDeclaration& interface : role.declared->interfaces)
        if (interface.name == activation.interface())
          if (const Port* const port = find_port(interface.outputs, field))
            if (port->type == ValueType::tensor) values_[port->content].push_back(value);
  }

  SplitMix64 chance_;
  Catalog catalog_;
  Declarations declarations_;
  std::deque<RoleSpec> specs_;
  std::unique_ptr<GlobalParam> kv_;
  std::deque<FakeActivation> activations_;
  std::vector<Played> roles_;  // go before what they have
  std::vector<StepOutcome> ended_;
  std::map<std::string, std::vector<PayloadRef>> values_;  // by what they are
  std::vector<std::string> journal_;
  std::uint64_t calls_ = 1;
};

}  // namespace

TEST_CASE(
    "roles that are given what chance draws end, well or with a reason, and each time alike") {
  std::size_t well = 0, refused = 0;
  for (const auto& [name, directory] : checkpoints())
    for (std::uint64_t seed = 1; seed <= 4; ++seed) {
      World world(directory, seed);
      if (world.is_empty()) continue;
      const int turns = seed == 1 ? 20 : 60;
      const std::vector<std::string> journal = world.play_some(turns);
      for (const std::string& line : journal) {
        INFO(name << ": " << line);
        CHECK(line.find("has not ended") == std::string::npos);
        CHECK_FALSE(line.ends_with(": "));
        ++(line.ends_with("; well") || line.ends_with("-> well") ? well : refused);
      }
      if (seed == 1) CHECK(World(directory, seed).play_some(turns) == journal);
    }
  CHECK(well > 100);
  CHECK(refused > 100);
}
