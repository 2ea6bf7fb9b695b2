// A role without Sluice: gives one activation its inputs, runs the role, and keeps what it yields.
//
// For unit tests of a plugin, linked with the role's own sources. A stepped role is admitted and
// stepped until it has retired the activation, at most `steps_max` times: then it is given up with
// an error. What a declaration says of ports and defaults is not known here: give each option.
#pragma once

#include <cstdlib>
#include <deque>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "role.hpp"

namespace sluice::plugin {

/// A value as the test gives or gets it.
struct TestValue {
  Type type = Type::text;
  std::string text;  // of text, json, bytes
  std::int64_t number = 0;
  std::vector<std::int64_t> shape;
  std::uint32_t dtype = 0;
  std::string data;  // of a tensor: its bytes
  std::map<std::string, std::int64_t> attributes;
};

struct TestFrame {
  std::map<std::string, TestValue> fields;
};

/// One call: fill it, `run` it, look at `frames`, `status` and `ended`.
class TestCall {
 public:
  std::string interface_name;
  std::string session = "test";
  std::map<std::string, std::vector<TestValue>> inputs;
  std::map<std::string, std::string> options;  // as text; numbers are read from it
  bool cancelled = false;
  std::size_t steps_max = 10'000;

  std::vector<TestFrame> frames;
  bool ended = false;
  Status status;

  explicit TestCall(std::string interface) : interface_name(std::move(interface)) {}
  TestCall& text(const std::string& field, std::string text) {
    TestValue value;
    value.text = std::move(text);
    inputs[field].push_back(std::move(value));
    return *this;
  }
  const TestCall& run(const sluice_plugin& plugin = *sluice_plugin_entry());

 private:
  struct Host : sluice_host {
    TestCall* call;
  };
  static TestCall& of(const sluice_host* host) { return *static_cast<const Host*>(host)->call; }
  static TestValue copied(const sluice_value& value);
  void show(const TestValue& value, sluice_value& to);
  /// What was handed on by its handle is what it was, whatever else the value says.
  const TestValue* by_handle(std::uint64_t handle) const {
    return handle - 1 < handed_.size() ? handed_[handle - 1] : nullptr;
  }
  std::int32_t make(std::uint32_t type, std::uint32_t dtype, std::vector<std::int64_t> shape,
                    char byte, sluice_value& value, void*& data);
  std::int32_t take_frame(const sluice_field* fields, std::uint64_t count);
  Host host();
  void play(const sluice_plugin& plugin, void* instance);

