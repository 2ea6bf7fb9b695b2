// A value or an error whose code says what the caller can do about it.
//
// Ours never throws. A message says what failed, which thing, its value and the limit it broke.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>

#include "base/check.h"

namespace sluice {

enum class ErrorCode {
  invalid_argument,  // the caller's input is wrong: change it
  not_found,         // the named thing does not exist
  exhausted,         // a limit was reached: try later or raise it
  deadline,          // time ran out
  unavailable,       // a peer or device is away: try again
  stale,             // the reference is older than the thing
  corrupt,           // bytes do not hold what they should
  cancelled,         // somebody asked for the end
};

std::string_view to_string(ErrorCode code);

struct Error {
  ErrorCode code = ErrorCode::invalid_argument;
  std::string message;
};

/// Either a `T` or an `Error`. Reading the wrong alternative is a failed check.
template <typename T>
class [[nodiscard]] Result {
 public:
  Result(T value) : state_(std::in_place_index<0>, std::move(value)) {}
  Result(Error error) : state_(std::in_place_index<1>, std::move(error)) {}

  bool ok() const { return state_.index() == 0; }
  explicit operator bool() const { return ok(); }

  T& value() & {
    SLUICE_CHECK(ok(), std::get<1>(state_).message);
    return std::get<0>(state_);
  }
  const T& value() const& {
    SLUICE_CHECK(ok(), std::get<1>(state_).message);
    return std::get<0>(state_);
  }
  T&& value() && {
    SLUICE_CHECK(ok(), std::get<1>(state_).message);
    return std::get<0>(std::move(state_));
  }
  const Error& error() const {
    SLUICE_CHECK(!ok());
    return std::get<1>(state_);
  }
  T* operator->() { return &value(); }
  const T* operator->() const { return &value(); }
  T& operator*() & { return value(); }
  const T& operator*() const& { return value(); }

 private:
  std::variant<T, Error> state_;
};

template <>
class [[nodiscard]] Result<void> {
 public:
  Result() = default;
  Result(Error error) : error_(std::move(error)) {}

  bool ok() const { return !error_.has_value(); }
  explicit operator bool() const { return ok(); }
  const Error& error() const {
    SLUICE_CHECK(!ok());
    return *error_;
  }

 private:
  std::optional<Error> error_;
};

inline Error invalid_argument(std::string message) {
  return {ErrorCode::invalid_argument, std::move(message)};
}

}  // namespace sluice
