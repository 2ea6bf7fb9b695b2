#include "runtime/ucx/ucx_memory.h"

#include <utility>

#include "base/check.h"
#include "runtime/ucx/ucx_worker.h"

namespace sluice {

namespace {

class UcxRegion final : public RemoteRegion {
 public:
  UcxRegion(std::shared_ptr<ucx::Worker> worker, ucx::Key key, Listener& listener, bool is_near)
      : worker_(std::move(worker)),
        is_near_(is_near),
        size_(key.size),
        number_(worker_->open(std::move(key), listener)) {}
  ~UcxRegion() override { worker_->close(number_); }
  UcxRegion(const UcxRegion&) = delete;
  UcxRegion& operator=(const UcxRegion&) = delete;

  std::uint64_t size() const override { return size_; }
  bool is_near() const override { return is_near_; }
  Ref<Buffer> bytes() const override { return worker_->bytes(number_); }
  void read(std::uint64_t number, Part first, Part then, Ref<Buffer> to) override {
    std::vector<Read> one;
    one.push_back({number, first, then, std::move(to)});
    read_all(std::move(one));
  }
  void read_all(std::vector<Read> reads) override {
    for (const Read& one : reads) SLUICE_CHECK(!one.to || one.to->size() == one.first.size);
    worker_->read(number_, std::move(reads));
  }

 private:
  const std::shared_ptr<ucx::Worker> worker_;
  const bool is_near_;
  const std::uint64_t size_, number_;
};

class UcxMemory final : public RemoteMemory {
 public:
  UcxMemory(std::shared_ptr<ucx::Context> context, std::shared_ptr<ucx::Worker> worker,
            bool is_near)
      : context_(std::move(context)), worker_(std::move(worker)), is_near_(is_near) {}

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
        std::make_unique<UcxRegion>(worker_, *std::move(read), listener, is_near_));
  }

 private:
  const std::shared_ptr<ucx::Context> context_;
  const std::shared_ptr<ucx::Worker> worker_;
  const bool is_near_;  // it reaches no other computer
};

}  // namespace

Result<std::unique_ptr<RemoteMemory>> make_ucx_memory(const UcxOptions& options) {
  Result<std::shared_ptr<ucx::Context>> context = ucx::Context::make(options);
  if (!context.ok()) return context.error();
  Result<std::shared_ptr<ucx::Worker>> worker = ucx::Worker::make(*context);
  if (!worker.ok()) return worker.error();
  return std::unique_ptr<RemoteMemory>(std::make_unique<UcxMemory>(
      std::move(context).value(), std::move(worker).value(), options.trusted_devices.empty()));
}

}  // namespace sluice
