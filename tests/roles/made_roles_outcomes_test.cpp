// Each role over each checkpoint, with pages of its own, of another checkpoint and with none: what
// can be made is made, and the rest is refused in the words that it was refused in before.
#include <catch2/catch.hpp>
#include <filesystem>
#include <map>

#include "fake_activation.h"
#include "roles/catalog.h"
#include "tests/directories.h"
#include "tests/outcomes.h"

using namespace sluice;

namespace {

const std::string root = SLUICE_SOURCE_DIR;

/// Those of which the repository has weights, by the name that the outcomes give them.
std::map<std::string, std::string> checkpoints() {
  std::map<std::string, std::string> found{{"scenes", root + "/models/scenes"}};
  for (const auto& entry : std::filesystem::directory_iterator(root + "/tests/golden"))
    if (std::filesystem::exists(entry.path() / "config.json"))
      found[entry.path().filename()] = entry.path();
  for (const char* name : {"llama", "qwen2", "gemma"})
    found[std::string(name) + ".gguf"] = root + "/tests/golden/gguf/" + name + ".gguf";
  return found;
}

std::string without_root(std::string text) {
  for (std::size_t at; (at = text.find(root + "/")) != std::string::npos;)
    text.erase(at, root.size() + 1);
  return text;
}

using Options = std::vector<std::pair<std::string, std::string>>;

struct Asked {
  std::string directory;
  GlobalParam* pages = nullptr;
  Options options = {};
};

Result<RoleInstance> make(const Plugin& plugin, const Asked& asked, const RoleSpec& spec) {
  RoleMaking making;
  making.role = &spec;
  making.model_directory = asked.directory;
  if (asked.pages != nullptr) making.global_params = {asked.pages};
  return plugin.make(making);
}

RoleSpec spec_of(const Asked& asked) {
  RoleSpec spec;
  spec.name.text = "r";
  for (const auto& [key, value] : asked.options) spec.options.push_back({{key, {}}, {value, {}}});
  return spec;
}

std::string words(const Result<RoleInstance>& made) {
  if (!made.ok()) return without_root(made.error().message);
  return std::holds_alternative<std::unique_ptr<SteppedRole>>(*made) ? "made, stepped" : "made";
}

std::string outcome(const Plugin& plugin, const Asked& asked) {
  const RoleSpec spec = spec_of(asked);
  return words(make(plugin, asked, spec));
}

std::vector<const Plugin*> plugins_of(const Catalog& catalog) {
  std::vector<const Plugin*> found;
  for (const PluginDeclaration& declared : catalog.declarations())
    if (declared.needs_model) found.push_back(catalog.find(declared.name));
  return found;
}

Result<std::unique_ptr<GlobalParam>> pages_of(const Catalog& catalog,
                                              const std::string& directory) {
  GlobalParamSpec spec;
  spec.name.text = "kv";
  spec.kind.text = "paged_kv";
  spec.pages = 16;
  return catalog.make_global_param({&spec, directory});
}

}  // namespace

TEST_CASE("each role over each checkpoint is made, or refused in the words of before") {
  test::Outcomes outcomes("made_roles");
  Catalog catalog;
  add_builtin_plugins(catalog);
  std::map<std::string, std::unique_ptr<GlobalParam>> pages;
  for (const auto& [name, directory] : checkpoints()) {
    auto made = pages_of(catalog, directory);
    outcomes.add("pages", name + ": " + (made.ok() ? "made" : without_root(made.error().message)));
    if (made.ok()) pages[name] = std::move(*made);
  }
  outcomes.add("pages", "of no model: " + pages_of(catalog, "").error().message);
  for (const Plugin* plugin : plugins_of(catalog))
    for (const auto& [name, directory] : checkpoints()) {
      const std::string& title = plugin->declaration.name;
      outcomes.add(title, name + " alone: " + outcome(*plugin, {directory}));
      for (const auto& [of, param] : pages) {
        std::string text = outcome(*plugin, {directory, param.get()});
        const std::string made_for = "its paged_kv is made for ";
        if (const std::size_t at = text.find(made_for); at != std::string::npos)
          text.erase(at + made_for.size());
        outcomes.add(title,
                     name + (of == name ? " with its pages: " : " with other pages: ") + text);
      }
    }
  outcomes.require_as_kept();
}

TEST_CASE("two roles over the same pages agree on what these are for, or the second is refused") {
  test::Outcomes outcomes("made_beside");
  Catalog catalog;
  add_builtin_plugins(catalog);
  const std::vector<std::pair<std::string, Options>> seconds{
      {"alike", {}},
      {"of another precision", {{"precision", "int8"}}},
      {"of other steps", {{"step_tokens", "32"}}}};
  for (const auto& [name, directory] : checkpoints())
    for (const Plugin* plugin : plugins_of(catalog)) {
      const auto pages = pages_of(catalog, directory);
      if (!pages.ok()) continue;
      const RoleSpec spec;
      const Asked asked{directory, pages->get()};
      const Result<RoleInstance> first = make(*plugin, asked, spec);
      if (!first.ok()) continue;
      for (const auto& [how, options] : seconds)
        outcomes.add(plugin->declaration.name + " over " + name,
                     how + ": " + outcome(*plugin, {directory, pages->get(), options}));
    }
  outcomes.require_as_kept();
}

TEST_CASE(
    "pages that are kept in a folder, on a GPU or among machines are made where they can be") {
  test::Outcomes outcomes("made_pages");
  Catalog catalog;
  add_builtin_plugins(catalog);
  for (const auto& [name, directory] : checkpoints()) {
    const auto made = [&](const std::string& title, const GlobalParamSpec& spec) {
      const auto pages = catalog.make_global_param({&spec, directory});
      outcomes.add(title,
                   name + ": " + (pages.ok() ? "made" : without_root(pages.error().message)));
    };
    GlobalParamSpec spec;
    spec.name.text = "kv";
    spec.kind.text = "paged_kv";
    spec.pages = 16;
    for (const Dtype dtype : {Dtype::bf16, Dtype::f32}) {
      spec.kv_dtype = dtype;
      made(dtype == Dtype::bf16 ? "in bf16" : "in f32", spec);
    }
    GlobalParamSpec cuda = spec;
    cuda.device = EngineDevice::cuda;
    made("on a GPU", cuda);
    GlobalParamSpec many = spec;
    many.pages = std::int64_t{1} << 40;
    const auto refused = catalog.make_global_param({&many, directory});
    outcomes.add("more than there is memory", name + (refused.ok() ? ": made" : ": refused"));
    const ModelCheck shared = catalog.shared_check_of_kind("paged_kv");
    const Result<void> can = shared(directory);
    outcomes.add("among machines",
                 name + ": " + (can.ok() ? "can be" : without_root(can.error().message)));
  }
  outcomes.require_as_kept();
}
