// Messages to bytes.
#include <vector>

#include "base/crc32c.h"
#include "graph/bucket.h"
#include "runtime/wire/codec.h"
#include "runtime/wire/payload_codec.h"

namespace sluice::wire {

namespace {

/// At most so many bytes of a text, and no half of a character.
std::string_view cut(std::string_view text) {
  if (text.size() <= words_max) return text;
  std::size_t end = words_max;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xc0U) == 0x80U) --end;
  return text.substr(0, end);
}

class Encoder {
 public:
  Encoder(const Plan& plan, Instant now, const Limits& limits, Bytes& out, Lending& lending)
      : plan_(plan),
        now_(now),
        limits_(limits),
        bytes_(out),
        writer_(out),
        start_(out.size()),
        lending_(lending) {}

  Result<void> write(const Message& message) {
    writer_.u8(version);
    writer_.u8(static_cast<std::uint8_t>(message.kind));
    writer_.number(place_of(message));
    put_origin(message.call.home);
    writer_.number(message.call.number);
    writer_.number(message.session);
    put_credit(message.credit);
    put_body(message);
    const std::size_t size = writer_.size() - start_ + lending_.bytes;
    if (size + sizeof(std::uint32_t) > limits_.bytes_max)
      fail("a message of " + std::to_string(size) + " bytes; the limit is " +
           std::to_string(limits_.bytes_max));
    if (!error_.empty()) {
      lending_.take_back();
      bytes_.resize(start_);
      return Error{ErrorCode::exhausted, std::move(error_)};
    }
    writer_.u32(crc32c(std::span(bytes_).subspan(start_)));
    return {};
  }

 private:
  void fail(std::string what) {
    if (error_.empty()) error_ = std::move(what);
  }

  static std::uint64_t place_of(const Message& message) {
    switch (message.kind) {
      case Message::Kind::frame:
      case Message::Kind::settled:
      case Message::Kind::aborted:
        return message.target;
      case Message::Kind::cancel:
      case Message::Kind::abort:
      case Message::Kind::call_ended:
        return message.to;
      case Message::Kind::credit:
        break;
    }
    return 0;
  }

  void put_origin(Origin origin) {
    writer_.number(origin.machine);
    writer_.number(origin.incarnation);
  }

  void put_credit(Credit credit) {
    if (credit.scale > credit_scale_max)
      fail("credit of scale " + std::to_string(credit.scale) + "; the limit is " +
           std::to_string(credit_scale_max));
    writer_.round_number(credit.amount);
    if (credit.amount != 0) writer_.number(credit.scale);
  }

  void put_body(const Message& message) {
    switch (message.kind) {
      case Message::Kind::frame:
        return put_frame(message);
      case Message::Kind::settled:
        return put_share(message.shares[0], message.target, 0);
      case Message::Kind::credit:
        return put_notice(message);
      case Message::Kind::call_ended:
        return writer_.number(message.floor);
      case Message::Kind::cancel:
      case Message::Kind::abort:
      case Message::Kind::aborted:
        return;
    }
  }

  void put_frame(const Message& message) {
    const Edge& edge = plan_.edges[message.target];
    const Frame& frame = *message.frame;
    const std::uint64_t mask = frame.mask & edge.mask;
    writer_.number(mask);
    // An age, not a moment: the receiver has another clock.
    // What a peer said of an age may have been the most that is read; it goes on no older.
    constexpr Instant age_max{std::int64_t{1} << 62U};
    writer_.number(
        static_cast<std::uint64_t>(std::clamp(now_ - frame.born, Instant{}, age_max).count()));
    for (const std::uint16_t turns : frame.iterations) writer_.number(turns);
    if (plan_.paths) put_path(frame.path);
    for (std::size_t i = 0; mask >> i != 0; ++i) {
      if ((mask >> i & 1U) == 0) continue;
      if (auto put = put_payload(*frame.values[i], writer_, lending_); !put)
        fail(put.error().message);
      if (i == 63) break;
    }
    for (std::size_t i = 0; i < edge.shares.size(); ++i)
      put_share(message.shares[i], edge.shares[i], 0);
  }

  void put_path(const std::vector<std::uint32_t>& path) {
    writer_.number(path.size());
    for (const std::uint32_t step : path) writer_.number(step);
  }

  void put_scope(const ScopeId& id) {
    put_origin(id.origin);
    writer_.number(id.number);
  }

  /// From the outermost scope inwards, then the deposit if this is the part that holds it.
  void put_share(const Share& share, CollectorId collector, std::size_t nesting) {
    if (!error_.empty()) return;
    chain_.clear();
    for (const Share* at = &share;; at = &at->scope->parent) {
      chain_.push_back(at);
      if (!at->scope->parent.scope) break;
    }
    scopes_ += chain_.size();
    if (chain_.size() - 1 > refinements_max)
      return fail("a share was divided " + std::to_string(chain_.size() - 1) +
                  " times over; the limit is " + std::to_string(refinements_max));
    if (scopes_ > scopes_max || nesting > nesting_max)
      return fail("a message with more than " + std::to_string(scopes_max) +
                  " scopes, or too many joins behind one another");
    const Scope& outermost = *chain_.back()->scope;
    writer_.number(chain_.size() - 1);
    writer_.number(outermost.sequence);
    for (std::size_t i = chain_.size(); i-- > 0;) {
      put_scope(chain_[i]->scope->id);
      writer_.round_number(chain_[i]->begin);
      writer_.round_number(chain_[i]->width);
    }
    if (holds_deposit(share)) put_deposit(outermost, collector, nesting + 1);
  }

  void put_deposit(const Scope& scope, CollectorId collector, std::size_t nesting) {
    if (plan_.paths) put_path(scope.path);
    const std::vector<CollectorId>& outer = plan_.collectors[collector].outer;
    for (std::size_t i = 0; i < outer.size(); ++i) put_share(scope.outer[i], outer[i], nesting);
  }

  void put_notice(const Message& message) {
    writer_.u8(static_cast<std::uint8_t>((message.failure ? 1 : 0) |
                                         (message.lost.node != entry_node ? 2 : 0)));
    if (message.failure) {
      writer_.number(message.failure->node);
      writer_.u8(static_cast<std::uint8_t>(message.failure->kind));
      writer_.u8(static_cast<std::uint8_t>(message.failure->error.code));
      writer_.text(cut(message.failure->error.message));
    }
    if (message.lost.node != entry_node) {
      writer_.u8(static_cast<std::uint8_t>(message.lost.kind));
      writer_.number(message.lost.node);
      writer_.number(message.lost.group);
      writer_.number(message.lost.fields);
    }
    if (message.warnings.size() > warnings_max)
      fail(std::to_string(message.warnings.size()) + " warnings; the limit is " +
           std::to_string(warnings_max));
    writer_.number(message.warnings.size());
    for (const std::string& warning : message.warnings) writer_.text(cut(warning));
  }

  const Plan& plan_;
  const Instant now_;
  const Limits& limits_;
  Bytes& bytes_;
  ByteWriter writer_;
  const std::size_t start_;
  Lending& lending_;
  std::vector<const Share*> chain_;
  std::size_t scopes_ = 0;
  std::string error_;
};

}  // namespace

Result<void> encode(const Plan& plan, const Message& message, Instant now, const Limits& limits,
                    Bytes& out, Lending& lending) {
  return Encoder(plan, now, limits, out, lending).write(message);
}

Result<void> encode(const Plan& plan, const Message& message, Instant now, const Limits& limits,
                    Bytes& out) {
  Lending none;
  return encode(plan, message, now, limits, out, none);
}

}  // namespace sluice::wire
