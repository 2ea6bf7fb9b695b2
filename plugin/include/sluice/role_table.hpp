// How a role's class becomes the table of the C interface. Included by `role.hpp`.
#pragma once

#include <cstdio>

#include "role.hpp"

namespace sluice::plugin {

/// Stands for the global parameter of a plugin that has none.
struct NoParam {};

inline void write(sluice_error* error, std::string_view message) {
  const std::size_t size =
      message.size() < sizeof error->message - 1 ? message.size() : sizeof error->message - 1;
  std::memcpy(error->message, message.data(), size);
  error->message[size] = '\0';
}

/// Runs what the author wrote: what it says or throws, as a code and a message.
template <typename Work>
std::int32_t guarded(sluice_error* error, Work work) noexcept {
  try {
    const Status status = work();
    if (!status.ok()) write(error, status.message());
    return static_cast<std::int32_t>(status.code());
  } catch (const std::invalid_argument& wrong) {
    write(error, wrong.what());
    return SLUICE_INVALID_ARGUMENT;
  } catch (const std::exception& thrown) {
    write(error, std::string("the role threw: ") + thrown.what());
  } catch (...) {
    write(error, "the role threw something that is no std::exception");
  }
  return SLUICE_UNAVAILABLE;
}

/// The same for functions that have no way to fail: it is told on the standard error.
template <typename Work>
void guarded_silently(const char* function, Work work) noexcept {
  sluice_error error{};
  const std::int32_t code = guarded(&error, [&]() -> Status {
    work();
    return {};
  });
  if (code != SLUICE_OK) std::fprintf(stderr, "warning: %s: %s\n", function, error.message);
}

/// An instance: the author's object, and the host that made it.
template <typename T>
struct Held {
  const sluice_host* host;
  T role;
};

template <typename T>
T construct(const sluice_making& making) {
  if constexpr (std::constructible_from<T, const Making&>)
    return T(Making(making));
  else
    return T();
}

template <typename T>
std::int32_t create(const sluice_host* host, const sluice_making* making, void** instance,
                    sluice_error* error) noexcept {
  return guarded(error, [&]() -> Status {
    *instance = new Held<T>{host, construct<T>(*making)};
    return {};
  });
}

template <typename T>
void add_param_functions(sluice_plugin& table) {
  table.create_param = [](const sluice_param_making* making, void** param, sluice_error* error) {
    return guarded(error, [&]() -> Status {
      *param = static_cast<Param*>(new T(*making));
      return {};
    });
  };
  table.destroy_param = [](void* param) {
    guarded_silently("destroy_param", [&] { delete static_cast<Param*>(param); });
  };
  table.end_session = [](void* param, sluice_text session) {
    guarded_silently("end_session",
                     [&] { static_cast<Param*>(param)->end_session(view(session)); });
  };
}

template <typename T, typename P>
sluice_plugin make_table() {
  static_assert(std::derived_from<T, Role> != std::derived_from<T, SteppedRole>,
                "a role derives from sluice::plugin::Role or sluice::plugin::SteppedRole");
  sluice_plugin table{};
  table.struct_size = sizeof table;
  table.abi_major = SLUICE_ABI_MAJOR;
  table.abi_minor = SLUICE_ABI_MINOR;
  table.name = to_c(sluice_role_name);
  table.declaration = {sluice_role_declaration, sluice_role_declaration_size};
  table.create = create<T>;
  table.destroy = [](void* instance) {
    guarded_silently("destroy", [&] { delete static_cast<Held<T>*>(instance); });
  };
  if constexpr (std::derived_from<T, Role>) {
    table.run = [](void* instance, std::uint64_t id, sluice_error* error) {
      auto* held = static_cast<Held<T>*>(instance);
      return guarded(error, [&] { return held->role.run(Activation(*held->host, id)); });
    };
  } else {
    table.admit = [](void* instance, std::uint64_t id, sluice_error* error) {
      auto* held = static_cast<Held<T>*>(instance);
      return guarded(error, [&] { return held->role.admit(Activation(*held->host, id)); });
    };
    table.step = [](void* instance, sluice_error* error) {
      auto* held = static_cast<Held<T>*>(instance);
      return guarded(error, [&] { return held->role.step(); });
    };
  }
  if constexpr (!std::same_as<P, NoParam>) add_param_functions<P>(table);
  return table;
}

}  // namespace sluice::plugin
