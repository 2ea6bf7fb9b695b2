// A role in C++: a small class over the C interface in `sluice_plugin.h`.
//
// Derive from `Role` (one activation at a time, run to its end) or `SteppedRole` (many, advanced
// together), and name the class in `SLUICE_ROLE`. What the class throws becomes an error of the
// activation; nothing of C++ crosses the interface. Needs C++20, and no library.
// Thread: an instance is called by one thread at a time. See docs/PLUGINS.md.
#pragma once

#include <array>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <exception>
#include <initializer_list>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "role_value.hpp"
#include "sluice_plugin.h"

/// The manifest the plugin is built with; `sluice_add_role` of CMake makes both from
/// NAME.role.yaml.
extern "C" {
extern const char sluice_role_declaration[];
extern const std::uint64_t sluice_role_declaration_size;
extern const char sluice_role_name[];
}

namespace sluice::plugin {

/// A tensor or picture of the host's, to be filled and yielded without a copy.
template <typename T>
struct Filled {
  Value value;
  std::span<T> elements;  // empty: the host refused the shape
};

/// One run of a node: a handle, free to copy, and dead once the activation has ended.
class Activation {
 public:
  Activation(const sluice_host& host, std::uint64_t id) : host_(&host), id_(id) {}

  std::uint64_t id() const { return id_; }
  std::string_view node() const { return view(about().node); }
  std::string_view interface() const { return view(about().interface_name); }
  std::string_view session() const { return view(about().session); }
  std::uint64_t call() const { return about().call; }
  std::uint64_t group() const { return about().group; }

  std::size_t count(std::string_view field) const {
    return host_->input_count(host_, id_, to_c(field));
  }
  /// A frame of an input; nothing when there is none.
  std::optional<Value> input(std::string_view field, std::size_t index = 0) const {
    Value value;
    if (host_->input(host_, id_, to_c(field), index, &value.c()) != SLUICE_OK) return std::nullopt;
    return value;
  }
  /// The text of an input; empty when there is none.
  std::string_view text(std::string_view field) const {
    const std::optional<Value> value = input(field);
    return value ? value->text() : std::string_view();
  }

  /// Sends one frame; may wait for readers on other machines, so hold no lock that another role or
  /// the end of a session takes. False: it was refused, which the call will hear of; there is
  /// nothing to do.
  bool yield(std::string_view field, const Output& value) {
    const sluice_field one{to_c(field), &value.c()};
    return host_->yield(host_, id_, &one, 1) == SLUICE_OK;
  }
  bool yield(std::initializer_list<std::pair<std::string_view, Output>> frame) {
    std::vector<sluice_field> fields;
    for (const auto& [name, value] : frame) fields.push_back({to_c(name), &value.c()});
    return host_->yield(host_, id_, fields.data(), fields.size()) == SLUICE_OK;
  }
  /// Zeros at first.
  template <typename T>
  Filled<T> make(Type type, std::span<const std::int64_t> shape) {
    Filled<T> filled;
    void* data = nullptr;
    if (host_->make_tensor(host_, id_, static_cast<std::uint32_t>(type), dtype_of<T>, shape.data(),
                           shape.size(), &filled.value.c(), &data) == SLUICE_OK)
      filled.elements = {static_cast<T*>(data), filled.value.c().data_size / sizeof(T)};
    return filled;
  }

  /// For that output field, holding anything at first: write all of it. Where another machine of
  /// this computer reads the field it stands in memory that both have, so that nobody copies it.
  template <typename T>
  Filled<T> make_output(std::string_view field, Type type, std::span<const std::int64_t> shape) {
    Filled<T> filled;
    void* data = nullptr;
    if (host_->make_output(host_, id_, to_c(field), static_cast<std::uint32_t>(type), dtype_of<T>,
                           shape.data(), shape.size(), &filled.value.c(), &data) == SLUICE_OK)
      filled.elements = {static_cast<T*>(data), filled.value.c().data_size / sizeof(T)};
    return filled;
  }

  /// True once nobody wants the result any more, and when the activation has ended.
  bool cancelled() const { return host_->cancelled(host_, id_) != 0; }

  /// Of a stepped role: the activation has ended, and with it what it reads.
  void retire(const Status& status = {}) {
    host_->retire(host_, id_, static_cast<std::int32_t>(status.code()), to_c(status.message()));
  }

 private:
  sluice_about about() const {
    sluice_about about{};
    about.struct_size = sizeof about;
    host_->about(host_, id_, &about);
    return about;
  }
  const sluice_host* host_;
  std::uint64_t id_;
};

/// State of sessions that roles of this plugin share. It locks itself: they run on threads of
/// their own.
class Param {
 public:
  virtual ~Param() = default;
  /// Drops what the session holds.
  virtual void end_session(std::string_view session) = 0;
};

/// What an instance is made from. Copy what is to be kept: it ends with the constructor.
class Making {
 public:
  explicit Making(const sluice_making& making) : making_(making) {}
  std::string_view role() const { return view(making_.role); }
  std::string_view model_directory() const { return view(making_.model_directory); }
  std::uint32_t replica() const { return making_.replica; }
  std::uint32_t threads() const { return making_.threads; }
  /// Options are there when the manifest declares them, or the workflow could not have run.
  /// Throws: std::invalid_argument for one that it does not declare, which refuses the start.
  std::int64_t whole(std::string_view option) const { return of(option).whole; }
  double real(std::string_view option) const { return of(option).real; }
  std::string_view text(std::string_view option) const { return view(of(option).text); }
  /// The first global parameter of the kind; null when the role lists none.
  template <typename T>
  T* param(std::string_view kind) const {
    for (std::uint64_t i = 0; i < making_.param_count; ++i)
      if (view(making_.params[i].kind) == kind)
        return static_cast<T*>(static_cast<Param*>(making_.params[i].param));
    return nullptr;
  }

 private:
  sluice_option of(std::string_view name) const {
    for (std::uint64_t i = 0; i < making_.option_count; ++i)
      if (view(making_.options[i].name) == name) return making_.options[i];
    throw std::invalid_argument("no option '" + std::string(name) + "'");
  }
  const sluice_making& making_;
};

/// Runs one activation to its end; may yield many frames on the way.
class Role {
 public:
  virtual ~Role() = default;
  virtual Status run(Activation activation) = 0;
};

/// Holds many activations and advances them together (continuous batching).
class SteppedRole {
 public:
  virtual ~SteppedRole() = default;
  /// Takes it in. An error ends it, and it must not be kept.
  virtual Status admit(Activation activation) = 0;
  /// One step of all; retires those that have ended. Called as long as any is held. An error ends
  /// all of them, and none may be kept.
  virtual Status step() = 0;
};

}  // namespace sluice::plugin

#include "role_table.hpp"

/// Makes the class the plugin's role, once and outside of any namespace: SLUICE_ROLE(Shout).
#define SLUICE_ROLE(ROLE) SLUICE_ROLE_WITH_PARAM(ROLE, ::sluice::plugin::NoParam)
/// The same for a role with a global parameter, a class made from a `sluice_param_making`.
#define SLUICE_ROLE_WITH_PARAM(ROLE, PARAM)                                         \
  extern "C" SLUICE_EXPORT const sluice_plugin* sluice_plugin_entry(void) {         \
    static const sluice_plugin table = ::sluice::plugin::make_table<ROLE, PARAM>(); \
    return &table;                                                                  \
  }
