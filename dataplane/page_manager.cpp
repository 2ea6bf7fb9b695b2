#include "dataplane/page_manager.h"

#include <algorithm>
#include <string>
#include <variant>

namespace sluice {

using namespace attached;

namespace {

Error wrong(const std::string& what) { return {ErrorCode::corrupt, what}; }

std::string named(SequenceNumber sequence) { return "sequence " + std::to_string(sequence); }

}  // namespace

PageManager::PageManager(PageTable& table, std::uint32_t rows_per_page, PageWatcher* next)
    : table_(table), rows_per_page_(rows_per_page), next_(next), by_key_(table.capacity()) {
  for (Page page = 0; page < table.capacity(); ++page)
    if (table.is_published(page)) by_key_.insert(table.key(page).words[0], page);
  table.watch(this);
}

PageManager::~PageManager() {
  clients_.clear();
  table_.watch(next_);
}

void PageManager::published(Page page) {
  by_key_.insert(table_.key(page).words[0], page);
  if (next_ != nullptr) next_->published(page);
}

void PageManager::dropped(Page page) {
  by_key_.erase(table_.key(page).words[0]);
  if (next_ != nullptr) next_->dropped(page);
}

Result<void> PageManager::attach(PageClientId client) {
  if (clients_.size() >= clients_most)
    return Error{ErrorCode::exhausted, "the pool of pages has " + std::to_string(clients_most) +
                                           " processes attached, which is the most"};
  const auto [it, is_new] = clients_.try_emplace(client);
  SLUICE_CHECK(is_new, "a client has a number of its own");
  it->second.id = client;
  return {};
}

void PageManager::detach(PageClientId client) {
  if (clients_.erase(client) == 0) return;
  for (auto& [id, other] : clients_)
    for (auto& [token, offered] : other.offers)
      if (offered.state == Offered::State::accepted && offered.with == client)
        offered.state = Offered::State::done;
}

Result<Answer> PageManager::handle(PageClientId client, std::span<const Request> batch) {
  const auto it = clients_.find(client);
  if (it == clients_.end()) return wrong("the client is not attached");
  it->second.copied_from.clear();  // it made its copies before it asked again
  Answer answer;
  for (const Request& request : batch) {
    Result<Reply> reply =
        std::visit([&](const auto& one) { return handle(it->second, one); }, request);
    if (!reply.ok()) {
      detach(client);
      return reply.error();
    }
    if (has_reply(request)) answer.replies.push_back(std::move(reply).value());
  }
  answer.free = table_.free_pages();
  answer.cached = table_.cached_pages();
  return answer;
}

PageManager::Held PageManager::held(PageClientId client) const {
  const auto it = clients_.find(client);
  if (it == clients_.end()) return {};
  const Client& one = it->second;
  Held held{one.sequences.size(), one.offers.size(), one.lease.pages().size(), 0};
  std::vector<bool> has(table_.capacity());
  const auto count = [&](const Sequence& sequence) {
    for (const Page page : sequence.pages())
      if (!has[page]) {
        has[page] = true;
        ++held.pages;
      }
  };
  for (const auto& [number, sequence] : one.sequences) count(sequence);
  for (const auto& [token, offered] : one.offers) count(offered.sequence);
  for (const Sequence& sequence : one.copied_from) count(sequence);
  count(one.lease);
  return held;
}

std::vector<PageClientId> PageManager::clients() const {
  std::vector<PageClientId> all;
  for (const auto& [id, client] : clients_) all.push_back(id);
  return all;
}

Result<Sequence*> PageManager::find(Client& client, SequenceNumber number) {
  const auto it = client.sequences.find(number);
  if (it == client.sequences.end()) return wrong("there is no " + named(number));
  return &it->second;
}

Result<Sequence*> PageManager::make(Client& client, SequenceNumber number) {
  if (client.sequences.size() >= sequences_most)
    return wrong("more than " + std::to_string(sequences_most) + " sequences");
  const auto [it, is_new] = client.sequences.try_emplace(number);
  if (!is_new) return wrong(named(number) + " is there already");
  return &it->second;
}

Result<void> PageManager::check_rows(std::uint32_t rows) const {
  if (rows <= std::uint64_t{table_.capacity()} * rows_per_page_) return {};
  return wrong(std::to_string(rows) + " rows are more than the pool has");
}

Result<void> PageManager::wrote(Sequence& sequence, std::uint32_t rows) {
  if (rows < sequence.rows() || rows > sequence.pages().size() * std::uint64_t{rows_per_page_})
    return wrong("it wrote " + std::to_string(rows) + " rows, where it had " +
                 std::to_string(sequence.rows()) + " and room for " +
                 std::to_string(sequence.pages().size() * rows_per_page_));
  for (std::uint32_t at = sequence.rows() / rows_per_page_;
       rows > sequence.rows() && at < sequence.pages().size() && at * rows_per_page_ < rows; ++at) {
    const Page page = sequence.pages()[at];
    if (table_.references(page) > 1 || table_.is_published(page))
      return wrong("it wrote into page " + std::to_string(page) + ", which others see");
  }
  table_.wrote(sequence, rows);
  return {};
}

Result<void> PageManager::check_key(const Sequence& sequence, const PageKey& key) const {
  const std::uint32_t next = sequence.published();
  if ((next + 1) * std::uint64_t{rows_per_page_} > sequence.rows())
    return wrong("it publishes a page that is not full");
  const Page mine = sequence.pages()[next];
  const Page before = next == 0 ? no_page : sequence.pages()[next - 1];
  const Page other = table_.is_published(mine) ? mine : by_key_.find(key.words[0]);
  if (other == KeyTable::none) return {};
  const bool is_key = table_.key(other) == key;
  if (other == mine && !is_key) return wrong("it publishes a page under a second key");
  if (is_key && table_.parent(other) != before)
    return wrong("it publishes a key behind another page than the key is made for");
  return {};
}

Pages PageManager::pages_of(const Sequence& sequence) const {
  return {
      {sequence.pages().begin(), sequence.pages().end()}, sequence.rows(), sequence.published()};
}

Result<Reply> PageManager::handle(Client&, const Ask& ask) {
  if (const Result<void> can = check_rows(ask.rows); !can.ok()) return can.error();
  return Reply(table_.ask(ask.keys, ask.rows));
}

Result<Reply> PageManager::handle(Client& client, const Open& open) {
  const Result<Sequence*> made = make(client, open.sequence);
  if (!made.ok()) return made.error();
  **made = table_.open(open.keys);
  return Reply(pages_of(**made));
}

bool PageManager::copies(const Sequence& sequence) const {
  const std::uint32_t at = sequence.rows() / rows_per_page_;
  if (at >= sequence.pages().size()) return false;
  const Page next = sequence.pages()[at];
  return table_.references(next) > 1 || table_.is_published(next);
}

/// `pages`: 0 where nothing was ever leased.
void PageManager::give_up(Client& client, std::uint32_t pages) {
  if (pages == 0) return;
  const auto left = static_cast<std::uint32_t>(client.lease.pages().size()) - pages;
  table_.truncate(client.lease, 0, left * rows_per_page_);
}

Result<Reply> PageManager::handle(Client& client, const Lease& lease) {
  const auto has = static_cast<std::uint32_t>(client.lease.pages().size());
  if (lease.pages > table_.capacity()) return wrong("a lease of more pages than there are");
  if (!client.lease.is_open()) client.lease = table_.open({});
  std::vector<CopyPage> none;
  if (lease.pages < has)
    give_up(client, has - lease.pages);
  else if (!table_.reserve(client.lease, lease.pages * rows_per_page_, none).ok())
    return Reply(Exhausted{});
  return Reply(pages_of(client.lease));
}

/// The table gives out the page that came back last, so the client knows which pages it gets.
Result<Reply> PageManager::handle(Client& client, const Take& take) {
  const Result<Sequence*> found = find(client, take.sequence);
  if (!found.ok()) return found.error();
  Sequence& sequence = **found;
  if (const Result<void> can = wrote(sequence, take.written); !can.ok()) return can.error();
  const std::span<const Page> leased = client.lease.pages();
  if (take.pages > leased.size()) return wrong("it takes more pages than it has leased");
  if (copies(sequence)) return wrong("it takes pages behind one that others see");
  const std::vector<Page> expected(leased.end() - take.pages, leased.end());
  const std::size_t had = sequence.pages().size();
  give_up(client, take.pages);
  std::vector<CopyPage> none;
  const auto room = static_cast<std::uint32_t>((had + take.pages) * rows_per_page_);
  SLUICE_CHECK(table_.reserve(sequence, room, none).ok() && none.empty());
  SLUICE_CHECK(std::ranges::equal(sequence.pages().subspan(had), expected));
  return Reply(Nothing{});
}

/// What a page is copied from is held until the client asks again: it makes the copy, and whoever
/// else has the page would else write on in it, or give it up, before that.
Result<Reply> PageManager::handle(Client& client, const Reserve& reserve) {
  const Result<Sequence*> found = find(client, reserve.sequence);
  if (!found.ok()) return found.error();
  Sequence& sequence = **found;
  if (const Result<void> can = wrote(sequence, reserve.written); !can.ok()) return can.error();
  if (const Result<void> can = check_rows(reserve.rows); !can.ok()) return can.error();
  if (reserve.rows < sequence.rows()) return wrong("it reserves fewer rows than it has");
  if (reserve.leased > client.lease.pages().size())
    return wrong("it gives up more pages than it has leased");
  const std::uint32_t at = sequence.rows() / rows_per_page_;
  const bool must_copy = reserve.rows > sequence.rows() && copies(sequence);
  const std::size_t wanted = (reserve.rows + std::uint64_t{rows_per_page_} - 1) / rows_per_page_;
  const std::size_t has = sequence.pages().size();
  const std::size_t more = (wanted > has ? wanted - has : 0) + (must_copy ? 1 : 0);
  if (more > std::size_t{table_.free_pages()} + table_.cached_pages() + reserve.leased)
    return Reply(Exhausted{});
  Room room{at, {}, {}};
  Sequence from;
  if (must_copy) from = table_.fork(sequence);
  if (reserve.leased > 0) give_up(client, reserve.leased);
  if (!table_.reserve(sequence, reserve.rows, room.copies).ok()) return Reply(Exhausted{});
  if (!room.copies.empty()) client.copied_from.push_back(std::move(from));
  const std::span<const Page> pages = sequence.pages();
  room.pages.assign(pages.begin() + std::min<std::ptrdiff_t>(at, std::ssize(pages)), pages.end());
  return Reply(std::move(room));
}

Result<Reply> PageManager::handle(Client& client, const Publish& publish) {
  const Result<Sequence*> found = find(client, publish.sequence);
  if (!found.ok()) return found.error();
  Sequence& sequence = **found;
  if (const Result<void> can = wrote(sequence, publish.written); !can.ok()) return can.error();
  const std::uint32_t first = sequence.published();
  for (const PageKey& key : publish.keys) {
    if (const Result<void> can = check_key(sequence, key); !can.ok()) return can.error();
    if (!table_.publish(sequence, key)) break;
  }
  const std::span<const Page> now = sequence.pages().subspan(first, sequence.published() - first);
  return Reply(Pages{{now.begin(), now.end()}, sequence.rows(), sequence.published()});
}

Result<Reply> PageManager::handle(Client& client, const Truncate& truncate) {
  const Result<Sequence*> found = find(client, truncate.sequence);
  if (!found.ok()) return found.error();
  Sequence& sequence = **found;
  if (const Result<void> can = wrote(sequence, truncate.written); !can.ok()) return can.error();
  if (const Result<void> can = check_rows(truncate.reserved); !can.ok()) return can.error();
  if (truncate.rows > sequence.rows()) return wrong("it cuts a sequence to more rows than it has");
  if (truncate.to_lease) return cut_to_lease(client, sequence, truncate);
  table_.truncate(sequence, truncate.rows, truncate.reserved);
  return Reply(pages_of(sequence));
}

/// As with `Take`, the client knows which pages these are.
Result<Reply> PageManager::cut_to_lease(Client& client, Sequence& sequence, const Truncate& cut) {
  const auto pages_for = [&](std::uint32_t rows) {
    return (rows + std::uint64_t{rows_per_page_} - 1) / rows_per_page_;
  };
  const std::span<const Page> all = sequence.pages();
  const std::span<const Page> behind =
      all.subspan(std::min<std::size_t>(pages_for(cut.rows), all.size()));
  for (const Page page : behind)
    if (table_.references(page) > 1 || table_.is_published(page))
      return wrong("it leases page " + std::to_string(page) + ", which others see");
  const std::size_t stay =
      std::min<std::size_t>(std::max(pages_for(cut.rows), pages_for(cut.reserved)), all.size());
  const std::vector<Page> given(all.begin() + static_cast<std::ptrdiff_t>(stay), all.end());
  table_.truncate(sequence, cut.rows, cut.reserved);
  if (!client.lease.is_open()) client.lease = table_.open({});
  const std::size_t had = client.lease.pages().size();
  std::vector<CopyPage> none;
  const auto room = static_cast<std::uint32_t>((had + given.size()) * rows_per_page_);
  SLUICE_CHECK(table_.reserve(client.lease, room, none).ok());
  SLUICE_CHECK(std::ranges::equal(client.lease.pages().subspan(had), given));
  return Reply(pages_of(sequence));
}

Result<Reply> PageManager::handle(Client& client, const Fork& fork) {
  const Result<Sequence*> made = make(client, fork.to);
  if (!made.ok()) return made.error();
  const Result<Sequence*> found = find(client, fork.sequence);
  if (!found.ok()) return found.error();
  if (!(*found)->is_open()) return wrong("a sequence is made of itself");
  if (const Result<void> can = wrote(**found, fork.written); !can.ok()) return can.error();
  **made = table_.fork(**found);
  return Reply(Nothing{});
}

Result<Reply> PageManager::handle(Client& client, const Release& release) {
  if (client.sequences.erase(release.sequence) == 0)
    return wrong("there is no " + named(release.sequence));
  return Reply(Nothing{});
}

Result<Reply> PageManager::handle(Client& client, const Offer& offer) {
  const Result<Sequence*> found = find(client, offer.sequence);
  if (!found.ok()) return found.error();
  if (const Result<void> can = wrote(**found, offer.written); !can.ok()) return can.error();
  if (client.offers.size() >= offers_most) return Reply(Exhausted{});
  const auto [it, is_new] = client.offers.try_emplace(offer.token);
  if (!is_new) return wrong("it offers two sequences under one number");
  it->second.sequence = table_.fork(**found);
  return Reply(Nothing{});
}

Result<Reply> PageManager::handle(Client& client, const Withdraw& withdraw) {
  client.offers.erase(withdraw.token);
  return Reply(Nothing{});
}

Result<Reply> PageManager::handle(Client& client, const Accept& accept) {
  for (auto& [id, other] : clients_) {
    const auto it = other.offers.find(accept.token);
    if (it == other.offers.end()) continue;
    const Result<Sequence*> made = make(client, accept.sequence);
    if (!made.ok()) return made.error();
    if (it->second.state == Offered::State::given)
      return Reply(accept_given(client, it->second, **made));
    if (it->second.state == Offered::State::shared) {
      **made = table_.fork(it->second.sequence);
      return Reply(pages_of(**made));
    }
    client.sequences.erase(accept.sequence);
    break;
  }
  return Reply(Nothing{});
}

Given PageManager::accept_given(Client& client, Offered& offered, Sequence& made) {
  made = std::move(offered.sequence);
  offered.state = Offered::State::accepted;
  offered.with = client.id;
  const std::span<const Page> pages = made.pages();
  std::size_t shared = pages.size();
  const auto is_its = [&](Page page) {
    return table_.references(page) == 1 && !table_.is_published(page);
  };
  while (shared > 0 && is_its(pages[shared - 1])) --shared;
  return {pages_of(made), static_cast<std::uint32_t>(shared), std::exchange(offered.text, {})};
}

bool PageManager::has_room(const Client& client, const Text& text) {
  std::size_t bytes = text.size();
  for (const auto& [token, offered] : client.offers) bytes += offered.text.size();
  return bytes <= texts_most;
}

Result<Reply> PageManager::handle(Client& client, const Give& give) {
  const Result<Sequence*> found = find(client, give.sequence);
  if (!found.ok()) return found.error();
  if (const Result<void> can = wrote(**found, give.written); !can.ok()) return can.error();
  if (client.offers.size() >= offers_most || !has_room(client, give.text))
    return Reply(Exhausted{});
  const auto [it, is_new] = client.offers.try_emplace(give.token);
  if (!is_new) return wrong("it offers two sequences under one number");
  it->second.state = Offered::State::given;
  it->second.sequence = std::move(**found);
  it->second.text = give.text;
  client.sequences.erase(give.sequence);
  return Reply(Nothing{});
}

Result<Reply> PageManager::handle(Client&, const Say& say) {
  for (auto& [id, other] : clients_) {
    const auto it = other.offers.find(say.token);
    if (it == other.offers.end()) continue;
    Offered& offered = it->second;
    const bool waits =
        offered.state == Offered::State::given || offered.state == Offered::State::accepted;
    if (!waits || !has_room(other, say.text)) break;
    offered.sequence = Sequence();
    offered.text = say.text;
    offered.state = Offered::State::done;
    return Reply(Nothing{});
  }
  return Reply(Exhausted{});
}

Result<Reply> PageManager::handle(Client& client, const Hear& hear) {
  const auto it = client.offers.find(hear.token);
  if (it == client.offers.end() || it->second.state != Offered::State::done)
    return Reply(Nothing{});
  Heard heard{std::move(it->second.text)};
  client.offers.erase(it);
  return Reply(std::move(heard));
}

}  // namespace sluice
