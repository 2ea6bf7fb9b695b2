#include "roles/npy_file.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstring>
#include <optional>
#include <utility>
#include <vector>

namespace sluice {

namespace {

using std::string_view_literals::operator""sv;

constexpr std::string_view magic = "\x93NUMPY"sv;
constexpr std::size_t header_bytes_max = std::size_t{64} << 10;

struct NumberType {
  std::string_view name;
  Dtype dtype;
};
constexpr std::array<NumberType, 4> number_types{
    {{"|u1", Dtype::u8}, {"<i4", Dtype::i32}, {"<i8", Dtype::i64}, {"<f4", Dtype::f32}}};

/// What the header says; what it does not say is missing.
struct Header {
  std::optional<Dtype> dtype;
  std::optional<bool> fortran_order;
  std::optional<std::vector<std::int64_t>> shape;
};

Error damaged(const std::string& what) {
  return {ErrorCode::corrupt, "the .npy file is damaged: " + what};
}

/// What the file says, as far as a message can show it.
std::string shown(std::string_view text) {
  constexpr std::size_t shown_max = 40;
  std::string plain;
  for (const char c : text.substr(0, shown_max)) plain += c >= ' ' && c <= '~' ? c : '?';
  return "'" + plain + (text.size() > shown_max ? "...'" : "'");
}

Result<Dtype> dtype_named(std::string_view name) {
  for (const NumberType& type : number_types)
    if (type.name == name) return type.dtype;
  const bool big = name.starts_with('>');
  return invalid_argument("the numbers are of the type " + shown(name) +
                          (big ? " (big-endian)" : "") +
                          "; a tensor has uint8, int32, int64 or float32, little-endian: "
                          "array.astype('<f4') makes one of them");
}

/// The header is a Python dictionary of three entries; this reads those and nothing else.
class HeaderReader {
 public:
  explicit HeaderReader(std::string_view text) : rest_(text) {}

  Result<Header> read() {
    Header header;
    if (!take('{')) return wrong();
    while (!take('}')) {
      const std::optional<std::string_view> key = quoted();
      if (!key.has_value() || !take(':')) return wrong();
      if (Result<void> done = entry(*key, header); !done.ok()) return done.error();
      if (!take(',') && !next_is('}')) return wrong();
    }
    skip_blanks();
    if (!rest_.empty()) return wrong();
    if (!header.dtype || !header.fortran_order || !header.shape)
      return damaged("its header lacks 'descr', 'fortran_order' or 'shape'");
    return header;
  }

 private:
  Result<void> entry(std::string_view key, Header& header) {
    if (key == "descr" && !header.dtype) {
      if (next_is('['))
        return invalid_argument("its elements are records of several fields, not numbers");
      const std::optional<std::string_view> name = quoted();
      if (!name.has_value()) return wrong();
      Result<Dtype> dtype = dtype_named(*name);
      if (!dtype.ok()) return dtype.error();
      header.dtype = *dtype;
      return {};
    }
    if (key == "fortran_order" && !header.fortran_order) {
      header.fortran_order = take_word("True");
      return *header.fortran_order || take_word("False") ? Result<void>() : wrong();
    }
    if (key == "shape" && !header.shape) {
      header.shape.emplace();
      return shape(*header.shape);
    }
    return damaged("its header has " + shown(key) +
                   ", where 'descr', 'fortran_order' and 'shape' stand once each");
  }

  Result<void> shape(std::vector<std::int64_t>& dims) {
    if (!take('(')) return wrong();
    while (!take(')')) {
      skip_blanks();
      std::int64_t size = 0;
      const char* const end = rest_.data() + rest_.size();
      const auto [stop, failed] = std::from_chars(rest_.data(), end, size);
      if (failed != std::errc() || size < 0) return wrong();
      rest_.remove_prefix(static_cast<std::size_t>(stop - rest_.data()));
      if (dims.size() == Tensor::rank_max)
        return invalid_argument("it has more than " + std::to_string(Tensor::rank_max) +
                                " dimensions");
      dims.push_back(size);
      if (!take(',') && !next_is(')')) return wrong();
    }
    return {};
  }

  Error wrong() const { return damaged("its header cannot be read at " + shown(rest_)); }
  void skip_blanks() {
    while (!rest_.empty() && (rest_[0] == ' ' || rest_[0] == '\n')) rest_.remove_prefix(1);
  }
  bool next_is(char c) {
    skip_blanks();
    return rest_.starts_with(c);
  }
  bool take(char c) {
    if (!next_is(c)) return false;
    rest_.remove_prefix(1);
    return true;
  }
  bool take_word(std::string_view word) {
    skip_blanks();
    if (!rest_.starts_with(word)) return false;
    rest_.remove_prefix(word.size());
    return true;
  }
  std::optional<std::string_view> quoted() {
    const char quote = next_is('"') ? '"' : '\'';
    if (!take(quote)) return std::nullopt;
    const std::size_t end = rest_.find(quote);
    if (end == std::string_view::npos) return std::nullopt;
    const std::string_view text = rest_.substr(0, end);
    rest_.remove_prefix(end + 1);
    return text;
  }

