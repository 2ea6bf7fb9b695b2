#include "engine/layers/kv.h"

#include <algorithm>
#include <cstring>
#include <string>

#include "kernels/layout.h"

namespace sluice {

namespace {

std::unique_ptr<PageTable> table_of(const KvShape& shape, std::size_t pages) {
  const auto count = static_cast<std::uint32_t>(pages);
  auto policy = make_eviction(eviction_names().front(), {count, 2 * count});
  return std::make_unique<PageTable>(count, static_cast<std::uint32_t>(shape.page_tokens),
                                     std::move(policy).value());
}

std::string layout_of(const KvShape& shape) {
  return std::to_string(shape.layers) + " layers of " + std::to_string(shape.page_tokens) +
         " keys and values of " + std::to_string(shape.row) +
         (shape.dtype == Dtype::f32 ? "" : " in " + std::string(to_string(shape.dtype)));
}

}  // namespace

KvPages::KvPages(const KvShape& shape, std::size_t pages, const PageKeys::Secret& secret)
    : shape_(shape),
      keys_(secret, layout_of(shape), shape.page_tokens),
      table_(table_of(shape, pages)) {
  SLUICE_CHECK(shape.dtype == Dtype::f32 || shape.dtype == Dtype::bf16,
               "keys and values are kept in f32 or bf16");
}

/// Whether writing behind the sequence's tokens copies the page that they end in.
bool KvPages::copies_last(const KvSequence& sequence) const {
  const std::size_t at = sequence.tokens() / shape_.page_tokens;
  if (at >= sequence.pages().size()) return false;
  const Page last = sequence.pages()[at];
  return table_->references(last) > 1 || table_->is_published(last);
}

std::size_t KvPages::missing(const KvSequence& sequence, std::size_t tokens) const {
  const std::size_t wanted = pages_for(sequence.tokens() + tokens);
  const std::size_t held = sequence.pages().size();
  return (wanted > held ? wanted - held : 0) + (tokens > 0 && copies_last(sequence) ? 1 : 0);
}

std::size_t KvPages::room(const KvSequence& sequence, std::size_t pages) const {
  if (copies_last(sequence)) {
    if (pages == 0) return 0;
    --pages;
  }
  return (sequence.pages().size() + pages) * shape_.page_tokens - sequence.tokens();
}

Result<void> KvPages::make_room(KvSequence& sequence, std::size_t rows,
                                std::vector<CopyPage>& copies) {
  table_->set_time(++extensions_);
  if (!sequence.held_.is_open()) sequence.held_ = table_->open({});
  const Result<void> made =
      table_->reserve(sequence.held_, static_cast<std::uint32_t>(rows), copies);
  if (made.ok()) return {};
  return Error{
      ErrorCode::exhausted,
      "the KV pool is full: " + std::to_string(missing(sequence, rows - sequence.tokens())) +
          " pages are needed, " + std::to_string(pages_free()) + " of " + std::to_string(pages()) +
          " are free; end a session or raise `pages`"};
}

Result<void> KvPages::extend(KvSequence& sequence, std::size_t tokens,
                             std::vector<CopyPage>& copies) {
  const std::size_t rows = sequence.tokens() + tokens;
  if (Result<void> made = make_room(sequence, rows, copies); !made.ok()) return made;
  table_->wrote(sequence.held_, static_cast<std::uint32_t>(rows));
  return {};
}

Result<void> KvPages::reserve(KvSequence& sequence, std::size_t tokens,
                              std::vector<CopyPage>& copies) {
  const std::size_t rows = sequence.tokens() + tokens;
  if (Result<void> made = make_room(sequence, rows, copies); !made.ok()) return made;
  sequence.reserved_ = std::max(sequence.reserved_, rows);
  return {};
}

void KvPages::unreserve(KvSequence& sequence) {
  sequence.reserved_ = 0;
  truncate(sequence, sequence.tokens());
}

void KvPages::truncate(KvSequence& sequence, std::size_t tokens) {
  SLUICE_CHECK(tokens <= sequence.tokens(), "a sequence cannot be cut to more tokens than it has");
  if (sequence.positions.size() > tokens) sequence.positions.resize(tokens);
  if (!sequence.held_.is_open()) return;
  table_->truncate(sequence.held_, static_cast<std::uint32_t>(tokens),
                   static_cast<std::uint32_t>(sequence.reserved_));
}

void KvPages::release(KvSequence& sequence) { sequence = KvSequence(); }

KvSequence KvPages::fork(const KvSequence& sequence) const {
  KvSequence made;
  if (sequence.held_.is_open()) made.held_ = table_->fork(sequence.held_);
  made.positions = sequence.positions;
  return made;
}

std::vector<PageKey> KvPages::keys_of(const RowsOrigin& origin,
                                      std::span<const std::int32_t> tokens) const {
  std::vector<PageKey> keys;
  if (shape_.keys_before_rope || tokens.empty()) return keys;
  if (const std::optional<PageKey> root = keys_.root(origin, tokens))
    keys_.append(origin, tokens, 0, (tokens.size() - 1) / shape_.page_tokens, *root, keys);
  return keys;
}

KvSequence KvPages::open(const RowsOrigin& origin, std::span<const std::int32_t> tokens) const {
  KvSequence made;
  made.held_ = table_->open(keys_of(origin, tokens));
  return made;
}

Admission KvPages::ask(const RowsOrigin& origin, std::span<const std::int32_t> tokens,
                       std::size_t rows) const {
  return table_->ask(keys_of(origin, tokens), static_cast<std::uint32_t>(rows));
}

void KvPages::publish(KvSequence& sequence, const RowsOrigin& origin,
                      std::span<const std::int32_t> tokens) {
  if (shape_.keys_before_rope || origin.model.empty()) return;
  const std::size_t first = sequence.held_.published();
  const std::size_t full = std::min(sequence.tokens(), tokens.size()) / shape_.page_tokens;
  if (first >= full) return;
  std::optional<PageKey> parent;
  if (first == 0)
    parent = keys_.root(origin, tokens);
  else
    parent = table_->key(sequence.pages()[first - 1]);
  if (!parent.has_value()) return;
  std::vector<PageKey> keys;
  keys_.append(origin, tokens, first, full, *parent, keys);
  for (std::size_t i = 0; i < keys.size(); ++i) {
    if (!table_->publish(sequence.held_, keys[i])) return;
    if (on_publish) on_publish(sequence.pages()[first + i]);
  }
}

KvPool::KvPool(const KvShape& shape, std::size_t pages, const PageKeys::Secret& secret,
               Ref<Buffer> memory)
    : KvPages(shape, pages, secret), memory_(std::move(memory)) {
  const std::size_t bytes = shape.page_bytes() * pages;
  if (!memory_) own_.resize(bytes);
  SLUICE_CHECK(!memory_ || memory_->size() >= bytes);
  store_ = memory_ ? std::span(memory_->data(), bytes) : std::span(own_);
}

Result<void> KvPool::extend(KvSequence& sequence, std::size_t tokens) {
  const Result<void> made = KvPages::extend(sequence, tokens, copies_);
  copy_pages();
  return made;
}

Result<void> KvPool::reserve(KvSequence& sequence, std::size_t tokens) {
  const Result<void> made = KvPages::reserve(sequence, tokens, copies_);
  copy_pages();
  return made;
}

std::size_t KvPool::put(std::span<const PageKey> keys, std::size_t first,
                        std::span<const std::byte* const> contents) {
  Sequence behind = open(keys.first(first));
  if (behind.published() < first) return 0;
  return put(behind, keys.subspan(first), contents);
}

std::size_t KvPool::put(Sequence& behind, std::span<const PageKey> keys,
                        std::span<const std::byte* const> contents) {
  PageTable& table = pages_table();
  std::size_t done = 0;
  for (; done < contents.size(); ++done) {
    if (table.follow(behind, keys[done])) continue;  // made meanwhile
    const auto rows = static_cast<std::uint32_t>((behind.published() + 1) * shape().page_tokens);
    if (!table.reserve(behind, rows, copies_).ok()) break;
    std::memcpy(store_.data() + behind.pages().back() * shape().page_bytes(), contents[done],
                shape().page_bytes());
    table.wrote(behind, rows);
    if (table.publish(behind, keys[done])) continue;
    table.truncate(behind, rows - static_cast<std::uint32_t>(shape().page_tokens));
    break;
  }
  return done;
}

Result<void> KvPool::add_pages(Sequence& behind, std::size_t pages) {
  SLUICE_CHECK(behind.pages().size() == behind.published());
  return pages_table().reserve(
      behind, static_cast<std::uint32_t>((behind.published() + pages) * shape().page_tokens),
      copies_);
}

bool KvPool::publish_next(Sequence& behind, const PageKey& key) {
  pages_table().wrote(behind,
                      static_cast<std::uint32_t>((behind.published() + 1) * shape().page_tokens));
  return pages_table().publish(behind, key);
}

void KvPool::copy_pages() {
  const std::size_t value = size_of(shape().dtype);
  const std::size_t stride = shape().page_tokens * shape().row * value;
  for (const CopyPage& copy : copies_)
    for (std::size_t part = 0; part < 2 * shape().layers; ++part)  // keys and values by turns
      std::memcpy(&store_[copy.to * shape().page_bytes() + part * stride],
                  &store_[copy.from * shape().page_bytes() + part * stride],
                  copy.rows * shape().row * value);
  copies_.clear();
}

namespace {

template <typename Value>
void read_as(KvPool& pool, const KvSequence& sequence, std::size_t layer, std::span<float> keys,
             std::span<float> values) {
  std::vector<const Value*> key_pages, value_pages;
  for (const Page page : sequence.pages()) {
    key_pages.push_back(pool.keys<Value>(page, layer));
    value_pages.push_back(pool.values<Value>(page, layer));
  }
  const KvShape& shape = pool.shape();
  kernels::pages_to_rows_cpu(key_pages, shape.page_tokens, shape.row, keys);
  kernels::pages_to_rows_cpu(value_pages, shape.page_tokens, shape.row, values);
}

}  // namespace

void KvPool::read(const KvSequence& sequence, std::size_t layer, std::span<float> keys,
                  std::span<float> values) {
  if (shape().dtype == Dtype::bf16)
    read_as<std::uint16_t>(*this, sequence, layer, keys, values);
  else
    read_as<float>(*this, sequence, layer, keys, values);
}

}  // namespace sluice
