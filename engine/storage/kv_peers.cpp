#include "engine/storage/kv_peers.h"

#include <sys/random.h>

#include <algorithm>
#include <chrono>
#include <thread>

#include "base/failpoint.h"
#include "base/sha256.h"
#include "engine/storage/incoming_room.h"
#include "engine/storage/storage_clock.h"

namespace sluice {

namespace {

std::string layout_of(const KvShape& shape) {
  return std::to_string(shape.layers) + " layers, " + std::to_string(shape.page_tokens) +
         " tokens, rows of " + std::to_string(shape.row) + " " +
         std::string(to_string(shape.dtype));
}

pages::Hello hello_of(const KvPool& pool, const PeerPort& port) {
  pages::Hello hello;
  hello.layout = sha256("pages of machines: " + layout_of(pool.shape()));
  hello.incarnation = port.self().incarnation;
  hello.page_bytes = static_cast<std::uint32_t>(pool.shape().page_bytes());
  return hello;
}

template <typename Bytes>
Bytes random_bytes() {
  Bytes bytes{};
  SLUICE_CHECK(::getrandom(bytes.data(), bytes.size(), 0) == static_cast<ssize_t>(bytes.size()));
  return bytes;
}

PageRegion region_of(const KvPool& pool) {
  return {static_cast<std::uint32_t>(pool.pages()),
          static_cast<std::uint32_t>(pool.shape().page_bytes())};
}

/// Stamps and directory. None: nobody else reads the pages.
std::span<std::byte> behind_pages(const PageRegion& region, const Ref<Buffer>& memory) {
  if (!memory) return {};
  SLUICE_CHECK(memory->size() == region.size());
  return std::span(memory->data(), memory->size()).subspan(region.stamps());
}

/// Pages that the fetch may bring.
std::size_t room_for(const KvPool& pool, const KvFetch& fetch, const std::vector<KvFetch>& all) {
  return tenant_room_behind(pool, fetch.keys, fetch.begin, fetch.tenant, all);
}

/// Before it sleeps whoever waits for an answer looks for so many nanoseconds: to be woken takes as
/// long; or longer where it takes the answer itself, which spares the waking of two.
constexpr std::int64_t looking_most = 50'000, taking_most = 300'000;

}  // namespace

std::string_view to_string(PullEnd end) {
  constexpr std::string_view names[pull_ends] = {"done", "nobody", "missing", "busy",   "late",
                                                 "lost", "broken", "refused", "changed"};
  return names[static_cast<std::size_t>(end)];
}

KvPeers::KvPeers(KvPool& pool, PeerPort& port, const std::string& name, Ref<Buffer> memory)
    : pool_(pool),
      port_(port),
      channel_(sha256_prefix("pages of " + name)),
      hello_(hello_of(pool, port)),
      memory_(std::move(memory)),
      region_(region_of(pool)),
      export_(pool, hello_.incarnation, behind_pages(region_, memory_)),
      tells_(
          pool, export_, random_bytes<PageKeys::Secret>(),
          [this](const PeerMessage& one) { port_.send(channel_, one.peer, one.bytes); },
          [this](const PageKey& key) { page_dropped(key); }),
      puller_(hello_, early_most),
      handshake_(port.secret(), port.self(), hello_),
      server_(hello_, random_bytes<PageKeys::Secret>()) {
  SLUICE_CHECK(pool.shape().page_bytes() <= pages::page_bytes_most);
  if (port.preloads()) preloads_.emplace(pool.pages());
  note_preloads();
  guide_.emplace(port.memory(), memory_, export_, hello_);
  is_open_ = port_.open(channel_, *this);
  if (!is_open_ || port_.index() == nullptr) return;
  index_ = std::make_unique<KvIndex>(pool, tells_, *port_.index(), channel_, port_.self(), [this] {
    const std::lock_guard lock(mutex_);
    index_answered_ = true;
    news_came_.notify_all();
  });
}

KvPeers::~KvPeers() {
  guide_.reset();
  regions_.clear();  // nothing is read any more
  if (is_open_) port_.close(channel_);
  readings_.clear();
  puller_ = PagePuller(hello_, early_most);
  for (Fetch& fetch : fetches_) leave(fetch);
  for (const auto& one : left_) one->wait_for_writers(leaving_most);
}

void KvPeers::joined(PeerLife peer) {
  PageHandshake::Greeting greeting = handshake_.joined(peer, random_bytes<PageHandshake::Nonce>());
  port_.send(channel_, peer, std::move(greeting.hello));
  if (greeting.proof.has_value()) port_.send(channel_, peer, *std::move(greeting.proof));
}

void KvPeers::take_handshake(PeerLife peer, const PageHandshake::Outcome& outcome) {
  if (outcome.is_refused) server_.take_nonsense();
  if (outcome.mismatch == PageMismatch::secret)
    port_.notice(peer.machine,
                 "has another kv-pages.secret, so no pages are exchanged with it: copy the file of "
                 "one machine to both, and start them again");
  if (outcome.mismatch == PageMismatch::layout)
    port_.notice(peer.machine,
                 "has pages of another layout, so none are exchanged with it: give both the same "
                 "files of the model, and start them again");
  if (outcome.mismatch.has_value()) {
    const std::lock_guard lock(mutex_);
    refused_[peer] = *outcome.mismatch;
    for (auto& [number, telling] : telling_)
      if (telling.peer == peer && telling.how == Told::waiting) telling.how = Told::failed;
  }
  if (outcome.say.has_value()) port_.send(channel_, peer, *outcome.say);
  if (outcome.met.has_value()) met(peer, *outcome.met);
}

void KvPeers::met(PeerLife peer, const pages::Hello& hello) {
  known_.insert(peer);
  server_.met(peer);
  tells_.met(peer);
  std::vector<pages::Bytes> notes;
  {
    const std::lock_guard lock(mutex_);
    there_.insert(peer);
    met_machines_.insert(peer.machine);
    for (auto& [number, telling] : telling_) {
      if (telling.peer == peer && telling.how == Told::waiting) {
        notes.push_back(encode(pages::Note{number, telling.text}));
        telling.text = {};
        telling.is_sent = true;
      }
      const bool is_over =
          telling.peer.machine == peer.machine && telling.peer.incarnation < peer.incarnation;
      if (is_over && telling.how == Told::waiting)
        telling.how = Told::failed;  // that life does not come any more
    }
    news_.push_back({News::Kind::met, peer, {}, hello});
    news_came_.notify_all();
  }
  for (pages::Bytes& note : notes) port_.send(channel_, peer, std::move(note));
  if (!memory_) return;
  // Whoever has the key can read all of the pool, so it is told nobody before it has proved that it
  // has the pool's secret.
  const Result<std::vector<std::byte>> key = port_.memory()->key(memory_);
  if (key.ok())
    port_.send(channel_, peer, encode(pages::Region{hello_.incarnation, region_.pages, *key}));
  else
    port_.notice(peer.machine, "cannot read the pages here: " + key.error().message);
}

void KvPeers::lost(PeerLife peer) {
  handshake_.lost(peer);
  server_.lost(peer);
  tells_.lost(peer);
  const std::lock_guard lock(mutex_);
  refused_.erase(peer);
  if (known_.erase(peer) == 0) return;
  there_.erase(peer);
  // What was given up waited for its receipt alone.
  std::erase_if(telling_,
                [&](const auto& one) { return one.second.peer == peer && one.second.is_given_up; });
  for (auto& [number, one] : telling_)
    if (one.peer == peer && one.how == Told::waiting) one.how = Told::unsure;
  // The owner has not heard that it was met: nor does it hear anything that came since.
  const auto met = std::ranges::find_if(
      news_, [&](const News& one) { return one.kind == News::Kind::met && one.peer == peer; });
  if (met == news_.end()) {
    news_.push_back({News::Kind::lost, peer, {}, {}});
    news_came_.notify_all();
    return;
  }
  const auto unheard =
      std::stable_partition(met, news_.end(), [&](const News& one) { return one.peer != peer; });
  for (auto one = unheard; one != news_.end(); ++one)
    if (one->kind != News::Kind::met) news_bytes_[peer.machine] -= one->bytes() + news_overhead;
  news_.erase(unheard, news_.end());
}

void KvPeers::send(std::vector<PeerMessage>& messages) {
  for (PeerMessage& one : messages)
    one.body ? port_.send(channel_, one.peer, std::move(one.bytes), one.body)
             : port_.send(channel_, one.peer, std::move(one.bytes));
  messages.clear();
}

/// Page by page: whoever owns them waits for the copy of one.
void KvPeers::serve(PeerLife peer, const pages::Message& message) {
  std::vector<PeerMessage> out;
  server_.take(peer, message, export_, out);
  send(out);
  while (server_.has_more()) {
    server_.go_on(export_, out,
                  [this](PeerLife to, std::size_t size) { return port_.make_body(to, size); });
    send(out);
  }
}

void KvPeers::hold(PeerLife peer, News::Kind kind, pages::Bytes bytes, Ref<Buffer> body) {
  if (!known_.contains(peer)) return server_.take_nonsense();
  // Whatever may be in flight, of pages of any size.
  const auto asked = std::max<std::size_t>(PagePuller::in_flight_most, hello_.page_bytes);
  const std::size_t most = asked + asked / hello_.page_bytes * 2 * news_overhead + inbox_slack;
  const std::lock_guard lock(mutex_);
  std::size_t& held = news_bytes_[peer.machine];
  News news{kind, peer, std::move(bytes), {}, std::move(body)};
  if (held + news.bytes() + news_overhead > most) return server_.take_nonsense();
  held += news.bytes() + news_overhead;
  news_.push_back(std::move(news));
  news_came_.notify_all();
}

void KvPeers::arrived(PeerLife peer, std::vector<std::byte> message) {
  arrived(peer, std::move(message), {});
}

void KvPeers::arrived(PeerLife peer, std::vector<std::byte> bytes, Ref<Buffer> body) {
  const std::optional<pages::Message> message = pages::decode(bytes, bytes_of(body));
  if (!message.has_value())
    server_.take_nonsense();
  else if (const auto* hello = std::get_if<pages::Hello>(&*message))
    take_handshake(peer, handshake_.take(peer, *hello));
  else if (const auto* proof = std::get_if<pages::Proof>(&*message))
    take_handshake(peer, handshake_.take(peer, *proof));
  else if (const auto* note = std::get_if<pages::Note>(&*message))
    hear(peer, *note);
  else if (const auto* noted = std::get_if<pages::Noted>(&*message))
    hear(peer, *noted);
  else if (std::get_if<pages::Found>(&*message) || std::get_if<pages::PageContent>(&*message) ||
           std::get_if<pages::End>(&*message) || std::get_if<pages::Places>(&*message))
    hold(peer, News::Kind::message, std::move(bytes), std::move(body));
  else if (std::get_if<pages::Region>(&*message))
    hold(peer, News::Kind::region, std::move(bytes), {});
  else if (std::get_if<pages::Published>(&*message) && port_.preloads())
    hold(peer, News::Kind::published, std::move(bytes), {});
  else if (const auto* follow = std::get_if<pages::Follow>(&*message))
    tells_.take(peer, *follow) ? void() : server_.take_nonsense();
  else
    serve(peer, *message);
  const std::lock_guard lock(mutex_);
  counts_.served = server_.counts();
}

void KvPeers::take_news(std::int64_t now) {
  struct Untaken {
    ~Untaken() {  // memory ran out: the rest is taken next time
      if (news.empty()) return;
      const News::Kind kind = news.front().kind;
      // Of these two the content may be gone: their pull is late.
      if (kind == News::Kind::message || kind == News::Kind::unanswered) news.pop_front();
      const std::lock_guard lock(peers.mutex_);
      peers.news_.splice(peers.news_.begin(), news);
      for (auto& [machine, held] : peers.news_bytes_)
        if (const auto it = bytes.find(machine); it != bytes.end()) held += it->second;
      peers.news_bytes_.merge(bytes);
    }
    KvPeers& peers;
    std::list<News> news = {};
    std::map<std::uint32_t, std::size_t> bytes = {};
  };
  Untaken all{*this};
  {
    const std::lock_guard lock(mutex_);
    all.news.swap(news_);
    all.bytes.swap(news_bytes_);
  }
  for (; !all.news.empty(); all.news.pop_front()) take(all.news.front(), now);
  take_read_ends(now);
  std::erase_if(left_, [](const auto& one) { return !one->is_written(); });
  const std::lock_guard lock(mutex_);
  counts_.stale = puller_.stale();
  if (preloads_) counts_.preloads = preloads_->counts();
}

void KvPeers::take(News& one, std::int64_t now) {
  switch (one.kind) {
    case News::Kind::met:
      close_region(one.peer);
      if (preloads_) preloads_->met(one.peer);
      return puller_.met(one.peer, one.hello, now);
    case News::Kind::lost:
      close_region(one.peer);
      if (preloads_) preloads_->lost(one.peer);
      return puller_.lost(one.peer, now);
    case News::Kind::published:
      failpoint("told_pages");
      return take_told(one);
    case News::Kind::region:
      return reach(one.peer, one.message);
    case News::Kind::message:
      return puller_.take(one.peer, std::move(one.message), now, one.body);
    case News::Kind::unanswered:
      return port_.send(channel_, one.peer, std::move(one.message));
  }
}

bool KvPeers::begin(std::uint64_t task, const RowsOrigin& origin,
                    std::span<const std::int32_t> tokens, std::optional<double> per_token,
                    std::int64_t now) {
  if (!is_open_) return false;
  take_news(now);
  send_all();
  const bool has_peers = puller_.has_peers(now);
  if (!has_peers && !preloads_) return false;
  Fetch fetch{.task = task, .keys = pool_.keys_of(origin, tokens), .per_token = per_token};
  fetch.tenant = origin.tenant;
  fetch.first = first_;
  if (!has_peers) {
    preloads_->used(std::span(fetch.keys).first(pool_.table().match(fetch.keys)));
    return false;
  }
  if (!start(fetch, now)) return false;
  fetches_.push_back(std::move(fetch));
  if (!fetches_.back().is_near) pool_.catch_up();  // the answer takes longer
  return true;
}

std::optional<std::int64_t> KvPeers::compute_time(const Fetch& fetch, std::size_t pages) const {
  if (!fetch.per_token.has_value()) return std::nullopt;
  return static_cast<std::int64_t>(*fetch.per_token *
                                   static_cast<double>(pages * pool_.shape().page_tokens));
}

/// Asks who has what memory has not. False: nobody is to be asked.
bool KvPeers::start(Fetch& fetch, std::int64_t now) {
  fetch.begin = fetch.next = fetch.end = pool_.table().match(fetch.keys);
  if (preloads_) preloads_->used(std::span(fetch.keys).first(fetch.begin));
  fetch.pull = fetch.behind = 0;
  fetch.is_over = fetch.is_named = fetch.is_near = false;
  if (fetch.keys.size() <= fetch.begin || room_for(pool_, fetch, fetches_) == 0) return false;
  for (const Fetch& other : fetches_)
    if (other.pulls(fetch.keys[fetch.begin], fetch.begin)) {
      fetch.behind = other.pull;
      return true;
    }
  if (find_near(fetch, now)) return true;
  const std::size_t pages = fetch.keys.size() - fetch.begin;
  std::optional<std::int64_t> half = compute_time(fetch, pages);
  if (half) *half /= 2;  // the rest of the time is for the pages
  if (!find_guard_.pays(1, half)) {
    const std::lock_guard lock(mutex_);
    ++counts_.not_worth;
    return false;
  }
  fetch.asked = now;
  return ask_index(fetch, half, now) || ask_machines(fetch, now);
}

void KvPeers::forget(std::uint64_t task) {
  const auto it = std::ranges::find_if(
      fetches_, [&](const Fetch& one) { return one.task == task && !one.is_preload; });
  if (it == fetches_.end()) return;
  puller_.cancel(it->pull);
  if (index_ != nullptr) index_->forget(it->pull);
  leave(*it);
  const std::uint64_t gone = it->pull;
  fetches_.erase(it);
  for (Fetch& fetch : fetches_)
    if (gone != 0 && fetch.behind == gone) fetch.is_over = true;  // looked at by the next poll
  send_all();
}

void KvPeers::found(Fetch& fetch, const PullEvent& event, std::int64_t now) {
  // A question's time is that of an answer without pages.
  const bool is_question =
      !fetch.is_named && !fetch.is_preload && !fetch.is_near && !event.has_come;
  if (is_question) find_guard_.learn(1, now - fetch.asked);
  const std::size_t pages = std::min(event.pages, room_for(pool_, fetch, fetches_));
  if (pages == 0) {
    puller_.cancel(fetch.pull);
    fetch.is_over = true;
    return;
  }
  if (!guards_[event.peer.machine].pays(pages * hello_.page_bytes, compute_time(fetch, pages))) {
    puller_.cancel(fetch.pull);
    fetch.is_over = true;
    const std::lock_guard lock(mutex_);
    ++counts_.not_worth;
    return;
  }
  fetch.end = fetch.begin + pages;
  fetch.peer = event.peer;
  fetch.has_come = event.has_come;
  make_places(fetch, fetch.is_preload, now);
}

void KvPeers::make_places(Fetch& fetch, bool waited, std::int64_t now) {
  const auto before = std::span<const PageKey>(fetch.keys).first(fetch.begin);
  const std::size_t pages = std::min(fetch.end - fetch.begin, room_for(pool_, fetch, fetches_));
  fetch.incoming = IncomingPages::take(pool_, before, waited ? 1 : pages, pages, fetch.tenant);
  fetch.wants_room = !fetch.incoming && !waited;
  if (fetch.wants_room) return;  // its pages are awaited, so room may be made for them
  if (!fetch.incoming) {
    puller_.cancel(fetch.pull);
    fetch.is_over = true;
    return;
  }
  if (fetch.is_preload) fetch.incoming->come_unasked();
  fetch.end = fetch.begin + fetch.incoming->unplaced();
  fetch.began = fetch.has_come ? fetch.asked : now;
  fetch.glances = 0;
  puller_.fetch(fetch.pull, fetch.incoming->unplaced(), now);
  takes_for_preload_ = fetch.is_preload;  // it gives others up for them
  // The first are read while the pool gives up others for the rest.
  for (std::size_t most = places_first; fetch.incoming->unplaced() > 0; most = pages) {
    puller_.place(fetch.pull, fetch.incoming->places(memory_, most), now);
    send_all();
  }
  takes_for_preload_ = false;
  fetch.incoming->foretell(std::span<const PageKey>(fetch.keys).first(fetch.end));
}

/// Where that cannot be, what follows is of no use.
void KvPeers::publish_arrived(Fetch& fetch) {
  if (fetch.arrived.empty()) return;
  std::size_t put = 0, read = 0;
  for (; put < fetch.arrived.size(); ++put, ++fetch.next) {
    const PageKey& key = fetch.keys[fetch.next];
    const bool is_new = fetch.is_preload && !pool_.table().has(key);
    // Who has made it here meanwhile knows what it follows; a machine may say anything.
    const auto to_it = std::span<const PageKey>(fetch.keys).first(fetch.next + 1);
    if (fetch.is_preload && !is_new && pool_.table().match(to_it) < to_it.size()) break;
    if (!fetch.incoming->publish(key)) break;
    if (fetch.is_preload) preloads_->came(key, is_new);
    read += fetch.arrived[put].is_read ? 1 : 0;
  }
  {
    const std::lock_guard lock(mutex_);
    counts_.pulled += put;
    counts_.read += read;
    counts_.pulled_bytes += put * hello_.page_bytes;
  }
  if (put < fetch.arrived.size()) {
    puller_.cancel(fetch.pull);
    fetch.is_over = true;
  }
  fetch.arrived.clear();
}

void KvPeers::leave(Fetch& fetch) {
  fetch.arrived.clear();
  fetch.wants_room = false;
  if (fetch.incoming && fetch.incoming->is_written()) left_.push_back(std::move(fetch.incoming));
  fetch.incoming = nullptr;
}

/// As in `KvTier::end`: its time is the link's where nothing but waiting was done meanwhile.
void KvPeers::learn(const Fetch& fetch, std::int64_t now, bool waits) {
  const std::size_t pages = fetch.next - fetch.begin;
  if (pages == 0) return;
  const std::uint64_t bytes = pages * hello_.page_bytes;
  ReadGuard& guard = guards_[fetch.peer.machine];
  const std::int64_t took = now - fetch.began;
  {
    const std::lock_guard lock(mutex_);
    counts_.times.add(took);
  }
  if ((waits && fetch.glances <= 1) || took < guard.cost(bytes).value_or(0))
    guard.learn(bytes, took);
}

void KvPeers::take_events(std::int64_t now, bool waits) {
  for (PullEvent& event : puller_.take_events()) {
    const auto it = std::ranges::find(fetches_, event.pull, &Fetch::pull);
    if (event.kind == PullEvent::Kind::ended) {
      const std::lock_guard lock(mutex_);
      ++counts_.ends[static_cast<std::size_t>(event.end)];
    }
    if (it == fetches_.end()) continue;
    Fetch& fetch = *it;
    switch (event.kind) {
      case PullEvent::Kind::found:
        found(fetch, event, now);
        break;
      case PullEvent::Kind::page:
        if (!fetch.is_over) fetch.arrived.push_back(std::move(event));
        break;
      case PullEvent::Kind::ended:
        if (event.end == PullEnd::nobody) find_guard_.learn(1, now - fetch.asked);
        publish_arrived(fetch);
        learn(fetch, now, waits);
        leave(fetch);
        fetch.is_over = !ask_others(fetch, event.end, now);
        break;
    }
  }
  for (Fetch& fetch : fetches_) publish_arrived(fetch);
}

/// Who waited for the pull of another looks again.
void KvPeers::end_fetches(std::int64_t now, std::vector<Ready>& ready) {
  for (std::size_t at = 0; at < fetches_.size();) {
    if (!fetches_[at].is_over) {
      ++at;
      continue;
    }
    Fetch over = std::move(fetches_[at]);
    leave(over);
    fetches_.erase(fetches_.begin() + static_cast<std::ptrdiff_t>(at));
    for (Fetch& fetch : fetches_)
      if (over.pull != 0 && fetch.behind == over.pull) fetch.is_over = true;
    if (over.is_preload) {
      preloads_->ended();
    } else if (over.behind != 0) {
      const std::size_t had = over.begin;
      if (start(over, now)) {
        fetches_.push_back(std::move(over));
      } else {
        ready.push_back({over.task, (over.begin - had) * pool_.shape().page_tokens});
      }
    } else {
      ready.push_back({over.task, (over.next - over.begin) * pool_.shape().page_tokens});
    }
    at = 0;
  }
}

void KvPeers::poll(std::int64_t now, std::vector<Ready>& ready, std::chrono::nanoseconds most) {
  const bool waits = most.count() > 0 && !fetches_.empty() && pages_awaited() == 0;
  if (waits) {
    if (!puller_.has_events()) pool_.catch_up();  // while pages are read, or an answer is awaited
    std::unique_lock lock(mutex_);
    // What came may have been taken since the last poll, by `preload` or for another task.
    const auto has_come = [&] { return puller_.has_events() || is_news() || index_answered_; };
    RemoteMemory* const memory = port_.memory();
    const std::int64_t began = storage_clock();
    std::int64_t looks_for = taking_most;
    while (readings_.empty() && !has_come() && storage_clock() - began < looks_for) {
      lock.unlock();
      if (memory == nullptr || !memory->look()) looks_for = looking_most;
      std::this_thread::yield();
      lock.lock();
    }
    news_came_.wait_for(lock, most, has_come);
    index_answered_ = false;
    now = storage_clock();
  }
  if (!waits)
    for (Fetch& fetch : fetches_) ++fetch.glances;
  take_news(now);
  take_found(now);
  puller_.tick(now);
  for (Fetch& fetch : fetches_)
    if (fetch.wants_room) make_places(fetch, true, now);
  take_events(now, waits);
  take_read_ends(now);      // what was read at once
  take_events(now, waits);  // what ended because of the first
  end_fetches(now, ready);
  send_all();
  note_preloads();
}

std::size_t KvPeers::pages_awaited() const {
  std::size_t pages = 0;
  for (const Fetch& fetch : fetches_) pages += fetch.wants_room ? fetch.end - fetch.begin : 0;
  return pages;
}

KvPeers::Counts KvPeers::counts() const {
  const auto index = index_ != nullptr ? std::optional(index_->counts()) : std::nullopt;
  const std::uint64_t told = tells_.told();
  const PageServerCounts guided = guide_->counts();
  const std::lock_guard lock(mutex_);
  Counts counts = counts_;
  counts.served += guided;
  counts.index = index;
  counts.told = told;
  return counts;
}

/// What the owner is woken for.
bool KvPeers::is_news() const {
  return !news_.empty() || is_read_amiss_ || read_ends_.size() >= reads_at_once ||
         (!read_ends_.empty() && readings_.empty());
}

std::size_t KvPeers::unheard() const {
  const std::lock_guard lock(mutex_);
  return news_.size() + read_ends_.size();
}

}  // namespace sluice
