#include "runtime/ucx/ucx_worker.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <utility>

#include "base/check.h"
#include "runtime/ucx/ucx_segments.h"

namespace sluice::ucx {

namespace {

constexpr std::size_t commands_a_round = 16;
/// For endpoints to close when all ends: by force, so this is for a card that hangs.
constexpr std::chrono::seconds closing_most{2};

bool is_within(RemoteRegion::Part part, std::uint64_t size) {
  return part.size <= size && part.offset <= size - part.size;
}

}  // namespace

/// A region as UCX has mapped it, until nobody reads it.
class Worker::Mapped final : public Buffer {
 public:
  Mapped(void* at, const Remote& remote)
      : Buffer(static_cast<std::byte*>(at), remote.size, nullptr),
        worker_(*remote.worker),
        region_(remote.region) {}

 private:
  void end() override {
    worker_.put(Unread{region_});
    delete this;
  }

  Worker& worker_;
  const std::uint64_t region_;
};

Worker::Worker(std::shared_ptr<Context> context, ucp_worker_h handle, int wake)
    : context_(std::move(context)), ucx_(context_->library()), handle_(handle), wake_(wake) {}

Result<std::shared_ptr<Worker>> Worker::make(std::shared_ptr<Context> context) {
  const Library& ucx = context->library();
  ucp_worker_params_t params{};
  params.field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE;
  params.thread_mode = UCS_THREAD_MODE_SERIALIZED;  // made here, then its thread's
  ucp_worker_h handle = nullptr;
  const ucs_status_t status = ucx.worker_create(context->handle(), &params, &handle);
  if (status != UCS_OK) return failure(ucx, "UCX cannot be used", status);
  keep_group_out();
  const int wake = ::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  auto made = std::make_shared<Worker>(std::move(context), handle, wake);
  if (const Result<void> begun = made->begin(); !begun.ok()) return begun.error();
  return made;
}

Result<void> Worker::begin() {
  if (wake_ < 0) return Error{ErrorCode::exhausted, "there are no more file descriptors"};
  ucp_address_t* address = nullptr;
  std::size_t size = 0;
  ucs_status_t status = ucx_.worker_get_address(handle_, &address, &size);
  if (status != UCS_OK) return failure(ucx_, "UCX has no address", status);
  const auto* const first = reinterpret_cast<const std::byte*>(address);
  address_.assign(first, first + size);
  ucx_.worker_release_address(handle_, address);
  status = ucx_.worker_get_efd(handle_, &events_);
  if (status != UCS_OK) return failure(ucx_, "UCX has no events", status);
  copies_.emplace(CopyThreads::threads_here());
  thread_ = std::thread([this] { run(); });
  return {};
}

Worker::~Worker() {
  if (thread_.joinable()) {
    {
      const std::lock_guard lock(mutex_);
      is_over_ = true;
    }
    ::eventfd_write(wake_, 1);
    thread_.join();
  }
  ucx_.worker_destroy(handle_);
  if (wake_ >= 0) ::close(wake_);
}

void Worker::put(Command command) {
  bool is_first = false;
  {
    const std::lock_guard lock(mutex_);
    is_first = commands_.empty();
    commands_.push_back(std::move(command));
  }
  if (is_first) ::eventfd_write(wake_, 1);  // else it has been, and not all was taken since
}

std::uint64_t Worker::open(Key key, RemoteRegion::Listener& listener) {
  const std::uint64_t region = next_region_++;
  {
    const std::lock_guard lock(mutex_);
    reached_[region] = {std::make_shared<ReadEnds>(listener)};
  }
  put(Open{region, std::move(key)});
  return region;
}

void Worker::read(std::uint64_t region, std::vector<RemoteRegion::Read> reads) {
  Reached reached;
  {
    const std::lock_guard lock(mutex_);
    reached = reached_[region];
  }
  if (reached.mapped) return copies_->read(reached.ends, reached.mapped, std::move(reads));
  for (RemoteRegion::Read& one : reads) put(Read{region, std::move(one)});
}

Ref<Buffer> Worker::bytes(std::uint64_t region) {
  const std::lock_guard lock(mutex_);
  const auto it = reached_.find(region);
  return it != reached_.end() ? it->second.mapped : Ref<Buffer>();
}

void Worker::close(std::uint64_t region) {
  Reached reached;
  {
    const std::lock_guard lock(mutex_);
    reached = std::move(reached_[region]);
    reached_.erase(region);
  }
  copies_->drop(*reached.ends);
  reached.ends->close();
  put(Close{region});
}

void Worker::run() {
  for (;;) {
    {
      const std::lock_guard lock(mutex_);
      if (is_over_) break;
    }
    if (!move_on()) wait(-1);
  }
  copies_.reset();  // before what they read goes
  for (auto& [region, remote] : remotes_) shut(std::move(remote));
  remotes_.clear();
  const auto until = std::chrono::steady_clock::now() + closing_most;
  while ((!closing_.empty() || readings_ > 0) && std::chrono::steady_clock::now() < until)
    if (!move_on()) wait(10);
}

bool Worker::move_on() {
  std::vector<Command> some;
  {
    const std::lock_guard lock(mutex_);
    while (!commands_.empty() && some.size() < commands_a_round) {
      some.push_back(std::move(commands_.front()));
      commands_.pop_front();
    }
  }
  for (Command& command : some) std::visit([this](auto& one) { perform(one); }, command);
  const bool moved = ucx_.worker_progress(handle_) != 0;
  reap();
  return moved || !some.empty();
}

/// Until UCX has something to do, or somebody has said something.
void Worker::wait(int milliseconds) {
  const ucs_status_t armed = ucx_.worker_arm(handle_);
  if (armed == UCS_ERR_BUSY) return;  // something has come
  if (armed != UCS_OK) milliseconds = 10;
  std::array<pollfd, 2> any{pollfd{events_, POLLIN, 0}, pollfd{wake_, POLLIN, 0}};
  ::poll(any.data(), any.size(), milliseconds);
  eventfd_t count = 0;
  if (any[1].revents != 0) ::eventfd_read(wake_, &count);
}

void Worker::perform(Open& open) {
  auto remote =
      std::make_unique<Remote>(Remote{this, open.region, open.key.address, open.key.size});
  remote->has_failed = !reach(*remote, open.key);
  remotes_[open.region] = std::move(remote);
}

bool Worker::reach(Remote& remote, const Key& key) {
  ucp_ep_params_t params{};
  params.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS | UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE |
                      UCP_EP_PARAM_FIELD_ERR_HANDLER;
  params.address = reinterpret_cast<const ucp_address_t*>(key.worker.data());
  params.err_mode = UCP_ERR_HANDLING_MODE_PEER;
  params.err_handler = {&Worker::failed, &remote};
  if (ucx_.ep_create(handle_, &params, &remote.endpoint) != UCS_OK) {
    remote.endpoint = nullptr;
    return false;
  }
  const std::vector<Segment> before = attached_segments();
  if (ucx_.ep_rkey_unpack(remote.endpoint, key.remote.data(), &remote.key) != UCS_OK) {
    remote.key = nullptr;
    return false;
  }
  void* at = nullptr;
  if (ucx_.rkey_ptr(remote.key, remote.address, &at) != UCS_OK) return true;  // UCX gets it
  // UCX takes the key's word for where the region begins and how far it goes.
  if (!is_newly_attached(before, reinterpret_cast<std::uintptr_t>(at), remote.size)) return false;
  remote.is_mapped = true;
  Ref<Buffer> mapped(new Mapped(at, remote));
  const std::lock_guard lock(mutex_);
  if (const auto it = reached_.find(remote.region); it != reached_.end())
    it->second.mapped = mapped;
  return true;
}

void Worker::failed(void* of, ucp_ep_h, ucs_status_t) {
  auto& remote = *static_cast<Remote*>(of);
  remote.has_failed = true;
  Ref<Buffer> mapped;  // let go of without the lock
  const std::lock_guard lock(remote.worker->mutex_);
  const auto it = remote.worker->reached_.find(remote.region);
  if (it != remote.worker->reached_.end()) mapped = std::move(it->second.mapped);
}

/// What is being read of it ends with it.
void Worker::shut(std::unique_ptr<Remote> remote) {
  if (remote->endpoint == nullptr) return;
  ucp_request_param_t params{};
  params.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS;
  params.flags = UCP_EP_CLOSE_FLAG_FORCE;
  const ucs_status_ptr_t request = ucx_.ep_close_nbx(remote->endpoint, &params);
  closing_.push_back({UCS_PTR_IS_PTR(request) ? request : nullptr, std::move(remote)});
}

void Worker::perform(const Close& close) {
  const auto it = remotes_.find(close.region);
  if (it != remotes_.end() && !it->second->is_mapped) perform(Unread{close.region});
}

void Worker::perform(const Unread& unread) {
  const auto it = remotes_.find(unread.region);
  if (it == remotes_.end()) return;
  std::unique_ptr<Remote> remote = std::move(it->second);
  remotes_.erase(it);
  shut(std::move(remote));
}

void Worker::reap() {
  std::erase_if(closing_, [&](const Closing& one) {
    if (one.request != nullptr) {
      if (ucx_.request_check_status(one.request) == UCS_INPROGRESS) return false;
      ucx_.request_free(one.request);
    }
    if (one.remote->key != nullptr) ucx_.rkey_destroy(one.remote->key);
    return true;
  });
}

std::byte* Worker::Reading::next() const {
  if (!is_second) return read.to ? read.to->data() : bytes->data();
  return bytes->data() + (read.to ? 0 : read.first.size);
}

void Worker::perform(Read& command) {
  Reached reached;
  {
    const std::lock_guard lock(mutex_);
    const auto it = reached_.find(command.region);
    if (it == reached_.end()) return;  // closed: it ends unheard
    reached = it->second;
  }
  if (reached.mapped) {
    std::vector<RemoteRegion::Read> one;
    one.push_back(std::move(command.read));
    return copies_->read(reached.ends, reached.mapped, std::move(one));
  }
  ++readings_;
  auto* const reading =
      new Reading{this, command.region, std::move(command.read), std::move(reached.ends)};
  const RemoteRegion::Read& one = reading->read;
  const auto it = remotes_.find(command.region);
  const bool is_there = it != remotes_.end() && is_within(one.first, it->second->size) &&
                        is_within(one.then, it->second->size);
  if (is_there) reading->bytes = landing_->take((one.to ? 0 : one.first.size) + one.then.size);
  if (!reading->bytes) return end(reading, false);
  go_on(reading);
}

void Worker::go_on(Reading* reading) {
  for (;;) {
    const auto it = remotes_.find(reading->region);
    if (it == remotes_.end() || it->second->has_failed) return end(reading, false);
    const Remote& remote = *it->second;
    const RemoteRegion::Part part = reading->is_second ? reading->read.then : reading->read.first;
    ucp_request_param_t params{};
    params.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA;
    params.cb.send = &Worker::got;
    params.user_data = reading;
    const ucs_status_ptr_t request =
        ucx_.get_nbx(remote.endpoint, reading->next(), part.size, remote.address + part.offset,
                     remote.key, &params);
    if (UCS_PTR_IS_PTR(request)) return;  // `got` goes on
    if (UCS_PTR_IS_ERR(request) || std::exchange(reading->is_second, true))
      return end(reading, !UCS_PTR_IS_ERR(request));
  }
}

void Worker::got(void* request, ucs_status_t status, void* of) {
  auto* const reading = static_cast<Reading*>(of);
  Worker& worker = *reading->worker;
  worker.ucx_.request_free(request);
  if (status != UCS_OK || std::exchange(reading->is_second, true))
    return worker.end(reading, status == UCS_OK);
  worker.go_on(reading);
}

void Worker::end(Reading* reading, bool has_come) {
  --readings_;
  const std::unique_ptr<Reading> ended(reading);
  ended->read.to = {};  // nothing is written there behind the end
  ended->ends->tell(ended->read.number, has_come ? std::move(ended->bytes) : Ref<Buffer>(), {});
}

}  // namespace sluice::ucx
