#include "runtime/tcp/tcp_serving.h"

#include <algorithm>
#include <atomic>

#include "base/little_endian.h"

namespace sluice::tcp {

namespace {

/// Sealed records that stand together before they are sent.
constexpr std::size_t sealed_at_once = std::size_t{64} << 10U;

std::size_t size_of(const Request& request) { return request.first.size + request.then.size; }

}  // namespace

/// Of what is owed, the bytes [at, at + size): at most one piece of each part.
std::array<std::span<const std::byte>, 2> Serving::part_of(const Owed& owed, std::size_t at,
                                                           std::size_t size) const {
  const auto& [first, then] = owed.request;
  const std::byte* const from = owed.is_answer ? answer_.data() : region_->data();
  const std::size_t of_first = at < first.size ? std::min(size, first.size - at) : 0;
  const std::size_t in_then = at > first.size ? at - first.size : 0;
  return {std::span<const std::byte>(from + first.offset + at * (of_first > 0), of_first),
          std::span<const std::byte>(from + then.offset + in_then, size - of_first)};
}

std::span<std::byte> Serving::room() {
  const std::size_t whole = state_ == State::hello   ? hello_bytes
                            : state_ == State::proof ? proof_bytes
                                                     : frame_most_;
  if (waiting_.size() >= requests_waiting) return {};
  return std::span(in_).subspan(got_, whole - got_);
}

bool Serving::took(std::size_t bytes) {
  got_ += bytes;
  const std::span<std::byte> all = std::span(in_).first(got_);
  if (state_ == State::hello) return got_ < hello_bytes || take_hello(all);
  if (state_ == State::proof) return got_ < proof_bytes || take_proof(all);
  std::size_t done = 0;
  for (;;) {
    const std::optional<std::size_t> taken = take_frame(all.subspan(done));
    if (!taken) return false;
    if (*taken == 0) break;
    done += *taken;
  }
  std::copy(all.begin() + static_cast<std::ptrdiff_t>(done), all.end(), in_.begin());
  got_ -= done;
  in_.resize(std::max(in_.size(), frame_most_));
  return true;
}

bool Serving::take_hello(std::span<const std::byte> bytes) {
  const std::optional<Hello> hello = decode_hello(bytes);
  if (!hello || hello->is_encrypted != is_encrypted_) return false;
  const std::optional<Grants::Grant> grant = grants_.find(hello->grant);
  if (!grant) return false;
  std::ranges::copy(bytes, hello_.begin());
  secret_ = grant->secret;
  region_ = grant->region;
  out_.assign(nonce_.begin(), nonce_.end());
  const Mac proof = mac_of(secret_, Purpose::owner_proof, hello_, nonce_);
  out_.insert(out_.end(), proof.begin(), proof.end());
  out_size_ = out_.size();
  state_ = State::proof;
  got_ = 0;
  return true;
}

bool Serving::take_proof(std::span<const std::byte> bytes) {
  if (!is_same(bytes, mac_of(secret_, Purpose::reader_proof, hello_, nonce_))) return false;
  if (is_encrypted_) {
    opens_.emplace(Cipher::Use::opens, Purpose::requests_key,
                   mac_of(secret_, Purpose::requests_key, hello_, nonce_));
    seals_.emplace(Cipher::Use::seals, Purpose::answers_key,
                   mac_of(secret_, Purpose::answers_key, hello_, nonce_));
  }
  state_ = State::serves;
  got_ = 0;
  return true;
}

std::optional<std::size_t> Serving::take_frame(std::span<std::byte> bytes) {
  frame_most_ = frame_bytes_most;
  if (bytes.size() < 4) return 0;
  const std::uint64_t first = little_endian(bytes.first(4));
  const bool asks = first >= question_mark;
  const std::uint64_t count = asks ? first - question_mark : first;
  if (count == 0 || count > (asks ? RemoteRegion::question_most : requests_most))
    return std::nullopt;
  if (asks && !answer_.empty()) return std::nullopt;
  const std::size_t said = asks ? count : count * request_bytes;
  const std::size_t whole = 4 + said + (is_encrypted_ ? tag_bytes : 0);
  if (bytes.size() < whole) {
    frame_most_ = std::max(whole, frame_most_);
    return 0;
  }
  const std::span<std::byte> text = bytes.subspan(4, said);
  const Cipher::Kind kind = asks ? Cipher::Kind::question : Cipher::Kind::bytes;
  if (opens_ && !(opens_->begin(kind) && opens_->add(text, text.data()) &&
                  opens_->is_whole(
                      std::span<const std::byte, tag_bytes>(bytes.data() + 4 + said, tag_bytes))))
    return std::nullopt;
  if (asks)
    take_question(text);
  else if (!take_requests(text))
    return std::nullopt;
  return whole;
}

bool Serving::take_requests(std::span<const std::byte> requests) {
  for (; !requests.empty(); requests = requests.subspan(request_bytes)) {
    const Request request = decode_request(requests.first(request_bytes));
    if (!is_within(request, region_->size()) || size_of(request) == 0) return false;
    waiting_.push_back({request});
  }
  return true;
}

void Serving::take_question(std::span<const std::byte> question) {
  answer_.resize(length_bytes);
  region_->answer(question, answer_);
  if (answer_.size() > length_bytes + RemoteRegion::answer_most) answer_.resize(length_bytes);
  const std::size_t size = answer_.size() - length_bytes;
  for (std::size_t i = 0; i < length_bytes; ++i)
    answer_[i] = static_cast<std::byte>(size >> (8 * i));
  waiting_.push_back({{{0, length_bytes}, {}}, true});
  if (size > 0) waiting_.push_back({{{length_bytes, size}, {}}, true});
}

/// The first has been sent, or sealed.
void Serving::pop_owed() {
  const Owed& owed = waiting_.front();
  if (owed.is_answer && owed.request.first.offset + owed.request.first.size == answer_.size())
    answer_.clear();
  waiting_.pop_front();
}

/// Records of what is asked for, until there are enough to send.
bool Serving::seal_some() {
  out_.resize(sealed_at_once + record_most + tag_bytes);
  out_size_ = sent_ = 0;
  while (!waiting_.empty() && out_size_ < sealed_at_once) {
    const Owed& owed = waiting_.front();
    const std::size_t whole = size_of(owed.request), size = piece_of(whole - said_);
    if (!seals_->begin()) return false;
    std::byte* to = out_.data() + out_size_;
    for (const std::span<const std::byte> part : part_of(owed, said_, size)) {
      if (!seals_->add(part, to)) return false;
      to += part.size();
      std::atomic_thread_fence(std::memory_order_acquire);  // a stamp is read behind its page
    }
    if (!seals_->seal(std::span<std::byte, tag_bytes>(to, tag_bytes))) return false;
    out_size_ += size + tag_bytes;
    said_ += size;
    if (said_ < whole) continue;
    pop_owed();
    said_ = 0;
  }
  return true;
}

std::size_t Serving::pieces(Pieces& pieces) {
  if (sent_ == out_size_ && is_encrypted_ && !waiting_.empty() && !seal_some()) return 0;
  if (sent_ < out_size_) {
    pieces[0] = std::span(out_).subspan(sent_, out_size_ - sent_);
    return 1;
  }
  std::size_t count = 0, said = said_;
  for (auto it = waiting_.begin(); it != waiting_.end() && count + 2 <= pieces.size(); ++it) {
    for (const auto part : part_of(*it, said, size_of(it->request) - said))
      if (!part.empty()) pieces[count++] = part;
    said = 0;
  }
  return count;
}

void Serving::sent(std::size_t bytes) {
  if (sent_ < out_size_) {
    sent_ += bytes;
    return;
  }
  for (said_ += bytes; !waiting_.empty() && said_ >= size_of(waiting_.front().request);) {
    said_ -= size_of(waiting_.front().request);
    pop_owed();
  }
}

}  // namespace sluice::tcp
