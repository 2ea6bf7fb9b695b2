#include "cli/command_line.h"

#include <CLI/CLI.hpp>
#include <optional>
#include <utility>

namespace sluice::cli {

Option Option::required() { return option_->required(); }

Option Option::type_name(const std::string& name) { return option_->type_name(name); }

Option Option::check(std::function<std::string(const std::string&)> problem) {
  return option_->check(std::move(problem));
}

Option Option::check(std::function<std::string(const std::string&)> problem,
                     const std::string& name) {
  return option_->check(CLI::Validator(
      [problem = std::move(problem)](std::string& given) { return problem(given); }, name));
}

Option Option::check(const Range& range) {
  return std::visit(
      [&](auto least) {
        return option_->check(CLI::Range(least, std::get<decltype(least)>(range.most)));
      },
      range.least);
}

Option Option::one_of(const std::vector<std::string>& words) {
  return option_->check(CLI::IsMember(words));
}

Option Option::needs(const std::string& name) { return option_->needs(name); }

Option Option::excludes(const Option& other) { return option_->excludes(other.option_); }

Option Option::repeated() {
  return option_->expected(1)->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
}

Option Option::separated_by(char delimiter) { return option_->delimiter(delimiter); }

Option Option::shown_default(const std::string& text) { return option_->default_str(text); }

Option Option::shown_default() { return option_->capture_default_str(); }

Option Option::group(const std::string& name) { return option_->group(name); }

std::size_t Option::count() const { return option_->count(); }

std::vector<std::string> Option::results() const { return option_->results(); }

Command Command::add_subcommand(const std::string& name, const std::string& what) {
  return *command_->add_subcommand(name, what);
}

void Command::require_subcommand() { command_->require_subcommand(1); }

template <typename Value>
Option Command::add_option(const std::string& name, Value& to, const std::string& what) {
  return command_->add_option(name, to, what);
}

template Option Command::add_option(const std::string&, std::string&, const std::string&);
template Option Command::add_option(const std::string&, std::vector<std::string>&,
                                    const std::string&);
template Option Command::add_option(const std::string&, std::optional<std::string>&,
                                    const std::string&);
template Option Command::add_option(const std::string&, std::optional<std::int64_t>&,
                                    const std::string&);
template Option Command::add_option(const std::string&, std::int64_t&, const std::string&);
template Option Command::add_option(const std::string&, std::uint32_t&, const std::string&);
template Option Command::add_option(const std::string&, std::uint64_t&, const std::string&);
template Option Command::add_option(const std::string&, std::optional<std::uint64_t>&,
                                    const std::string&);
template Option Command::add_option(const std::string&, float&, const std::string&);
template Option Command::add_option(const std::string&, double&, const std::string&);
template Option Command::add_option(const std::string&, std::optional<double>&, const std::string&);

Option Command::add_option(const std::string& name, std::function<void(const std::string&)> to,
                           const std::string& what) {
  return command_->add_option_function<std::string>(name, std::move(to), what);
}

Option Command::add_flag(const std::string& name, bool& to, const std::string& what) {
  return command_->add_flag(name, to, what);
}

Command Command::subcommand(const std::string& name) const {
  return *command_->get_subcommand(name);
}

Option Command::option(const std::string& name) const { return command_->get_option(name); }

void Command::callback(std::function<void()> typed) { command_->callback(std::move(typed)); }

void Command::hide() { command_->group(""); }

}  // namespace sluice::cli
