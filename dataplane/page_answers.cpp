#include "dataplane/page_answers.h"

#include <algorithm>

#include "base/little_endian.h"

namespace sluice::pages {

namespace {

constexpr std::size_t size_bytes = 8;  // of a message, and of its body
/// Pages of an answer, and its end.
constexpr std::size_t pieces_most = brief_pages_most + 1;

bool is_brief(const Ask& ask, std::size_t page_bytes) {
  const std::size_t pages = ask.keys.size();
  if (ask.for_places) return pages <= asked_most(page_bytes, true);
  return pages <= brief_pages_most && pages * page_bytes <= brief_bytes_most;
}

/// Where the next message begins; its sizes are written when it is whole.
std::size_t begin(Bytes& out) {
  out.resize(out.size() + size_bytes);
  return out.size();
}

void end(std::size_t begun, std::size_t body, Bytes& out) {
  const std::uint64_t sizes[] = {out.size() - begun - body, body};
  for (std::size_t i = 0; i < size_bytes; ++i)
    out[begun - size_bytes + i] = static_cast<std::byte>(sizes[i / 4] >> i % 4 * 8);
}

void add(const Bytes& message, Bytes& out) {
  const std::size_t begun = begin(out);
  out.insert(out.end(), message.begin(), message.end());
  end(begun, 0, out);
}

/// False: it is not there.
bool add_page(const Ask& ask, std::uint32_t index, const Hello& self, PageLookup& lookup,
              Bytes& out) {
  const std::size_t before = out.size(), begun = begin(out);
  const std::size_t head_bytes = encode(PageHead{}).size();
  out.resize(out.size() + head_bytes);
  const std::optional<ServedPage> page = lookup.append(ask.keys[index], out);
  if (!page) {
    out.resize(before);
    return false;
  }
  const Bytes head = encode(head_of(ask, index, self, *page));
  std::ranges::copy(head, out.begin() + static_cast<std::ptrdiff_t>(begun));
  end(begun, self.page_bytes, out);
  return true;
}

void answer(const Find& find, PageLookup& lookup, Bytes& out) {
  add(encode(Found{find.id, leading_pages(find.keys, lookup), 0}), out);
}

void answer(const Ask& ask, const Hello& self, PageLookup& lookup, PageServerCounts& counts,
            Bytes& out) {
  std::vector<Place> places;
  if (ask.for_places) places = places_of(ask, self, lookup);
  auto given = static_cast<std::uint32_t>(places.size());
  if (!ask.for_places)
    while (given < ask.keys.size() && add_page(ask, given, self, lookup, out)) ++given;
  const bool is_all = given == ask.keys.size();
  const End last{ask.id, given, is_all ? End::Status::done : End::Status::missing, 0};
  counts.missing += is_all ? 0 : 1;
  counts.placed += places.size();
  counts.pages += given - places.size();
  counts.bytes += (given - places.size()) * self.page_bytes;
  add(ask.for_places ? encode(Places{std::move(places), last}) : encode(last), out);
}

}  // namespace

bool is_brief(std::span<const std::byte> message, std::size_t page_bytes) {
  const std::optional<Message> read = decode(message);
  const Ask* const ask = read ? std::get_if<Ask>(&*read) : nullptr;
  return read &&
         (std::holds_alternative<Find>(*read) || (ask != nullptr && is_brief(*ask, page_bytes)));
}

void answer_briefly(std::span<const std::byte> message, const Hello& self, PageLookup& lookup,
                    PageServerCounts& counts, Bytes& out) {
  const std::optional<Message> read = decode(message);
  const Ask* const ask = read ? std::get_if<Ask>(&*read) : nullptr;
  if (const Find* const find = read ? std::get_if<Find>(&*read) : nullptr)
    answer(*find, lookup, out);
  else if (ask != nullptr && is_brief(*ask, self.page_bytes))
    answer(*ask, self, lookup, counts, out);
  else
    ++counts.refused;
}

std::optional<std::vector<Piece>> pieces_of(std::span<const std::byte> answer) {
  std::vector<Piece> pieces;
  while (!answer.empty()) {
    if (answer.size() < size_bytes || pieces.size() == pieces_most) return std::nullopt;
    const std::uint64_t message = little_endian(answer.first(4));
    const std::uint64_t body = little_endian(answer.subspan(4, 4));
    answer = answer.subspan(size_bytes);
    if (message == 0 || message + body > answer.size()) return std::nullopt;
    pieces.push_back({answer.first(message), answer.subspan(message, body)});
    answer = answer.subspan(message + body);
  }
  return pieces;
}

}  // namespace sluice::pages
