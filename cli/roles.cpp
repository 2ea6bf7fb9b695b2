// `sluice roles`: the plugins this program knows, with their ports.
#include <cstdio>

#include "cli/commands.h"

namespace sluice::cli {

namespace {

std::string ports_text(const std::vector<Port>& ports) {
  std::string text;
  for (const Port& port : ports)
    text +=
        (text.empty() ? "" : ", ") + port.name + ": " +
        (port.dtype || !port.shape.empty() ? shape_text(port) : std::string(to_string(port.type)));
  return text;
}

int roles(const Catalog& catalog) {
  for (const PluginDeclaration& plugin : catalog.declarations()) {
    std::printf("%s: %s\n", plugin.name.c_str(), plugin.meaning.c_str());
    for (const InterfaceDeclaration& interface : plugin.interfaces)
      std::printf("  %s  { %s } -> { %s }%s\n", interface.name.c_str(),
                  ports_text(interface.inputs).c_str(), ports_text(interface.outputs).c_str(),
                  interface.frames.size() > 1 ? "  (in frames of their own)" : "");
    if (plugin.session_state) std::printf("  keeps session state: balance: session\n");
    for (const OptionDeclaration& option : plugin.options) {
      const std::string otherwise = option.required   ? "; it must be given"
                                    : option.fallback ? "; default: " + *option.fallback
                                                      : "";
      std::printf("  option %s: %s (%s%s)\n", option.name.c_str(), option.meaning.c_str(),
                  option_range(option).c_str(), otherwise.c_str());
    }
    for (const std::string& kind : plugin.global_param_kinds)
      std::printf("  %s a global parameter of kind %s\n",
                  plugin.session_state ? "needs" : "may be given", kind.c_str());
  }
  return 0;
}

}  // namespace

void add_roles(CLI::App& app, const Catalog& catalog, Chosen& chosen) {
  CLI::App* command = app.add_subcommand("roles", "List the plugins that roles can run");
  command->callback([&catalog, &chosen] { chosen = [&catalog] { return roles(catalog); }; });
}

}  // namespace sluice::cli
