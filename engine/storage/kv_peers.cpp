#include "engine/storage/kv_peers.h"

#include <algorithm>
#include <chrono>

#include "base/sha256.h"

namespace sluice {

namespace {

std::int64_t clock_now() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

std::string layout_of(const KvShape& shape) {
  return std::to_string(shape.layers) + " layers, " + std::to_string(shape.page_tokens) +
         " tokens, rows of " + std::to_string(shape.row) + " " +
         std::string(to_string(shape.dtype));
}

/// Says the same of its pages who has the same shape and secret.
pages::Hello hello_of(const KvPool& pool, const PeerPort& port) {
  pages::Hello hello;
  const PageKey proof =
      PageKeys(port.secret())
          .root({"pages of machines", "", layout_of(pool.shape()),
                 std::string(to_string(pool.shape().dtype))});
  for (std::size_t i = 0; i < hello.layout.size(); ++i)
    hello.layout[i] = static_cast<std::uint8_t>(proof.words[i / 8] >> (8 * (i % 8)));
  hello.incarnation = port.self().incarnation;
  hello.page_bytes = static_cast<std::uint32_t>(pool.shape().page_bytes());
  return hello;
}

}  // namespace

std::string_view to_string(PullEnd end) {
  constexpr std::string_view names[pull_ends] = {"done", "nobody", "missing", "busy",
                                                 "late", "lost",   "broken",  "refused"};
  return names[static_cast<std::size_t>(end)];
}

KvPeers::KvPeers(KvPool& pool, PeerPort& port, const std::string& name)
    : pool_(pool),
      port_(port),
      channel_(sha256_prefix("pages of " + name)),
      hello_(hello_of(pool, port)),
      export_(pool),
      puller_(hello_),
      server_(hello_) {
  is_open_ = hello_.page_bytes <= pages::page_bytes_most && port_.open(channel_, *this);
}

KvPeers::~KvPeers() {
  if (is_open_) port_.close(channel_);
}

void KvPeers::joined(PeerLife peer) {
  std::vector<pages::Bytes> notes;
  {
    const std::lock_guard lock(mutex_);
    there_.push_back(peer);
    for (auto it = untold_.begin(); it != untold_.end();) {
      const auto telling = telling_.find(it->first);
      const bool is_its = telling != telling_.end() && telling->second.first == peer;
      if (is_its) notes.push_back(encode(pages::Note{it->first, it->second}));
      bool is_over = telling == telling_.end();
      if (!is_over && telling->second.first.machine == peer.machine &&
          telling->second.first.incarnation < peer.incarnation) {
        telling->second.second = Told::failed;  // that life does not come any more
        is_over = true;
      }
      it = is_its || is_over ? untold_.erase(it) : std::next(it);
    }
  }
  port_.send(channel_, peer, encode(hello_));
  for (pages::Bytes& note : notes) port_.send(channel_, peer, std::move(note));
}

void KvPeers::lost(PeerLife peer) {
  const std::lock_guard lock(mutex_);
  std::erase(there_, peer);
  server_.lost(peer);
  for (auto& [number, one] : telling_)
    if (one.first == peer && one.second == Told::waiting) one.second = Told::failed;
  news_.push_back({News::Kind::lost, peer, {}, clock_now()});
  news_came_.notify_all();
}

/// False: it is for the owner.
bool KvPeers::serve(PeerLife peer, const pages::Message& message) {
  std::vector<PeerMessage> out;
  bool is_owners = false;
  {
    const std::lock_guard lock(mutex_);
    if (const auto* note = std::get_if<pages::Note>(&message)) {
      if (words_.size() < notes_most && words_bytes_ + note->text.size() <= inbox_most) {
        words_bytes_ += note->text.size();
        words_.push_back({peer, {note->text.begin(), note->text.end()}});
        out.push_back({peer, encode(pages::Noted{note->id})});
      }
    } else if (const auto* noted = std::get_if<pages::Noted>(&message)) {
      const auto it = telling_.find(noted->id);
      if (it != telling_.end() && it->second.first == peer) it->second.second = Told::arrived;
    } else {
      is_owners = std::holds_alternative<pages::Found>(message) ||
                  std::holds_alternative<pages::PageContent>(message) ||
                  std::holds_alternative<pages::End>(message) ||
                  std::holds_alternative<pages::Hello>(message);
      if (!is_owners || std::holds_alternative<pages::Hello>(message))
        server_.take(peer, message, export_, out);
    }
  }
  for (PeerMessage& one : out) port_.send(channel_, one.peer, std::move(one.bytes));
  return !is_owners;
}

void KvPeers::arrived(PeerLife peer, std::vector<std::byte> bytes) {
  const std::optional<pages::Message> message = pages::decode(bytes);
  if (message.has_value() && serve(peer, *message)) return;
  const std::lock_guard lock(mutex_);
  if (!message.has_value()) return server_.take_nonsense();
  if (news_bytes_ + bytes.size() > inbox_most) {
    ++counts_.stale;
    return;
  }
  news_bytes_ += bytes.size();
  news_.push_back({News::Kind::message, peer, std::move(bytes), clock_now()});
  news_came_.notify_all();
}

void KvPeers::take_news(std::int64_t now) {
  std::deque<News> news;
  {
    const std::lock_guard lock(mutex_);
    news.swap(news_);
    news_bytes_ = 0;
  }
  for (News& one : news) {
    if (one.kind == News::Kind::lost)
      puller_.lost(one.peer, now);
    else
      puller_.take(one.peer, std::move(one.message), now);
  }
}

bool KvPeers::begin(std::uint64_t task, const RowsOrigin& origin,
                    std::span<const std::int32_t> tokens, std::optional<double> per_token,
                    std::int64_t now) {
  if (!is_open_) return false;
  take_news(now);
  send_all();
  if (!puller_.has_peers(now)) return false;
  Fetch fetch{.task = task, .keys = pool_.keys_of(origin, tokens), .per_token = per_token};
  if (!start(fetch, now)) return false;
  fetches_.push_back(std::move(fetch));
  return true;
}

/// Asks who has what memory has not. False: nobody is to be asked.
bool KvPeers::start(Fetch& fetch, std::int64_t now) {
  fetch.begin = fetch.next = fetch.end = pool_.table().match(fetch.keys);
  fetch.pull = fetch.behind = 0;
  fetch.is_over = false;
  if (fetch.keys.size() <= fetch.begin) return false;
  for (const Fetch& other : fetches_)
    if (other.pull != 0 && other.keys.size() > fetch.begin && other.begin <= fetch.begin &&
        other.keys[fetch.begin] == fetch.keys[fetch.begin]) {
      fetch.behind = other.pull;
      return true;
    }
  const std::size_t pages = fetch.keys.size() - fetch.begin;
  std::optional<std::int64_t> half;  // the rest of the time is for the pages
  if (fetch.per_token.has_value())
    half = static_cast<std::int64_t>(*fetch.per_token *
                                     static_cast<double>(pages * pool_.shape().page_tokens) / 2);
  if (!find_guard_.pays(1, half)) {
    const std::lock_guard lock(mutex_);
    ++counts_.not_worth;
    return false;
  }
  const auto begin = fetch.keys.begin() + static_cast<std::ptrdiff_t>(fetch.begin);
  if (!puller_.begin(next_pull_, {begin, fetch.keys.end()}, now)) return false;
  fetch.pull = next_pull_++;
  fetch.asked = now;
  send_all();
  return true;
}

void KvPeers::forget(std::uint64_t task) {
  const auto it = std::ranges::find(fetches_, task, &Fetch::task);
  if (it == fetches_.end()) return;
  puller_.cancel(it->pull);
  const std::uint64_t gone = it->pull;
  fetches_.erase(it);
  for (Fetch& fetch : fetches_)
    if (gone != 0 && fetch.behind == gone) fetch.is_over = true;  // looked at by the next poll
  send_all();
}

void KvPeers::send_all() {
  for (PeerMessage& one : puller_.take_out()) port_.send(channel_, one.peer, std::move(one.bytes));
}

void KvPeers::found(Fetch& fetch, const PullEvent& event, std::int64_t now) {
  find_guard_.learn(1, now - fetch.asked);
  const std::size_t pages = std::min(event.pages, pool_.pages());
  std::optional<std::int64_t> compute;
  if (fetch.per_token.has_value())
    compute = static_cast<std::int64_t>(*fetch.per_token *
                                        static_cast<double>(pages * pool_.shape().page_tokens));
  if (!guards_[event.peer.machine].pays(pages * hello_.page_bytes, compute)) {
    puller_.cancel(fetch.pull);
    fetch.is_over = true;
    const std::lock_guard lock(mutex_);
    ++counts_.not_worth;
    return;
  }
  fetch.end = fetch.begin + pages;
  fetch.peer = event.peer;
  fetch.began = now;
  fetch.glances = 0;
  puller_.fetch(fetch.pull, pages, now);
}

/// Publishes what has come. Where that cannot be, what follows is of no use.
void KvPeers::put_arrived(Fetch& fetch) {
  if (fetch.arrived.empty()) return;
  std::vector<const std::byte*> contents;
  for (const PullEvent& page : fetch.arrived) contents.push_back(page.content.data());
  const std::size_t put = pool_.put(fetch.keys, fetch.next, contents);
  fetch.next += put;
  {
    const std::lock_guard lock(mutex_);
    counts_.pulled += put;
    counts_.pulled_bytes += put * hello_.page_bytes;
  }
  if (put < contents.size()) {
    puller_.cancel(fetch.pull);
    fetch.is_over = true;
  }
  fetch.arrived.clear();
}

/// As in `KvTier::end`: its time is the link's where nothing but waiting was done meanwhile.
void KvPeers::learn(const Fetch& fetch, std::int64_t now, bool waits) {
  const std::size_t pages = fetch.next - fetch.begin;
  if (pages == 0) return;
  const std::uint64_t bytes = pages * hello_.page_bytes;
  ReadGuard& guard = guards_[fetch.peer.machine];
  const std::int64_t took = now - fetch.began;
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
        put_arrived(fetch);
        learn(fetch, now, waits);
        fetch.is_over = true;
        break;
    }
  }
  for (Fetch& fetch : fetches_) put_arrived(fetch);
}

