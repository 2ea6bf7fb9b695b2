#include "graph/declaration.h"

#include <algorithm>
#include <charconv>
#include <cstdio>

#include "base/count_text.h"
#include "graph/diagnostic.h"

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

std::string shape_text(const Port& port) {
  std::string text = port.dtype.has_value() ? std::string(to_string(*port.dtype)) : "any";
  if (port.shape.empty()) return text + "[...]";
  text += '[';
  for (std::size_t axis = 0; axis < port.shape.size(); ++axis)
    text += (axis != 0 ? ", " : "") +
            (port.shape[axis] == any_size ? "?" : std::to_string(port.shape[axis]));
  return text + ']';
}

bool shapes_agree(const Port& a, const Port& b) {
  if (a.dtype.has_value() && b.dtype.has_value() && *a.dtype != *b.dtype) return false;
  if (a.shape.empty() || b.shape.empty()) return true;
  return std::ranges::equal(a.shape, b.shape, [](std::int64_t one, std::int64_t other) {
    return one == other || one == any_size || other == any_size;
  });
}

bool contents_agree(const Port& a, const Port& b) {
  return a.content.empty() || b.content.empty() || a.content == b.content;
}

bool fits(const Port& port, const Tensor& tensor) {
  if (port.dtype.has_value() && tensor.dtype() != *port.dtype) return false;
  return port.shape.empty() ||
         std::ranges::equal(port.shape, tensor.shape(), [](std::int64_t want, std::int64_t have) {
           return want == have || want == any_size;
         });
}

std::optional<std::string> breach_of(const Port& port, const Payload& value) {
  if (port.type != ValueType::any && value.type != port.type)
    return std::string(to_string(value.type)) + " in '" + port.name + "', which is declared as " +
           std::string(to_string(port.type));
  const Tensor& tensor = value.tensor;
  if (value.type == ValueType::image &&
      (tensor.dtype() != Dtype::u8 || tensor.shape().size() != 3 || tensor.dim(2) != 3))
    return tensor.describe() + " as a picture in '" + port.name +
           "'; a picture is u8 [height, width, 3]";
  if ((value.type == ValueType::tensor || value.type == ValueType::audio) && !fits(port, tensor))
    return tensor.describe() + " in '" + port.name + "', which is declared as " + shape_text(port);
  const std::size_t bytes = value.text.size() + tensor.bytes().size();
  if (port.bytes_max != 0 && bytes > port.bytes_max)
    return count_text(bytes, "byte") + " in '" + port.name + "', at most " +
           std::to_string(port.bytes_max) + " are declared";
  return {};
}

namespace {

template <typename T>
bool reads_whole(const std::string& text, T& value) {
  const char* end = text.data() + text.size();
  const auto [stop, failed] = std::from_chars(text.data(), end, value);
  return failed == std::errc() && stop == end;
}

std::string shown(double value) {
  char text[32];
  const int size = std::snprintf(text, sizeof text, "%.15g", value);
  return {text, static_cast<std::size_t>(size)};
}

}  // namespace

std::string option_range(const OptionDeclaration& option) {
  if (!option.choices.empty()) {
    std::string all;
    for (const std::string& choice : option.choices) all += (all.empty() ? "" : ", ") + choice;
    return "one of " + all;
  }
  switch (option.type) {
    case OptionType::whole:
      return "a whole number from " + std::to_string(option.least) + " to " +
             std::to_string(option.most);
    case OptionType::real:
      return "a number from " + shown(option.real_least) + " to " + shown(option.real_most);
    case OptionType::text:
      return "a text of " + std::to_string(option.least) + " to " + std::to_string(option.most) +
             " bytes";
  }
  return "";
}

namespace {

bool is_allowed(const OptionDeclaration& option, const std::string& value) {
  if (!option.choices.empty())
    return std::ranges::find(option.choices, value) != option.choices.end();
  std::int64_t whole = 0;
  double real = 0;
  switch (option.type) {
    case OptionType::whole:
      return reads_whole(value, whole) && whole >= option.least && whole <= option.most;
    case OptionType::real:
      return reads_whole(value, real) && real >= option.real_least && real <= option.real_most;
    case OptionType::text:
      return static_cast<std::int64_t>(value.size()) >= option.least &&
             static_cast<std::int64_t>(value.size()) <= option.most;
  }
  return false;
}

}  // namespace

std::string option_problem(const OptionDeclaration& option, const std::string& value) {
  if (is_allowed(option, value)) return "";
  return option.name + " is " + in_quotes(value) + ", it must be " + option_range(option);
}

}  // namespace sluice
