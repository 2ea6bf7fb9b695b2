#include "cli/usage.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <regex>
#include <string_view>
#include <vector>

#include "base/nearest.h"

namespace sluice::cli {

namespace {

/// The innermost command that was typed.
const CLI::App& innermost(const CLI::App& app) {
  const CLI::App* at = &app;
  while (!at->get_subcommands().empty()) at = at->get_subcommands().front();
  return *at;
}

/// Its commands, but for those that only the program itself types.
std::vector<std::string> commands_of(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::App* command : app.get_subcommands({}))
    if (!command->get_group().empty()) names.push_back(command->get_name());
  return names;
}

std::string listed(const std::vector<std::string>& words) {
  std::string list;
  for (const std::string& word : words) list += (list.empty() ? "" : ", ") + word;
  return list;
}

/// "--cluster", or a positional's name.
std::string name_of(const CLI::Option& option) { return option.get_name(); }

/// What an option that lacks its value, or is missing itself, is for.
std::string needs(const CLI::App& app, const CLI::Option& option) {
  std::string description = option.get_description();
  return "`sluice" + command_of(app) + "` needs " + name_of(option) +
         (description.empty() ? "" : ": " + description);
}

/// What was typed where an option or a command is missing.
std::string missing(const CLI::App& app) {
  const CLI::App& command = innermost(app);
  for (const CLI::Option* option : command.get_options()) {
    if (!option->get_required() || option->count() > 0) continue;
    const std::vector<std::string> rest = app.remaining(true);
    const bool value = !option->get_positional() && !rest.empty() && !rest[0].starts_with('-');
    return needs(app, *option) +
           (value ? "; did you mean " + name_of(*option) + " " + rest[0] + "?" : "");
  }
  const std::vector<std::string> names = commands_of(command);
  return names.empty() ? "" : "`sluice" + command_of(app) + "` needs a command: " + listed(names);
}

/// The option of the typed command that a message of the parser begins with; nullptr: none.
const CLI::Option* named_in(const CLI::App& app, const std::string& message) {
  const std::string name = message.substr(0, message.find(':'));
  for (const CLI::Option* option : innermost(app).get_options())
    if (name_of(*option) == name) return option;
  return nullptr;
}

/// "0.000001" of "1e-06": as people write a number.
std::string plain(const std::string& number) {
  if (number.find_first_of(".e") == std::string::npos) return number;
  char text[400];
  std::snprintf(text, sizeof(text), "%.9f", std::strtod(number.c_str(), nullptr));
  std::string digits = text;
  digits.erase(digits.find_last_not_of('0') + 1);
  if (digits.back() == '.') digits.pop_back();
  return digits;
}

/// What number the option takes, to who gave another text; empty: it takes no number.
std::string number_of(const CLI::Option& option, const std::string& given) {
  std::smatch found;
  static const std::regex number(R"((U?INT|FLOAT)(?::.* in \[(\S+) - (\S+)\])?.*)");
  const std::string type = option.get_type_name();
  if (!std::regex_match(type, found, number)) return "";
  const std::string what = found.str(1) == "FLOAT" ? "a number" : "a whole number";
  if (found[2].matched) return what + " from " + plain(found.str(2)) + " to " + plain(found.str(3));
  static const std::regex long_one(R"([-+]?\d{19,})");
  return what + (found.str(1) == "UINT" ? ", 0 or more" : "") +
         (std::regex_match(given, long_one) ? " and of 64 bits at most" : "");
}

/// The parser's words about a value, said as what it is and what it must be.
std::string about_value(const CLI::App& app, const std::string& message) {
  std::smatch found;
  static const std::regex choice(R"((.+): (.*) not in \{(.*)\})");
  if (std::regex_match(message, found, choice))
    return found.str(1) + " is '" + found.str(2) + "', it must be one of " +
           std::regex_replace(found.str(3), std::regex(","), ", ");
  static const std::regex twice(R"((.+): At Most 1 required but received .*)");
  if (std::regex_match(message, found, twice)) return found.str(1) + " is given more than once";
  const CLI::Option* option = named_in(app, message);
  if (option != nullptr && message.ends_with(" missing"))
    return name_of(*option) + " needs a value behind it" +
           (option->get_description().empty() ? "" : ": " + option->get_description());
  static const std::regex conversion("Could not convert: (.+) = .*");
  if (option == nullptr && std::regex_match(message, found, conversion))
    option = named_in(app, found.str(1));
  if (option == nullptr || option->count() == 0) return message;
  if (option->count() > 1 && option->get_items_expected_max() == 1 &&
      option->get_multi_option_policy() == CLI::MultiOptionPolicy::Throw)
    return name_of(*option) + " is given more than once";
  const std::string& given = option->results().back();
  const std::string number = number_of(*option, given);
  if (number.empty()) return message;
  return name_of(*option) + " is '" + given + "', it must be " + number +
         (option->get_description().ends_with("in seconds") ? ", in seconds" : "");
}

/// An option that the command has not: the nearest that it has, or the same under another name.
std::string unknown_option(const std::string& word, const CLI::App& app) {
  const std::string given = word.substr(0, word.find('='));
  std::vector<std::string> names;
  std::string elsewhere;
  for (const CLI::Option* option : innermost(app).get_options()) {
    for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
    // `--json` is one of the values of --format.
    const std::string choices = option->get_type_name();
    if (option->get_name() == "--format" && given.size() > 2 &&
        std::regex_search(
            choices,
            std::regex("[{,]" + std::regex_replace(given.substr(2), std::regex("[^a-z]"), "") +
                       "[,}]")))
      elsewhere = "--format " + given.substr(2);
  }
  // These take the cluster file as the others take it behind --cluster.
  const std::string command = innermost(app).get_name();
  if (given == "--cluster" && (command == "up" || command == "validate"))
    return "`sluice" + command_of(app) +
           "` has no option '--cluster': write the file alone, `sluice" + command_of(app) +
           " FILE`";
  const std::string near = nearest_name(given, {names.begin(), names.end()});
  const std::string meant = !elsewhere.empty() ? elsewhere : near;
  return "`sluice" + command_of(app) + "` has no option '" + given + "'" +
         (meant.empty() ? "" : "; did you mean '" + meant + "'?");
}

}  // namespace

