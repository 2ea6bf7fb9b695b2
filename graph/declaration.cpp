#include "graph/declaration.h"

#include <algorithm>

namespace sluice {

namespace {

template <typename T>
const T* find_named(const std::vector<T>& items, std::string_view name) {
  const auto it = std::ranges::find_if(items, [&](const T& item) { return item.name == name; });
  return it == items.end() ? nullptr : &*it;
}

}  // namespace

const PluginDeclaration* find_plugin(const Declarations& declarations, std::string_view name) {
  return find_named(declarations, name);
}

const InterfaceDeclaration* find_interface(const PluginDeclaration& plugin, std::string_view name) {
  return find_named(plugin.interfaces, name);
}

const Port* find_port(const std::vector<Port>& ports, std::string_view name) {
  return find_named(ports, name);
}

}  // namespace sluice
