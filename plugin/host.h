// What a plugin's instance may call: its activations by number, their inputs, and where frames go.
//
// One per instance. Everything that comes from the plugin is checked here before it is used:
// numbers of activations, names, types, shapes, sizes and handles. What the declaration says of a
// frame is checked by the runner, as for any role. Thread: the one that calls the instance. Errors:
// kept, and told when the activation ends.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "plugin/include/sluice/sluice_plugin.h"
#include "roles/role.h"

namespace sluice {

class PluginHost final : public sluice_host {
 public:
  explicit PluginHost(std::string role, bool stepped);
  PluginHost(const PluginHost&) = delete;
  PluginHost& operator=(const PluginHost&) = delete;

  /// The plugin's number for it, until `end`.
  std::uint64_t begin(Activation& activation);
  /// Its outcome: what the plugin did wrong, or else what it said.
  Result<void> end(std::uint64_t id, Result<void> said);
  /// Activations that the plugin retired since the last call.
  void take_retired(std::vector<StepOutcome>& ended);
  /// Ends all that the plugin holds with this error.
  void end_all(const Error& error, std::vector<StepOutcome>& ended);
  bool holds(std::uint64_t id) { return find(id) != nullptr; }
  bool holds_any() const { return held_count_ != 0 || !retired_.empty(); }

 private:
  /// A field that was asked for: its frames.
  struct Field {
    std::string name;
    std::span<const PayloadRef> frames;
  };
  /// An activation that the plugin holds, or an empty place for one.
  struct Held {
    std::uint64_t id = 0;
    Activation* activation = nullptr;
    std::vector<Field> fields;
    std::vector<PayloadRef> made;  // by `make_tensor`, `make_output`
    std::vector<std::unique_ptr<std::vector<sluice_attribute>>> attributes;
    std::string problem;  // the first
  };

  static PluginHost& of(const sluice_host* host) {
    return *static_cast<PluginHost*>(const_cast<sluice_host*>(host));
  }
  Held* find(std::uint64_t id);
  void free(Held& held);
  /// Runs `work` on an activation; nothing that it throws reaches the plugin.
  template <typename Work>
  static std::int32_t with(const sluice_host* host, std::uint64_t id, Work work);
  std::int32_t blame(Held& held, std::int32_t code, const std::string& what) const;

  static const Field* field_of(Held& held, sluice_text name);
  static void show(Held& held, const Payload& payload, std::uint64_t handle, sluice_value& value);
  PayloadRef by_handle(const Held& held, std::uint64_t handle) const;
  std::int32_t tell(Held& held, sluice_about* to) const;
  std::int32_t give_input(Held& held, sluice_text field, std::uint64_t index, sluice_value* value);
  /// `field`: the output that it is for; none: any, and it is zeros.
  std::int32_t give_tensor(Held& held, std::optional<std::string_view> field, std::uint32_t type,
                           std::uint32_t dtype, std::span<const std::int64_t> shape,
                           sluice_value* value, void** data);
  std::int32_t take_frame(Held& held, const sluice_field* fields, std::uint64_t count);
  std::int32_t take_value(Held& held, const sluice_field& field, FieldValue& to) const;
  std::int32_t retire_one(Held& held, std::int32_t code, sluice_text message);

  const std::string role_;
  const bool stepped_;
  std::vector<std::unique_ptr<Held>> held_;  // by place; an id says its place
  std::vector<std::uint32_t> free_places_;
  std::uint64_t generation_ = 0;
  std::size_t held_count_ = 0;
  std::vector<StepOutcome> retired_;
  std::vector<FieldValue> frame_;  // being made
};

/// A code of the C interface and its message, as an error of ours.
Error error_from(std::int32_t code, std::string_view message);

}  // namespace sluice
