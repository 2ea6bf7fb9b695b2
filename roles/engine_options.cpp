#include "roles/engine_options.h"

#include <algorithm>
#include <charconv>

#include "base/check.h"
#include "engine/checkpoint/gguf.h"
#include "engine/family/architecture.h"
#include "roles/check_model.h"

namespace sluice {

namespace {

const OptionDeclaration all[] = {
    {.name = "max_tokens",
     .meaning = "longest answer in tokens, where the message does not say",
     .choices = {},
     .least = 1,
     .most = 99999,
     .fallback = std::to_string(EngineOptions().tokens_max)},
    {.name = "precision",
     .meaning = "of the weights; left out: bf16, but on a CPU the blocks of a GGUF file and "
                "models/scenes as they lie",
     .choices = {"exact", "bf16", "int8"}},
    {.name = "share_prefixes",
     .meaning = "keys and values of what sessions have in common, once",
     .choices = {"yes", "no"},
     .fallback = "yes"},
    {.name = "step_tokens",
     .meaning = "most tokens of one step, over all sessions",
     .choices = {},
     .least = 1,
     .most = 99999,
     .fallback = std::to_string(PlannerOptions().budget)},
    {.name = "steps",
     .meaning = "of denoising; left out, as many as the checkpoint says",
     .choices = {},
     .least = 1,
     .most = 1000},
    {.name = "guidance_milli",
     .meaning = "away from no class, in thousandths; left out, 4000",
     .choices = {},
     .least = 0,
     .most = 100000},
    {.name = "seed",
     .meaning = "of the noise, where none is given",
     .choices = {},
     .least = 0,
     .most = 2147483647,
     .fallback = "0"},
    {.name = "priority",
     .meaning = "of its works in the engine, higher first",
     .choices = {},
     .least = 0,
     .most = 255,
     .fallback = "0"},
    {.name = "deadline_ms",
     .meaning = "of a control cycle or a drawing, for which the engine keeps other prompts short",
     .choices = {},
     .least = 1,
     .most = 3600000},
    {.name = "prompt",
     .meaning = "what pi0.5 is asked with an instruction: for an action, or for the words of its "
                "next sub-task",
     .choices = {"action", "subtask"},
     .fallback = "action"},
    {.name = "statistics",
     .meaning = "of the data set whose robot acts, where actions are tokens (OpenVLA); left out, "
                "the checkpoint's only ones",
     .choices = {},
     .least = 1,
     .most = 256,
     .type = OptionType::text},
};

std::int64_t number(const std::string& text) {
  std::int64_t value = 0;
  std::from_chars(text.data(), text.data() + text.size(), value);
  return value;
}

void read_one(const std::string& name, const std::string& value, EngineOptions& made) {
  if (name == "max_tokens") made.tokens_max = static_cast<std::size_t>(number(value));
  if (name == "precision") made.says_format = true;
  if (name == "precision")
    made.format = value == "exact"  ? kernels::WeightFormat::exact
                  : value == "bf16" ? kernels::WeightFormat::bf16
                                    : kernels::WeightFormat::int8;
  if (name == "share_prefixes") made.share_prefixes = value == "yes";
  if (name == "step_tokens") made.planner.budget = static_cast<std::uint32_t>(number(value));
  if (name == "steps") made.steps = static_cast<std::size_t>(number(value));
  if (name == "guidance_milli") made.guidance = static_cast<double>(number(value)) / 1000.0;
  if (name == "seed") made.seed = static_cast<std::uint64_t>(number(value));
  if (name == "priority") made.priority = static_cast<std::uint8_t>(number(value));
  if (name == "prompt") made.asks_subtask = value == "subtask";
  if (name == "statistics") made.statistics = value;
  if (name == "deadline_ms") made.deadline = number(value) * 1'000'000;
}

std::string names_of(const std::vector<OptionDeclaration>& known) {
  std::string names;
  for (std::size_t i = 0; i < known.size(); ++i)
    names += (i == 0 ? "" : i + 1 == known.size() ? " and " : ", ") + known[i].name;
  return names;
}

}  // namespace

std::vector<OptionDeclaration> engine_options(std::span<const std::string_view> names) {
  std::vector<OptionDeclaration> made;
  for (const std::string_view name : names) {
    const auto* const found = std::ranges::find(all, name, &OptionDeclaration::name);
    SLUICE_CHECK(found != std::end(all), "an option that is not there");
    made.push_back(*found);
  }
  return made;
}

Result<EngineOptions> read_engine_options(const RoleSpec& role, const std::string& model,
                                          const std::vector<OptionDeclaration>& known) {
  EngineOptions made;
  if (is_gguf(model))
    made.format = kernels::WeightFormat::exact;
  else if (const Result<Architecture> found = Architecture::load(model); found.ok())
    made.format = found->usual_format;
  for (const OptionSpec& option : role.options) {
    const auto declared = std::ranges::find(known, option.key.text, &OptionDeclaration::name);
    if (declared == known.end())
      return invalid_argument("role '" + role.name.text + "': unknown option '" + option.key.text +
                              "'; there are " + names_of(known));
    if (const std::string problem = option_problem(*declared, option.value.text); !problem.empty())
      return invalid_argument("role '" + role.name.text + "': " + problem);
    if (const Result<void> read = check_option(model, role.plugin.text, option.key.text);
        !read.ok())
      return invalid_argument("role '" + role.name.text + "': " + read.error().message);
    read_one(option.key.text, option.value.text, made);
  }
  return made;
}

Result<void> check_option_alone(const RoleSpec& role, const std::string& option) {
  if (option == "precision") return {};
  return invalid_argument("role '" + role.name.text + "': the option '" + option +
                          "' is for the engine that a paged_kv brings; list one in "
                          "global_params, or leave the option out");
}

}  // namespace sluice
