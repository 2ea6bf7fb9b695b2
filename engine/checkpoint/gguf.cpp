#include "engine/checkpoint/gguf.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "engine/checkpoint/mapped_file.h"

namespace sluice {

namespace {

using Type = GgufFile::Type;

/// Bytes of a number; 0: no number.
std::size_t width_of(Type type) {
  switch (type) {
    case Type::u8:
    case Type::i8:
    case Type::boolean:
      return 1;
    case Type::u16:
    case Type::i16:
      return 2;
    case Type::u32:
    case Type::i32:
    case Type::f32:
      return 4;
    case Type::u64:
    case Type::i64:
    case Type::f64:
      return 8;
    case Type::text:
    case Type::array:
      return 0;
  }
  return 0;
}

template <typename T>
T at(std::span<const std::byte> bytes, std::size_t i = 0) {
  T value{};
  std::memcpy(&value, bytes.data() + i * sizeof value, sizeof value);
  return value;
}

double number_at(Type type, std::span<const std::byte> bytes, std::size_t i) {
  switch (type) {
    case Type::u8:
    case Type::boolean:
      return at<std::uint8_t>(bytes, i);
    case Type::i8:
      return at<std::int8_t>(bytes, i);
    case Type::u16:
      return at<std::uint16_t>(bytes, i);
    case Type::i16:
      return at<std::int16_t>(bytes, i);
    case Type::u32:
      return at<std::uint32_t>(bytes, i);
    case Type::i32:
      return at<std::int32_t>(bytes, i);
    case Type::f32:
      return static_cast<double>(at<float>(bytes, i));
    case Type::u64:
      return static_cast<double>(at<std::uint64_t>(bytes, i));
    case Type::i64:
      return static_cast<double>(at<std::int64_t>(bytes, i));
    case Type::f64:
      return at<double>(bytes, i);
    case Type::text:
    case Type::array:
      break;
  }
  return 0;
}

/// For messages: what stands between quotes in a terminal.
std::string printable(std::string_view bytes) {
  std::string text;
  for (const char c : bytes.substr(0, 80)) text += c >= ' ' && c <= '~' ? c : '?';
  return text;
}

std::string_view as_text(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

}  // namespace

/// Takes bytes from the front; what is not there is an error that says where.
class GgufFile::Reader {
 public:
  Reader(std::span<const std::byte> file, const std::string& name) : file_(file), name_(name) {}

  std::size_t place() const { return place_; }
  std::size_t left() const { return file_.size() - place_; }
  Error corrupt(const std::string& what) const {
    return {ErrorCode::corrupt, name_ + ": " + what + " (at byte " + std::to_string(place_) + ")"};
  }
  Result<std::span<const std::byte>> take(std::uint64_t count, const char* what) {
    if (count > left())
      return corrupt(std::string(what) + " needs " + std::to_string(count) +
                     " bytes, the file has " + std::to_string(left()) + " more");
    const auto taken = file_.subspan(place_, count);
    place_ += count;
    return taken;
  }
  template <typename T>
  Result<T> number(const char* what) {
    const auto taken = take(sizeof(T), what);
    if (!taken.ok()) return taken.error();
    return at<T>(*taken);
  }
  Result<std::string_view> text(std::size_t most, const char* what) {
    const Result<std::uint64_t> length = number<std::uint64_t>(what);
    if (!length.ok()) return length.error();
    if (*length > most)
      return corrupt(std::string(what) + " has " + std::to_string(*length) +
                     " bytes, the limit is " + std::to_string(most));
    const auto taken = take(*length, what);
    if (!taken.ok()) return taken.error();
    return as_text(*taken);
  }
  Result<Type> type(const std::string& key) {
    const Result<std::uint32_t> code = number<std::uint32_t>("a value's type");
    if (!code.ok()) return code.error();
    if (*code > static_cast<std::uint32_t>(Type::f64))
      return corrupt("key '" + key + "': type " + std::to_string(*code) + " is not known");
    return static_cast<Type>(*code);
  }
  Result<Value> value(const std::string& key);

