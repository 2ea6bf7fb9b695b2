#include "runtime/ucx/ucx_worker.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <utility>

#include "base/check.h"
#include "base/mapped_parts.h"

namespace sluice::ucx {

namespace {

constexpr std::size_t commands_a_round = 16;
/// For endpoints to close when all ends: by force, so this is for a card that hangs.
constexpr std::chrono::seconds closing_most{2};

bool is_within(RemoteRegion::Part part, std::uint64_t size) {
  return part.size <= size && part.offset <= size - part.size;
}

}  // namespace

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
    const std::lock_guard lock(listeners_mutex_);
    listeners_[region] = &listener;
  }
  put(Open{region, std::move(key)});
  return region;
}

void Worker::read(std::uint64_t region, std::uint64_t number, RemoteRegion::Part first,
                  RemoteRegion::Part then, Ref<Buffer> to) {
  put(Read{region, number, first, then, std::move(to)});
}

void Worker::close(std::uint64_t region) {
  {
    const std::lock_guard lock(listeners_mutex_);
    listeners_.erase(region);
  }
  put(Close{region});
}

void Worker::tell(std::uint64_t region, std::uint64_t number, Ref<Buffer> bytes,
                  std::optional<std::uint32_t> sum) {
  const std::lock_guard lock(listeners_mutex_);
  const auto listener = listeners_.find(region);
  if (listener != listeners_.end()) listener->second->read_ended(number, std::move(bytes), sum);
}

void Worker::run() {
  for (;;) {
    {
      const std::lock_guard lock(mutex_);
      if (is_over_) break;
    }
    if (!move_on()) wait(-1);
  }
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
  auto remote = std::make_unique<Remote>();
  remote->address = open.key.address;
  remote->size = open.key.size;
  ucp_ep_params_t params{};
  params.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS | UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE |
                      UCP_EP_PARAM_FIELD_ERR_HANDLER;
  params.address = reinterpret_cast<const ucp_address_t*>(open.key.worker.data());
  params.err_mode = UCP_ERR_HANDLING_MODE_PEER;
  params.err_handler = {&Worker::failed, remote.get()};
  if (ucx_.ep_create(handle_, &params, &remote->endpoint) != UCS_OK) {
    remote->endpoint = nullptr;
    remote->has_failed = true;
  } else if (ucx_.ep_rkey_unpack(remote->endpoint, open.key.remote.data(), &remote->key) !=
             UCS_OK) {
    remote->key = nullptr;
    remote->has_failed = true;
  } else if (void* mapped = nullptr;
             ucx_.rkey_ptr(remote->key, remote->address, &mapped) == UCS_OK) {
    remote->mapped = static_cast<const std::byte*>(mapped);
  }
  remotes_[open.region] = std::move(remote);
}

void Worker::failed(void* remote, ucp_ep_h, ucs_status_t) {
  static_cast<Remote*>(remote)->has_failed = true;
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

void Worker::perform(Read& read) {
  ++readings_;
  auto* const reading = new Reading{this, std::move(read)};
  const Read& one = reading->read;
  const auto it = remotes_.find(one.region);
  const bool is_there = it != remotes_.end() && is_within(one.first, it->second->size) &&
                        is_within(one.then, it->second->size);
  if (is_there) reading->bytes = landing_->take((one.to ? 0 : one.first.size) + one.then.size);
  if (!reading->bytes) return end(reading, false);
  if (it->second->mapped == nullptr || it->second->has_failed) return go_on(reading);
  // What UCX would copy, copied and summed in one pass.
  reading->sum =
      copy_parts(it->second->mapped, one.first, one.then, one.to, reading->bytes->data());
  end(reading, true);
}

void Worker::go_on(Reading* reading) {
  for (;;) {
    const auto it = remotes_.find(reading->read.region);
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
  tell(ended->read.region, ended->read.number, has_come ? std::move(ended->bytes) : Ref<Buffer>(),
       ended->sum);
}

}  // namespace sluice::ucx