std::string command_of(const CLI::App& app) {
  std::string words;
  const CLI::App* at = &app;
  while (!at->get_subcommands().empty()) {
    at = at->get_subcommands().front();
    words += " " + at->get_name();
  }
  return words;
}

std::string unknown_command(const std::string& word, const CLI::App& app) {
  const std::vector<std::string> names = commands_of(innermost(app));
  if (names.empty()) return "";
  const std::string before = command_of(app);
  std::string what =
      "there is no command '" + (before.empty() ? "" : before.substr(1) + " ") + word + "'";
  const std::string near = nearest_name(word, {names.begin(), names.end()});
  return what + (near.empty() ? "; there are " + listed(names) : "; did you mean '" + near + "'?");
}

std::string usage_problem(const CLI::App& app, const CLI::ParseError& error) {
  const std::vector<std::string> rest = app.remaining(true);
  const auto option = std::ranges::find_if(
      rest, [](const std::string& word) { return word.size() > 1 && word.starts_with('-'); });
  // A misspelt option is why another is missing, or a word too many.
  if (option != rest.end()) return unknown_option(*option, app);
  if (!rest.empty())
    if (std::string unknown = unknown_command(rest[0], app); !unknown.empty()) return unknown;
  if (dynamic_cast<const CLI::RequiredError*>(&error) != nullptr)
    if (std::string what = missing(app); !what.empty()) return what;
  if (dynamic_cast<const CLI::ExtrasError*>(&error) != nullptr && !rest.empty())
    return "'" + rest[0] + "' is not expected here: a value of several words needs quotes";
  return about_value(app, error.what());
}

}  // namespace sluice::cli
