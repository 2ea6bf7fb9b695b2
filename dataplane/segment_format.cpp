#include "dataplane/segment_format.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "base/check.h"
#include "base/crc32c.h"

namespace sluice {
namespace {

constexpr std::uint64_t segment_magic = 0x31474553564b4c53;  // SLKVSEG1
constexpr std::uint64_t record_magic = 0x31434552564b4c53;   // SLKVREC1
constexpr std::uint64_t foot_magic = 0x31444e45564b4c53;     // SLKVEND1
constexpr std::size_t segment_head_bytes = 64;

/// Numbers one behind the other, little-endian.
class Writer {
 public:
  explicit Writer(std::span<std::byte> bytes) : bytes_(bytes) {}
  template <typename T>
  void put(T number) {
    for (std::size_t i = 0; i < sizeof(T); ++i)
      bytes_[at_++] = static_cast<std::byte>(static_cast<std::uint64_t>(number) >> (8 * i) & 0xff);
  }
  void put(const PageKey& key) {
    for (const std::uint64_t word : key.words) put(word);
  }
  std::span<const std::byte> written() const { return bytes_.first(at_); }

 private:
  std::span<std::byte> bytes_;
  std::size_t at_ = 0;
};

class Reader {
 public:
  explicit Reader(std::span<const std::byte> bytes) : bytes_(bytes) {}
  template <typename T>
  T get() {
    std::uint64_t number = 0;
    for (std::size_t i = 0; i < sizeof(T); ++i)
      number |= std::to_integer<std::uint64_t>(bytes_[at_++]) << (8 * i);
    return static_cast<T>(number);
  }
  PageKey key() {
    PageKey key;
    for (std::uint64_t& word : key.words) word = get<std::uint64_t>();
    return key;
  }
  std::span<const std::byte> read() const { return bytes_.first(at_); }

