// What roles are told by other machines and by the workflow: every number of it sound, at its limit
// and wrong, beside what was made of it before.
#include <bit>
#include <catch2/catch.hpp>
#include <limits>

#include "chat_world.h"
#include "roles/engine_options.h"
#include "roles/handed_prefix.h"
#include "roles/picture_features.h"
#include "tests/directories.h"
#include "tests/outcomes.h"

using namespace sluice;

namespace {

constexpr std::size_t vocabulary = 100;

HandedPrefix sound() {
  HandedPrefix made;
  made.number = 7;
  made.length = 32;
  made.from = PeerLife{2, 200};
  made.has_pictures = true;
  made.prompt = {0, 5, 99};
  made.options.tokens_max = 40;
  made.options.sampling.temperature = 0.5F;
  made.options.sampling.top_k = 3;
  made.options.sampling.top_p = 0.25F;
  made.options.seed = 11;
  made.options.share_prefix = false;
  return made;
}

std::string words(const Result<HandedPrefix>& read) {
  if (!read.ok()) return read.error().message;
  std::string text = std::to_string(read->number);
  if (!read->from.has_value()) return text + " here";
  text += " of " + std::to_string(read->from->machine) + "/" +
          std::to_string(read->from->incarnation) + (read->has_pictures ? ", pictures" : "") +
          (read->options.share_prefix ? ", shared" : "");
  for (const double value :
       {static_cast<double>(read->options.tokens_max),
        static_cast<double>(read->options.sampling.temperature),
        static_cast<double>(read->options.sampling.top_k),
        static_cast<double>(read->options.sampling.top_p), static_cast<double>(read->options.seed)})
    text += ' ' + std::to_string(value);
  for (const std::int32_t token : read->prompt) text += ' ' + std::to_string(token);
  return text;
}

std::int64_t bits(float value) { return std::bit_cast<std::int32_t>(value); }

/// A copy of the frame, with that attribute as another number, or without it.
PayloadRef with(const Payload& frame, const std::string& name, std::optional<std::int64_t> value,
                const Tensor* tensor = nullptr) {
  auto* const changed = new Payload;
  changed->type = frame.type;
  changed->number = frame.number;
  changed->tensor = tensor != nullptr ? *tensor : frame.tensor;
  for (const auto& [key, number] : frame.attributes)
    if (key != name) changed->attributes.emplace_back(key, number);
  if (value.has_value()) changed->attributes.emplace_back(name, *value);
  return PayloadRef(changed);
}

std::string words(const Result<EngineOptions>& read) {
  if (!read.ok()) return read.error().message;
  return "format " + std::to_string(static_cast<int>(read->format)) + ", budget " +
         std::to_string(read->planner.budget) + (read->share_prefixes ? ", shared" : ", alone") +
         ", tokens " + std::to_string(read->tokens_max) + ", steps " + std::to_string(read->steps) +
         ", guidance " + std::to_string(read->guidance.value_or(-1)) + ", seed " +
         std::to_string(read->seed) + ", priority " + std::to_string(read->priority) +
         ", deadline " + std::to_string(read->deadline);
}

std::string words(const Result<PictureInput>& made) {
  if (!made.ok()) return made.error().message;
  std::string text = std::to_string(made->tile_rows) + " x " + std::to_string(made->tile_columns) +
                     " tiles, " + std::to_string(made->feature_rows) + " rows, " +
                     std::to_string(made->features.size()) + " numbers";
  for (const Grid& grid : made->grids)
    for (const std::uint32_t side : grid) text += ' ' + std::to_string(side);
  return text;
}

}  // namespace

TEST_CASE("each place of a prefix and of what was said that is changed is read as before") {
  test::Outcomes outcomes("handed_prefixes");
  const PayloadRef frame = prefix_frame(sound());
  outcomes.add("frames", words(read_prefix(*frame, vocabulary)));
  constexpr std::int64_t u32 = std::numeric_limits<std::uint32_t>::max();
  for (const auto& [name, was] : frame->attributes) {
    outcomes.add("without", name + ": " + words(read_prefix(*with(*frame, name, {}), vocabulary)));
    for (const std::int64_t value :
         {std::int64_t{-1}, std::int64_t{0}, std::int64_t{1}, std::int64_t{2}, u32, u32 + 1,
          std::int64_t{1} << 31, (std::int64_t{1} << 31) + 1, bits(1e6F), bits(999999.9F),
          bits(1000000.1F), bits(-0.1F), bits(std::numeric_limits<float>::quiet_NaN())})
      outcomes.add(name, std::to_string(value) + ": " +
                             words(read_prefix(*with(*frame, name, value), vocabulary)));
  }
  for (const std::vector<std::int32_t>& prompt :
       {std::vector<std::int32_t>{}, {0}, {99}, {100}, {5, -1}, {5, 6, 7}}) {
    HandedPrefix made = sound();
    made.prompt = prompt;
    outcomes.add("prompts", words(read_prefix(*prefix_frame(made), vocabulary)));
  }
  for (const Tensor& tensor :
       {Tensor::zeros(Dtype::f32, {3}).value(), Tensor::zeros(Dtype::i32, {3, 1}).value(),
        Tensor::zeros(Dtype::i64, {3}).value(), Tensor::zeros(Dtype::i32, {}).value()}) {
    outcomes.add("tensors", words(read_prefix(*with(*frame, "", {}, &tensor), vocabulary)));
  }
  HandedPrefix here = sound();
  here.from.reset();
  outcomes.add("here", words(read_prefix(*prefix_frame(here), vocabulary)));
  outcomes.change_bytes("what was said", encode_said({300, "s", true, "ab", {1, 99}}),
                        [](const std::vector<std::byte>& bytes) -> std::string {
                          const auto said = decode_said(bytes, vocabulary);
                          if (!said) return "no such message";
                          std::string text = std::to_string(said->number) + ' ' + said->session +
                                             (said->ok ? " ok " : " not ok ") + said->text;
                          for (const std::int32_t token : said->tokens)
                            text += ' ' + std::to_string(token);
                          return text;
                        });
  outcomes.require_as_kept();
}

