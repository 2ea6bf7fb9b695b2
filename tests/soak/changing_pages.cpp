#include "changing_pages.h"

#include <algorithm>
#include <chrono>
#include <utility>

namespace sluice::soak {
namespace {

constexpr std::size_t page_words = page_bytes / 8;
constexpr std::uint32_t rows = 16;
constexpr std::uint64_t copies_a_replacement = 64;

/// Gives up the slot that it is told, or else one after the other.
class Told final : public EvictionPolicy {
 public:
  explicit Told(Slot& next) : next_(next) {}

  void visit(const Visit& visit) override {
    for (const VisitedBlock& block : visit.path) is_there_[block.slot] = true;
  }
  Slot victim(Held held) override {
    Slot slot = std::exchange(next_, no_slot);
    while (slot == no_slot || !is_there_[slot] || held[slot] != 0) slot = hand_++ % slots;
    is_there_[slot] = false;
    return slot;
  }
  void removed(Slot slot) override { is_there_[slot] = false; }

 private:
  Slot& next_;
  std::uint32_t hand_ = 0;
  std::array<bool, slots> is_there_{};
};

}  // namespace

ChangingPages::ChangingPages(const Contents& contents, Ref<Buffer> memory)
    : contents_(contents), own_(memory ? 0 : region.size() / 8), memory_(std::move(memory)) {
  SLUICE_CHECK(contents.count() >= keys_there);
  SLUICE_CHECK(!memory_ || memory_->size() >= region.size());
  using Word = std::atomic<std::uint64_t>;
  words_ = memory_ ? std::span(reinterpret_cast<Word*>(memory_->data()), region.size() / 8)
                   : std::span(own_);
  begin_anew();
  owner_ = std::thread([this] { run(); });
}

ChangingPages::~ChangingPages() {
  ends_.store(true);
  wake_owner();
  owner_.join();
}

void ChangingPages::copy(Page page, std::size_t from_word, std::size_t end_word,
                         std::byte* to) const {
  const std::atomic<std::uint64_t>* const words = words_.data() + page * page_words;
  for (std::size_t i = from_word; i < end_word; ++i) {
    const std::uint64_t word = words[i].load(std::memory_order_relaxed);
    std::memcpy(to + 8 * i, &word, 8);
  }
}

void ChangingPages::run() {
  for (std::uint64_t turn = 0;;) {
    turns_.wait(turn, std::memory_order_acquire);
    turn = turns_.load(std::memory_order_acquire);
    if (ends_.load()) return;
    const std::lock_guard lock(owner_mutex_);
    if (restarts_.exchange(false)) begin_anew();
    publish_another();
  }
}

void ChangingPages::replace(Page page) {
  const std::lock_guard lock(owner_mutex_);
  next_ = page;
  publish_another();
}

void ChangingPages::publish_another() {
  std::size_t number = 0;
  do number = random_.next() % keys_there;
  while (entries_[number].page != no_page);  // nobody else writes them
  publish(number);
}

void ChangingPages::begin_anew() {
  {
    const std::lock_guard lock(mutex_);
    entries_ = {};
  }
  table_ = std::make_unique<PageTable>(slots, rows, std::make_unique<Told>(next_));
  table_->watch(this);
  for (std::size_t i = 0; i < slots; ++i) {
    std::size_t number = random_.next() % keys_there;
    while (entries_[number].page != no_page) number = (number + 1) % keys_there;
    publish(number);
  }
}

void ChangingPages::publish(std::size_t number) {
  Sequence sequence = table_->open({});
  SLUICE_CHECK(table_->reserve(sequence, rows, copies_).ok() && copies_.empty());
  const Page page = sequence.pages()[0];
  std::atomic<std::uint64_t>* const words = words_.data() + page * page_words;
  const std::span<const std::byte> content = contents_.of(number);
  for (std::size_t i = 0; i < page_words; ++i) {
    std::uint64_t word = 0;
    std::memcpy(&word, content.data() + 8 * i, 8);
    words[i].store(word, std::memory_order_relaxed);
  }
  table_->wrote(sequence, rows);
  SLUICE_CHECK(table_->publish(sequence, key_of(number)));
  const std::lock_guard lock(mutex_);
  entries_[number] = {page, table_->generation(page)};
}

void ChangingPages::write_stamp(Page page, std::span<const std::byte> stamp) {
  for (std::size_t i = 0; i < PageRegion::stamp_bytes / 8; ++i) {
    std::uint64_t word = 0;
    std::memcpy(&word, stamp.data() + 8 * i, 8);
    words_[region.stamp(page).offset / 8 + i].store(word);
  }
  std::atomic_thread_fence(std::memory_order_seq_cst);
}

std::optional<PlacedPage> ChangingPages::place(std::size_t number, std::uint64_t incarnation) {
  const std::lock_guard lock(mutex_);
  const Entry& entry = entries_[number];
  if (entry.page == no_page) return std::nullopt;
  const ServedPage served{entry.generation, contents_.sum(number)};
  write_stamp(entry.page, stamp_of({0, incarnation, served.generation, key_of(number), 0,
                                    static_cast<std::uint32_t>(page_bytes), served.crc32c}));
  return PlacedPage{served, entry.page};
}

void ChangingPages::dropped(Page page) {
  const std::lock_guard lock(mutex_);
  write_stamp(page, std::array<std::byte, PageRegion::stamp_bytes>{});
  entries_[number_of(table_->key(page))] = {};
  replaced_.fetch_add(1, std::memory_order_relaxed);
}

bool Copier::has(const PageKey& key) const { return pages_.find(number_of(key)).page != no_page; }

std::optional<ServedPage> Copier::append(const PageKey& key, pages::Bytes& to) {
  const std::size_t before = to.size();
  to.resize(before + page_bytes);
  const std::optional<ServedPage> served = copy(key, std::span(to).subspan(before));
  if (!served.has_value()) to.resize(before);
  return served;
}

std::optional<ServedPage> Copier::copy(const PageKey& key, std::span<std::byte> to) {
  pages_.copied();
  const std::size_t number = number_of(key);
  const ChangingPages::Entry entry = pages_.find(number);
  if (entry.page == no_page) return std::nullopt;
  maybe_replace(entry.page);
  std::byte* const content = to.data();
  const std::size_t amid = random_.next() % page_words;
  pages_.copy(entry.page, 0, amid, content);
  maybe_replace(entry.page);
  pages_.copy(entry.page, amid, page_words, content);
  const std::uint32_t sum =
      is_blind_ ? crc32c({content, page_bytes}) : pages_.contents().sum(number);
  return ServedPage{entry.generation, sum};
}

/// Its reader reads it later: it is replaced then.
std::optional<PlacedPage> Copier::place(const PageKey& key) {
  std::optional<PlacedPage> placed = pages_.place(number_of(key), incarnation_);
  pages_.copied();
  if (placed) maybe_replace(placed->page);
  return placed;
}

void Copier::maybe_replace(Page page) {
  if (random_.next() % copies_a_replacement == 0) pages_.replace(page);
}

pages::Hello hello_of(std::uint64_t incarnation) {
  pages::Hello hello;
  hello.layout.fill(7);
  hello.incarnation = incarnation;
  hello.page_bytes = page_bytes;
  return hello;
}

std::int64_t Asker::now() const {
  return ahead_ + std::chrono::steady_clock::now().time_since_epoch().count();
}

void Asker::met(PeerLife peer) { puller_.met(peer, hello_of(peer.incarnation), now()); }

void Asker::lost(PeerLife peer) {
  puller_.lost(peer, now());
  take_events();
}

void Asker::begin() {
  asked_.clear();
  while (asked_.size() < keys_a_pull_) {
    const PageKey key = key_of(random_.next() % keys_there);
    if (std::ranges::find(asked_, key) == asked_.end()) asked_.push_back(key);
  }
  is_over_ = !puller_.begin(++pull_, asked_, now());
}

void Asker::take(PeerLife peer, pages::Bytes message) {
  puller_.take(peer, std::move(message), now());
  take_events();
}

void Asker::tick() {
  puller_.tick(now());
  take_events();
}

void Asker::read_ended(std::uint64_t number, const Ref<Buffer>& stamp, bool is_whole) {
  puller_.verified(number, stamp ? std::optional(is_whole) : std::nullopt, now());
  take_events();
}

std::vector<Ref<Buffer>> Asker::places(std::size_t count) {
  std::vector<Ref<Buffer>> given;
  for (const Ref<Buffer>& one : places_)
    if (given.size() < count && one->references() == 1) given.push_back(one);
  for (; given.size() < count; given.push_back(places_.back()))
    places_.push_back(Buffer::zeros(page_bytes));
  return given;
}

void Asker::take_events() {
  for (const PullEvent& event : puller_.take_events()) {
    switch (event.kind) {
      case PullEvent::Kind::found:
        puller_.fetch(event.pull, event.pages, now());
        puller_.place(event.pull, places(event.pages), now());
        break;
      case PullEvent::Kind::page:
        ++tally.reads;
        if (!contents_.are(bytes_of(event.place), number_of(asked_[event.pages])))
          ++tally.undetected;
        break;
      case PullEvent::Kind::ended:
        if (event.end == PullEnd::broken || event.end == PullEnd::changed) {
          ++tally.reads;
          ++tally.detected;
        }
        is_over_ = true;
        ahead_ += 2 * PagePuller::longest_pause;
        break;
    }
  }
}

}  // namespace sluice::soak