 private:
  std::span<const std::byte> bytes_;
  std::size_t at_ = 0;
};

bool all_zero(std::span<const std::byte> bytes) {
  if (bytes.empty()) return true;
  // The first is, and each equals the one before it: by words, as a loop over bytes would not be.
  return bytes[0] == std::byte{0} &&
         std::memcmp(bytes.data(), bytes.data() + 1, bytes.size() - 1) == 0;
}

/// What the head of this record has to be, up to its own checksum. Returns that.
std::uint32_t put_head(const SegmentHead& segment, std::uint32_t slot, const RecordHead& head,
                       std::uint32_t content, std::span<std::byte> bytes) {
  Writer out(bytes);
  out.put(record_magic);
  out.put(segment.owner);
  out.put(segment.number);
  out.put(segment.layout);
  out.put(head.key);
  out.put(head.parent);
  out.put(head.generation);
  out.put(slot);
  out.put(segment.content_bytes);
  out.put(content);
  const std::uint32_t sum = crc32c(out.written());
  out.put(sum);
  return sum;
}

void put_foot(std::uint64_t generation, std::uint32_t head_sum, std::span<std::byte> bytes) {
  Writer out(bytes);
  out.put(foot_magic);
  out.put(generation);
  out.put(head_sum);
  out.put(std::uint32_t{0});
  out.put(std::uint32_t{0});
  out.put(crc32c(out.written()));
}

}  // namespace

std::size_t record_bytes(std::uint32_t content_bytes) {
  const std::size_t bytes = record_head_bytes + content_bytes + record_foot_bytes;
  return (bytes + segment_block - 1) / segment_block * segment_block;
}

std::uint64_t record_offset(const SegmentHead& segment, std::uint32_t slot) {
  return segment_block + std::uint64_t{slot} * record_bytes(segment.content_bytes);
}

void write_segment_head(const SegmentHead& head, std::span<std::byte> block) {
  SLUICE_CHECK(block.size() == segment_block);
  std::ranges::fill(block, std::byte{0});
  Writer out(block);
  out.put(segment_magic);
  out.put(head.owner);
  out.put(head.number);
  out.put(head.layout);
  out.put(head.content_bytes);
  out.put(head.slots);
  out.put(crc32c(out.written()));
}

std::optional<SegmentHead> read_segment_head(std::span<const std::byte> block) {
  SLUICE_CHECK(block.size() == segment_block);
  Reader in(block);
  if (in.get<std::uint64_t>() != segment_magic) return std::nullopt;
  SegmentHead head;
  head.owner = in.get<std::uint64_t>();
  head.number = in.get<std::uint64_t>();
  head.layout = in.get<std::uint64_t>();
  head.content_bytes = in.get<std::uint32_t>();
  head.slots = in.get<std::uint32_t>();
  const std::uint32_t sum = crc32c(in.read());
  if (in.get<std::uint32_t>() != sum) return std::nullopt;
  if (!all_zero(block.subspan(in.read().size()))) return std::nullopt;
  if (head.content_bytes == 0 || head.content_bytes > record_content_most || head.slots == 0)
    return std::nullopt;
  return head;
}

std::span<std::byte> record_content(const SegmentHead& segment, std::span<std::byte> record) {
  return record.subspan(record_head_bytes, segment.content_bytes);
}

std::span<const std::byte> record_content(const SegmentHead& segment,
                                          std::span<const std::byte> record) {
  return record.subspan(record_head_bytes, segment.content_bytes);
}

void write_record(const SegmentHead& segment, std::uint32_t slot, const RecordHead& head,
                  std::span<std::byte> record) {
  SLUICE_CHECK(record.size() == record_bytes(segment.content_bytes));
  std::ranges::fill(record.first(record_head_bytes), std::byte{0});
  const std::uint32_t sum = put_head(segment, slot, head, crc32c(record_content(segment, record)),
                                     record.first(record_head_bytes));
  const std::size_t foot = record.size() - record_foot_bytes;
  const std::size_t behind = record_head_bytes + segment.content_bytes;
  std::memset(record.data() + behind, 0, foot - behind);
  put_foot(head.generation, sum, record.subspan(foot));
}

RecordCheck check_ends(const SegmentHead& segment, std::uint32_t slot,
                       std::span<const std::byte> first, std::span<const std::byte> last) {
  SLUICE_CHECK(first.size() == segment_block && last.size() == segment_block);
  RecordCheck found;
  const auto said = first.first(record_head_bytes);
  const auto foot = last.subspan(segment_block - record_foot_bytes);
  if (all_zero(said)) {
    found.state = all_zero(foot) ? RecordState::empty : RecordState::broken;
    return found;
  }
  Reader in(said.subspan(4 * sizeof(std::uint64_t)));
  found.head.key = in.key();
  found.head.parent = in.key();
  found.head.generation = in.get<std::uint64_t>();
  (void)in.get<std::uint64_t>();  // slot and size: compared below
  found.content_crc32c = in.get<std::uint32_t>();
  // The head is right if it is the one that would have been written here.
  std::array<std::byte, record_head_bytes> head{};
  std::array<std::byte, record_foot_bytes> end{};
  put_foot(found.head.generation,
           put_head(segment, slot, found.head, found.content_crc32c, head), end);
  if (!std::ranges::equal(said, head))
    found.state = RecordState::broken;
  else if (std::ranges::equal(foot, end))
    found.state = RecordState::whole;
  else
    found.state = all_zero(foot) ? RecordState::unfinished : RecordState::broken;
  return found;
}

RecordCheck check_record(const SegmentHead& segment, std::uint32_t slot,
                         std::span<const std::byte> record) {
  SLUICE_CHECK(record.size() == record_bytes(segment.content_bytes));
  RecordCheck found =
      check_ends(segment, slot, record.first(segment_block), record.last(segment_block));
  if (found.state != RecordState::whole) return found;
  const std::size_t behind = record_head_bytes + segment.content_bytes;
  const auto zeros = record.subspan(behind, record.size() - record_foot_bytes - behind);
  if (crc32c(record_content(segment, record)) != found.content_crc32c || !all_zero(zeros))
    found.state = RecordState::broken;
  return found;
}

}  // namespace sluice
