#include "runtime/ucx/ucx_memory.h"

#include <utility>

#include "base/check.h"
#include "runtime/ucx/ucx_worker.h"

namespace sluice {

namespace {

class UcxRegion final : public RemoteRegion {
 public:
  UcxRegion(std::shared_ptr<ucx::Worker> worker, ucx::Key key, Listener& listener)
      : worker_(std::move(worker)),
        size_(key.size),
        number_(worker_->open(std::move(key), listener)) {}
  ~UcxRegion() override { worker_->close(number_); }
  UcxRegion(const UcxRegion&) = delete;
  UcxRegion& operator=(const UcxRegion&) = delete;

  std::uint64_t size() const override { return size_; }
  void read(std::uint64_t number, Part first, Part then, Ref<Buffer> to) override {
    SLUICE_CHECK(!to || to->size() == first.size);
    worker_->read(number_, number, first, then, std::move(to));
  }

 private:
  const std::shared_ptr<ucx::Worker> worker_;
  const std::uint64_t size_, number_;
};

class UcxMemory final : public RemoteMemory {
 public:
  UcxMemory(std::shared_ptr<ucx::Context> context, std::shared_ptr<ucx::Worker> worker)
      : context_(std::move(context)), worker_(std::move(worker)) {}

  Result<Ref<Buffer>> make(std::size_t size) override { return context_->map(size); }

  Result<std::vector<std::byte>> key(const Ref<Buffer>& region) override {
    Result<std::vector<std::byte>> remote = context_->pack(region);
    if (!remote.ok()) return remote.error();
    return encode(ucx::Key{reinterpret_cast<std::uintptr_t>(region->data()), region->size(),
                           std::move(remote).value(), worker_->address()});
  }

  Result<std::unique_ptr<RemoteRegion>> reach(std::span<const std::byte> key,
                                              RemoteRegion::Listener& listener) override {
    std::optional<ucx::Key> read = ucx::decode(key);
    if (!read) return Error{ErrorCode::corrupt, "the key of memory is none of UCX"};
    return std::unique_ptr<RemoteRegion>(
        std::make_unique<UcxRegion>(worker_, *std::move(read), listener));
  }

 private:
  const std::shared_ptr<ucx::Context> context_;
  const std::shared_ptr<ucx::Worker> worker_;
};

}  // namespace

Result<std::unique_ptr<RemoteMemory>> make_ucx_memory(const UcxOptions& options) {
  Result<std::shared_ptr<ucx::Context>> context = ucx::Context::make(options);
  if (!context.ok()) return context.error();
  Result<std::shared_ptr<ucx::Worker>> worker = ucx::Worker::make(*context);
  if (!worker.ok()) return worker.error();
  return std::unique_ptr<RemoteMemory>(
      std::make_unique<UcxMemory>(std::move(context).value(), std::move(worker).value()));
}

}  // namespace sluice
