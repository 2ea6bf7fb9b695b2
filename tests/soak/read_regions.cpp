// Pages that a reader reads by itself, over UCX or TCP or where it maps them, out of the memory in
// which their owner goes on writing: nobody waits for it, and it is told where each stands before
// it is replaced. Over TCP it is asked on the connections on which it is read, where these rest.
#include <unistd.h>

#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <filesystem>
#include <map>
#include <string>

#include "changing_pages.h"
#include "engine/storage/page_questions.h"
#include "runtime/shm/mapped_memory.h"
#include "runtime/tcp/tcp_memory.h"
#include "runtime/ucx/ucx_memory.h"

namespace sluice::soak {
namespace {

constexpr PeerLife client{9, 1};
constexpr std::uint64_t reads_a_life = 20'000;
constexpr PageKeys::Secret receipts{4, 2};
constexpr auto patience = std::chrono::seconds(30);

template <typename Value>
Value made(Result<Value> value) {
  if (value.ok()) return std::move(value).value();
  std::fprintf(stderr, "torn_reads: %s\n", value.error().message.c_str());
  std::_Exit(2);
}

/// What the memory's threads say, for one thread.
class Reads final : public RemoteRegion::Listener {
 public:
  struct Ended {
    std::uint64_t number = 0;
    Ref<Buffer> bytes;
    std::optional<std::uint32_t> sum;
  };
  Ended next() { return next_of(ended_); }
  Ended next_answer() { return next_of(answered_); }

 private:
  Ended next_of(std::deque<Ended>& ended) {
    std::unique_lock lock(mutex_);
    SLUICE_CHECK(came_.wait_for(lock, patience, [&] { return !ended.empty(); }),
                 "a read did not end");
    Ended one = std::move(ended.front());
    ended.pop_front();
    return one;
  }
  void answered(std::uint64_t number, Ref<Buffer> answer) override {
    const std::lock_guard lock(mutex_);
    answered_.push_back({number, std::move(answer), {}});
    came_.notify_one();
  }
  void read_ended(std::uint64_t number, Ref<Buffer> bytes,
                  std::optional<std::uint32_t> sum) override {
    const std::lock_guard lock(mutex_);
    ended_.push_back({number, std::move(bytes), sum});
    came_.notify_one();
  }
  std::mutex mutex_;
  std::condition_variable came_;
  std::deque<Ended> ended_, answered_;
};

class Reader final : private RegionGuide {
 public:
  Reader(ChangingPages& pages, RemoteMemory& memory, std::span<const std::byte> key, bool is_blind)
      : pages_(pages),
        asker_(pages.contents(), 8, 5),
        region_(made(memory.reach(key, reads_))),
        is_blind_(is_blind) {
    begin_life();
  }

  /// Answers questions that come where the pages are read, too: while this thread waits for them.
  RegionGuide& guide() { return *this; }
  std::uint64_t asked_there() const { return asked_there_; }

  Tally read(std::uint64_t reads) {
    for (std::uint64_t next_life = reads_a_life; asker_.tally.reads < reads;) {
      asker_.tick();
      asker_.begin();
      ask();
      // To the end of what is under way, of pulls that have ended too.
      while (!said_.empty() || !wanted_.empty()) said_.empty() ? hear_read() : hear();
      SLUICE_CHECK(asker_.is_over(), "a question was not answered");
      if (asker_.tally.reads < next_life) continue;
      next_life += reads_a_life;
      ++asker_.tally.restarts;
      pages_.restart();
      asker_.lost(peer_);
      begin_life();
    }
    return asker_.tally;
  }

