#include "dataplane/page_messages.h"

#include <cstring>
#include <utility>

#include "base/check.h"
#include "base/little_endian.h"

namespace sluice::pages {

namespace {

constexpr std::uint32_t magic = 0x47504c53;  // "SLPG"
constexpr std::size_t head_bytes = 16;
constexpr std::size_t key_bytes = 32;
constexpr std::size_t page_head_bytes = head_bytes + 16 + key_bytes + 12;
constexpr std::size_t place_bytes = page_head_bytes - head_bytes + 4;

enum class Kind : std::uint8_t {
  hello = 1,
  find,
  found,
  ask,
  page,
  end,
  took,
  note,
  noted,
  proof,
  ask_places,
  region,
  places,
  follow,
  published
};

class Writer {
 public:
  Writer(Kind kind, std::uint64_t id, std::size_t more) {
    out_.reserve(head_bytes + more);
    number(magic, 4);
    number(version, 1);
    number(static_cast<std::uint64_t>(kind), 1);
    number(0, 2);
    number(id, 8);
  }
  void number(std::uint64_t value, unsigned bytes) { append_little_endian(value, bytes, out_); }
  void key(const PageKey& key) {
    for (const std::uint64_t word : key.words) number(word, 8);
  }
  void bytes(std::span<const std::byte> data) { out_.insert(out_.end(), data.begin(), data.end()); }
  Bytes take() { return std::move(out_); }

 private:
  Bytes out_;
};

/// What is not there reads as zeros, and is remembered.
class Reader {
 public:
  explicit Reader(std::span<const std::byte> bytes) : bytes_(bytes) {}
  std::uint64_t number(unsigned bytes) {
    if (bytes > left()) return fail();
    at_ += bytes;
    return little_endian(bytes_.subspan(at_ - bytes, bytes));
  }
  PageKey key() {
    PageKey key;
    for (std::uint64_t& word : key.words) word = number(8);
    return key;
  }
  std::span<const std::byte> rest() const { return bytes_.subspan(at_); }
  std::size_t left() const { return bytes_.size() - at_; }
  std::uint64_t fail() {
    ok_ = false;
    at_ = bytes_.size();
    return 0;
  }
  /// All of it was read, and was there.
  bool is_whole() const { return ok_ && left() == 0; }
  bool ok() const { return ok_; }

