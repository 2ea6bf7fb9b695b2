// A context of UCX and the memory that is registered in it.
//
// Owns: the context, until the last reference goes; registered memory refers to it.
// Thread: any. Errors: unavailable (UCX cannot do this here), exhausted (there is no such memory).
#pragma once

#include <cstddef>
#include <memory>
#include <mutex>
#include <vector>

#include "base/buffer.h"
#include "runtime/ucx/ucx_library.h"
#include "runtime/ucx/ucx_memory.h"

namespace sluice::ucx {

class Context : public std::enable_shared_from_this<Context> {
 public:
  static Result<std::shared_ptr<Context>> make(const UcxOptions& options);
  Context(const Library& ucx, ucp_context_h handle) : ucx_(ucx), handle_(handle) {}
  ~Context();
  Context(const Context&) = delete;
  Context& operator=(const Context&) = delete;

  const Library& library() const { return ucx_; }
  ucp_context_h handle() const { return handle_; }

  /// Zero-filled, and read by whoever has its key. It stays as long as the context is there, and is
  /// given out again: what a reader has asked for is read here without looking, where no card does
  /// it, and UCX (1.13) ends a reader that maps what has gone.
  Result<Ref<Buffer>> map(std::size_t size);
  /// UCX's key of it. Errors: invalid_argument; it is not of `map`.
  Result<std::vector<std::byte>> pack(const Ref<Buffer>& region) const;
  struct Mapping {
    ucp_mem_h handle = nullptr;
    std::byte* data = nullptr;
    std::size_t size = 0;
  };
  /// Nobody has it any more.
  void retire(const Mapping& mapping);

 private:
  Result<Mapping> take(std::size_t size);

  const Library& ucx_;
  const ucp_context_h handle_;
  std::mutex mutex_;
  std::vector<Mapping> retired_;
};

}  // namespace sluice::ucx