/// Who waited for the pull of another looks again.
void KvPeers::end_fetches(std::int64_t now, std::vector<Ready>& ready) {
  for (std::size_t at = 0; at < fetches_.size();) {
    if (!fetches_[at].is_over) {
      ++at;
      continue;
    }
    Fetch over = std::move(fetches_[at]);
    fetches_.erase(fetches_.begin() + static_cast<std::ptrdiff_t>(at));
    for (Fetch& fetch : fetches_)
      if (over.pull != 0 && fetch.behind == over.pull) fetch.is_over = true;
    if (over.behind != 0) {
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
  const bool waits = most.count() > 0 && !fetches_.empty();
  if (waits) {
    std::unique_lock lock(mutex_);
    news_came_.wait_for(lock, most, [&] { return !news_.empty(); });
    now = clock_now();
  }
  if (!waits)
    for (Fetch& fetch : fetches_) ++fetch.glances;
  take_news(now);
  puller_.tick(now);
  take_events(now, waits);
  take_events(now, waits);  // what ended because of the first
  end_fetches(now, ready);
  send_all();
}

std::size_t KvPeers::pages_awaited() const {
  std::size_t pages = 0;
  for (const Fetch& fetch : fetches_) pages += fetch.end - std::min(fetch.next, fetch.end);
  return pages;
}

std::uint64_t KvPeers::tell(PeerLife peer, pages::Bytes text) {
  const std::uint64_t number = next_note_++;
  {
    const std::lock_guard lock(mutex_);
    const bool is_over = std::ranges::any_of(there_, [&](PeerLife other) {
      return other.machine == peer.machine && other.incarnation > peer.incarnation;
    });
    if (telling_.size() >= tells_most)  // of some nobody asks
      std::erase_if(telling_, [](const auto& one) { return one.second.second != Told::waiting; });
    if (!is_open_ || is_over || telling_.size() >= tells_most) return number;
    telling_.emplace(number, std::pair(peer, Told::waiting));
    if (std::ranges::find(there_, peer) == there_.end()) {
      untold_.emplace(number, std::move(text));
      return number;
    }
  }
  port_.send(channel_, peer, encode(pages::Note{number, text}));
  return number;
}

KvPeers::Told KvPeers::told(std::uint64_t number) {
  const std::lock_guard lock(mutex_);
  const auto it = telling_.find(number);
  if (it == telling_.end()) return Told::failed;
  const Told how = it->second.second;
  if (how != Told::waiting) telling_.erase(it);
  return how;
}

std::vector<KvPeers::Word> KvPeers::take_words() {
  const std::lock_guard lock(mutex_);
  words_bytes_ = 0;
  return std::exchange(words_, {});
}

KvPeers::Counts KvPeers::counts() const {
  const std::lock_guard lock(mutex_);
  Counts counts = counts_;
  counts.served = server_.counts();
  return counts;
}

}  // namespace sluice
