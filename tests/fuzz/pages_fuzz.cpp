// Any bytes as messages about pages from another machine, before and after it has proved the
// secret: what is read is written the same again; nobody is owed more than the bounds, nothing is
// published but what was asked for, and each pull ends.
#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "base/crc32c.h"
#include "dataplane/page_handshake.h"
#include "dataplane/page_news.h"
#include "dataplane/page_preloads.h"
#include "dataplane/page_puller.h"

using namespace sluice;
using pages::Bytes;

namespace {

constexpr std::uint32_t page_bytes = 64;
constexpr PeerLife self{1, 1}, peer{2, 1};
constexpr PageKeys::Secret secret{5};

pages::Hello hello_of(std::uint8_t nonce) {
  pages::Hello hello;
  hello.layout.fill(7);
  hello.incarnation = 1;
  hello.page_bytes = page_bytes;
  hello.nonce.fill(nonce);
  return hello;
}

PageKey key_of(std::uint64_t number) { return PageKey{{number, 1, 2, 3}}; }

void require(bool what) {
  if (!what) __builtin_trap();
}

constexpr PageRegion region{4, page_bytes};

/// Four pages.
class Shelf final : public PageLookup {
 public:
  bool has(const PageKey& key) const override { return key.words[0] < 4; }
  std::optional<ServedPage> append(const PageKey& key, Bytes& to) override {
    if (!has(key)) return std::nullopt;
    to.insert(to.end(), page_bytes, std::byte{9});
    return ServedPage{1, crc32c(std::span(to).last(page_bytes))};
  }
  std::optional<ServedPage> copy(const PageKey& key, std::span<std::byte> to) override {
    if (!has(key)) return std::nullopt;
    std::ranges::fill(to, std::byte{9});
    return ServedPage{1, crc32c(to)};
  }
};

Bytes write(const pages::Message& message) {
  return std::visit([](const auto& what) { return pages::encode(what); }, message);
}

/// A machine whose peer says the bytes.
class Machine {
 public:
  Machine(bool has_met, bool is_early)
      : puller_(hello_of(0), is_early ? PagePuller::early_pages_most * page_bytes : 0) {
    PageHandshake::Greeting greeting = handshake_.joined(peer, {1});
    require(pages::decode(greeting.hello).has_value());
    if (!has_met) return;
    server_.met(peer);
    news_.met(peer);
    for (Page page = 0; page < 4; ++page) news_.published(page, {key_of(page), {}});
    preloads_.met(peer);
    puller_.met(peer, hello_of(2), 0);
    const std::vector<PageKey> keys{key_of(0), key_of(1), key_of(2), key_of(9)};
    require(puller_.begin(1, keys, 0) && puller_.begin(2, {key_of(3)}, 0));
    puller_.opened(peer, region.pages);
    // The second is found and asked for, where not all of it was at once; the places of the third
    // are asked for at once.
    for (const PeerMessage& one : puller_.take_out()) {
      const auto said = *pages::decode(one.bytes);
      const auto* asked = std::get_if<pages::Find>(&said);
      require((asked == nullptr) == is_early);
      if (asked != nullptr && asked->keys.size() == 1)
        puller_.take(peer, encode(pages::Found{asked->id, 1, 7}), 0);
    }
    hear_events();
    require(puller_.take_out().size() == (is_early ? 0 : 2));
    require(puller_.begin(3, {key_of(4), key_of(5)}, 0) && puller_.take_out().size() == 1);
  }
  void take(std::span<const std::byte> bytes) {
    const auto message = pages::decode(bytes);
    if (!message.has_value()) return;
    require(std::ranges::equal(write(*message), bytes));
    if (const auto* hello = std::get_if<pages::Hello>(&*message))
      require(!handshake_.take(peer, *hello).met.has_value());
    if (const auto* proof = std::get_if<pages::Proof>(&*message))
      (void)handshake_.take(peer, *proof);  // a fuzzer that sees comparisons finds the right one
    answer(bytes);
    std::vector<PeerMessage> out;
    if (const auto* note = std::get_if<pages::Note>(&*message))
      (void)server_.take_note(peer, note->id, out);
    server_.take(peer, *message, shelf_, out);
    while (server_.has_more()) server_.go_on(shelf_, out);
    for (const PeerMessage& one : out) {
      const auto said = pages::decode(one.bytes);
      require(said.has_value());
      if (!std::holds_alternative<pages::PageContent>(*said)) ++replies_;
      sent_ += one.bytes.size();
    }
    hear_of_pages(*message);
    // Nothing that was sent here was read, so no receipt is known.
    require(replies_ <= PageServer::replies_most);
    require(server_.owed(peer) <= PageServer::owed_most);
    require(sent_ <= PageServer::replies_most * 64 + PageServer::owed_most * 4);
    puller_.take(peer, Bytes(bytes.begin(), bytes.end()), 1);
    hear_events();
    require(puller_.take_out().size() <= 8);
  }
  /// The same of a message whose end stands elsewhere.
  void take_head(std::span<const std::byte> head, const Ref<Buffer>& body) {
    const auto message = pages::decode(head, bytes_of(body));
    if (!message.has_value()) return;
    const pages::PageContent& page = std::get<pages::PageContent>(*message);  // and no other
    require(page.content.data() == body->data() && page.content.size() == page.head.length);
    require(std::ranges::equal(encode(page.head), head));
    puller_.take(peer, Bytes(head.begin(), head.end()), 1, body);
    hear_events();
    require(puller_.take_out().size() <= 8);
  }
  void end() {
    for (int i = 1; i < 4; ++i) puller_.tick(i * (PagePuller::pull_patience + 1));
    hear_events();
    puller_.tick(std::int64_t{10} * PagePuller::pull_patience);
    hear_events();
    require(puller_.pulls() == 0 && (ends_ == 0 || ends_ == 3));
  }

