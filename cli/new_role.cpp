// `sluice new role NAME`: a project of one role, whose tests pass at once.
#include <algorithm>
#include <cctype>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <string>

#include "cli/commands.h"
#include "cli/role_template.h"
#include "cli/shell_word.h"

namespace sluice::cli {

namespace {

namespace fs = std::filesystem;

constexpr std::size_t name_max = 64;

bool is_plugin_name(const std::string& name) {
  return !name.empty() && name.size() <= name_max && std::islower(name[0]) != 0 &&
         std::ranges::all_of(name, [](unsigned char c) {
           return c < 0x80 && (std::islower(c) != 0 || std::isdigit(c) != 0 || c == '_');
         });
}

/// Names that CMake keeps for targets of its own, and ours.
bool is_kept(const std::string& name) {
  constexpr std::string_view kept[]{"all",     "clean",          "edit_cache", "help",
                                    "install", "package",        "sluice",     "rebuild_cache",
                                    "test",    "package_source", "depend",     "preinstall"};
  return std::ranges::find(kept, name) != std::end(kept);
}

/// "word_count" -> "WordCount"
std::string class_name(const std::string& name) {
  std::string made;
  bool first = true;
  for (const char c : name) {
    if (c != '_') made += first ? static_cast<char>(std::toupper(c)) : c;
    first = c == '_';
  }
  return made;
}

std::string replaced(std::string_view text, std::string_view mark, const std::string& by) {
  std::string made(text);
  for (std::size_t at = made.find(mark); at != std::string::npos;
       at = made.find(mark, at + by.size()))
    made.replace(at, mark.size(), by);
  return made;
}

/// The file that a template becomes; empty: it is of the other kind of role.
std::string file_name(std::string_view name, const std::string& role, const std::string& kind) {
  std::string made(name.substr(0, name.size() - std::string_view(".in").size()));
  if (made == kind + ".cpp") return role + ".cpp";
  if (made == "plain.cpp" || made == "stepped.cpp") return "";
  return replaced(made, "NAME", role);
}

bool write(const fs::path& path, const std::string& text) {
  std::ofstream file(path, std::ios::binary);
  file << text;
  file.close();
  return file.good();
}

int new_role(const std::string& name, std::string directory, bool stepped, const Catalog& catalog) {
  if (!is_plugin_name(name))
    return fail("'" + name +
                "' cannot be a role's name: names are lower-case letters, digits and _, begin with "
                "a letter, and have at most " +
                std::to_string(name_max));
  if (is_kept(name)) return fail("'" + name + "' is a target of CMake's own: take another name");
  if (name == "null")
    return fail("'null' is no name in YAML: there it means that nothing is said");
  if (catalog.find(name) != nullptr)
    return fail("there is a plugin '" + name + "' already: `sluice roles` lists them");
  if (directory.empty()) directory = name;
  std::error_code failed;
  if (fs::exists(fs::symlink_status(directory, failed)))
    return fail(directory + " is there already: give another folder, as `sluice new role " + name +
                " DIR`");
  if (!fs::create_directories(directory, failed) || failed)
    return fail(directory + ": cannot be made: " + failed.message());
  const std::string kind = stepped ? "stepped" : "plain";
  for (const TemplateFile& file : role_template()) {
    const std::string to = file_name(file.name, name, kind);
    if (to.empty()) continue;
    std::string text = replaced(file.text, "@NAME@", name);
    text = replaced(replaced(text, "@CLASS@", class_name(name)), "@KIND@", kind);
    if (!write(fs::path(directory) / to, text))
      return fail((fs::path(directory) / to).string() + ": cannot be written");
  }
  std::printf(
      "%s: a %s role, a workflow and their tests\n"
      "  cd %s && cmake -S . -B build && cmake --build build && ctest --test-dir build\n",
      directory.c_str(), kind.c_str(), shell_word(directory).c_str());
  return 0;
}

}  // namespace

void add_new(Command app, const Catalog& catalog, Chosen& chosen) {
  struct Options {
    std::string name;
    std::string directory;
    bool stepped = false;
  };
  auto options = std::make_shared<Options>();
  Command command = app.add_subcommand("new", "Begin something of your own");
  command.require_subcommand();
  Command role = command.add_subcommand("role", "A project of one role, as a plugin");
  role.add_option("name", options->name, "The role's name, as workflows will call it").required();
  role.add_option("directory", options->directory, "Where to (default: the name)");
  role.add_flag("--stepped", options->stepped,
                "A role that advances many activations together, a step at a time");
  role.callback([&catalog, &chosen, options] {
    chosen = [&catalog, options] {
      return new_role(options->name, options->directory, options->stepped, catalog);
    };
  });
}

}  // namespace sluice::cli
