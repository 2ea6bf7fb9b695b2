// Reads a GGUF file (versions 2 and 3, little-endian) without copying it: metadata and tensors.
//
// Nothing in the file is trusted: counts, lengths, types, shapes, offsets, alignment and overlaps
// are checked before anything is allocated or may be asked for. What the metadata means is told by
// gguf_model.h. Thread: immutable after `open`. Owns: the mapping.
// Errors: not_found, corrupt (what is wrong and where), invalid_argument (a version or a tensor
// type that is not read, by name). Source: the GGUF specification of ggml.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "kernels/quant.h"

namespace sluice {

class GgufFile {
 public:
  static constexpr std::size_t key_bytes_max = 65535;
  static constexpr std::size_t name_bytes_max = 256;

  enum class Type : std::uint32_t {
    u8,
    i8,
    u16,
    i16,
    u32,
    i32,
    f32,
    boolean,
    text,
    array,
    u64,
    i64,
    f64
  };
  struct Value {
    Type type = Type::u8;
    Type element = Type::u8;  // of an array
    std::uint64_t count = 1;
    std::span<const std::byte> bytes;  // of a text or an array: its content
  };
  struct Tensor {
    kernels::BlockType type = kernels::BlockType::f32;
    std::vector<std::int64_t> shape;  // outermost first: [rows, values of a row]
    std::span<const std::byte> bytes;
  };

  static Result<GgufFile> open(const std::string& path);
  /// The same checks over bytes in memory, which must outlive the result.
  static Result<GgufFile> parse(std::span<const std::byte> file, const std::string& name);

  const std::string& name() const { return name_; }
  const std::map<std::string, Tensor, std::less<>>& tensors() const { return tensors_; }
  const Tensor* find(std::string_view tensor) const;
  const std::shared_ptr<const void>& owner() const { return owner_; }

  /// None: the key is not there, or of another kind (a whole number below 0 is none either).
  std::optional<std::string_view> text(std::string_view key) const;
  std::optional<std::uint64_t> whole(std::string_view key) const;
  std::optional<double> number(std::string_view key) const;
  std::optional<bool> flag(std::string_view key) const;
  /// Of an array; empty: as above.
  std::vector<std::string_view> texts(std::string_view key) const;
  std::vector<double> numbers(std::string_view key) const;
  bool has(std::string_view key) const { return values_.find(key) != values_.end(); }

 private:
  class Reader;
  Result<void> read_values(Reader& reader, std::uint64_t count);
  Result<void> read_tensors(Reader& reader, std::uint64_t count);
  Result<void> place_tensors(std::span<const std::byte> data, std::uint64_t alignment);
  const Value* value(std::string_view key) const;

  std::string name_;
  std::map<std::string, Value, std::less<>> values_;
  std::map<std::string, Tensor, std::less<>> tensors_;
  std::map<std::string, std::uint64_t, std::less<>> offsets_;
  std::shared_ptr<const void> owner_;
};

/// Whether a path names such a file, by its end.
inline bool is_gguf(std::string_view path) { return path.ends_with(".gguf"); }

}  // namespace sluice