 private:
  /// The same where it comes by another way than the link.
  void answer(std::span<const std::byte> question) {
    Bytes said;
    PageServerCounts counts;
    pages::answer_briefly(question, hello_of(0), shelf_, counts, said);
    require(said.empty() == !pages::is_brief(question, page_bytes));
    require(said.empty() == (counts.refused == 1) && said.size() < RemoteRegion::answer_most);
    const auto pieces = pages::pieces_of(said);
    require(pieces.has_value());
    for (const auto& [message, body] : *pieces) require(pages::decode(message, body).has_value());
  }
  void hear_of_pages(const pages::Message& message) {
    if (const auto* follow = std::get_if<pages::Follow>(&message)) (void)news_.take(peer, *follow);
    told_ += news_.take_out().size();
    require(told_ <= 1);  // nothing that was told here was read
    if (const auto* told = std::get_if<pages::Published>(&message)) preloads_.take(peer, *told);
    require(preloads_.take_out().size() <= 1);
    if (const auto run = preloads_.next([](const PageKey&) { return false; }, 3)) {
      require(!run->keys.empty() && run->keys.size() <= 3);
      preloads_.ended();
    }
    const PagePreloads::Counts& now = preloads_.counts();
    require(now.had + now.taken + now.missed <= now.told);
  }
  void hear_events() {
    for (const PageRead& one : puller_.take_reads()) {
      require(one.content.size == page_bytes && one.stamp.size == PageRegion::stamp_bytes);
      require(one.content.offset + page_bytes <= region.stamps());
      require(one.stamp.offset + PageRegion::stamp_bytes <= region.size());
      require(one.place->size() == page_bytes);
      puller_.read_ended(one.number, Buffer::zeros(PageRegion::stamp_bytes), 1);
    }
    for (PullEvent& event : puller_.take_events()) {
      if (event.kind == PullEvent::Kind::found) {
        std::vector<Ref<Buffer>> places(event.pages);
        for (Ref<Buffer>& place : places) place = Buffer::zeros(page_bytes);
        puller_.fetch(event.pull, places.size(), 1);
        puller_.place(event.pull, std::move(places), 1);
      }
      if (event.kind == PullEvent::Kind::page) require(event.place->size() == page_bytes);
      if (event.kind == PullEvent::Kind::ended) ++ends_;
    }
  }

  PageHandshake handshake_{secret, self, hello_of(0)};
  PageServer server_{hello_of(0), {3}};
  PagePuller puller_;
  PageNews news_{{3}};
  PagePreloads preloads_{8};
  std::size_t told_ = 0;
  Shelf shelf_;
  std::size_t replies_ = 0, sent_ = 0, ends_ = 0;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  // First whether they have met, what ends elsewhere (of a page's size, or one byte more) and
  // whether few pages are asked for before they are found; then messages, each behind its length in
  // two bytes, lowest first.
  std::span<const std::byte> left = std::as_bytes(std::span(data, size));
  if (left.empty()) return 0;
  const auto says = [first = left[0]](unsigned bit) {
    return (first & std::byte(bit)) != std::byte{0};
  };
  Machine machine(says(1), says(8));
  Ref<Buffer> body;
  if (says(2)) body = Buffer::zeros(page_bytes + (says(4) ? 1 : 0));
  left = left.subspan(1);
  while (left.size() > 2) {
    const std::size_t length =
        std::to_integer<std::size_t>(left[0]) | std::to_integer<std::size_t>(left[1]) << 8U;
    left = left.subspan(2);
    const auto message = left.first(std::min(length, left.size()));
    // As an answer of several messages, it has none beyond its bytes.
    if (const auto pieces = pages::pieces_of(message))
      for (const auto& [head, end] : *pieces)
        require(head.data() >= message.data() &&
                end.data() + end.size() <= message.data() + message.size());
    left = left.subspan(message.size());
    body ? machine.take_head(message, body) : machine.take(message);
  }
  machine.end();
  return 0;
}