TEST_CASE("each option of an engine is taken or refused as before") {
  test::Outcomes outcomes("engine_options");
  constexpr std::string_view names[] = {"max_tokens",  "precision", "share_prefixes",
                                        "step_tokens", "steps",     "guidance_milli",
                                        "seed",        "priority",  "deadline_ms"};
  const std::vector<OptionDeclaration> known = engine_options(names);
  const std::string golden = SLUICE_SOURCE_DIR + std::string("/tests/golden/");
  const auto read = [&](const std::string& model, const std::string& key,
                        const std::string& value) {
    RoleSpec role;
    role.name.text = "r";
    role.plugin.text = "chat_model";
    if (!key.empty()) {
      OptionSpec& option = role.options.emplace_back();
      option.key.text = key;
      option.value.text = value;
    }
    const std::string text = words(read_engine_options(role, model, known));
    const std::size_t at = text.find(golden);
    return at == std::string::npos ? text : text.substr(0, at) + text.substr(at + golden.size());
  };
  const std::string models[] = {golden + "conversation_qwen", golden + "gguf/llama.gguf",
                                SLUICE_SOURCE_DIR + std::string("/models/scenes"), "nowhere"};
  for (const std::string& model : models) outcomes.add("none", read(model, "", ""));
  for (const OptionDeclaration& option : known) {
    outcomes.add("declared", option.name + " from " + std::to_string(option.least) + " to " +
                                 std::to_string(option.most) + ", else " +
                                 option.fallback.value_or("nothing"));
    for (const std::string& value :
         {std::to_string(static_cast<std::int64_t>(option.least) - 1),
          std::to_string(static_cast<std::int64_t>(option.least)),
          std::to_string(static_cast<std::int64_t>(option.most)),
          std::to_string(static_cast<std::int64_t>(option.most) + 1), std::string("17"),
          std::string("x"), std::string(), std::string("1.5"), std::string("yes"),
          std::string("no"), std::string("exact"), std::string("bf16"), std::string("int8")})
      outcomes.add(option.name, value + ": " + read("nowhere", option.name, value));
    outcomes.add("of a checkpoint",
                 read(models[0], option.name, option.choices.empty() ? "9" : option.choices[0]));
    RoleSpec role;
    role.name.text = "r";
    const Result<void> alone = check_option_alone(role, option.name);
    outcomes.add("alone", alone.ok() ? option.name + " goes" : alone.error().message);
  }
  outcomes.add("unknown", read("nowhere", "tokens", "1"));
  outcomes.require_as_kept();
}

TEST_CASE("features of each grid and number of tiles are a picture or refused as before") {
  test::Outcomes outcomes("picture_features");
  const std::string golden = SLUICE_SOURCE_DIR + std::string("/tests/golden/");
  for (const std::string& name : {std::string("conversation_qwen"),
                                  std::string("conversation_smolvlm"), std::string("llama")}) {
    const Model model = Model::open(golden + name).value();
    const auto width = static_cast<std::int64_t>(model.text().width());
    const auto add = [&](Dtype dtype, const std::vector<std::int64_t>& shape,
                         std::vector<std::pair<std::string, std::int64_t>> attributes) {
      std::string title = Tensor::zeros(dtype, shape).value().describe();
      for (const auto& [key, value] : attributes) title += ' ' + key + ' ' + std::to_string(value);
      const PayloadRef made =
          make_tensor(Tensor::zeros(dtype, shape).value(), std::move(attributes));
      outcomes.add(name, title + ": " + words(picture_of(*made, model)));
    };
    for (const std::int64_t rows : {0, 1, 8, 9}) {
      add(Dtype::f32, {rows, width}, {});
      add(Dtype::f32, {rows, width}, {{"grid_t", 1}, {"grid_h", 4}, {"grid_w", 8}});
      for (const std::int64_t down : {-1, 0, 1, 2, 64, 65})
        for (const std::int64_t across : {-1, 0, 2, 64, 65})
          add(Dtype::f32, {rows, width}, {{"tile_rows", down}, {"tile_columns", across}});
    }
    for (const char* side : {"grid_t", "grid_h", "grid_w"})
      for (const std::int64_t value : {-1, 0, 1, 2, 3, 4096, 4097, 4098}) {
        std::vector<std::pair<std::string, std::int64_t>> grid{
            {"grid_t", 1}, {"grid_h", 4}, {"grid_w", 8}};
        for (auto& [key, was] : grid)
          if (key == side) was = value;
        add(Dtype::f32, {8, width}, std::move(grid));
      }
    add(Dtype::bf16, {8, width}, {{"grid_t", 1}, {"grid_h", 4}, {"grid_w", 8}});
    add(Dtype::f32, {8, width + 1}, {{"grid_t", 1}, {"grid_h", 4}, {"grid_w", 8}});
    add(Dtype::f32, {8, width, 1}, {{"grid_t", 1}, {"grid_h", 4}, {"grid_w", 8}});
  }
  outcomes.require_as_kept();
}
