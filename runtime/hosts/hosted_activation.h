// An activation as a role sees it that runs in a host: what came in one message, and where frames
// go back.
//
// Thread: its channel's; `cancel` from any. A write that fails ends the process: nobody is there
// who could want anything.
#pragma once

#include <atomic>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "roles/role.h"
#include "runtime/hosts/host_protocol.h"

namespace sluice::hosts {

class HostedActivation final : public Activation {
 public:
  using Send = std::function<void(const Reply&)>;
  HostedActivation(HostedWork work, Send send) : work_(std::move(work)), send_(std::move(send)) {}

  std::string_view node() const override { return work_.node; }
  std::string_view interface() const override { return work_.interface; }
  std::string_view session() const override { return work_.session; }
  std::uint64_t call() const override { return work_.call; }
  std::size_t group() const override { return work_.group; }
  std::span<const PayloadRef> inputs(std::string_view field) const override {
    for (const HostedField& one : work_.fields)
      if (one.name == field) return one.values;
    if (undeclared_.empty()) undeclared_ = field;
    return {};
  }
  void yield(std::span<const FieldValue> fields) override {
    Yielded yielded{work_.id, {}};
    for (const FieldValue& field : fields)
      yielded.values.push_back(value_of(std::string(field.field), field.value));
    send_(std::move(yielded));
  }
  void warn(std::string warning) override { send_(Warned{work_.id, std::move(warning)}); }
  bool cancelled() const override { return cancelled_.load(std::memory_order_relaxed); }

  std::uint64_t id() const { return work_.id; }
  void cancel() { cancelled_.store(true, std::memory_order_relaxed); }
  void end(std::optional<Error> error) { send_(Ended{work_.id, std::move(error), undeclared_}); }

 private:
  /// An input that is handed on does not travel again.
  HostedValue value_of(std::string field, const PayloadRef& value) const {
    for (std::uint32_t i = 0; i < work_.fields.size(); ++i)
      for (std::uint32_t j = 0; j < work_.fields[i].values.size(); ++j)
        if (work_.fields[i].values[j].get() == value.get() && value)
          return {std::move(field), {}, i, j};
    return {std::move(field), value};
  }
  const Payload* absent(std::string_view field) const override {
    static const PayloadRef empty(new Payload);
    for (const HostedField& one : work_.fields)
      if (one.name == field) return nullptr;
    return empty.get();
  }

  const HostedWork work_;
  const Send send_;
  mutable std::string undeclared_;
  std::atomic<bool> cancelled_{false};
};

}  // namespace sluice::hosts