 private:
  std::span<const std::byte> file_;
  const std::string& name_;
  std::size_t place_ = 0;
};

Result<GgufFile::Value> GgufFile::Reader::value(const std::string& key) {
  const Result<Type> type = this->type(key);
  if (!type.ok()) return type.error();
  Value made;
  made.type = made.element = *type;
  if (*type == Type::text) {
    const auto read = text(left(), "a text");
    if (!read.ok()) return read.error();
    made.bytes = {reinterpret_cast<const std::byte*>(read->data()), read->size()};
    return made;
  }
  if (*type == Type::array) {
    const Result<Type> element = this->type(key);
    if (!element.ok()) return element.error();
    if (*element == Type::array) return corrupt("key '" + key + "': arrays of arrays are not read");
    const auto count = number<std::uint64_t>("an array's length");
    if (!count.ok()) return count.error();
    made.element = *element;
    made.count = *count;
    // A text is its length and its bytes.
    const std::size_t least = *element == Type::text ? 8 : width_of(*element);
    if (*count > left() / least)
      return corrupt("key '" + key + "': " + std::to_string(*count) +
                     " values are more than the file has bytes for");
    if (*element != Type::text) {
      made.bytes = *take(*count * least, "an array");
      return made;
    }
    const std::size_t begin = place_;
    for (std::uint64_t i = 0; i < *count; ++i)
      if (const auto one = text(left(), "a text of an array"); !one.ok()) return one.error();
    made.bytes = file_.subspan(begin, place_ - begin);
    return made;
  }
  const auto taken = take(width_of(*type), "a value");
  if (!taken.ok()) return taken.error();
  made.bytes = *taken;
  return made;
}

Result<void> GgufFile::read_values(Reader& reader, std::uint64_t count) {
  for (std::uint64_t i = 0; i < count; ++i) {
    const auto key = reader.text(key_bytes_max, "a key");
    if (!key.ok()) return key.error();
    const std::string shown = printable(*key);
    const Result<Value> value = reader.value(shown);
    if (!value.ok()) return value.error();
    if (!values_.emplace(*key, *value).second)
      return reader.corrupt("key '" + shown + "' stands twice");
  }
  return {};
}

Result<void> GgufFile::read_tensors(Reader& reader, std::uint64_t count) {
  for (std::uint64_t i = 0; i < count; ++i) {
    const auto name = reader.text(name_bytes_max, "a tensor's name");
    if (!name.ok()) return name.error();
    const std::string where = "tensor '" + printable(*name) + "': ";
    const auto rank = reader.number<std::uint32_t>("a tensor's rank");
    if (!rank.ok()) return rank.error();
    if (*rank == 0 || *rank > 4)
      return reader.corrupt(where + std::to_string(*rank) + " dimensions; 1 to 4 can be");
    Tensor made;
    for (std::uint32_t d = 0; d < *rank; ++d) {
      const auto size = reader.number<std::uint64_t>("a tensor's shape");
      if (!size.ok()) return size.error();
      if (*size == 0 || *size > INT64_MAX)
        return reader.corrupt(where + "a dimension of " + std::to_string(*size));
      made.shape.insert(made.shape.begin(), static_cast<std::int64_t>(*size));
    }
    const auto code = reader.number<std::uint32_t>("a tensor's type");
    if (!code.ok()) return code.error();
    const auto layouts = kernels::block_layouts();
    const auto layout = std::ranges::find(layouts, *code, &kernels::BlockLayout::code);
    if (layout == layouts.end())
      return invalid_argument(name_ + ": " + where + "type " + std::to_string(*code) +
                              " of ggml is not read; F32, F16, BF16, Q8_0, Q4_0, Q4_1, Q5_0, Q5_1, "
                              "Q4_K, Q5_K and Q6_K are");
    made.type = static_cast<kernels::BlockType>(layout - layouts.begin());
    const auto offset = reader.number<std::uint64_t>("a tensor's offset");
    if (!offset.ok()) return offset.error();
    if (!tensors_.emplace(*name, std::move(made)).second)
      return reader.corrupt(where + "stands twice");
    offsets_.emplace(*name, *offset);
  }
  return {};
}

Result<void> GgufFile::place_tensors(std::span<const std::byte> data, std::uint64_t alignment) {
  std::vector<std::pair<std::uint64_t, std::string_view>> places;
  for (auto& [name, tensor] : tensors_) {
    const std::string where = name_ + ": tensor '" + printable(name) + "': ";
    const kernels::BlockLayout& layout = kernels::layout_of(tensor.type);
    const auto row = static_cast<std::uint64_t>(tensor.shape.back());
    if (row % layout.values != 0)
      return Error{ErrorCode::corrupt,
                   where + "rows of " + std::to_string(row) + " values are no whole blocks of " +
                       std::to_string(layout.values) + " (" + std::string(layout.name) + ")"};
    std::uint64_t bytes = row / layout.values;
    bool fits = !__builtin_mul_overflow(bytes, layout.bytes, &bytes);
    for (std::size_t d = 0; d + 1 < tensor.shape.size(); ++d)
      fits = fits &&
             !__builtin_mul_overflow(bytes, static_cast<std::uint64_t>(tensor.shape[d]), &bytes);
    const std::uint64_t offset = offsets_.find(name)->second;
    if (!fits || bytes > data.size() || offset > data.size() - bytes)
      return Error{ErrorCode::corrupt, where + "its bytes from " + std::to_string(offset) +
                                           " on leave the file's " + std::to_string(data.size()) +
                                           " data bytes"};
    if (offset % alignment != 0)
      return Error{ErrorCode::corrupt, where + "offset " + std::to_string(offset) +
                                           " is not a multiple of the alignment " +
                                           std::to_string(alignment)};
    tensor.bytes = data.subspan(offset, bytes);
    places.emplace_back(offset, name);
  }
  std::ranges::sort(places);
  for (std::size_t i = 1; i < places.size(); ++i)
    if (places[i - 1].first + tensors_.find(places[i - 1].second)->second.bytes.size() >
        places[i].first)
      return Error{ErrorCode::corrupt, name_ + ": tensors '" + printable(places[i - 1].second) +
                                           "' and '" + printable(places[i].second) + "' overlap"};
  offsets_.clear();
  return {};
}

Result<GgufFile> GgufFile::parse(std::span<const std::byte> file, const std::string& name) {
  GgufFile made;
  made.name_ = name;
  Reader reader(file, made.name_);
  const auto magic = reader.take(4, "the header");
  if (!magic.ok()) return magic.error();
  if (as_text(*magic) != "GGUF") return reader.corrupt("not a GGUF file (no 'GGUF' in front)");
  const auto version = reader.number<std::uint32_t>("the version");
  if (!version.ok()) return version.error();
  if (*version != 2 && *version != 3)
    return invalid_argument(name + ": GGUF version " + std::to_string(*version) +
                            (*version << 16 == 0 ? " (big-endian)" : "") +
                            " is not read; 2 and 3, little-endian, are");
  const auto tensors = reader.number<std::uint64_t>("the number of tensors");
  if (!tensors.ok()) return tensors.error();
  const auto values = reader.number<std::uint64_t>("the number of keys");
  if (!values.ok()) return values.error();
  if (auto read = made.read_values(reader, *values); !read.ok()) return read.error();
  if (auto read = made.read_tensors(reader, *tensors); !read.ok()) return read.error();
  std::uint64_t alignment = 32;
  if (made.has("general.alignment")) alignment = made.whole("general.alignment").value_or(0);
  if (alignment < 8 || alignment > 1 << 20 || !std::has_single_bit(alignment))
    return reader.corrupt("general.alignment must be a power of two from 8 to 1048576");
  const std::size_t begin = (reader.place() + alignment - 1) / alignment * alignment;
  const auto data = file.subspan(std::min(begin, file.size()));
  if (auto placed = made.place_tensors(data, alignment); !placed.ok()) return placed.error();
  return made;
}

Result<GgufFile> GgufFile::open(const std::string& path) {
  const Result<MappedFile> file = MappedFile::open(path);
  if (!file.ok()) return file.error();
  Result<GgufFile> made = parse(file->bytes, path);
  if (made.ok()) made->owner_ = file->owner;
  return made;
}

const GgufFile::Tensor* GgufFile::find(std::string_view tensor) const {
  const auto it = tensors_.find(tensor);
  return it == tensors_.end() ? nullptr : &it->second;
}

const GgufFile::Value* GgufFile::value(std::string_view key) const {
  const auto it = values_.find(key);
  return it == values_.end() ? nullptr : &it->second;
}

std::optional<std::string_view> GgufFile::text(std::string_view key) const {
  const Value* found = value(key);
  if (found == nullptr || found->type != Type::text) return std::nullopt;
  return as_text(found->bytes);
}

std::optional<std::uint64_t> GgufFile::whole(std::string_view key) const {
  const Value* found = value(key);
  if (found == nullptr || found->type == Type::f32 || found->type == Type::f64 ||
      found->type == Type::boolean || width_of(found->type) == 0)
    return std::nullopt;
  if (found->type == Type::u64) return at<std::uint64_t>(found->bytes);
  const double number = number_at(found->type, found->bytes, 0);
  if (number < 0) return std::nullopt;
  return static_cast<std::uint64_t>(number);
}

std::optional<double> GgufFile::number(std::string_view key) const {
  const Value* found = value(key);
  if (found == nullptr || found->type == Type::boolean || width_of(found->type) == 0)
    return std::nullopt;
  return number_at(found->type, found->bytes, 0);
}

std::optional<bool> GgufFile::flag(std::string_view key) const {
  const Value* found = value(key);
  if (found == nullptr || found->type != Type::boolean) return std::nullopt;
  return at<std::uint8_t>(found->bytes) != 0;
}

std::vector<std::string_view> GgufFile::texts(std::string_view key) const {
  const Value* found = value(key);
  std::vector<std::string_view> all;
  if (found == nullptr || found->type != Type::array || found->element != Type::text) return all;
  all.reserve(found->count);
  std::span<const std::byte> left = found->bytes;
  for (std::uint64_t i = 0; i < found->count; ++i) {
    const auto length = at<std::uint64_t>(left);
    all.push_back(as_text(left.subspan(8, length)));
    left = left.subspan(8 + length);
  }
  return all;
}

std::vector<double> GgufFile::numbers(std::string_view key) const {
  const Value* found = value(key);
  std::vector<double> all;
  if (found == nullptr || found->type != Type::array || width_of(found->element) == 0) return all;
  all.reserve(found->count);
  for (std::uint64_t i = 0; i < found->count; ++i)
    all.push_back(number_at(found->element, found->bytes, i));
  return all;
}

}  // namespace sluice
