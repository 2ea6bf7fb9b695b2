// What is wrong with a command line, in words that say what to type.
#pragma once

#include <string>

namespace CLI {
class App;
class ParseError;
}  // namespace CLI

namespace sluice::cli {

/// The commands that were typed, each behind a space: " model ask"; empty: none is known.
std::string command_of(const CLI::App& app);

/// The first word that nobody took, as a command of the ones before it; empty: these have none.
std::string unknown_command(const std::string& word, const CLI::App& app);

/// In place of the parser's own words.
std::string usage_problem(const CLI::App& app, const CLI::ParseError& error);

}  // namespace sluice::cli
