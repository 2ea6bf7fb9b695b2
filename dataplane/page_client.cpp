#include "dataplane/page_client.h"

#include <algorithm>
#include <string>

namespace sluice {

using namespace attached;

namespace {

Error too_many() {
  return {ErrorCode::exhausted, "too many histories are offered to other processes at once"};
}

}  // namespace

AttachedSequence::~AttachedSequence() {
  if (client_ != nullptr) client_->release(*this);
}

Error PageClient::fails(Error error) {
  untold_.clear();
  copies_pending_ = false;
  gone_ = std::move(error);
  return *gone_;
}

/// With one reply.
Result<Answer> PageClient::ask_any(Request request) {
  if (gone_.has_value()) return *gone_;
  untold_.push_back(std::move(request));
  ++round_trips_;
  Result<Answer> answer = port_.ask(untold_);
  if (!answer.ok()) return fails(answer.error());
  untold_.clear();
  copies_pending_ = false;
  if (answer->replies.size() != 1)
    return fails({ErrorCode::corrupt, "the pool's process gave " +
                                          std::to_string(answer->replies.size()) +
                                          " replies to one question"});
  free_ = answer->free;
  cached_ = answer->cached;
  return answer;
}

template <typename Expected>
Result<Expected> PageClient::ask(Request request) {
  Result<Answer> answer = ask_any(std::move(request));
  if (!answer.ok()) return answer.error();
  if (auto* expected = std::get_if<Expected>(&answer->replies.front())) return std::move(*expected);
  return misplaced();
}

Error PageClient::misplaced() {
  return fails({ErrorCode::corrupt, "the pool's process gave a reply to another question"});
}

/// What can be, or not.
Result<bool> PageClient::ask_whether(Request request) {
  const Result<Answer> answer = ask_any(std::move(request));
  if (!answer.ok()) return answer.error();
  if (std::holds_alternative<Nothing>(answer->replies.front())) return true;
  if (std::holds_alternative<Exhausted>(answer->replies.front())) return false;
  return misplaced();
}

void PageClient::tell(Request request) {
  if (gone_.has_value()) return;
  untold_.push_back(std::move(request));
  if (untold_.size() >= untold_most) flush();
}

void PageClient::flush() {
  if (!has_news()) return;
  if (const Result<void> told = port_.tell(untold_); !told.ok()) {
    fails(told.error());
    return;
  }
  untold_.clear();
  copies_pending_ = false;
}

AttachedSequence PageClient::make() {
  AttachedSequence made;
  made.client_ = this;
  made.number_ = next_++;
  return made;
}

/// As the manager has made it under the next number.
Result<AttachedSequence> PageClient::adopt(Pages pages) {
  if (pages.pages.size() != pages_for(pages.rows) ||
      pages.published * std::uint64_t{rows_per_page_} > pages.rows)
    return fails({ErrorCode::corrupt, "the pool's process made a sequence that cannot be"});
  AttachedSequence made = make();
  made.is_mine_.assign(pages.pages.size(), 0);
  made.pages_ = std::move(pages.pages);
  made.rows_ = pages.rows;
  made.published_ = pages.published;
  return made;
}

Result<AttachedSequence> PageClient::adopt(Given given) {
  Pages& all = given.sequence;
  const std::size_t written = pages_for(all.rows);
  if (all.pages.size() < written || given.shared > all.pages.size() || all.published > given.shared)
    return fails({ErrorCode::corrupt, "the pool's process gave a sequence that cannot be"});
  const std::vector<Page> pages = all.pages;
  all.pages.resize(written);
  Result<AttachedSequence> made = adopt(std::move(all));
  if (!made.ok()) return made;
  made->pages_ = pages;
  made->is_mine_.assign(pages.size(), 1);
  share(*made, given.shared);
  return made;
}

void PageClient::share(const AttachedSequence& sequence, std::size_t pages) {
  std::fill_n(sequence.is_mine_.begin(), std::min(pages, sequence.is_mine_.size()),
              std::uint8_t{0});
}

Result<Admission> PageClient::ask(std::span<const PageKey> keys, std::uint32_t rows) {
  return ask<Admission>(Ask{{keys.begin(), keys.end()}, rows});
}

Result<AttachedSequence> PageClient::open(std::span<const PageKey> keys) {
  Result<Pages> pages = ask<Pages>(Open{next_, {keys.begin(), keys.end()}});
  if (!pages.ok()) return pages.error();
  return adopt(std::move(*pages));
}

Result<std::uint32_t> PageClient::publish(AttachedSequence& sequence,
                                          std::span<const PageKey> keys) {
  SLUICE_CHECK(sequence.client_ == this);
  SLUICE_CHECK((sequence.published_ + keys.size()) * rows_per_page_ <= sequence.rows_);
  if (keys.empty()) return std::uint32_t{0};
  const Result<Pages> done =
      ask<Pages>(Publish{sequence.number_, sequence.rows_, {keys.begin(), keys.end()}});
  if (!done.ok()) return done.error();
  const std::size_t count = done->pages.size();
  if (count > keys.size() || done->published != sequence.published_ + count)
    return fails({ErrorCode::corrupt, "the pool's process published other pages than it was told"});
  for (std::size_t i = 0; i < count; ++i) {
    sequence.pages_[sequence.published_ + i] = done->pages[i];
    sequence.is_mine_[sequence.published_ + i] = 0;
  }
  sequence.published_ = done->published;
  return static_cast<std::uint32_t>(count);
}

Result<void> PageClient::lease(std::uint32_t pages) {
  if (pages == lease_.size()) return {};
  if (pages < lease_.size()) {
    lease_.resize(pages);
    tell(Lease{pages});
    return {};
  }
  const Result<Answer> answer = ask_any(Lease{pages, true});
  if (!answer.ok()) return answer.error();
  const Reply& reply = answer->replies.front();
  if (std::holds_alternative<Exhausted>(reply))
    return Error{ErrorCode::exhausted, std::to_string(pages) +
                                           " pages are not to be had: " + std::to_string(free_) +
                                           " are free and " + std::to_string(cached_) + " unused"};
  const Pages* const leased = std::get_if<Pages>(&reply);
  if (leased == nullptr || leased->pages.size() != pages)
    return fails({ErrorCode::corrupt, "the pool's process leased other pages than was asked for"});
  lease_ = leased->pages;
  return {};
}

Result<void> PageClient::hold(std::uint32_t pages) {
  if (pages > lease_.size())
    if (const Result<void> leased = lease(pages); !leased.ok()) return leased;
  held_ = pages;
  return {};
}

Error PageClient::exhausted(std::uint32_t rows) const {
  return {ErrorCode::exhausted, "a sequence needs room for " + std::to_string(rows) + " rows; " +
                                    std::to_string(free_) + " pages are free and " +
                                    std::to_string(cached_) + " unused"};
}

Result<void> PageClient::reserve(AttachedSequence& sequence, std::uint32_t rows,
                                 std::vector<CopyPage>& copies) {
  SLUICE_CHECK(sequence.client_ == this && rows >= sequence.rows_);
  if (rows == sequence.rows_) return {};
  const std::size_t at = sequence.rows_ / rows_per_page_;
  const std::size_t has = sequence.pages_.size();
  if (at < has && !sequence.is_mine_[at]) return reserve_by_copy(sequence, rows, copies);
  const std::uint32_t wanted = pages_for(rows);
  if (wanted <= has) return {};
  const auto more = static_cast<std::uint32_t>(wanted - has);
  if (more > lease_.size() && !lease(std::max(more, run_)).ok())
    if (const Result<void> few = lease(more); !few.ok())
      return few.error().code == ErrorCode::exhausted ? exhausted(rows) : few.error();
  const auto from = lease_.end() - more;
  sequence.pages_.insert(sequence.pages_.end(), from, lease_.end());
  sequence.is_mine_.resize(wanted, 1);
  lease_.erase(from, lease_.end());
  tell(Take{sequence.number_, sequence.rows_, more});
  return {};
}

/// The page that the next row goes to is, or may be, somebody else's too.
Result<void> PageClient::reserve_by_copy(AttachedSequence& sequence, std::uint32_t rows,
                                         std::vector<CopyPage>& copies) {
  const std::size_t at = sequence.rows_ / rows_per_page_;
  const std::size_t has = sequence.pages_.size(), wanted = pages_for(rows);
  const std::size_t more = (wanted > has ? wanted - has : 0) + 1;
  const auto given = static_cast<std::uint32_t>(std::min(more, lease_.size()));
  const Result<Answer> answer = ask_any(Reserve{sequence.number_, sequence.rows_, rows, given});
  if (!answer.ok()) return answer.error();
  const Reply& reply = answer->replies.front();
  if (std::holds_alternative<Exhausted>(reply)) return exhausted(rows);
  const Room* const room = std::get_if<Room>(&reply);
  if (room == nullptr || room->from != at || at + room->pages.size() < wanted)
    return fails({ErrorCode::corrupt, "the pool's process gave other room than was asked for"});
  lease_.resize(lease_.size() - given);
  sequence.pages_.resize(at);
  sequence.is_mine_.resize(at);
  sequence.pages_.insert(sequence.pages_.end(), room->pages.begin(), room->pages.end());
  sequence.is_mine_.resize(sequence.pages_.size(), 1);
  copies.insert(copies.end(), room->copies.begin(), room->copies.end());
  copies_pending_ = !room->copies.empty();
  return {};
}

void PageClient::wrote(AttachedSequence& sequence, std::uint32_t rows) {
  SLUICE_CHECK(sequence.client_ == this && rows >= sequence.rows_);
  SLUICE_CHECK(pages_for(rows) <= sequence.pages_.size());
  SLUICE_CHECK(rows == sequence.rows_ || sequence.is_mine_[sequence.rows_ / rows_per_page_]);
  sequence.rows_ = rows;
}

/// Which pages stay is known here where all those behind the rows are nobody else's. They go back
/// to the lease, as long as that is no more than is held and two runs.
Result<void> PageClient::truncate(AttachedSequence& sequence, std::uint32_t rows,
                                  std::uint32_t reserved) {
  SLUICE_CHECK(sequence.client_ == this && rows <= sequence.rows_);
  const std::size_t keep = pages_for(rows);
  const std::size_t most = std::min<std::size_t>(std::max<std::size_t>(keep, pages_for(reserved)),
                                                 sequence.pages_.size());
  const auto behind = sequence.is_mine_.begin() + static_cast<std::ptrdiff_t>(keep);
  const bool all_mine =
      std::all_of(behind, sequence.is_mine_.end(), [](std::uint8_t mine) { return mine != 0; });
  Truncate cut{sequence.number_, sequence.rows_, rows, reserved, false, false};
  std::size_t left = most;
  if (all_mine || most == keep) {
    const std::size_t most_leased = held_ + 2 * std::size_t{run_};
    cut.to_lease = all_mine && lease_.size() + (sequence.pages_.size() - left) <= most_leased;
    const auto from = sequence.pages_.begin() + static_cast<std::ptrdiff_t>(left);
    if (cut.to_lease) lease_.insert(lease_.end(), from, sequence.pages_.end());
    tell(cut);
  } else {
    cut.wants_reply = true;
    const Result<Pages> pages = ask<Pages>(cut);
    if (!pages.ok()) {  // of what is gone there are no pages behind the rows
      cut_here(sequence, rows, keep);
      return pages.error();
    }
    left = pages->pages.size();
    if (left < keep || left > sequence.pages_.size())
      return fails({ErrorCode::corrupt, "the pool's process cut a sequence to other pages"});
    sequence.pages_ = pages->pages;
    std::fill(behind, sequence.is_mine_.end(), std::uint8_t{1});  // what others see was given back
  }
  cut_here(sequence, rows, left);
  return {};
}

void PageClient::cut_here(AttachedSequence& sequence, std::uint32_t rows, std::size_t pages) const {
  sequence.pages_.resize(pages);
  sequence.is_mine_.resize(pages);
  sequence.rows_ = rows;
  sequence.published_ = std::min(sequence.published_, rows / rows_per_page_);
}

AttachedSequence PageClient::fork(const AttachedSequence& sequence) {
  SLUICE_CHECK(sequence.client_ == this);
  AttachedSequence made = make();
  const std::size_t pages = pages_for(sequence.rows_);
  share(sequence, pages);
  made.pages_.assign(sequence.pages_.begin(),
                     sequence.pages_.begin() + static_cast<std::ptrdiff_t>(pages));
  made.is_mine_.assign(pages, 0);
  made.rows_ = sequence.rows_;
  made.published_ = sequence.published_;
  tell(Fork{sequence.number_, sequence.rows_, made.number_});
  return made;
}

void PageClient::release(AttachedSequence& sequence) {
  SLUICE_CHECK(sequence.client_ == this);
  tell(Release{sequence.number_});
  sequence.client_ = nullptr;
  sequence.pages_.clear();
  sequence.is_mine_.clear();
  sequence.rows_ = sequence.published_ = 0;
}

Result<void> PageClient::offer(const AttachedSequence& sequence, OfferToken token) {
  SLUICE_CHECK(sequence.client_ == this);
  share(sequence, pages_for(sequence.rows_));
  const Result<bool> done = ask_whether(Offer{sequence.number_, sequence.rows_, token});
  if (!done.ok()) return done.error();
  if (!*done) return too_many();
  return {};
}

Result<void> PageClient::give(AttachedSequence& sequence, OfferToken token, Text text) {
  SLUICE_CHECK(sequence.client_ == this);
  if (text.size() > text_most) return too_many();
  const Result<bool> done =
      ask_whether(Give{sequence.number_, sequence.rows_, token, std::move(text)});
  if (!done.ok()) return done.error();
  if (!*done) return too_many();
  sequence.client_ = nullptr;  // it is released nowhere
  sequence = AttachedSequence();
  return {};
}

Result<bool> PageClient::say(OfferToken token, Text text) {
  SLUICE_CHECK(text.size() <= text_most);
  return ask_whether(Say{token, std::move(text)});
}

Result<std::optional<Text>> PageClient::hear(OfferToken token) {
  Result<Answer> answer = ask_any(Hear{token});
  if (!answer.ok()) return answer.error();
  Reply& reply = answer->replies.front();
  if (std::holds_alternative<Nothing>(reply)) return std::optional<Text>();
  auto* const heard = std::get_if<Heard>(&reply);
  if (heard == nullptr) return misplaced();
  return std::optional<Text>(std::move(heard->text));
}

void PageClient::withdraw(OfferToken token) { tell(Withdraw{token}); }

Result<std::optional<AttachedSequence>> PageClient::accept(OfferToken token, Text* text) {
  Result<Answer> answer = ask_any(Accept{token, next_});
  if (!answer.ok()) return answer.error();
  Reply& reply = answer->replies.front();
  if (std::holds_alternative<Nothing>(reply)) return std::optional<AttachedSequence>();
  auto* const pages = std::get_if<Pages>(&reply);
  auto* const given = std::get_if<Given>(&reply);
  if (pages == nullptr && given == nullptr) return misplaced();
  if (given != nullptr && text != nullptr) *text = std::move(given->text);
  Result<AttachedSequence> made =
      given != nullptr ? adopt(std::move(*given)) : adopt(std::move(*pages));
  if (!made.ok()) return made.error();
  return std::optional<AttachedSequence>(std::move(made).value());
}

}  // namespace sluice
