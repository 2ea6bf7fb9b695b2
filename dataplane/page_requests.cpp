#include "dataplane/page_requests.h"

#include <array>
#include <string>
#include <type_traits>
#include <utility>

#include "base/little_endian.h"

namespace sluice::attached {

namespace {

using Bytes = std::vector<std::byte>;
constexpr std::size_t key_bytes = 32;

class Reader {
 public:
  explicit Reader(std::span<const std::byte> bytes) : bytes_(bytes) {}

  bool ok() const { return what_ == nullptr; }
  /// The first thing that was wrong.
  Error error() const {
    return {ErrorCode::corrupt,
            "byte " + std::to_string(at_) + ": " + (what_ != nullptr ? what_ : "")};
  }
  void fail(const char* what) {
    if (what_ == nullptr) what_ = what;
  }
  std::size_t left() const { return ok() ? bytes_.size() - at_ : 0; }
  std::uint64_t number(unsigned size) {
    if (left() < size) fail("the message ends early");
    if (!ok()) return 0;
    at_ += size;
    return little_endian(bytes_.subspan(at_ - size, size));
  }
  std::uint32_t u32() { return static_cast<std::uint32_t>(number(4)); }
  /// How many follow, of so many bytes each at least.
  std::size_t count(std::size_t most, std::size_t each) {
    const std::uint64_t many = number(4);
    if (many > most || many * each > left()) fail("more than the message holds, or may hold");
    return ok() ? static_cast<std::size_t>(many) : 0;
  }

 private:
  std::span<const std::byte> bytes_;
  std::size_t at_ = 0;
  const char* what_ = nullptr;
};

/// A message's numbers go out in one piece: batches are told while somebody waits for a forward.
class Writer {
 public:
  explicit Writer(Bytes& out) : out_(out) {}
  ~Writer() { flush(); }
  Writer(const Writer&) = delete;
  Writer& operator=(const Writer&) = delete;

  template <unsigned Size>
  void number(std::uint64_t value) {
    if (used_ + Size > piece_.size()) flush();
    for (unsigned i = 0; i < Size; ++i)
      piece_[used_ + i] = static_cast<std::byte>(value >> (8 * i));
    used_ += Size;
  }

 private:
  void flush() {
    out_.insert(out_.end(), piece_.begin(), piece_.begin() + used_);
    used_ = 0;
  }

