#include "engine/storage/shared_pages.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <optional>
#include <utility>

#include "base/file_packets.h"
#include "base/little_endian.h"

namespace sluice {

using namespace attached;

namespace {

using Bytes = std::vector<std::byte>;
using Clock = std::chrono::steady_clock;

constexpr std::uint32_t magic = 0x32505353;  // "SSP2": the version is in it
constexpr std::size_t length_bytes = 4;
constexpr std::size_t hello_bytes = 4 + 4 + 4 + 8 + 32;
constexpr std::size_t heard_at_once = 64 << 10;
/// A process that answers nothing for so long stands still; everybody else's calls go on.
constexpr std::chrono::seconds answers_within{10};

Error system_says(const std::string& what) {
  return {ErrorCode::unavailable, what + ": " + std::strerror(errno)};
}

Error closed() { return {ErrorCode::unavailable, "the process that has the pages has gone"}; }

void append_frame(const Bytes& body, Bytes& out) {
  append_little_endian(body.size(), length_bytes, out);
  out.insert(out.end(), body.begin(), body.end());
}

Bytes hello_of(const SharedPagesShape& shape) {
  Bytes hello;
  append_little_endian(magic, 4, hello);
  append_little_endian(shape.pages, 4, hello);
  append_little_endian(shape.rows_per_page, 4, hello);
  append_little_endian(shape.page_bytes, 8, hello);
  for (const std::uint8_t byte : shape.secret) append_little_endian(byte, 1, hello);
  return hello;
}

Result<SharedPagesShape> shape_of(std::span<const std::byte> hello) {
  if (little_endian(hello.first(4)) != magic)
    return Error{ErrorCode::corrupt, "the other side is of another version of this program"};
  SharedPagesShape shape;
  shape.pages = static_cast<std::uint32_t>(little_endian(hello.subspan(4, 4)));
  shape.rows_per_page = static_cast<std::uint32_t>(little_endian(hello.subspan(8, 4)));
  shape.page_bytes = little_endian(hello.subspan(12, 8));
  for (std::size_t i = 0; i < shape.secret.size(); ++i)
    shape.secret[i] = std::to_integer<std::uint8_t>(hello[20 + i]);
  if (shape.pages == 0 || shape.rows_per_page == 0 || shape.page_bytes == 0 ||
      shape.page_bytes > ~std::uint64_t{0} / shape.pages)
    return Error{ErrorCode::corrupt, "a pool of pages that cannot be"};
  return shape;
}

/// Its descriptor goes with it.
Result<void> send_hello(int socket, const SharedPagesShape& shape, int memory) {
  const Bytes hello = hello_of(shape);
  if (send_with_files(socket, hello, {&memory, 1}, 0) != static_cast<ssize_t>(hello.size()))
    return system_says("a process cannot be told of the pages");
  return {};
}

Result<void> wait_for(int socket, short events, Clock::time_point until) {
  for (;;) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(until - Clock::now()).count();
    pollfd event{socket, events, 0};
    const int came = ::poll(&event, 1, static_cast<int>(std::max<std::int64_t>(left, 0)));
    if (came > 0) return {};
    if (came < 0 && errno != EINTR) return closed();
    if (came == 0)
      return Error{ErrorCode::unavailable, "the process that has the pages did not answer within " +
                                               std::to_string(answers_within.count()) + " s"};
  }
}

/// The way over a socket, of one thread.
class SocketPort final : public PageManagerPort {
 public:
  explicit SocketPort(OwnedFile socket) : socket_(std::move(socket)) {}

  Result<Answer> ask(std::span<const Request> batch) override {
    const auto until = Clock::now() + answers_within;
    if (Result<void> sent = send(batch, until); !sent.ok()) return sent.error();
    std::array<std::byte, length_bytes> length{};
    if (Result<void> got = receive(length, until); !got.ok()) return got.error();
    const std::size_t size = little_endian(length);
    if (size > message_most)
      return Error{ErrorCode::corrupt, "an answer of " + std::to_string(size) + " bytes"};
    buffer_.resize(size);
    if (Result<void> got = receive(buffer_, until); !got.ok()) return got.error();
    return decode_answer(buffer_);
  }
  Result<void> tell(std::span<const Request> batch) override {
    return send(batch, Clock::now() + answers_within);
  }

