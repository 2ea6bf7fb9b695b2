#include "runtime/tcp/tcp_link.h"

#include <algorithm>

#include "base/check.h"
#include "base/crc32c.h"
#include "base/little_endian.h"

namespace sluice::tcp {

Link::Link(const Key& key, const Nonce& nonce, std::shared_ptr<Landing> landing)
    : key_(key), landing_(std::move(landing)) {
  hello_ = encode(Hello{key.grant, key.is_encrypted, nonce});
  out_.assign(hello_.begin(), hello_.end());
}

void Link::ask(std::uint64_t number, const Request& request, Ref<Buffer> to) {
  unsent_.push_back({number, request, std::move(to)});
}

std::span<std::byte> Link::Asked::from(std::size_t at) const {
  return at < placed() ? std::span(to->data() + at, placed() - at)
                       : std::span(bytes->data() + (at - placed()), size() - at);
}

std::vector<Link::Ended> Link::unended() const {
  std::vector<Ended> all;
  for (const auto* const some : {&waiting_, &unsent_})
    for (const Asked& one : *some) all.push_back({one.number, {}, one.is_answer});
  return all;
}

void Link::give_up() {
  state_ = State::broken;
  unsent_.clear();
  waiting_.clear();
}

/// As many as there are, in frames.
void Link::make_frames() {
  out_.clear();
  sent_ = 0;
  while (!unsent_.empty() && out_.size() < 4 * frame_bytes_most) {
    const std::size_t count = std::min(unsent_.size(), requests_most);
    append_little_endian(count, 4, out_);
    const std::size_t at = out_.size();
    for (std::size_t i = 0; i < count; ++i) {
      append(unsent_.front().request, out_);
      waiting_.push_back(std::move(unsent_.front()));
      unsent_.pop_front();
    }
    seal(at, Cipher::Kind::bytes);
  }
}

/// What is to be sent from there on, where it is sealed at all.
void Link::seal(std::size_t at, Cipher::Kind kind) {
  if (!seals_) return;
  const std::size_t size = out_.size() - at;
  out_.resize(out_.size() + tag_bytes);
  const std::span<std::byte> said = std::span(out_).subspan(at, size);
  if (!seals_->begin(kind) || !seals_->add(said, said.data()) ||
      !seals_->seal(std::span<std::byte, tag_bytes>(said.data() + size, tag_bytes)))
    state_ = State::broken;
}

void Link::ask_owner(std::uint64_t number, std::span<const std::byte> question) {
  SLUICE_CHECK(rests() && !question.empty() && question.size() <= RemoteRegion::question_most);
  out_.clear();
  sent_ = 0;
  append_little_endian(question_mark | question.size(), 4, out_);
  out_.insert(out_.end(), question.begin(), question.end());
  seal(4, Cipher::Kind::question);
  Asked length{number, {{0, length_bytes}, {}}, {}};
  length.is_answer = length.is_length = true;
  waiting_.push_back(std::move(length));
}

std::span<const std::byte> Link::to_send() {
  if (sent_ == out_.size() && state_ == State::open) make_frames();
  if (state_ == State::broken) return {};
  return std::span(out_).subspan(sent_);
}

void Link::sent(std::size_t bytes) { sent_ += bytes; }

bool Link::has_memory(Asked& one) {
  if (!one.bytes) one.bytes = landing_->take(one.size() - one.placed());
  if (!one.bytes) state_ = State::broken;
  return state_ != State::broken;
}

std::span<std::byte> Link::room() {
  Rooms some;
  return rooms(some) > 0 ? some[0] : std::span<std::byte>();
}

std::size_t Link::rooms(Rooms& rooms) {
  if (state_ == State::broken) return 0;
  // Whatever comes that nobody has asked for breaks it (`took`).
  const bool is_greeting = state_ == State::greets;
  if (is_greeting || waiting_.empty()) {
    rooms[0] = is_greeting ? std::span(welcome_).subspan(got_) : std::span(welcome_).first(1);
    return 1;
  }
  if (opens_) {
    if (!has_memory(waiting_.front())) return 0;
    const std::size_t left = waiting_.front().size() - got_;
    record_.resize(record_most + tag_bytes);
    rooms[0] = std::span(record_).first(piece_of(left) + tag_bytes).subspan(record_got_);
    return 1;
  }
  std::size_t count = 0, at = got_;
  for (auto one = waiting_.begin(); one != waiting_.end() && count + 2 <= rooms.size(); ++one) {
    if (!has_memory(*one)) return 0;
    for (; at < one->size(); at += rooms[count++].size()) rooms[count] = one->from(at);
    at = 0;
    if (one->is_length) break;  // what is behind it is not known
  }
  return count;
}

void Link::take_welcome() {
  Nonce nonce{};
  std::ranges::copy(std::span(welcome_).first(nonce.size()), nonce.begin());
  if (!is_same(std::span(welcome_).subspan(nonce.size()),
               mac_of(key_.secret, Purpose::owner_proof, hello_, nonce))) {
    state_ = State::broken;
    return;
  }
  const Mac proof = mac_of(key_.secret, Purpose::reader_proof, hello_, nonce);
  out_.insert(out_.end(), proof.begin(), proof.end());
  if (key_.is_encrypted) {
    seals_.emplace(Cipher::Use::seals, Purpose::requests_key,
                   mac_of(key_.secret, Purpose::requests_key, hello_, nonce));
    opens_.emplace(Cipher::Use::opens, Purpose::answers_key,
                   mac_of(key_.secret, Purpose::answers_key, hello_, nonce));
  }
  state_ = State::open;
  got_ = 0;
}

/// The record that is here whole, into its read's memory.
bool Link::open_record() {
  const std::size_t size = record_got_ - tag_bytes;
  record_got_ = 0;
  if (!opens_->begin()) return false;
  for (std::size_t done = 0; done < size;) {
    const std::span<std::byte> to = waiting_.front().from(got_ + done);
    const std::size_t some = std::min(to.size(), size - done);
    if (!opens_->add(std::span(record_).subspan(done, some), to.data())) return false;
    done += some;
  }
  came(size);
  return opens_->is_whole(std::span<const std::byte, tag_bytes>(record_.data() + size, tag_bytes));
}

void Link::took(std::size_t bytes) {
  if (state_ == State::greets) {
    got_ += bytes;
    if (got_ == welcome_bytes) take_welcome();
    return;
  }
  if (state_ == State::broken || waiting_.empty()) {
    state_ = State::broken;
    return;
  }
  if (!opens_) return took_answers(bytes);
  const std::size_t left = waiting_.front().size() - got_;
  record_got_ += bytes;
  if (record_got_ < piece_of(left) + tag_bytes) return;
  if (!open_record())
    state_ = State::broken;
  else
    took_answers(0);
}

void Link::came(std::size_t bytes) {
  Asked& first = waiting_.front();
  if (got_ < first.placed())
    first.sum = crc32c(first.from(got_).first(std::min(bytes, first.placed() - got_)), first.sum);
  got_ += bytes;
}

/// So much more, in the order of those that wait.
void Link::took_answers(std::size_t bytes) {
  while (state_ == State::open && !waiting_.empty()) {
    const std::size_t size = waiting_.front().size(), some = std::min(bytes, size - got_);
    came(some);
    bytes -= some;
    if (got_ < size) return;
    got_ = 0;
    end_first();
  }
}

/// It has come; or, of an answer, its length has.
void Link::end_first() {
  Asked& first = waiting_.front();
  if (std::exchange(first.is_length, false)) {
    const std::size_t size = little_endian({first.bytes->data(), length_bytes});
    first.bytes = {};
    first.request.first.size = size;
    if (size > RemoteRegion::answer_most) state_ = State::broken;
    if (size != 0) return;
  }
  ended_.push_back({first.number, std::move(first.bytes), first.is_answer});
  if (first.to) ended_.back().sum = first.sum;
  waiting_.pop_front();
}

}  // namespace sluice::tcp
