// What a command takes: its options, and what runs when it is typed. The commands are declared with
// these; the parser behind them is CLI11, whose header takes each file that includes it longer to
// compile than all else in it, so four do: command_line, main, usage and examples.
//
// Handles of what the parser holds: copied freely, valid as long as the parser's object is.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <variant>
#include <vector>

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace sluice::cli {

/// A number that an option takes: from `least` to `most`. --help shows them.
struct Range {
  std::variant<int, unsigned, std::uint64_t, double> least, most;
  template <typename Number>
  Range(Number from, Number to) : least(from), most(to) {}
};

class Option {
 public:
  Option(CLI::Option* option) : option_(option) {}

  Option required();
  /// What --help shows in place of the value's type.
  Option type_name(const std::string& name);
  /// `problem` gets what was given: what is wrong with it, or an empty text.
  Option check(std::function<std::string(const std::string&)> problem);
  /// The same with a name for what it takes, which --help shows behind the type.
  Option check(std::function<std::string(const std::string&)> problem, const std::string& name);
  Option check(const Range& range);
  Option one_of(const std::vector<std::string>& words);
  /// Goes with the option of that name only.
  Option needs(const std::string& name);
  Option excludes(const Option& other);
  /// May be given many times, one value each time.
  Option repeated();
  /// Many values in one word, between such characters.
  Option separated_by(char delimiter);
  /// What --help shows as what holds without it.
  Option shown_default(const std::string& text);
  Option shown_default();
  /// The heading in --help that it stands under.
  Option group(const std::string& name);
  /// How often it was given; once the line is parsed.
  std::size_t count() const;
  /// What it was given.
  std::vector<std::string> results() const;

 private:
  CLI::Option* option_;
};

class Command {
 public:
  Command(CLI::App& command) : command_(&command) {}

  Command add_subcommand(const std::string& name, const std::string& what);
  void require_subcommand();
  /// `name`: "--name", several between commas, or "NAME" of what stands without one. `to`: texts,
  /// lists of texts, numbers and such that may be missing (command_line.cpp lists them).
  template <typename Value>
  Option add_option(const std::string& name, Value& to, const std::string& what);
  /// The value is handed over.
  Option add_option(const std::string& name, std::function<void(const std::string&)> to,
                    const std::string& what);
  Option add_flag(const std::string& name, bool& to, const std::string& what);
  /// What was added before.
  Command subcommand(const std::string& name) const;
  Option option(const std::string& name) const;
  /// When it was typed, and the line holds what it needs.
  void callback(std::function<void()> typed);
  /// --help does not show it.
  void hide();

 private:
  CLI::App* command_;
};

}  // namespace sluice::cli
