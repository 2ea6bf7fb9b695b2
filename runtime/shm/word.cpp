#include "runtime/shm/word.h"

#include <utility>

namespace sluice::shm {

namespace {

constexpr std::uint8_t magic = 0xb5, version = 1;
constexpr std::size_t why_max = 400;
constexpr std::uint64_t any32 = 0xffffffffU;

void put(wire::ByteWriter& out, Origin origin) {
  out.number(origin.machine);
  out.number(origin.incarnation);
}
void put(wire::ByteWriter& out, const Greeting& greeting) {
  put(out, greeting.from);
  put(out, greeting.to);
}
void put(wire::ByteWriter& out, const Offer& offer) { out.number(offer.slab); }
void put(wire::ByteWriter& out, const Mapped& mapped) { out.number(mapped.slab); }
void put(wire::ByteWriter& out, const Back& back) {
  out.number(back.handles.size());
  for (const wire::Handle& handle : back.handles) {
    out.number(handle.slab);
    out.number(handle.block);
    out.number(handle.generation);
  }
}
void put(wire::ByteWriter& out, const Declined& declined) {
  out.text(std::string_view(declined.why).substr(0, why_max));
}

std::uint32_t read32(wire::ByteReader& in, std::string_view what) {
  return static_cast<std::uint32_t>(in.number(what, any32));
}

Origin read_origin(wire::ByteReader& in) {
  Origin origin;
  origin.machine = read32(in, "a machine");
  origin.incarnation = read32(in, "an incarnation");
  if (origin.incarnation == 0) in.fail("no incarnation 0");
  return origin;
}

Back read_back(wire::ByteReader& in) {
  Back back;
  const std::size_t count = in.count("handles", handles_max, 3);
  if (count == 0) in.fail("no handles");
  for (std::size_t i = 0; i < count && in.ok(); ++i) {
    wire::Handle handle;
    handle.slab = read32(in, "a slab");
    handle.block = read32(in, "a block");
    handle.generation = in.number("a generation", ~std::uint64_t{0});
    back.handles.push_back(handle);
  }
  return back;
}

Word read_body(wire::ByteReader& in) {
  switch (in.number("a kind", std::variant_size_v<Word> - 1)) {
    case 0: {
      const Origin from = read_origin(in);
      return Greeting{from, read_origin(in)};
    }
    case 1:
      return Offer{read32(in, "a slab")};
    case 2:
      return Mapped{read32(in, "a slab")};
    case 3:
      return read_back(in);
    default:
      return Declined{in.text("a reason", why_max)};
  }
}

}  // namespace

wire::Bytes write_word(const Word& word) {
  wire::Bytes bytes;
  wire::ByteWriter out(bytes);
  out.u8(magic);
  out.u8(version);
  out.number(word.index());
  std::visit([&](const auto& what) { put(out, what); }, word);
  return bytes;
}

Result<Word> read_word(std::span<const std::byte> bytes) {
  if (bytes.size() > word_bytes_max) return Error{ErrorCode::corrupt, "too long a word"};
  wire::ByteReader in(bytes);
  if (in.u8("the first byte") != magic) in.fail("not a word about shared memory");
  const std::uint8_t theirs = in.u8("a version");
  if (theirs != version) in.fail("a word of version " + std::to_string(theirs));
  Word word = read_body(in);
  if (in.left() != 0) in.fail("something behind the end");
  if (!in.ok()) return Error{ErrorCode::corrupt, in.error()};
  return word;
}

}  // namespace sluice::shm