  Bytes& out_;
  std::array<std::byte, 64> piece_;
  unsigned used_ = 0;
};

void put(std::uint32_t value, Writer& out) { out.number<4>(value); }
void put(std::uint64_t value, Writer& out) { out.number<8>(value); }
void put(bool value, Writer& out) { out.number<1>(value ? 1 : 0); }
void put(const std::vector<PageKey>& keys, Writer& out) {
  put(static_cast<std::uint32_t>(keys.size()), out);
  for (const PageKey& key : keys)
    for (const std::uint64_t word : key.words) put(word, out);
}
void put(const std::vector<Page>& pages, Writer& out) {
  put(static_cast<std::uint32_t>(pages.size()), out);
  for (const Page page : pages) put(page, out);
}
void put(const Text& text, Writer& out) {
  put(static_cast<std::uint32_t>(text.size()), out);
  for (const std::byte byte : text) out.number<1>(std::to_integer<std::uint64_t>(byte));
}
void put(const std::vector<CopyPage>& copies, Writer& out) {
  put(static_cast<std::uint32_t>(copies.size()), out);
  for (const CopyPage& copy : copies) {
    put(copy.from, out);
    put(copy.to, out);
    put(copy.rows, out);
  }
}

void read(Reader& reader, std::uint32_t& value) { value = reader.u32(); }
void read(Reader& reader, std::uint64_t& value) { value = reader.number(8); }
void read(Reader& reader, bool& value) {
  const std::uint64_t byte = reader.number(1);
  if (byte > 1) reader.fail("neither yes nor no");
  value = byte == 1;
}
void read(Reader& reader, std::vector<PageKey>& keys) {
  keys.resize(reader.count(keys_most, key_bytes));
  for (PageKey& key : keys)
    for (std::uint64_t& word : key.words) word = reader.number(8);
}
void read(Reader& reader, std::vector<Page>& pages) {
  pages.resize(reader.count(pages_most, 4));
  for (Page& page : pages) page = reader.u32();
}
void read(Reader& reader, std::vector<CopyPage>& copies) {
  copies.resize(reader.count(pages_most, 12));
  for (CopyPage& copy : copies) copy = {reader.u32(), reader.u32(), reader.u32()};
}

void read(Reader& reader, Text& text) {
  text.resize(reader.count(text_most, 1));
  for (std::byte& byte : text) byte = static_cast<std::byte>(reader.number(1));
}

/// All of a message's parts, in the order in which they travel: for writing and for reading.
template <typename Message, typename Do>
void parts(Message& message, const Do& each) {
  using Kind = std::remove_const_t<Message>;
  if constexpr (std::is_same_v<Kind, Given>)
    parts(message.sequence, each);
  else if constexpr (requires { message.sequence; })
    each(message.sequence);
  if constexpr (requires { message.written; }) each(message.written);
  if constexpr (std::is_same_v<Kind, Given>) {
    each(message.shared);
    each(message.text);
  } else if constexpr (std::is_same_v<Kind, Reserve>) {
    each(message.rows);
    each(message.leased);
  } else if constexpr (std::is_same_v<Kind, Lease>) {
    each(message.pages);
    each(message.wants_reply);
  } else if constexpr (std::is_same_v<Kind, Take>) {
    each(message.pages);
  } else if constexpr (std::is_same_v<Kind, Truncate>) {
    each(message.rows);
    each(message.reserved);
    each(message.wants_reply);
    each(message.to_lease);
  } else if constexpr (std::is_same_v<Kind, Fork>) {
    each(message.to);
  } else if constexpr (requires { message.token; }) {
    each(message.token);
    if constexpr (requires { message.text; }) each(message.text);
  } else if constexpr (std::is_same_v<Kind, Heard>) {
    each(message.text);
  } else if constexpr (std::is_same_v<Kind, Ask>) {
    each(message.rows);
    each(message.keys);
  } else if constexpr (std::is_same_v<Kind, Open> || std::is_same_v<Kind, Publish>) {
    each(message.keys);
  } else if constexpr (std::is_same_v<Kind, Pages>) {
    each(message.pages);
    each(message.rows);
    each(message.published);
  } else if constexpr (std::is_same_v<Kind, Room>) {
    each(message.from);
    each(message.pages);
    each(message.copies);
  }
}

template <typename Variant>
void put_one(const Variant& message, Writer& out) {
  out.number<1>(message.index());
  std::visit(
      [&](const auto& one) {
        if constexpr (std::is_same_v<std::decay_t<decltype(one)>, Admission>) {
          put(one.cached, out);
          put(one.fresh, out);
          put(one.fits, out);
        } else {
          parts(one, [&](const auto& part) { put(part, out); });
        }
      },
      message);
}

template <typename One>
void read_parts(Reader& reader, One& one) {
  if constexpr (std::is_same_v<One, Admission>) {
    read(reader, one.cached);
    read(reader, one.fresh);
    read(reader, one.fits);
  } else {
    parts(one, [&](auto& part) { read(reader, part); });
  }
}

template <typename Variant, std::size_t Index = 0>
Variant read_one(Reader& reader, std::uint64_t kind) {
  if constexpr (Index < std::variant_size_v<Variant>) {
    if (kind != Index) return read_one<Variant, Index + 1>(reader, kind);
    std::variant_alternative_t<Index, Variant> one;
    read_parts(reader, one);
    return one;
  } else {
    reader.fail("a kind that there is not");
    return {};
  }
}

template <typename Variant>
void put_all(std::span<const Variant> messages, Writer& out) {
  put(static_cast<std::uint32_t>(messages.size()), out);
  for (const Variant& one : messages) put_one(one, out);
}
template <typename Variant>
std::vector<Variant> read_all(Reader& reader) {
  std::vector<Variant> all;
  const std::size_t count = reader.count(requests_most, 1);
  for (std::size_t i = 0; i < count && reader.ok(); ++i)
    all.push_back(read_one<Variant>(reader, reader.number(1)));
  return all;
}

template <typename Message>
Result<Message> whole(Reader& reader, Message message) {
  if (reader.left() != 0) reader.fail("bytes behind the message's end");
  if (!reader.ok()) return reader.error();
  return message;
}

}  // namespace

bool has_reply(const Request& request) {
  if (const auto* cut = std::get_if<Truncate>(&request)) return cut->wants_reply;
  if (const auto* lease = std::get_if<Lease>(&request)) return lease->wants_reply;
  return !std::holds_alternative<Take>(request) && !std::holds_alternative<Fork>(request) &&
         !std::holds_alternative<Release>(request) && !std::holds_alternative<Withdraw>(request);
}

std::vector<std::byte> encode(std::span<const Request> batch) {
  Bytes bytes;
  bytes.reserve(4 + 32 * batch.size());
  {
    Writer out(bytes);
    put_all(batch, out);
  }
  return bytes;
}

Result<std::vector<Request>> decode_batch(std::span<const std::byte> bytes) {
  Reader reader(bytes);
  std::vector<Request> batch = read_all<Request>(reader);
  return whole(reader, std::move(batch));
}

std::vector<std::byte> encode(const Answer& answer) {
  Bytes bytes;
  {
    Writer out(bytes);
    put(answer.free, out);
    put(answer.cached, out);
    put_all(std::span<const Reply>(answer.replies), out);
  }
  return bytes;
}

Result<Answer> decode_answer(std::span<const std::byte> bytes) {
  Reader reader(bytes);
  Answer answer;
  answer.free = reader.u32();
  answer.cached = reader.u32();
  answer.replies = read_all<Reply>(reader);
  return whole(reader, std::move(answer));
}

}  // namespace sluice::attached
