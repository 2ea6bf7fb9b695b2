#include "plugin/host.h"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <exception>
#include <utility>

#include "plugin/text.h"
#include "plugin/value.h"

namespace sluice {

namespace {

constexpr std::size_t name_max = 64;
constexpr std::size_t fields_max = 64;
constexpr std::uint64_t place_bits = 20;  // of an activation's number: its place
constexpr std::uint64_t index_bits = 40;  // of a handle: the frame's index, above it the field
constexpr std::size_t message_max = 4096;

/// The value of 1.0, whatever a later minor version adds at its end.
constexpr std::uint64_t value_bytes = offsetof(sluice_value, handle) + sizeof(sluice_value::handle);

/// A host's structure is filled only as far as the plugin's own goes.
template <typename T>
void copy_out(const T& from, T* to) {
  const std::uint64_t size = std::min<std::uint64_t>(to->struct_size, sizeof(T));
  constexpr std::size_t first = sizeof(to->struct_size);
  if (size > first)
    std::memcpy(reinterpret_cast<char*>(to) + first, reinterpret_cast<const char*>(&from) + first,
                size - first);
}

}  // namespace

Error error_from(std::int32_t code, std::string_view message) {
  std::string text = one_line(message.substr(0, message_max));
  if (text.empty()) text = "the role failed and gave no reason";
  if (code < SLUICE_INVALID_ARGUMENT || code > SLUICE_CANCELLED)
    return {ErrorCode::unavailable, text + " (code " + std::to_string(code) + ")"};
  return {static_cast<ErrorCode>(code - 1), text};
}

static_assert(static_cast<int>(ErrorCode::invalid_argument) == SLUICE_INVALID_ARGUMENT - 1 &&
              static_cast<int>(ErrorCode::not_found) == SLUICE_NOT_FOUND - 1 &&
              static_cast<int>(ErrorCode::exhausted) == SLUICE_EXHAUSTED - 1 &&
              static_cast<int>(ErrorCode::deadline) == SLUICE_DEADLINE - 1 &&
              static_cast<int>(ErrorCode::unavailable) == SLUICE_UNAVAILABLE - 1 &&
              static_cast<int>(ErrorCode::stale) == SLUICE_STALE - 1 &&
              static_cast<int>(ErrorCode::corrupt) == SLUICE_CORRUPT - 1 &&
              static_cast<int>(ErrorCode::cancelled) == SLUICE_CANCELLED - 1);

template <typename Work>
std::int32_t PluginHost::with(const sluice_host* host, std::uint64_t id, Work work) {
  PluginHost& self = of(host);
  Held* const held = self.find(id);
  if (held == nullptr) return SLUICE_STALE;
  try {
    return work(self, *held);
  } catch (const std::exception& error) {
    held->problem = "the role '" + self.role_ + "': " + error.what();
    return SLUICE_EXHAUSTED;
  }
}

PluginHost::PluginHost(std::string role, bool stepped)
    : sluice_host{}, role_(std::move(role)), stepped_(stepped) {
  struct_size = sizeof(sluice_host);
  abi_major = SLUICE_ABI_MAJOR;
  abi_minor = SLUICE_ABI_MINOR;
  about = [](const sluice_host* host, std::uint64_t id, sluice_about* to) {
    return with(host, id, [&](PluginHost& self, Held& held) { return self.tell(held, to); });
  };
  input_count = [](const sluice_host* host, std::uint64_t id, sluice_text field) {
    std::uint64_t count = 0;
    (void)with(host, id, [&](PluginHost&, Held& held) {
      const Field* found = field_of(held, field);
      count = found != nullptr ? found->frames.size() : 0;
      return std::int32_t{SLUICE_OK};
    });
    return count;
  };
  input = [](const sluice_host* host, std::uint64_t id, sluice_text field, std::uint64_t index,
             sluice_value* value) {
    return with(host, id, [&](PluginHost& self, Held& held) {
      return self.give_input(held, field, index, value);
    });
  };
  make_tensor = [](const sluice_host* host, std::uint64_t id, std::uint32_t type,
                   std::uint32_t dtype, const std::int64_t* shape, std::uint64_t rank,
                   sluice_value* value, void** data) {
    return with(host, id, [&](PluginHost& self, Held& held) {
      if (rank != 0 && shape == nullptr) return std::int32_t{SLUICE_INVALID_ARGUMENT};
      return self.give_tensor(held, {}, type, dtype, std::span(shape, rank), value, data);
    });
  };
  make_output = [](const sluice_host* host, std::uint64_t id, sluice_text field, std::uint32_t type,
                   std::uint32_t dtype, const std::int64_t* shape, std::uint64_t rank,
                   sluice_value* value, void** data) {
    return with(host, id, [&](PluginHost& self, Held& held) {
      const auto name = text_of(field, name_max);
      if (!name || (rank != 0 && shape == nullptr)) return std::int32_t{SLUICE_INVALID_ARGUMENT};
      return self.give_tensor(held, *name, type, dtype, std::span(shape, rank), value, data);
    });
  };
  yield = [](const sluice_host* host, std::uint64_t id, const sluice_field* fields,
             std::uint64_t count) {
    return with(host, id,
                [&](PluginHost& self, Held& held) { return self.take_frame(held, fields, count); });
  };
  cancelled = [](const sluice_host* host, std::uint64_t id) {
    Held* const held = of(host).find(id);
    return std::int32_t{held == nullptr || held->activation->cancelled()};
  };
  retire = [](const sluice_host* host, std::uint64_t id, std::int32_t code, sluice_text message) {
    return with(host, id,
                [&](PluginHost& self, Held& held) { return self.retire_one(held, code, message); });
  };
}

PluginHost::Held* PluginHost::find(std::uint64_t id) {
  const std::uint64_t place = id & ((std::uint64_t{1} << place_bits) - 1);
  if (place >= held_.size() || held_[place]->id != id || held_[place]->activation == nullptr)
    return nullptr;
  return held_[place].get();
}

std::uint64_t PluginHost::begin(Activation& activation) {
  if (free_places_.empty()) {
    SLUICE_CHECK(held_.size() < std::size_t{1} << place_bits, "too many activations in one role");
    free_places_.push_back(static_cast<std::uint32_t>(held_.size()));
    held_.push_back(std::make_unique<Held>());
  }
  const std::uint32_t place = free_places_.back();
  free_places_.pop_back();
  Held& held = *held_[place];
  held.id = ++generation_ << place_bits | place;
  held.activation = &activation;
  ++held_count_;
  return held.id;
}

void PluginHost::free(Held& held) {
  held.activation = nullptr;
  held.fields.clear();
  held.made.clear();
  held.attributes.clear();
  held.problem.clear();
  --held_count_;
  free_places_.push_back(
      static_cast<std::uint32_t>(held.id & ((std::uint64_t{1} << place_bits) - 1)));
}

Result<void> PluginHost::end(std::uint64_t id, Result<void> said) {
  Held* const held = find(id);
  SLUICE_CHECK(held != nullptr, "an activation ended twice");
  if (!held->problem.empty()) said = Error{ErrorCode::corrupt, std::move(held->problem)};
  free(*held);
  return said;
}

void PluginHost::take_retired(std::vector<StepOutcome>& ended) {
  for (StepOutcome& outcome : retired_) ended.push_back(std::move(outcome));
  retired_.clear();
}

void PluginHost::end_all(const Error& error, std::vector<StepOutcome>& ended) {
  for (const std::unique_ptr<Held>& held : held_) {
    Activation* const activation = held->activation;
    if (activation != nullptr) ended.push_back({activation, end(held->id, error)});
  }
}

std::int32_t PluginHost::blame(Held& held, std::int32_t code, const std::string& what) const {
  if (held.problem.empty()) held.problem = "the role '" + role_ + "' " + what;
  return code;
}

const PluginHost::Field* PluginHost::field_of(Held& held, sluice_text name) {
  const auto text = text_of(name, name_max);
  if (!text) return nullptr;
  const auto it = std::ranges::find(held.fields, *text, &Field::name);
  if (it != held.fields.end()) return &*it;
  const std::span<const PayloadRef> frames = held.activation->inputs(*text);
  if (frames.empty()) return nullptr;
  return &held.fields.emplace_back(std::string(*text), frames);
}

void PluginHost::show(Held& held, const Payload& payload, std::uint64_t handle,
                      sluice_value& value) {
  value = {};
  value.type = static_cast<std::uint32_t>(payload.type);
  value.dtype = to_c(payload.tensor.dtype());
  value.text = to_c(payload.text);
  value.shape = payload.tensor.shape().data();
  value.rank = payload.tensor.shape().size();
  value.data = payload.tensor.bytes().data();
  value.data_size = payload.tensor.bytes().size();
  value.number = payload.number;
  value.handle = handle;
  if (payload.attributes.empty()) return;
  auto list = std::make_unique<std::vector<sluice_attribute>>();
  for (const auto& [name, number] : payload.attributes) list->push_back({to_c(name), number});
  value.attributes = list->data();
  value.attribute_count = list->size();
  held.attributes.push_back(std::move(list));
}

std::int32_t PluginHost::tell(Held& held, sluice_about* to) const {
  if (to == nullptr) return SLUICE_INVALID_ARGUMENT;
  sluice_about told{};
  told.node = to_c(held.activation->node());
  told.interface_name = to_c(held.activation->interface());
  told.session = to_c(held.activation->session());
  told.call = held.activation->call();
  told.group = held.activation->group();
  copy_out(told, to);
  return SLUICE_OK;
}

std::int32_t PluginHost::give_input(Held& held, sluice_text field, std::uint64_t index,
                                    sluice_value* value) {
  const Field* found = field_of(held, field);
  if (found == nullptr || index >= found->frames.size() || value == nullptr)
    return SLUICE_NOT_FOUND;
  const auto place = static_cast<std::uint64_t>(found - held.fields.data()) + 1;
  sluice_value shown{};
  show(held, *found->frames[index], place << index_bits | index, shown);
  copy_out(shown, value);
  return SLUICE_OK;
}

std::int32_t PluginHost::give_tensor(Held& held, std::optional<std::string_view> field,
                                     std::uint32_t type, std::uint32_t dtype,
                                     std::span<const std::int64_t> shape, sluice_value* value,
                                     void** data) {
  const std::optional<Dtype> element = dtype_from(dtype);
  if (!holds_tensor(type) || !element || value == nullptr || data == nullptr ||
      shape.size() > Tensor::rank_max)
    return SLUICE_INVALID_ARGUMENT;
  std::vector<std::int64_t> sizes(shape.begin(), shape.end());
  Result<Tensor> tensor = field ? held.activation->make_output(*field, *element, std::move(sizes))
                                : Tensor::zeros(*element, std::move(sizes));
  if (!tensor.ok())
    return tensor.error().code == ErrorCode::exhausted ? SLUICE_EXHAUSTED : SLUICE_INVALID_ARGUMENT;
  auto* made = new Payload;
  held.made.emplace_back(made);
  made->type = static_cast<ValueType>(type);
  made->tensor = std::move(tensor).value();
  *data = made->tensor.bytes().data();
  sluice_value shown{};
  show(held, *made, held.made.size(), shown);
  copy_out(shown, value);
  return SLUICE_OK;
}

PayloadRef PluginHost::by_handle(const Held& held, std::uint64_t handle) const {
  const std::uint64_t field = handle >> index_bits;
  const std::uint64_t index = handle & ((std::uint64_t{1} << index_bits) - 1);
  if (field == 0)
    return index == 0 || index > held.made.size() ? PayloadRef() : held.made[index - 1];
  if (field > held.fields.size() || index >= held.fields[field - 1].frames.size()) return {};
  return held.fields[field - 1].frames[index];
}

std::int32_t PluginHost::take_value(Held& held, const sluice_field& field, FieldValue& to) const {
  const auto name = text_of(field.name, name_max);
  if (!name || name->empty() || !is_utf8(*name))
    return blame(held, SLUICE_INVALID_ARGUMENT, "yielded a field without a readable name");
  to.field = *name;
  const auto in = [&] { return " in '" + one_line(*name) + "'"; };
  if (field.value == nullptr || field.value->struct_size < value_bytes)
    return blame(held, SLUICE_INVALID_ARGUMENT, "yielded no value of ABI 1.0" + in());
  if (field.value->handle != 0) {
    to.value = by_handle(held, field.value->handle);
    if (to.value) return SLUICE_OK;
    return blame(held, SLUICE_INVALID_ARGUMENT, "yielded a handle that is not the host's" + in());
  }
  Result<PayloadRef> payload = payload_from(*field.value);
  if (!payload.ok())
    return blame(held, SLUICE_INVALID_ARGUMENT, "yielded " + payload.error().message + in());
  to.value = std::move(payload).value();
  return SLUICE_OK;
}

std::int32_t PluginHost::take_frame(Held& held, const sluice_field* fields, std::uint64_t count) {
  if (count > fields_max || (count != 0 && fields == nullptr))
    return blame(held, SLUICE_INVALID_ARGUMENT,
                 "yielded a frame of " + std::to_string(count) + " fields, at most " +
                     std::to_string(fields_max) + " are allowed");
  frame_.clear();
  frame_.resize(count);
  std::int32_t code = SLUICE_OK;
  for (std::uint64_t i = 0; i < count && code == SLUICE_OK; ++i)
    code = take_value(held, fields[i], frame_[i]);
  if (code == SLUICE_OK) held.activation->yield(frame_);
  frame_.clear();
  return code;
}

std::int32_t PluginHost::retire_one(Held& held, std::int32_t code, sluice_text message) {
  if (!stepped_) return blame(held, SLUICE_INVALID_ARGUMENT, "retired an activation, but is plain");
  const auto text = text_of(message, message_max);
  Result<void> said;
  if (code != SLUICE_OK) said = error_from(code, text.value_or(""));
  Activation* const activation = held.activation;
  retired_.push_back({activation, end(held.id, std::move(said))});
  return SLUICE_OK;
}

}  // namespace sluice