  std::string_view rest_;
};

/// The header's text and the bytes behind it.
Result<std::pair<std::string_view, std::string_view>> parts_of(std::string_view bytes) {
  if (!bytes.starts_with(magic))
    return invalid_argument("it is no .npy file (numpy.save writes them)");
  if (bytes.size() < magic.size() + 2) return damaged("it ends in its header");
  const auto at = [&](std::size_t i) {
    return std::size_t{static_cast<unsigned char>(bytes[magic.size() + i])};
  };
  const std::size_t version = at(0);
  if (version < 1 || version > 3)
    return invalid_argument("it is a .npy file of version " + std::to_string(version) +
                            ", known are 1 to 3");
  const std::size_t length_bytes = version == 1 ? 2 : 4;
  const std::size_t begin = magic.size() + 2 + length_bytes;
  if (bytes.size() < begin) return damaged("it ends in its header");
  std::size_t length = 0;
  for (std::size_t i = 0; i < length_bytes; ++i) length |= at(2 + i) << (8 * i);
  if (length > header_bytes_max)
    return damaged("its header has " + std::to_string(length) + " bytes, the limit is " +
                   std::to_string(header_bytes_max));
  if (bytes.size() - begin < length) return damaged("it ends in its header");
  return std::pair(bytes.substr(begin, length), bytes.substr(begin + length));
}

/// How many bytes such a tensor takes; nothing when that is no number we have.
std::optional<std::uint64_t> bytes_of(Dtype dtype, const std::vector<std::int64_t>& shape) {
  std::uint64_t bytes = size_of(dtype);
  for (const std::int64_t size : shape)
    if (__builtin_mul_overflow(bytes, static_cast<std::uint64_t>(size), &bytes)) return {};
  return bytes;
}

}  // namespace

Result<Tensor> decode_npy(std::string_view bytes) {
  const auto parts = parts_of(bytes);
  if (!parts.ok()) return parts.error();
  const Result<Header> header = HeaderReader(parts->first).read();
  if (!header.ok()) return header.error();
  if (*header->fortran_order && header->shape->size() > 1)
    return invalid_argument(
        "it is in Fortran order; numpy.ascontiguousarray(array) puts it in C order");
  const std::string_view data = parts->second;
  const std::optional<std::uint64_t> wanted = bytes_of(*header->dtype, *header->shape);
  if (!wanted.has_value() || *wanted != data.size()) {
    std::string shape;
    for (const std::int64_t size : *header->shape)
      shape += (shape.empty() ? "" : ", ") + std::to_string(size);
    return damaged("its header promises " + std::string(to_string(*header->dtype)) + "[" + shape +
                   "]" + (wanted ? ", " + std::to_string(*wanted) + " bytes" : "") +
                   ", there are " + std::to_string(data.size()));
  }
  Result<Tensor> tensor = Tensor::zeros(*header->dtype, *header->shape);
  if (tensor.ok() && !data.empty()) std::memcpy(tensor->bytes().data(), data.data(), data.size());
  return tensor;
}

std::string encode_npy(const Tensor& tensor) {
  const bool widened = tensor.dtype() == Dtype::bf16;
  const Dtype dtype = widened ? Dtype::f32 : tensor.dtype();
  const auto type = std::ranges::find(number_types, dtype, &NumberType::dtype);
  std::string header =
      "{'descr': '" + std::string(type->name) + "', 'fortran_order': False, 'shape': (";
  for (const std::int64_t size : tensor.shape()) header += std::to_string(size) + ", ";
  if (tensor.shape().size() > 1) header.resize(header.size() - 2);
  if (tensor.shape().size() == 1) header.pop_back();
  header += "), }";
  // The numbers begin at a multiple of 64 bytes.
  const std::size_t begin = magic.size() + 4;
  header.resize((begin + header.size() + 1 + 63) / 64 * 64 - begin - 1, ' ');
  header += '\n';
  std::string file(magic);
  file += {'\x01', '\x00', static_cast<char>(header.size() & 0xffU),
           static_cast<char>(header.size() >> 8U)};
  file += header;
  if (widened) {
    for (const std::uint16_t bits : tensor.bf16()) {
      const float value = f32_from_bf16(bits);
      file.append(reinterpret_cast<const char*>(&value), sizeof value);
    }
  } else {
    file.append(reinterpret_cast<const char*>(tensor.bytes().data()), tensor.bytes_size());
  }
  return file;
}

}  // namespace sluice