  std::deque<TestValue> made_;
  std::deque<std::vector<sluice_attribute>> shown_;
  std::vector<const TestValue*> handed_;  // by handle, from 1
};

inline TestValue TestCall::copied(const sluice_value& value) {
  TestValue copy;
  copy.type = static_cast<Type>(value.type);
  copy.text = std::string(view(value.text));
  copy.number = value.number;
  copy.shape.assign(value.shape, value.shape + value.rank);
  copy.dtype = value.dtype;
  copy.data = std::string(static_cast<const char*>(value.data), value.data_size);
  for (std::uint64_t i = 0; i < value.attribute_count; ++i)
    copy.attributes[std::string(view(value.attributes[i].name))] = value.attributes[i].value;
  return copy;
}

inline void TestCall::show(const TestValue& value, sluice_value& to) {
  std::vector<sluice_attribute>& attributes = shown_.emplace_back();
  for (const auto& [name, number] : value.attributes) attributes.push_back({to_c(name), number});
  handed_.push_back(&value);
  to = {sizeof to,          static_cast<std::uint32_t>(value.type),
        value.dtype,        to_c(value.text),
        value.shape.data(), value.shape.size(),
        value.data.data(),  value.data.size(),
        value.number,       attributes.data(),
        attributes.size(),  handed_.size()};
}

inline std::int32_t TestCall::make(std::uint32_t type, std::uint32_t dtype,
                                   std::vector<std::int64_t> shape, char byte, sluice_value& value,
                                   void*& data) {
  constexpr std::array<std::size_t, 6> sizes{0, 1, 4, 8, 4, 2};
  TestValue& made = made_.emplace_back();
  made.type = static_cast<Type>(type);
  made.dtype = dtype;
  made.shape = std::move(shape);
  std::size_t bytes = sizes.at(dtype);
  for (const std::int64_t size : made.shape) bytes *= static_cast<std::size_t>(size);
  made.data.assign(bytes, byte);
  show(made, value);
  data = made.data.data();
  return SLUICE_OK;
}

inline std::int32_t TestCall::take_frame(const sluice_field* fields, std::uint64_t count) {
  TestFrame frame;
  for (std::uint64_t i = 0; i < count; ++i) {
    const sluice_value& value = *fields[i].value;
    const TestValue* const handed = by_handle(value.handle);
    if (handed == nullptr && value.handle != 0) {
      status = {Code::corrupt, "yielded a handle that is not the host's"};
      return SLUICE_INVALID_ARGUMENT;
    }
    frame.fields[std::string(view(fields[i].name))] = handed ? *handed : copied(value);
  }
  frames.push_back(std::move(frame));
  return SLUICE_OK;
}

inline TestCall::Host TestCall::host() {
  Host host{};
  host.call = this;
  host.struct_size = sizeof(sluice_host);
  host.abi_major = SLUICE_ABI_MAJOR;
  host.about = [](const sluice_host* h, std::uint64_t, sluice_about* about) -> std::int32_t {
    about->interface_name = to_c(of(h).interface_name);
    about->node = about->interface_name;
    about->session = to_c(of(h).session);
    return SLUICE_OK;
  };
  host.input_count = [](const sluice_host* h, std::uint64_t, sluice_text field) -> std::uint64_t {
    const auto it = of(h).inputs.find(std::string(view(field)));
    return it == of(h).inputs.end() ? 0 : it->second.size();
  };
  host.input = [](const sluice_host* h, std::uint64_t, sluice_text field, std::uint64_t index,
                  sluice_value* value) -> std::int32_t {
    const auto it = of(h).inputs.find(std::string(view(field)));
    if (it == of(h).inputs.end() || index >= it->second.size()) return SLUICE_NOT_FOUND;
    of(h).show(it->second[index], *value);
    return SLUICE_OK;
  };
  host.make_tensor = [](const sluice_host* h, std::uint64_t, std::uint32_t type,
                        std::uint32_t dtype, const std::int64_t* shape, std::uint64_t rank,
                        sluice_value* value, void** data) -> std::int32_t {
    return of(h).make(type, dtype, {shape, shape + rank}, '\0', *value, *data);
  };
  // Whoever does not write all of it sees that in the test.
  host.make_output = [](const sluice_host* h, std::uint64_t, sluice_text, std::uint32_t type,
                        std::uint32_t dtype, const std::int64_t* shape, std::uint64_t rank,
                        sluice_value* value, void** data) -> std::int32_t {
    return of(h).make(type, dtype, {shape, shape + rank}, '\xa5', *value, *data);
  };
  host.yield = [](const sluice_host* h, std::uint64_t, const sluice_field* fields,
                  std::uint64_t count) -> std::int32_t { return of(h).take_frame(fields, count); };
  host.cancelled = [](const sluice_host* h, std::uint64_t) -> std::int32_t {
    return of(h).cancelled || of(h).ended;
  };
  host.retire = [](const sluice_host* h, std::uint64_t, std::int32_t code,
                   sluice_text message) -> std::int32_t {
    if (of(h).ended) return SLUICE_STALE;
    of(h).ended = true;
    if (code != SLUICE_OK) of(h).status = {static_cast<Code>(code), std::string(view(message))};
    return SLUICE_OK;
  };
  return host;
}

inline void TestCall::play(const sluice_plugin& plugin, void* instance) {
  sluice_error error{};
  std::int32_t code = SLUICE_OK;
  if (plugin.run != nullptr) {
    code = plugin.run(instance, 1, &error);
    ended = true;
  } else {
    code = plugin.admit(instance, 1, &error);
    for (std::size_t i = 0; i < steps_max && code == SLUICE_OK && !ended; ++i)
      code = plugin.step(instance, &error);
  }
  if (code != SLUICE_OK)
    status = {static_cast<Code>(code), error.message};
  else if (!ended)
    status = {Code::deadline, "not retired after " + std::to_string(steps_max) + " steps"};
  ended = ended || code != SLUICE_OK;
}

inline const TestCall& TestCall::run(const sluice_plugin& plugin) {
  handed_.clear();  // of an earlier run
  const Host served = host();
  std::vector<sluice_option> given;
  for (const auto& [name, text] : options) {
    char* end = nullptr;
    given.push_back({to_c(name), to_c(text), std::strtoll(text.c_str(), nullptr, 10),
                     std::strtod(text.c_str(), &end), SLUICE_OPTION_TEXT, 0});
  }
  sluice_making making{};
  making.struct_size = sizeof making;
  making.role = to_c(interface_name);
  making.threads = 1;
  making.options = given.data();
  making.option_count = given.size();
  sluice_error error{};
  void* instance = nullptr;
  const std::int32_t code = plugin.create(&served, &making, &instance, &error);
  if (code != SLUICE_OK) {
    status = {static_cast<Code>(code), error.message};
    return *this;
  }
  play(plugin, instance);
  plugin.destroy(instance);
  return *this;
}

}  // namespace sluice::plugin
