#include "engine/layers/kv.h"

#include <algorithm>
#include <cstring>
#include <optional>
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

/// Leased at once, where the pool is large: an answer of a few pages asks for none of them.
constexpr std::size_t run_most = 8;

/// Of a small pool a few stay for others.
std::uint32_t run_of(std::size_t pages) {
  return static_cast<std::uint32_t>(std::clamp<std::size_t>(pages / 64, 1, run_most));
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
      pages_(pages),
      table_(table_of(shape, pages)) {
  SLUICE_CHECK(shape.dtype == Dtype::f32 || shape.dtype == Dtype::bf16,
               "keys and values are kept in f32 or bf16");
}

KvPages::KvPages(const KvShape& shape, AttachedTable table)
    : shape_(shape),
      keys_(table.secret, layout_of(shape), shape.page_tokens),
      pages_(table.pages),
      port_(std::move(table.port)),
      client_(std::make_unique<PageClient>(*port_, static_cast<std::uint32_t>(shape.page_tokens),
                                           run_of(table.pages))) {}

/// Whether writing behind the sequence's tokens copies the page that they end in.
bool KvPages::copies_last(const KvSequence& sequence) const {
  const std::size_t at = sequence.tokens() / shape_.page_tokens;
  if (at >= sequence.pages().size()) return false;
  if (sequence.attached_.is_open()) return !sequence.attached_.is_mine(at);
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

Result<void> KvPages::reserve_rows(KvSequence& sequence, std::uint32_t rows,
                                   std::vector<CopyPage>& copies) {
  if (client_ == nullptr) {
    table_->set_time(++extensions_);
    if (!sequence.held_.is_open()) sequence.held_ = table_->open({});
    return table_->reserve(sequence.held_, rows, copies);
  }
  if (!sequence.attached_.is_open()) {
    Result<AttachedSequence> made = client_->open({});
    if (!made.ok()) return made.error();
    sequence.attached_ = std::move(made).value();
  }
  return client_->reserve(sequence.attached_, rows, copies);
}

Result<void> KvPages::make_room(KvSequence& sequence, std::size_t rows,
                                std::vector<CopyPage>& copies) {
  const std::size_t before = copies.size();
  const Result<void> made = reserve_rows(sequence, static_cast<std::uint32_t>(rows), copies);
  for (std::size_t at = before; at < copies.size(); ++at) rows_copied_ += copies[at].rows;
  if (made.ok()) return {};
  if (made.error().code != ErrorCode::exhausted)
    return Error{made.error().code, "the pool of KV pages: " + made.error().message};
  const std::size_t needed = missing(sequence, rows - sequence.tokens());
  if (table_ != nullptr && !table_->tenants().may_have(sequence.tenant(), needed)) {
    const TenantPages has = table_->tenants().pages_of(sequence.tenant());
    return tenant_is_full(has.name, needed, {*table_->tenants().quota(), has.held()});
  }
  return Error{ErrorCode::exhausted, "the KV pool is full: " + std::to_string(needed) +
                                         " pages are needed, " + std::to_string(pages_free()) +
                                         " of " + std::to_string(pages()) +
                                         " are free; end a session or raise `pages`"};
}

Result<void> KvPages::extend(KvSequence& sequence, std::size_t tokens,
                             std::vector<CopyPage>& copies) {
  const std::size_t rows = sequence.tokens() + tokens;
  if (Result<void> made = make_room(sequence, rows, copies); !made.ok()) return made;
  if (client_ == nullptr)
    table_->wrote(sequence.held_, static_cast<std::uint32_t>(rows));
  else
    client_->wrote(sequence.attached_, static_cast<std::uint32_t>(rows));
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
  const auto rows = static_cast<std::uint32_t>(tokens);
  const auto reserved = static_cast<std::uint32_t>(sequence.reserved_);
  if (sequence.held_.is_open()) table_->truncate(sequence.held_, rows, reserved);
  // Where the table is gone it is cut all the same, and the next that needs it says so.
  if (sequence.attached_.is_open()) (void)client_->truncate(sequence.attached_, rows, reserved);
}

void KvPages::release(KvSequence& sequence) { sequence = KvSequence(); }

void KvPages::belong(KvSequence& sequence, std::string_view tenant) {
  if (client_ != nullptr || tenant.empty() || !sequence.pages().empty()) return;
  sequence.held_ = table_->open({}, {tenant, false});
}

void KvPages::limit_tenants(std::size_t pages) {
  if (table_ != nullptr) table_->limit_tenants(static_cast<std::uint32_t>(std::min(pages, pages_)));
}

std::optional<TenantRoom> KvPages::tenant_room(std::string_view tenant) const {
  if (tenant.empty() || table_ == nullptr || !table_->tenants().quota()) return std::nullopt;
  return TenantRoom{*table_->tenants().quota(), table_->tenants().pages_of(tenant).held()};
}

KvSequence KvPages::fork(const KvSequence& sequence) const {
  KvSequence made;
  if (sequence.held_.is_open()) made.held_ = table_->fork(sequence.held_);
  if (sequence.attached_.is_open()) made.attached_ = client_->fork(sequence.attached_);
  made.last_key_ = sequence.last_key_;
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
  const std::vector<PageKey> keys = keys_of(origin, tokens);
  if (client_ == nullptr) {
    made.held_ = table_->open(keys, {origin.tenant, false});
  } else if (!keys.empty()) {
    Result<AttachedSequence> found = client_->open(keys);
    if (!found.ok()) return made;  // it begins with nothing, and what it needs next says why
    made.attached_ = std::move(found).value();
    if (const std::size_t count = made.published(); count > 0)
      made.last_key_ = {count, keys[count - 1]};
  }
  return made;
}

Admission KvPages::ask(const RowsOrigin& origin, std::span<const std::int32_t> tokens,
                       std::size_t rows) const {
  const std::vector<PageKey> keys = keys_of(origin, tokens);
  if (client_ == nullptr) return table_->ask(keys, static_cast<std::uint32_t>(rows), origin.tenant);
  const Result<Admission> said = client_->ask(keys, static_cast<std::uint32_t>(rows));
  // Of who is gone nobody waits for pages: whoever takes some hears why there are none.
  return said.ok() ? *said : Admission{0, static_cast<std::uint32_t>(pages_for(rows)), true};
}

std::size_t KvPages::claim(std::size_t pages) {
  if (client_ == nullptr) return pages_free();
  const auto wanted = static_cast<std::uint32_t>(std::min(pages, pages_));
  // As many as there are, where there are fewer.
  if (!client_->hold(wanted).ok() && !client_->gone().has_value())
    (void)client_->hold(static_cast<std::uint32_t>(std::min<std::size_t>(wanted, pages_free())));
  return client_->gone().has_value() ? pages_ : client_->leased();
}

void KvPages::settle(std::size_t pages) {
  if (client_ == nullptr) return;
  const auto needed = static_cast<std::uint32_t>(std::min(pages, pages_));
  const std::uint32_t keeps = needed == 0 ? 0 : needed + 2 * run_of(pages_);
  if (client_->leased() > keeps) (void)client_->lease(keeps);
  if (client_->leased() >= needed) (void)client_->hold(needed);
  client_->flush();
}

Result<void> KvPages::offer(const KvSequence& sequence, attached::OfferToken token) {
  SLUICE_CHECK(sequence.attached_.is_open(), "what is offered has pages of the pool");
  return client_->offer(sequence.attached_, token);
}

void KvPages::withdraw(attached::OfferToken token) { client_->withdraw(token); }

Result<void> KvPages::give(KvSequence& sequence, attached::OfferToken token, attached::Text text) {
  SLUICE_CHECK(sequence.attached_.is_open(), "what is given has pages of the pool");
  Result<void> done = client_->give(sequence.attached_, token, std::move(text));
  if (done.ok()) sequence = KvSequence();
  return done;
}

Result<bool> KvPages::say(attached::OfferToken token, attached::Text text) {
  return client_->say(token, std::move(text));
}

Result<std::optional<attached::Text>> KvPages::hear(attached::OfferToken token) {
  return client_->hear(token);
}

Result<std::optional<KvSequence>> KvPages::accept(attached::OfferToken token,
                                                  attached::Text* text) {
  Result<std::optional<AttachedSequence>> taken = client_->accept(token, text);
  if (!taken.ok()) return taken.error();
  if (!taken->has_value()) return std::optional<KvSequence>();
  KvSequence made;
  made.attached_ = std::move(**taken);
  if (made.pages().size() > pages_for(made.tokens()))
    made.reserved_ = made.pages().size() * shape_.page_tokens;
  return std::optional<KvSequence>(std::move(made));
}

/// Of the last page that is published, or before the first one. None: it has none.
std::optional<PageKey> KvPages::key_before(const KvSequence& sequence, const RowsOrigin& origin,
                                           std::span<const std::int32_t> tokens) const {
  const std::size_t first = sequence.published();
  if (first == 0) return keys_.root(origin, tokens);
  if (client_ == nullptr) return table_->key(sequence.pages()[first - 1]);
  if (sequence.last_key_.pages == first) return sequence.last_key_.key;
  const std::optional<PageKey> root = keys_.root(origin, tokens);
  if (!root.has_value()) return std::nullopt;
  std::vector<PageKey> keys;
  keys_.append(origin, tokens, 0, first, *root, keys);
  return keys.size() == first ? std::optional(keys.back()) : std::nullopt;
}

void KvPages::publish(KvSequence& sequence, const RowsOrigin& origin,
                      std::span<const std::int32_t> tokens) {
  if (shape_.keys_before_rope || origin.model.empty()) return;
  const std::size_t first = sequence.published();
  const std::size_t full = std::min(sequence.tokens(), tokens.size()) / shape_.page_tokens;
  if (first >= full) return;
  const std::optional<PageKey> parent = key_before(sequence, origin, tokens);
  if (!parent.has_value()) return;
  std::vector<PageKey> keys;
  keys_.append(origin, tokens, first, full, *parent, keys);
  if (client_ != nullptr) {
    const Result<std::uint32_t> done = client_->publish(sequence.attached_, keys);
    if (done.ok() && *done > 0) sequence.last_key_ = {sequence.published(), keys[*done - 1]};
    return;
  }
  for (std::size_t i = 0; i < keys.size(); ++i) {
    if (!table_->publish(sequence.held_, keys[i])) return;
    if (on_publish) on_publish(sequence.pages()[first + i]);
  }
}

Result<void> KvPages::add_pages(Sequence& behind, std::size_t pages) {
  SLUICE_CHECK(behind.rows() == behind.published() * shape().page_tokens);
  const std::size_t all = behind.pages().size() + pages;
  std::vector<CopyPage> none;  // what is published is full
  return pages_table().reserve(behind, static_cast<std::uint32_t>(all * shape().page_tokens), none);
}

bool KvPages::publish_next(Sequence& behind, const PageKey& key) {
  pages_table().wrote(behind,
                      static_cast<std::uint32_t>((behind.published() + 1) * shape().page_tokens));
  return pages_table().publish(behind, key);
}

KvPool::KvPool(const KvShape& shape, std::size_t pages, const PageKeys::Secret& secret,
               Ref<Buffer> memory)
    : KvPages(shape, pages, secret) {
  if (!memory) own_.resize(shape.page_bytes() * pages);
  stand_in(std::move(memory));
}

KvPool::KvPool(const KvShape& shape, AttachedTable table, Ref<Buffer> memory)
    : KvPages(shape, std::move(table)) {
  stand_in(std::move(memory));
}

void KvPool::stand_in(Ref<Buffer> memory) {
  memory_ = std::move(memory);
  const std::size_t bytes = shape().page_bytes() * pages();
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