 private:
  Result<void> send(std::span<const Request> batch, Clock::time_point until) {
    const Bytes body = encode(batch);
    if (body.size() > message_most)
      return Error{ErrorCode::exhausted, "a batch of " + std::to_string(body.size()) + " bytes"};
    buffer_.clear();
    append_frame(body, buffer_);
    for (std::size_t at = 0; at < buffer_.size();) {
      const ssize_t gone = ::send(socket_.get(), buffer_.data() + at, buffer_.size() - at,
                                  MSG_NOSIGNAL | MSG_DONTWAIT);
      if (gone > 0) at += static_cast<std::size_t>(gone);
      if (gone >= 0 || errno == EINTR) continue;
      if (errno != EAGAIN && errno != ENOBUFS) return closed();
      if (Result<void> can = wait_for(socket_.get(), POLLOUT, until); !can.ok()) return can;
    }
    return {};
  }
  Result<void> receive(std::span<std::byte> to, Clock::time_point until) {
    while (!to.empty()) {
      const ssize_t came = ::recv(socket_.get(), to.data(), to.size(), MSG_DONTWAIT);
      if (came > 0) to = to.subspan(static_cast<std::size_t>(came));
      if (came == 0) return closed();
      if (came > 0 || errno == EINTR) continue;
      if (errno != EAGAIN) return closed();
      if (Result<void> can = wait_for(socket_.get(), POLLIN, until); !can.ok()) return can;
    }
    return {};
  }

  const OwnedFile socket_;
  Bytes buffer_;
};

}  // namespace

class SharedPages::OwnPort final : public PageManagerPort {
 public:
  OwnPort(SharedPages& pages, PageClientId id) : pages_(pages), id_(id) {}
  ~OwnPort() override {
    const std::lock_guard lock(pages_.mutex_);
    pages_.end(id_, "");
  }
  Result<Answer> ask(std::span<const Request> batch) override {
    const std::lock_guard lock(pages_.mutex_);
    return pages_.handle(id_, batch);
  }
  Result<void> tell(std::span<const Request> batch) override {
    const std::lock_guard lock(pages_.mutex_);
    const Result<Answer> done = pages_.handle(id_, batch);
    if (!done.ok()) return done.error();
    return {};
  }

 private:
  SharedPages& pages_;
  const PageClientId id_;
};

Result<std::unique_ptr<SharedPages>> SharedPages::make(const SharedPagesShape& shape) {
  Result<PageMemory> memory = PageMemory::make(shape.pages * shape.page_bytes);
  if (!memory.ok()) return memory.error();
  auto policy = make_eviction(eviction_names().front(), {shape.pages, 2 * shape.pages});
  return std::make_unique<SharedPages>(shape, std::move(memory).value(), std::move(policy).value());
}

SharedPages::SharedPages(const SharedPagesShape& shape, PageMemory memory,
                         std::unique_ptr<EvictionPolicy> policy)
    : shape_(shape),
      memory_(std::move(memory)),
      table_(shape.pages, shape.rows_per_page, std::move(policy)),
      manager_(table_, shape.rows_per_page) {
  thread_ = std::thread([this] { run(); });
}

SharedPages::~SharedPages() {
  {
    const std::lock_guard lock(mutex_);
    stops_ = true;
  }
  bell_.ring();
  thread_.join();
}

Result<OwnedFile> SharedPages::connect(const std::string& name) {
  std::array<int, 2> ends{-1, -1};
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()) != 0)
    return system_says("a process cannot be given a socket");
  OwnedFile mine(ends[0]), theirs(ends[1]);
  if (Result<void> told = send_hello(mine.get(), shape_, memory_.file.get()); !told.ok())
    return told.error();
  {
    const std::lock_guard lock(mutex_);
    if (Result<void> done = manager_.attach(next_); !done.ok()) return done.error();
    clients_.emplace(next_++, Client{name, std::move(mine), {}, {}});
  }
  bell_.ring();
  return theirs;
}

Result<std::unique_ptr<PageManagerPort>> SharedPages::port(const std::string& name) {
  const std::lock_guard lock(mutex_);
  if (Result<void> done = manager_.attach(next_); !done.ok()) return done.error();
  clients_.emplace(next_, Client{name, OwnedFile(), {}, {}});
  return std::unique_ptr<PageManagerPort>(std::make_unique<OwnPort>(*this, next_++));
}

SharedPages::Report SharedPages::report() {
  const std::lock_guard lock(mutex_);
  Report report;
  report.free = table_.free_pages();
  report.cached = table_.cached_pages();
  report.window = table_.hit_window();
  report.batches = batches_;
  report.refused = std::exchange(refused_, {});
  for (Page page = 0; page < table_.capacity(); ++page) {
    report.shared += table_.references(page) > 1 ? 1 : 0;
    report.published += table_.is_published(page) ? 1 : 0;
  }
  for (const auto& [id, client] : clients_)
    report.attached.push_back({client.name, manager_.held(id)});
  return report;
}

Result<Answer> SharedPages::handle(PageClientId id, std::span<const Request> batch) {
  ++batches_;
  table_.set_time(++time_);
  return manager_.handle(id, batch);
}

/// An empty `why`: it went by itself. Whoever polls its socket does so no more.
void SharedPages::end(PageClientId id, const std::string& why) {
  const auto it = clients_.find(id);
  if (it == clients_.end()) return;
  if (!why.empty()) refused_.push_back(it->second.name + " was detached from the pages: " + why);
  manager_.detach(id);
  clients_.erase(it);
}

