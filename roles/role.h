// The interface between the framework and a role: what computes.
//
// A role never touches scheduling, transport or KV ownership. It reads its inputs from an
// `Activation`, yields frames, and returns. Two kinds: a `Role` runs one activation to its end; a
// `SteppedRole` admits many and advances all of them by one step (continuous batching).
// Thread: one thread at a time calls a role instance, or one of those that are colocated; not
// always the same thread, so a role keeps nothing in thread-local variables between two calls.
// Source: omni-flow, sections 3.1 (interfaces) and 3.4 (yields).
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "base/check.h"
#include "base/payload.h"
#include "base/result.h"

namespace sluice {

/// A field of a frame that a role yields. A field left out is a branch not taken.
struct FieldValue {
  std::string_view field;
  PayloadRef value;
};

/// One run of a node: its inputs, and where its frames go.
class Activation {
 public:
  virtual ~Activation() = default;

  virtual std::string_view node() const = 0;
  virtual std::string_view interface() const = 0;
  virtual std::string_view session() const = 0;
  /// A number that no other call has, of those that began where this one did; the same on all
  /// machines of a cluster.
  virtual std::uint64_t call() const = 0;
  /// The OR group that fired, from 0.
  virtual std::size_t group() const = 0;

  /// All frames of an input field in logical order; empty when the group has no such field.
  virtual std::span<const PayloadRef> inputs(std::string_view field) const = 0;
  /// The only or first frame of an input field; null when none came, or the group has no such
  /// field; never null of a port that is declared `PortFrames::one`. A field that the role did not
  /// declare is an empty value, and an error of the call when the activation ends.
  const Payload* input(std::string_view field) const {
    const auto frames = inputs(field);
    return frames.empty() ? absent(field) : frames.front().get();
  }

  /// Sends one frame; may wait for readers on other machines, so hold no lock that another role or
  /// `end_session` takes. An undeclared field, another type than declared and more frames than
  /// `yields_max` go nowhere, and are an error of the call when the activation ends.
  virtual void yield(std::span<const FieldValue> fields) = 0;
  void yield(std::string_view field, PayloadRef value) {
    const FieldValue one{field, std::move(value)};
    yield(std::span(&one, 1));
  }

  /// A tensor for that output field, to be filled and yielded in a value of it. It holds anything
  /// at first: write all of it. Where another machine of this computer reads the field it stands in
  /// memory that both have, so that nobody copies it; else, and when that is full, in this
  /// process's own. A field that the role did not declare: in its own. Errors: as `Tensor::zeros`.
  virtual Result<Tensor> make_output(std::string_view field, Dtype dtype,
                                     std::vector<std::int64_t> shape) {
    static_cast<void>(field);
    return Tensor::zeros(dtype, std::move(shape));
  }
  /// The same with these numbers in it. Requires: as many as the shape has.
  Result<Tensor> output_of_f32(std::string_view field, std::vector<std::int64_t> shape,
                               std::span<const float> values);

  /// For the caller, of a call that may still end well: it stands among the warnings of the call's
  /// outcome, behind the node's name. The same words count once with how often they came.
  virtual void warn(std::string warning) = 0;

  /// True once nobody wants the result any more; a long role looks and returns early.
  virtual bool cancelled() const = 0;

 private:
  /// What `input` gives for a field of which there is no frame.
  virtual const Payload* absent(std::string_view) const { return nullptr; }
};

inline Result<Tensor> Activation::output_of_f32(std::string_view field,
                                                std::vector<std::int64_t> shape,
                                                std::span<const float> values) {
  Result<Tensor> made = make_output(field, Dtype::f32, std::move(shape));
  if (!made.ok()) return made;
  const std::span<float> to = made->f32();
  SLUICE_CHECK(to.size() == values.size(), "other numbers than the shape has");
  std::ranges::copy(values, to.begin());
  return made;
}

/// Runs one activation to its end; may yield many frames on the way.
class Role {
 public:
  virtual ~Role() = default;
  virtual Result<void> run(Activation& activation) = 0;
};

/// How one admitted activation ended.
struct StepOutcome {
  Activation* activation;
  Result<void> result;
};

/// Advances any mix of admitted activations together, one step at a time. When `step` throws, all
/// that are admitted have failed and are cancelled; they stay borrowed until the role returns them
/// or is no longer busy.
class SteppedRole {
 public:
  virtual ~SteppedRole() = default;
  /// Borrowed until its `StepOutcome` is returned.
  virtual void admit(Activation& activation) = 0;
  /// True while an admitted activation has not ended.
  virtual bool busy() const = 0;
  /// One forward. Appends the activations that ended in it.
  virtual void step(std::vector<StepOutcome>& ended) = 0;
};

using RoleInstance = std::variant<std::unique_ptr<Role>, std::unique_ptr<SteppedRole>>;

}  // namespace sluice