 private:
  void begin_life() {
    peer_.incarnation = ++life_;
    server_ = PageServer(hello_of(life_), receipts);
    server_.met(client);
    copier_ = std::make_unique<Copier>(pages_, 100 + life_, is_blind_, life_);
    asker_.met(peer_);
    asker_.open(peer_);
  }
  void ask() {
    std::vector<PeerMessage> out;
    for (const PeerMessage& one : asker_.take_out())
      if (!ask_there(one)) server_.take(client, *pages::decode(one.bytes), *copier_, out);
    while (server_.has_more()) server_.go_on(*copier_, out);
    for (PeerMessage& one : out) said_.push_back(std::move(one));
  }
  /// False: by a message.
  bool ask_there(const PeerMessage& question) {
    if (!questions_.ask(*region_, question, page_bytes)) return false;
    const Reads::Ended ended = reads_.next_answer();
    for (PageQuestions::Heard& one : questions_.answered(ended.number, ended.bytes)) {
      if (!one.is_answer) return false;
      const auto body = bytes_of(one.body);
      one.message.insert(one.message.end(), body.begin(), body.end());
      said_.push_back({peer_, std::move(one.message)});
    }
    ++asked_there_;
    return true;
  }
  void answer(std::span<const std::byte> question, std::vector<std::byte>& answer) override {
    PageServerCounts counts;
    pages::answer_briefly(question, hello_of(life_), *copier_, counts, answer);
  }
  void hear() {
    pages::Bytes message = std::move(said_.front().bytes);
    said_.pop_front();
    asker_.take(peer_, std::move(message));
    for (const PageRead& one : asker_.take_reads()) {
      wanted_[one.number] = {number_of(one.head.key), one.place, one.head};
      region_->read(one.number, one.content, one.stamp, one.place);
    }
    ask();
  }
  void hear_read() {
    Reads::Ended one = reads_.next();
    SLUICE_CHECK(one.bytes, "a page could not be read");
    Wanted wanted = wanted_.extract(one.number).mapped();
    // Blind: what would be taken if nobody verified it.
    if (is_blind_ && !pages_.contents().are(bytes_of(wanted.place), wanted.number))
      ++asker_.tally.undetected;
    const bool whole = is_whole(bytes_of(wanted.place), bytes_of(one.bytes), wanted.head, one.sum);
    wanted.place = {};
    asker_.read_ended(one.number, one.bytes, whole);
    ask();
  }

  ChangingPages& pages_;
  Asker asker_;
  Reads reads_;
  std::unique_ptr<RemoteRegion> region_;
  const bool is_blind_;
  PageServer server_{hello_of(0), receipts};
  std::unique_ptr<Copier> copier_;
  std::uint32_t life_ = 0;
  PeerLife peer_{1, 0};
  std::deque<PeerMessage> said_;
  PageQuestions questions_;
  std::uint64_t asked_there_ = 0;
  struct Wanted {
    std::size_t number = 0;  // of the content
    Ref<Buffer> place;
    pages::PageHead head;
  };
  std::map<std::uint64_t, Wanted> wanted_;  // by read that is under way
};

Tally read_over(std::unique_ptr<RemoteMemory> owner, std::unique_ptr<RemoteMemory> other,
                std::uint64_t reads, bool is_blind, bool can_ask = false) {
  const auto start = std::chrono::steady_clock::now();
  const Contents contents(keys_there);
  const Ref<Buffer> memory = made(owner->make(region.size()));
  ChangingPages pages(contents, memory);
  Reader reader(pages, *other, made(owner->key(memory)), is_blind);
  owner->guide(memory, &reader.guide());
  Tally tally = reader.read(reads);
  owner->guide(memory, nullptr);
  SLUICE_CHECK((reader.asked_there() > 0) == can_ask, "asked another way");
  tally.replaced = pages.replaced();
  tally.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return tally;
}

std::unique_ptr<RemoteMemory> tcp_memory(bool is_encrypted) {
  TcpMemoryOptions options;
  options.host = "127.0.0.1";
  options.is_encrypted = is_encrypted;
  return made(make_tcp_memory(options));
}

std::unique_ptr<RemoteMemory> mapped_memory(const std::string& folder, const char* name) {
  MappedMemoryOptions options;
  options.socket = folder + "/" + name;
  return made(make_mapped_memory(options));
}

}  // namespace

Tally read_ucx(const Options& options) {
  return read_over(made(make_ucx_memory({})), made(make_ucx_memory({})), options.ucx,
                   options.is_blind);
}

Tally read_sockets(const Options& options) {
  return read_over(tcp_memory(false), tcp_memory(false), options.sockets, options.is_blind, true);
}

Tally read_sealed(const Options& options) {
  return read_over(tcp_memory(true), tcp_memory(true), options.sealed, options.is_blind, true);
}

Tally read_mapped(const Options& options) {
  std::string folder = (std::filesystem::temp_directory_path() / "torn-reads-XXXXXX").string();
  SLUICE_CHECK(::mkdtemp(folder.data()) != nullptr, "no folder for sockets");
  const Tally tally = read_over(mapped_memory(folder, "owner"), mapped_memory(folder, "reader"),
                                options.mapped, options.is_blind);
  std::filesystem::remove_all(folder);
  return tally;
}

}  // namespace sluice::soak