void SharedPages::send(PageClientId id, Client& client) {
  while (!client.unsent.empty()) {
    const ssize_t gone = ::send(client.socket.get(), client.unsent.data(), client.unsent.size(),
                                MSG_NOSIGNAL | MSG_DONTWAIT);
    if (gone < 0 && errno == EINTR) continue;
    if (gone < 0 && (errno == EAGAIN || errno == ENOBUFS)) return;
    if (gone <= 0) return end(id, "");
    client.unsent.erase(client.unsent.begin(), client.unsent.begin() + gone);
  }
}

bool SharedPages::take_batch(PageClientId id, Client& client) {
  if (client.heard.size() < length_bytes) return false;
  const std::size_t size = little_endian(std::span(client.heard).first(length_bytes));
  if (size > message_most) {
    end(id, "a batch of " + std::to_string(size) + " bytes");
    return false;
  }
  if (client.heard.size() < length_bytes + size) return false;
  if (!client.unsent.empty()) {
    end(id, "it does not read its answers");
    return false;
  }
  const auto batch = decode_batch(std::span(client.heard).subspan(length_bytes, size));
  const Result<Answer> answer = batch.ok() ? handle(id, *batch) : Result<Answer>(batch.error());
  if (!answer.ok()) {
    end(id, answer.error().message);
    return false;
  }
  client.heard.erase(client.heard.begin(),
                     client.heard.begin() + static_cast<std::ptrdiff_t>(length_bytes + size));
  if (answer->replies.empty()) return true;
  append_frame(encode(*answer), client.unsent);
  send(id, client);
  return clients_.contains(id);
}

/// What has come, up to some bytes: nobody keeps the thread from the others.
void SharedPages::hear(PageClientId id, Client& client) {
  const std::size_t had = client.heard.size();
  client.heard.resize(had + heard_at_once);
  ssize_t came = -1;
  do came = ::recv(client.socket.get(), client.heard.data() + had, heard_at_once, MSG_DONTWAIT);
  while (came < 0 && errno == EINTR);
  if (came == 0 || (came < 0 && errno != EAGAIN)) return end(id, "");
  client.heard.resize(had + static_cast<std::size_t>(std::max<ssize_t>(came, 0)));
  while (take_batch(id, client)) continue;
}

/// One round: sockets of those that were there before it are polled, and no others are closed
/// meanwhile but by this thread.
void SharedPages::serve() {
  std::vector<pollfd> events{{bell_.descriptor(), POLLIN, 0}};
  std::vector<PageClientId> ids;
  {
    const std::lock_guard lock(mutex_);
    for (const auto& [id, client] : clients_) {
      if (client.socket.get() < 0) continue;
      const short wants = client.unsent.empty() ? POLLIN : POLLIN | POLLOUT;
      events.push_back({client.socket.get(), wants, 0});
      ids.push_back(id);
    }
  }
  if (::poll(events.data(), events.size(), -1) <= 0) return;
  (void)bell_.hear();
  const std::lock_guard lock(mutex_);
  for (std::size_t i = 0; i < ids.size(); ++i) {
    const short what = events[i + 1].revents;
    const auto it = clients_.find(ids[i]);
    if (what == 0 || it == clients_.end()) continue;
    if ((what & POLLOUT) != 0) send(it->first, it->second);
    if ((what & ~POLLOUT) != 0 && clients_.contains(ids[i])) hear(it->first, it->second);
  }
}

void SharedPages::run() {
  for (;;) {
    {
      const std::lock_guard lock(mutex_);
      if (stops_) return;
    }
    serve();
  }
}

Result<AttachedPages> AttachedPages::attach(OwnedFile socket) {
  if (Result<void> can = wait_for(socket.get(), POLLIN, Clock::now() + answers_within); !can.ok())
    return can.error();
  std::array<std::byte, hello_bytes> hello{};
  const PacketWithFiles came = receive_with_files(socket.get(), hello, 0);
  if (came.bytes != static_cast<ssize_t>(hello.size()))
    return Error{ErrorCode::corrupt, "the other side says nothing of pages"};
  if (came.files.size() != 1 || came.is_cut)
    return Error{ErrorCode::corrupt, "the memory of the pages did not come"};
  const Result<SharedPagesShape> shape = shape_of(hello);
  if (!shape.ok()) return shape.error();
  Result<Ref<Buffer>> bytes = map_page_memory(came.files.front(), shape->pages * shape->page_bytes);
  if (!bytes.ok()) return bytes.error();
  return AttachedPages{*shape, std::move(bytes).value(),
                       std::make_unique<SocketPort>(std::move(socket))};
}

}  // namespace sluice
