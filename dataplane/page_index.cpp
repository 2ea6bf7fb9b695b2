#include "dataplane/page_index.h"

#include <algorithm>
#include <charconv>
#include <cstring>
#include <optional>

#include "base/check.h"

namespace sluice {

namespace {

constexpr std::uint64_t number_most = 1ULL << 52U;  // exact for the server's Lua
constexpr const char* function_tell = "sluice_pages_1_tell";
constexpr const char* function_find = "sluice_pages_1_find";
constexpr const char* function_leave = "sluice_pages_1_leave";

std::optional<std::uint64_t> whole(const std::string& text, std::uint64_t most) {
  std::uint64_t value = 0;
  const char* const last = text.data() + text.size();
  const auto [end, error] = std::from_chars(text.data(), last, value);
  if (error != std::errc() || end != last || value > most) return {};
  return value;
}

}  // namespace

PageIndex::PageIndex(Settings settings) : settings_(std::move(settings)), number_(settings_.start) {
  SLUICE_CHECK(settings_.start < number_most / 2 && settings_.batch > 0);
}

std::string PageIndex::text_of(const Name& name) {
  std::string text(sizeof name, '\0');
  std::memcpy(text.data(), name.data(), sizeof name);
  return text;
}

void PageIndex::note_change(Instant now) {
  if (!has_changes()) linger_until_ = now + linger;
}

/// One that comes back before its going was told is as if it had never gone, in its place too: so
/// are the pages that it follows, for they went behind it.
void PageIndex::published(const PageKey& key, Instant now) {
  const Name name{key.words[0], key.words[1]};
  if (orders_.contains(name)) return;
  note_change(now);
  std::uint64_t order = next_order_;
  if (const auto it = leaving_.numbers.find(name); it != leaving_.numbers.end()) {
    order = leaving_.pages.at(it->second).order;
    leaving_.pages.erase(it->second);
    leaving_.numbers.erase(it);
  } else {
    ++next_order_;
  }
  pages_.emplace(order, name);
  orders_.emplace(name, order);
}

void PageIndex::dropped(const PageKey& key, Instant now) {
  const Name name{key.words[0], key.words[1]};
  const auto it = orders_.find(name);
  if (it == orders_.end()) return;
  note_change(now);
  if (it->second <= cursor_) {
    leaving_.pages.emplace(next_order_, Gone{name, it->second});
    leaving_.numbers.emplace(name, next_order_++);
  }
  pages_.erase(it->second);
  orders_.erase(it);
}

/// One that tells nothing for now is tried by a question for pages; any other by what it tells.
bool PageIndex::may_find(Instant now) const {
  return down_.empty() || (is_mute() && resume_at_ <= now);
}

bool PageIndex::find(std::uint64_t id, std::span<const PageKey> keys, Instant now) {
  SLUICE_CHECK(!keys.empty() && !finds_.contains(id));
  const bool is_slow = open_kind_ != Open::nothing && now - asked_at_ > find_patience;
  if (!may_find(now) || is_slow || finds_.size() == finds_most) return false;
  Find find;
  for (const PageKey& key : keys.first(std::min(keys.size(), pages_asked_most)))
    find.names.push_back(text_of({key.words[0], key.words[1]}));
  find.until = now + find_patience;
  finds_.emplace(id, std::move(find));
  waiting_.insert(id);
  ++counts_.asked;
  return true;
}

void PageIndex::forget(std::uint64_t id) {
  finds_.erase(id);
  waiting_.erase(id);
  std::erase_if(found_, [&](const Found& one) { return one.id == id; });
}

std::vector<PageIndex::Found> PageIndex::take_found(Instant now) {
  for (auto it = finds_.begin(); it != finds_.end();) {
    if (now < it->second.until && (down_.empty() || is_mute())) {
      ++it;
      continue;
    }
    found_.push_back({it->first});
    ++counts_.unanswered;
    waiting_.erase(it->first);
    it = finds_.erase(it);
  }
  return std::exchange(found_, {});
}

std::vector<std::string> PageIndex::command(const char* function) const {
  return {"FCALL", function, "1", settings_.base};
}

void PageIndex::forget_some() {
  for (std::size_t left = settings_.batch; left > 0 && !obsolete_.empty(); --left) {
    Leaving& last = obsolete_.back();
    if (!last.pages.empty()) last.pages.erase(last.pages.begin());
    if (!last.numbers.empty()) last.numbers.erase(last.numbers.begin());
    if (last.pages.empty() && last.numbers.empty()) obsolete_.pop_back();
  }
}

/// The next changes, what went before what came; where there are none, that the lease goes on.
void PageIndex::make_batch() {
  forget_some();
  is_anew_ = state_ == State::unknown;
  if (is_anew_) ++counts_.anew;
  state_ = State::known;
  const bool is_same = !is_anew_ && !has_changes();
  const char* const mode = is_same ? "same" : "next";
  if (!is_same) ++number_;
  std::vector<std::string> added, removed;
  for (; !leaving_.pages.empty() && removed.size() < settings_.batch;
       leaving_.pages.erase(leaving_.pages.begin())) {
    const Name& page = leaving_.pages.begin()->second.page;
    removed.push_back(text_of(page));
    leaving_.numbers.erase(page);
  }
  for (auto it = pages_.upper_bound(cursor_);
       it != pages_.end() && removed.size() + added.size() < settings_.batch; ++it) {
    added.push_back(text_of(it->second));
    cursor_ = it->first;
  }
  open_changes_ = removed.size() + added.size();
  linger_until_ = {};  // of what is left
  batch_ = command(function_tell);
  const std::string lease = std::to_string(settings_.lease.count());
  const std::string keep = std::to_string(keep_leases * settings_.lease.count());
  for (const std::string& word :
       {std::to_string(settings_.self.machine), std::to_string(settings_.self.incarnation),
        std::to_string(number_), std::string(is_anew_ ? "anew" : mode), lease, keep,
        std::to_string(pages_told_most), settings_.epoch, std::to_string(added.size())})
    batch_.push_back(word);
  batch_.insert(batch_.end(), added.begin(), added.end());
  batch_.insert(batch_.end(), removed.begin(), removed.end());
}

std::optional<IndexQuestion> PageIndex::ask(Instant now) {
  if (now < due()) return {};
  asked_at_ = now;
  if (may_find(now) && !waiting_.empty()) {
    open_kind_ = Open::find;
    open_find_ = *waiting_.begin();
    waiting_.erase(waiting_.begin());
    std::vector<std::string> words = command(function_find);
    words.push_back(std::to_string(settings_.self.machine));
    words.push_back(std::to_string(providers_most));
    const std::vector<std::string>& names = finds_.at(open_find_).names;
    words.insert(words.end(), names.begin(), names.end());
    return IndexQuestion{++asked_, std::move(words), find_patience};
  }
  if (state_ == State::full && leaves_) {
    open_kind_ = Open::leave;
    return IndexQuestion{++asked_, farewell(), tell_patience};
  }
  if (state_ == State::full) state_ = State::unknown;
  if (batch_.empty()) make_batch();
  open_kind_ = Open::tell;
  return IndexQuestion{++asked_, batch_, tell_patience};
}

PageIndex::Instant PageIndex::due() const {
  constexpr Instant never = std::chrono::hours(24 * 365 * 100);
  if (open_kind_ != Open::nothing) return never;
  if (!waiting_.empty() && down_.empty()) return Instant{};
  if (!waiting_.empty() && is_mute()) return resume_at_;
  if (state_ == State::fenced) return never;
  if (state_ == State::full) return leaves_ ? resume_at_ : std::max(resume_at_, full_until_);
  const bool is_quiet = state_ == State::known && batch_.empty() && down_.empty();
  if (!is_quiet) return resume_at_;
  return has_changes() ? std::min(renew_at_, linger_until_) : renew_at_;
}

void PageIndex::answered(std::uint64_t number, const std::vector<std::string>& words, Instant now) {
  if (open_kind_ == Open::nothing || number != asked_) return;
  const Open kind = std::exchange(open_kind_, Open::nothing);
  const bool makes_sense = kind == Open::find    ? take_providers(words)
                           : kind == Open::leave ? take_leave(words, now)
                                                 : take_standing(words, now);
  if (!makes_sense) return pause("its answer makes no sense", now);
  down_.clear();
  if (resume_at_ <= now) pause_ = {};
}

bool PageIndex::take_providers(const std::vector<std::string>& words) {
  const auto it = finds_.find(open_find_);
  const std::size_t asked = it == finds_.end() ? pages_asked_most : it->second.names.size();
  if (words.size() < 2 || words[0] != "ok" || words.size() % 3 != 2 ||
      words.size() > 2 + 3 * providers_most)
    return false;
  std::vector<PageProvider> providers;
  for (std::size_t i = 2; i < words.size(); i += 3) {
    const auto machine = whole(words[i], 65535), life = whole(words[i + 1], 0xffffffffU),
               pages = whole(words[i + 2], asked);
    if (!machine || !life || !pages || *pages == 0) return false;
    const PeerLife peer{static_cast<std::uint32_t>(*machine), static_cast<std::uint32_t>(*life)};
    providers.push_back({peer, *pages});
  }
  if (it == finds_.end()) return true;  // nobody waits for it any more
  counts_.found += providers.empty() ? 0 : 1;
  found_.push_back({it->first, true, std::move(providers)});
  finds_.erase(it);
  return true;
}

bool PageIndex::take_standing(const std::vector<std::string>& words, Instant now) {
  const std::string what = words.empty() ? "" : words[0];
  if (what == "full" && words.size() == 2) {
    no_room(now);
    return true;
  }
  if (what == "fenced" && words.size() == 2) {
    lose_standing();
    state_ = State::fenced;
    return true;
  }
  const auto number = words.size() == 3 ? whole(words[2], number_most) : std::nullopt;
  if (!number || words[1].empty()) return false;
  if (what == "ok" && *number == number_) {
    const bool is_other = !is_anew_ && words[1] != epoch_;
    epoch_ = words[1];
    renew_at_ = asked_at_ + settings_.lease / 3;
    if (!has_changes()) full_pause_ = {};  // all has had room
    counts_.told += std::exchange(open_changes_, 0);
    batch_.clear();
    if (is_other) lose_standing();
    return true;
  }
  if (what != "gap") return false;
  number_ = std::max(number_, *number);
  lose_standing();
  return !is_anew_;  // which follows nothing, so there is no gap before it
}

void PageIndex::lose_standing() {
  state_ = State::unknown;
  batch_.clear();
  open_changes_ = 0;
  cursor_ = 0;
  if (!leaving_.pages.empty()) obsolete_.push_back(std::exchange(leaving_, {}));
}

bool PageIndex::take_leave(const std::vector<std::string>& words, Instant now) {
  if (words.size() != 1 || words[0] != "ok") return false;
  leaves_ = false;
  full_pause_ =
      full_pause_ == Instant{} ? first_full_pause : std::min(2 * full_pause_, longest_full_pause);
  full_until_ = now + full_pause_;
  return true;
}

/// What is there of this machine goes, so that others have room; later all is tried again.
void PageIndex::no_room(Instant now) {
  lose_standing();
  state_ = State::full;
  leaves_ = true;
  resume_at_ = now;
}

void PageIndex::pause(const std::string& why, Instant now) {
  down_ = why.empty() ? "it does not say why" : why;
  pause_ = pause_ == Instant{} ? first_pause : std::min(2 * pause_, longest_pause);
  resume_at_ = now + pause_;
}

void PageIndex::refused(std::uint64_t number, const std::string& why, Instant now) {
  if (open_kind_ == Open::nothing || number != asked_) return;
  const Open kind = std::exchange(open_kind_, Open::nothing);
  if (kind == Open::tell && why.starts_with("OOM"))
    no_room(now);
  else
    pause(why, now);
}

void PageIndex::broke(const std::string& why, Instant now) {
  open_kind_ = Open::nothing;
  pause(why, now);
}

std::vector<std::string> PageIndex::farewell() const {
  std::vector<std::string> words = command(function_leave);
  words.push_back(std::to_string(settings_.self.machine));
  words.push_back(std::to_string(settings_.self.incarnation));
  return words;
}

}  // namespace sluice
