// Reads keys of one JSON object into checked values and remembers the first thing that is wrong.
//
// A target that is not zero is the key's default; a zero one makes the key required.
// Thread: one; borrows the object and the problem.
// Errors: the problem's text names the key with its place, and says what it must be.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>

namespace sluice {

/// Of a JSON file beside a checkpoint, at most.
constexpr std::size_t config_bytes_max = std::size_t{16} << 20;

class JsonReader {
 public:
  using Json = nlohmann::json;

  JsonReader(const Json& object, std::string place, std::string& problem)
      : object_(object), place_(std::move(place)), problem_(problem) {}

  void size(const char* key, std::size_t& to, std::int64_t most = 1 << 24) {
    const Json* value = get(key, to != 0);
    if (value == nullptr) return;
    if (!value->is_number_integer() || value->get<std::int64_t>() < 1 ||
        value->get<std::int64_t>() > most)
      return error(key, "must be a whole number from 1 to " + std::to_string(most));
    to = value->get<std::size_t>();
  }
  /// As `size`, but never required, and 0 is a value.
  void count(const char* key, std::size_t& to, std::int64_t most = 1 << 24) {
    const Json* value = get(key, true);
    if (value == nullptr) return;
    if (!value->is_number_integer() || value->get<std::int64_t>() < 0 ||
        value->get<std::int64_t>() > most)
      return error(key, "must be a whole number up to " + std::to_string(most));
    to = value->get<std::size_t>();
  }
  /// A token's id; 0 or below: required.
  void token(const char* key, std::int32_t& to) {
    const Json* value = get(key, to > 0);
    if (value == nullptr) return;
    if (!value->is_number_integer() || value->get<std::int64_t>() < 0 ||
        value->get<std::int64_t>() > 1 << 24)
      return error(key, "must be a token id");
    to = value->get<std::int32_t>();
  }
  template <typename T>
  void number(const char* key, T& to) {
    const Json* value = get(key, to != T{});
    if (value == nullptr) return;
    if (!value->is_number() || !(value->get<double>() > 0)) return error(key, "must be above 0");
    to = static_cast<T>(value->get<double>());
  }
  void flag(const char* key, bool& to) {
    const Json* value = get(key, true);
    if (value == nullptr) return;
    if (!value->is_boolean()) return error(key, "must be true or false");
    to = value->get<bool>();
  }
  /// An empty `to`: required.
  void text(const char* key, std::string& to) {
    const Json* value = get(key, !to.empty());
    if (value == nullptr) return;
    if (!value->is_string()) return error(key, "must be a text");
    to = value->get<std::string>();
  }
  const Json* object(const char* key, bool optional = false) {
    const Json* value = get(key, optional);
    if (value != nullptr && !value->is_object()) {
      error(key, "must be an object");
      return nullptr;
    }
    return value;
  }
  /// Null when it is missing, is null, or something was wrong before.
  const Json* get(const char* key, bool optional = false) {
    if (!problem_.empty() || !object_.is_object()) return nullptr;
    const auto it = object_.find(key);
    if (it == object_.end() || it->is_null()) {
      if (!optional) error(key, "is missing");
      return nullptr;
    }
    return &*it;
  }
  void error(const std::string& key, const std::string& what) {
    if (problem_.empty()) problem_ = "'" + place_ + key + "' " + what;
  }
  const std::string& problem() const { return problem_; }

 private:
  const Json& object_;
  std::string place_;
  std::string& problem_;
};

}  // namespace sluice