 private:
  std::span<const std::byte> bytes_;
  std::size_t at_ = 0;
  bool ok_ = true;
};

Bytes encode_keys(Kind kind, std::uint64_t id, const std::vector<PageKey>& keys) {
  SLUICE_CHECK(keys.size() <= keys_most);
  Writer writer(kind, id, 4 + keys.size() * key_bytes);
  writer.number(keys.size(), 4);
  for (const PageKey& key : keys) writer.key(key);
  return writer.take();
}

std::vector<PageKey> read_keys(Reader& reader) {
  const std::uint64_t count = reader.number(4);
  std::vector<PageKey> keys;
  if (count == 0 || count > keys_most || reader.left() != count * key_bytes) {
    reader.fail();
    return keys;
  }
  keys.reserve(count);
  for (std::uint64_t i = 0; i < count; ++i) keys.push_back(reader.key());
  return keys;
}

void write_head(const PageHead& head, Writer& writer) {
  writer.number(head.incarnation, 8);
  writer.number(head.generation, 8);
  writer.key(head.key);
  writer.number(head.index, 4);
  writer.number(head.length, 4);
  writer.number(head.crc32c, 4);
}

void write_end(const End& end, Writer& writer) {
  writer.number(end.pages, 4);
  writer.number(static_cast<std::uint64_t>(end.status), 1);
  writer.number(end.receipt, 8);
}

Hello read_hello(Reader& reader) {
  Hello hello;
  for (std::uint8_t& byte : hello.layout) byte = static_cast<std::uint8_t>(reader.number(1));
  hello.incarnation = reader.number(8);
  hello.page_bytes = static_cast<std::uint32_t>(reader.number(4));
  for (std::uint8_t& byte : hello.nonce) byte = static_cast<std::uint8_t>(reader.number(1));
  return hello;
}

Proof read_proof(Reader& reader) {
  Proof proof;
  proof.mac = reader.key();
  for (std::uint8_t& byte : proof.nonce) byte = static_cast<std::uint8_t>(reader.number(1));
  return proof;
}

PageHead read_head(std::uint64_t id, Reader& reader) {
  PageHead head;
  head.id = id;
  head.incarnation = reader.number(8);
  head.generation = reader.number(8);
  head.key = reader.key();
  head.index = static_cast<std::uint32_t>(reader.number(4));
  head.length = static_cast<std::uint32_t>(reader.number(4));
  head.crc32c = static_cast<std::uint32_t>(reader.number(4));
  return head;
}

std::optional<Message> read_region(Reader& reader) {
  Region region;
  region.incarnation = reader.number(8);
  region.pages = static_cast<std::uint32_t>(reader.number(4));
  region.key = reader.rest();
  if (!reader.ok() || region.pages == 0 || region.key.size() > region_key_most) return std::nullopt;
  return region;
}

/// What follows is the content, or it stands elsewhere, and there is nothing else.
std::optional<Message> read_page(std::uint64_t id, Reader& reader,
                                 std::span<const std::byte> body) {
  PageContent page;
  page.head = read_head(id, reader);
  page.content = body.empty() ? reader.rest() : body;
  if (!body.empty() && reader.left() != 0) return std::nullopt;
  if (!reader.ok() || page.head.length > page_bytes_most || page.content.size() != page.head.length)
    return std::nullopt;
  return page;
}

std::optional<End> read_end(std::uint64_t id, Reader& reader) {
  End end;
  end.id = id;
  end.pages = static_cast<std::uint32_t>(reader.number(4));
  const std::uint64_t status = reader.number(1);
  if (status > static_cast<std::uint64_t>(End::Status::refused)) return std::nullopt;
  end.status = static_cast<End::Status>(status);
  end.receipt = reader.number(8);
  return end;
}

std::optional<Places> read_places(std::uint64_t id, Reader& reader) {
  const std::optional<End> end = read_end(id, reader);
  if (!end || end->pages > keys_most || reader.left() != end->pages * place_bytes)
    return std::nullopt;
  Places read{std::vector<Place>(end->pages), *end};
  for (Place& place : read.places) {
    place.head = read_head(id, reader);
    place.page = static_cast<std::uint32_t>(reader.number(4));
  }
  return read;
}

std::optional<Published> read_published(std::uint64_t mark, Reader& reader) {
  Published read{mark, reader.number(8), {}};
  const std::uint64_t count = reader.number(4);
  if (count == 0 || count > told_most || reader.left() != count * 2 * key_bytes)
    return std::nullopt;
  read.pages.resize(count);
  for (ToldPage& page : read.pages) {
    page.key = reader.key();
    page.parent = reader.key();
  }
  return read;
}

Found read_found(std::uint64_t id, Reader& reader) {
  Found found;
  found.id = id;
  found.pages = static_cast<std::uint32_t>(reader.number(4));
  found.receipt = reader.number(8);
  return found;
}

}  // namespace

Bytes encode(const Hello& hello) {
  Writer writer(Kind::hello, 0, 60);
  writer.bytes(std::as_bytes(std::span(hello.layout)));
  writer.number(hello.incarnation, 8);
  writer.number(hello.page_bytes, 4);
  writer.bytes(std::as_bytes(std::span(hello.nonce)));
  return writer.take();
}

Bytes encode(const Proof& proof) {
  Writer writer(Kind::proof, 0, key_bytes + proof.nonce.size());
  writer.key(proof.mac);
  writer.bytes(std::as_bytes(std::span(proof.nonce)));
  return writer.take();
}

Bytes encode(const Find& find) { return encode_keys(Kind::find, find.id, find.keys); }
Bytes encode(const Ask& ask) {
  return encode_keys(ask.for_places ? Kind::ask_places : Kind::ask, ask.id, ask.keys);
}

Bytes encode(const Found& found) {
  Writer writer(Kind::found, found.id, 12);
  writer.number(found.pages, 4);
  writer.number(found.receipt, 8);
  return writer.take();
}

Bytes encode(const End& end) {
  Writer writer(Kind::end, end.id, 13);
  write_end(end, writer);
  return writer.take();
}

Bytes encode(const Took& took) { return Writer(Kind::took, took.receipt, 0).take(); }

Bytes encode(const Noted& noted) {
  Writer writer(Kind::noted, noted.id, 8);
  writer.number(noted.receipt, 8);
  return writer.take();
}

Bytes encode(const Note& note) {
  SLUICE_CHECK(note.text.size() <= note_bytes_most);
  Writer writer(Kind::note, note.id, note.text.size());
  writer.bytes(note.text);
  return writer.take();
}

Bytes page_message(std::uint32_t page_bytes) {
  constexpr std::size_t way = 16;  // what a port may add
  Bytes message;
  message.reserve(page_head_bytes + page_bytes + way);
  message.resize(page_head_bytes);
  return message;
}

Bytes encode(const PageContent& page) {
  Bytes message = page_message(page.head.length);
  message.insert(message.end(), page.content.begin(), page.content.end());
  write_page_head(page.head, message);
  return message;
}

Bytes encode(const PageHead& head) {
  Writer writer(Kind::page, head.id, page_head_bytes - head_bytes);
  write_head(head, writer);
  return writer.take();
}

Bytes encode(const Places& said) {
  SLUICE_CHECK(said.places.size() <= keys_most && said.places.size() == said.end.pages);
  Writer writer(Kind::places, said.end.id, 13 + said.places.size() * place_bytes);
  write_end(said.end, writer);
  for (const Place& place : said.places) {
    write_head(place.head, writer);
    writer.number(place.page, 4);
  }
  return writer.take();
}

Bytes encode(const Region& region) {
  SLUICE_CHECK(region.key.size() <= region_key_most);
  Writer writer(Kind::region, 0, 12 + region.key.size());
  writer.number(region.incarnation, 8);
  writer.number(region.pages, 4);
  writer.bytes(region.key);
  return writer.take();
}

Bytes encode(const Follow& follow) {
  Writer writer(Kind::follow, follow.since, 8);
  writer.number(follow.mark, 8);
  return writer.take();
}

Bytes encode(const Published& published) {
  const std::size_t count = published.pages.size();
  SLUICE_CHECK(count > 0 && count <= told_most);
  Writer writer(Kind::published, published.mark, 12 + count * 2 * key_bytes);
  writer.number(published.last, 8);
  writer.number(count, 4);
  for (const ToldPage& page : published.pages) {
    writer.key(page.key);
    writer.key(page.parent);
  }
  return writer.take();
}

void write_page_head(const PageHead& head, Bytes& message) {
  const Bytes bytes = encode(head);
  SLUICE_CHECK(bytes.size() == page_head_bytes && message.size() == bytes.size() + head.length);
  std::memcpy(message.data(), bytes.data(), bytes.size());
}

std::optional<Message> decode(std::span<const std::byte> message, std::span<const std::byte> body) {
  Reader reader(message);
  if (reader.number(4) != magic || reader.number(1) != version) return std::nullopt;
  const std::uint64_t kind = reader.number(1);
  if (reader.number(2) != 0) return std::nullopt;
  const std::uint64_t id = reader.number(8);
  if (!reader.ok() || (!body.empty() && kind != static_cast<std::uint64_t>(Kind::page)))
    return std::nullopt;
  std::optional<Message> made;
  switch (static_cast<Kind>(kind)) {
    case Kind::hello:
      if (id == 0) made = read_hello(reader);
      break;
    case Kind::find:
      made = Find{id, read_keys(reader)};
      break;
    case Kind::ask:
    case Kind::ask_places:
      made = Ask{id, read_keys(reader), static_cast<Kind>(kind) == Kind::ask_places};
      break;
    case Kind::places:
      if (std::optional<Places> places = read_places(id, reader)) made = *std::move(places);
      break;
    case Kind::region:
      return id == 0 ? read_region(reader) : std::nullopt;
    case Kind::found:
      made = read_found(id, reader);
      break;
    case Kind::page:
      return read_page(id, reader, body);
    case Kind::end:
      if (const std::optional<End> end = read_end(id, reader)) made = *end;
      break;
    case Kind::took:
      made = Took{id};
      break;
    case Kind::note:
      if (message.size() - head_bytes > note_bytes_most) return std::nullopt;
      return Note{id, reader.rest()};
    case Kind::noted:
      made = Noted{id, reader.number(8)};
      break;
    case Kind::follow:
      made = Follow{id, reader.number(8)};
      break;
    case Kind::published:
      if (std::optional<Published> read = read_published(id, reader)) made = *std::move(read);
      break;
    case Kind::proof:
      if (id == 0) made = read_proof(reader);
      break;
    default:
      return std::nullopt;
  }
  return reader.is_whole() ? made : std::nullopt;
}

}  // namespace sluice::pages
