// What a Redis server answers, read without trust: bounded in bytes, items and depth.
//
// Bounds: 256 KiB that wait to be whole, 64 KiB a text, 1,024 items a list and 2,048 an answer,
// and hiredis' depth of 7. Errors: corrupt, which also ends the reader. Thread: one.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace sluice {

struct RedisValue {
  enum class Kind : std::uint8_t { nothing, text, number, list, error };
  Kind kind = Kind::nothing;
  std::string text;  // of an error too
  std::int64_t number = 0;
  std::vector<RedisValue> list;
};

class ReplyReader {
 public:
  ReplyReader();
  ~ReplyReader();
  ReplyReader(ReplyReader&&) noexcept;
  ReplyReader& operator=(ReplyReader&&) noexcept;
  /// Takes bytes as they come.
  Result<void> feed(std::string_view bytes);
  /// The next answer. Nothing: more bytes are needed.
  Result<std::optional<RedisValue>> next();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace sluice
