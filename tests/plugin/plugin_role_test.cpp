// What an instance of a plugin is made from, as the plugin sees it.
#include "plugin/plugin_role.h"

#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "plugin/host.h"
#include "tests/roles/fake_activation.h"

namespace sluice {
namespace {

/// What the table below was asked to make, as text.
std::vector<std::string> seen;

std::string text(sluice_text from) {
  return from.size == 0 ? "" : std::string(from.data, from.size);
}

std::int32_t create(const sluice_host*, const sluice_making* making, void** instance,
                    sluice_error*) {
  for (std::uint64_t i = 0; i < making->option_count; ++i) {
    const sluice_option& option = making->options[i];
    std::string line = text(option.name) + " '" + text(option.text) + "'";
    if (option.type == SLUICE_OPTION_TEXT) line += " text";
    if (option.type == SLUICE_OPTION_WHOLE)
      line += " whole " + std::to_string(option.whole) + " " + std::to_string(option.real);
    if (option.type == SLUICE_OPTION_REAL) line += " real " + std::to_string(option.real);
    seen.push_back(line);
  }
  for (std::uint64_t i = 0; i < making->param_count; ++i)
    seen.push_back(text(making->params[i].name) + ": " + text(making->params[i].kind));
  *instance = &seen;
  return SLUICE_OK;
}

sluice_plugin plain_table() {
  sluice_plugin table{};
  table.struct_size = sizeof table;
  table.create = create;
  table.destroy = [](void*) {};
  table.run = [](void*, std::uint64_t, sluice_error*) { return std::int32_t{SLUICE_OK}; };
  table.create_param = [](const sluice_param_making*, void** param, sluice_error*) {
    *param = &seen;
    return std::int32_t{SLUICE_OK};
  };
  table.destroy_param = [](void*) {};
  table.end_session = [](void*, sluice_text) {};
  return table;
}

RoleSpec role_with(const std::vector<std::pair<std::string, std::string>>& options) {
  RoleSpec role;
  role.name.text = "r";
  for (const auto& [key, value] : options) {
    OptionSpec& option = role.options.emplace_back();
    option.key.text = key;
    option.value.text = value;
  }
  return role;
}

TEST_CASE("a plugin gets each option by its declared type, and defaults where none is given") {
  const sluice_plugin table = plain_table();
  RoleManifest manifest;
  OptionDeclaration whole{.name = "whole", .meaning = "", .choices = {}, .least = -9, .most = 99};
  OptionDeclaration real{.name = "real", .meaning = "", .choices = {}, .type = OptionType::real};
  OptionDeclaration words{.name = "words", .meaning = "", .choices = {}, .type = OptionType::text};
  OptionDeclaration choice{.name = "choice", .meaning = "", .choices = {"7", "8"}};
  whole.fallback = "-3";
  real.fallback = "0.5";
  choice.fallback = "8";  // a choice is a text, digits or not
  manifest.declaration.options = {whole, real, words, choice};
  const auto made_with = [&](const RoleSpec& role) {
    seen.clear();
    RoleMaking making;
    making.role = &role;
    REQUIRE(make_plugin_role(table, manifest, making).ok());
    return seen;
  };
  CHECK(made_with(role_with({})) == std::vector<std::string>{"whole '-3' whole -3 -3.000000",
                                                             "real '0.5' real 0.500000",
                                                             "choice '8' text"});
  CHECK(
      made_with(role_with({{"choice", "7"}, {"words", "12"}, {"real", "2e3"}, {"whole", "42"}})) ==
      std::vector<std::string>{"whole '42' whole 42 42.000000", "real '2e3' real 2000.000000",
                               "words '12' text", "choice '7' text"});
}

TEST_CASE("a plugin shares global parameters of its own only") {
  const sluice_plugin table = plain_table();
  const sluice_plugin other = plain_table();
  GlobalParamSpec spec;
  spec.name.text = "shared";
  spec.kind.text = "crowd";
  GlobalParamMaking param_making;
  param_making.spec = &spec;
  const auto own = make_plugin_param(table, param_making);
  const auto foreign = make_plugin_param(other, param_making);
  struct NoPlugin final : GlobalParam {
    void end_session(std::string_view) override {}
  } builtin;
  REQUIRE((own.ok() && foreign.ok()));
  RoleSpec role = role_with({});
  role.global_params.emplace_back().text = "shared";
  const RoleManifest manifest;
  const auto made_with = [&](GlobalParam* param) {
    seen.clear();
    RoleMaking making;
    making.role = &role;
    making.global_params = {param};
    const Result<RoleInstance> made = make_plugin_role(table, manifest, making);
    return made.ok() ? std::string("made") : made.error().message;
  };
  CHECK(made_with(own.value().get()) == "made");
  CHECK(seen == std::vector<std::string>{"shared: crowd"});
  const std::string refused =
      "the global parameter 'shared' is not of this plugin; a plugin shares its own kinds only";
  CHECK(made_with(foreign.value().get()) == refused);
  CHECK(made_with(&builtin) == refused);
  CHECK(seen.empty());
}

TEST_CASE("an activation in another's place has inputs of its own") {
  static const sluice_host* host = nullptr;
  sluice_plugin table = plain_table();
  table.create = [](const sluice_host* given, const sluice_making*, void** instance,
                    sluice_error*) {
    host = given;
    *instance = &seen;
    return std::int32_t{SLUICE_OK};
  };
  table.run = [](void*, std::uint64_t id, sluice_error*) {
    sluice_value value{};
    for (const char* field : {"x", "y"}) {
      value.struct_size = sizeof value;
      const std::int32_t code = host->input(host, id, {field, 1}, 0, &value);
      seen.push_back(code == SLUICE_OK ? text(value.text) : "none");
    }
    return std::int32_t{SLUICE_OK};
  };
  const RoleSpec role = role_with({});
  RoleMaking making;
  making.role = &role;
  RoleInstance made = std::move(make_plugin_role(table, {}, making)).value();
  auto& plain = *std::get<std::unique_ptr<Role>>(made);
  seen.clear();
  FakeActivation first, second, third;
  first.give("x", make_text("one"));
  second.give("x", make_text("two"));
  second.give("y", make_text("more"));
  for (FakeActivation* activation : {&first, &second, &third}) CHECK(plain.run(*activation).ok());
  CHECK(seen == std::vector<std::string>{"one", "none", "two", "more", "none", "none"});
}

TEST_CASE("a plugin's message is cut to 4096 bytes") {
  CHECK(error_from(SLUICE_EXHAUSTED, std::string(4096, 'x')).message == std::string(4096, 'x'));
  CHECK(error_from(SLUICE_EXHAUSTED, std::string(4097, 'x')).message == std::string(4096, 'x'));
  CHECK(error_from(SLUICE_EXHAUSTED, "").message == "the role failed and gave no reason");
}

}  // namespace
}  // namespace sluice
