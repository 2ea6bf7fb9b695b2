// `sluice roles [NAME]`: the plugins this program knows, with their ports.
#include <cstdio>
#include <memory>

#include "base/nearest.h"
#include "cli/commands.h"
#include "graph/diagnostic.h"

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

std::string option_text(const OptionDeclaration& option) {
  const std::string otherwise = option.required   ? "; it must be given"
                                : option.fallback ? "; default: " + *option.fallback
                                                  : "";
  return "option " + option.name + ": " + option.meaning + " (" + option_range(option) + otherwise +
         ")";
}

void print_needs(const PluginDeclaration& plugin) {
  if (plugin.session_state) std::printf("  keeps session state: balance: session\n");
  for (const OptionDeclaration& option : plugin.options)
    std::printf("  %s\n", option_text(option).c_str());
  for (const std::string& kind : plugin.global_param_kinds)
    std::printf("  %s a global parameter of kind %s\n",
                plugin.session_state ? "needs" : "may be given", kind.c_str());
}

int list_all(const Declarations& declarations) {
  for (const PluginDeclaration& plugin : declarations) {
    std::printf("%s: %s\n", plugin.name.c_str(), plugin.meaning.c_str());
    for (const InterfaceDeclaration& interface : plugin.interfaces)
      std::printf("  %s  { %s } -> { %s }%s\n", interface.name.c_str(),
                  ports_text(interface.inputs).c_str(), ports_text(interface.outputs).c_str(),
                  interface.frames.size() > 1 ? "  (in frames of their own)" : "");
    print_needs(plugin);
  }
  return 0;
}

/// A line for each port, with what it is for.
void print_ports(bool inputs, const std::vector<Port>& ports) {
  for (const Port& port : ports) {
    std::string more = port.meaning.empty() ? "" : ": " + port.meaning;
    if (port.count_source) more += "; a number, once in a call, that may be another node's count";
    if (inputs && port.frames == PortFrames::one) more += "; one frame, always";
    if (inputs && port.frames == PortFrames::at_most_one) more += "; one frame, or none";
    if (port.bytes_max != 0) more += "; at most " + std::to_string(port.bytes_max) + " bytes";
    std::printf("    %s %s%s\n", inputs ? "takes " : "yields", ports_text({port}).c_str(),
                more.c_str());
  }
}

void print_interface(const InterfaceDeclaration& interface) {
  std::printf("  %s\n", interface.name.c_str());
  print_ports(true, interface.inputs);
  print_ports(false, interface.outputs);
  for (std::size_t i = 0; i < interface.frames.size() && interface.frames.size() > 1; ++i) {
    std::string fields;
    for (const std::string& field : interface.frames[i])
      fields += (fields.empty() ? "" : ", ") + field;
    std::printf("    a frame of its own: %s\n", fields.c_str());
  }
  if (interface.yields_max != 0)
    std::printf("    at most %u %s of one activation\n", interface.yields_max,
                interface.yields_max == 1 ? "frame" : "frames");
}

int show_one(const PluginDeclaration& plugin) {
  std::printf("%s: %s\n", plugin.name.c_str(), plugin.meaning.c_str());
  for (const InterfaceDeclaration& interface : plugin.interfaces) print_interface(interface);
  if (plugin.any_ports) std::printf("  takes any interface; its ports are those of the workflow\n");
  if (plugin.needs_model) std::printf("  needs a model: `model:` names its file or directory\n");
  print_needs(plugin);
  return 0;
}

int roles(const Catalog& catalog, const std::string& name) {
  const Declarations declarations = catalog.declarations();
  if (name.empty()) return list_all(declarations);
  if (const PluginDeclaration* plugin = find_plugin(declarations, name)) return show_one(*plugin);
  std::vector<std::string_view> known;
  std::string all;
  for (const PluginDeclaration& plugin : declarations) {
    known.push_back(plugin.name);
    all += (all.empty() ? "" : ", ") + plugin.name;
  }
  const std::string near = nearest_name(name, known);
  return fail("there is no plugin " + in_quotes(name) + "; " +
              (near.empty() ? "there are " + all : "did you mean '" + near + "'?"));
}

}  // namespace

void add_roles(Command app, const Catalog& catalog, Chosen& chosen) {
  Command command =
      app.add_subcommand("roles", "List the plugins that roles can run, or show one of them");
  auto name = std::make_shared<std::string>();
  command.add_option("name", *name, "A plugin, to see what its fields and options are for");
  command.callback(
      [&catalog, &chosen, name] { chosen = [&catalog, name] { return roles(catalog, *name); }; });
}

}  // namespace sluice::cli
