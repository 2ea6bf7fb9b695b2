// Pages of a memory that readers share with its owner: copied without asking, checked by those who
// pull them.
#include <chrono>
#include <deque>

#include "changing_pages.h"

namespace sluice::soak {
namespace {

constexpr PeerLife client{9, 1};
constexpr std::uint64_t reads_a_life = 50'000;
constexpr PageKeys::Secret receipts{4, 2};

/// One reader, whose server begins a new life now and then, amid a question.
class Reader {
 public:
  Reader(ChangingPages& pages, std::uint64_t seed, bool is_blind)
      : pages_(pages), asker_(pages.contents(), 4, seed), copier_(pages, seed + 100, is_blind) {
    begin_life();
  }

  Tally read(std::uint64_t reads) {
    for (std::uint64_t next_life = reads_a_life; asker_.tally.reads < reads;) {
      asker_.begin();
      answer();
      if (asker_.tally.reads >= next_life) {
        next_life += reads_a_life;
        ++asker_.tally.restarts;
        pages_.restart();
        begin_life();  // nobody has told the client yet
      }
      while (!said_.empty()) {
        asker_.take(peer_, std::move(said_.front().bytes));
        said_.pop_front();
        answer();
      }
      SLUICE_CHECK(asker_.is_over(), "a question was not answered");
      if (peer_.incarnation == life_) continue;
      asker_.lost(peer_);
      peer_.incarnation = life_;
      asker_.met(peer_);
    }
    return asker_.tally;
  }

 private:
  void begin_life() {
    server_ = PageServer(hello_of(++life_), receipts);
    server_.met(client);
    if (life_ > 1) return;
    peer_.incarnation = life_;
    asker_.met(peer_);
  }
  void answer() {
    std::vector<PeerMessage> out;
    for (const PeerMessage& one : asker_.take_out())
      server_.take(client, *pages::decode(one.bytes), copier_, out);
    while (server_.has_more()) server_.go_on(copier_, out);
    for (PeerMessage& one : out) said_.push_back(std::move(one));
  }

  ChangingPages& pages_;
  Asker asker_;
  Copier copier_;
  PageServer server_{hello_of(0), receipts};
  std::uint32_t life_ = 0;
  PeerLife peer_{1, 0};
  std::deque<PeerMessage> said_;
};

}  // namespace

Tally read_memory(const Options& options) {
  const auto start = std::chrono::steady_clock::now();
  const Contents contents(keys_there);
  ChangingPages pages(contents);
  Tally other, all;
  std::thread beside([&] {
    Reader reader(pages, 2, options.is_blind);
    other = reader.read(options.memory / 2);
  });
  Reader reader(pages, 1, options.is_blind);
  all = reader.read(options.memory - options.memory / 2);
  beside.join();
  all.add(other);
  all.replaced = pages.replaced();
  all.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return all;
}

}  // namespace sluice::soak
