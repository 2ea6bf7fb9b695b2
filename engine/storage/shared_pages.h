// The pages of a pool that several processes of this machine use, as the process that has them sees
// it: memory that all map, and a thread that answers their questions.
//
// A process attaches by a socket that it is given (`connect`): nothing listens anywhere, so nobody
// else can. It is told the shape of the pool and its secret, and gets the memory with it. When the
// other end of a socket closes, however that process ended, what it had is given back at once; a
// process that does not read its answers, or says what cannot be, is detached. This process takes
// part by `port`, without a socket. Thread: any; one of its own, which answers and sleeps in the
// kernel. Owns: table, memory, sockets. Bounds: those of `PageManager`; an answer or a batch of
// `attached::message_most` bytes. Errors: unavailable, exhausted. Source: omni-flow, section 4.1.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "base/bell.h"
#include "base/page_memory.h"
#include "dataplane/page_client.h"
#include "dataplane/page_manager.h"

namespace sluice {

/// What all processes agree on.
struct SharedPagesShape {
  std::uint32_t pages = 0;
  std::uint32_t rows_per_page = 0;
  std::uint64_t page_bytes = 0;
  PageKeys::Secret secret{};  // of the pages' keys
};

class SharedPages {
 public:
  /// Requires: a shape of at least one page, row and byte.
  static Result<std::unique_ptr<SharedPages>> make(const SharedPagesShape& shape);
  SharedPages(const SharedPagesShape& shape, PageMemory memory,
              std::unique_ptr<EvictionPolicy> policy);
  ~SharedPages();
  SharedPages(const SharedPages&) = delete;
  SharedPages& operator=(const SharedPages&) = delete;

  /// The other end of a new process's socket; `name` is for people.
  Result<OwnedFile> connect(const std::string& name);
  /// This process's own way. It must not outlive these pages.
  Result<std::unique_ptr<PageManagerPort>> port(const std::string& name);
  const Ref<Buffer>& bytes() const { return memory_.bytes; }
  const SharedPagesShape& shape() const { return shape_; }

  struct Attached {
    std::string name;
    PageManager::Held held;
  };
  struct Report {
    std::uint32_t free = 0, cached = 0;
    std::uint32_t shared = 0;          // of those used: by more than one sequence
    std::uint32_t published = 0;       // cached or used
    HitWindow window;
    std::vector<Attached> attached;    // in the order in which they came
    std::uint64_t batches = 0;         // that were answered, or told
    std::vector<std::string> refused;  // who was detached, and why, since it was asked last
  };
  Report report();

 private:
  class OwnPort;
  struct Client {
    std::string name;
    OwnedFile socket;              // none: of this process
    std::vector<std::byte> heard;  // of a batch that is not whole
    std::vector<std::byte> unsent;
  };

  // Under the mutex.
  Result<attached::Answer> handle(PageClientId id, std::span<const attached::Request> batch);
  void end(PageClientId id, const std::string& why);
  void hear(PageClientId id, Client& client);
  /// False: there is no more, or the client was detached.
  bool take_batch(PageClientId id, Client& client);
  void send(PageClientId id, Client& client);

  void run();
  void serve();

  const SharedPagesShape shape_;
  PageMemory memory_;
  const Bell bell_;
  std::mutex mutex_;  // guards what follows
  PageTable table_;
  PageManager manager_;
  std::map<PageClientId, Client> clients_;
  std::vector<std::string> refused_;
  PageClientId next_ = 1;
  std::uint64_t batches_ = 0;
  std::uint64_t time_ = 0;  // of the policy: batches
  bool stops_ = false;
  std::thread thread_;
};

/// The pages as a process has them that was given a socket.
struct AttachedPages {
  SharedPagesShape shape;
  Ref<Buffer> bytes;
  std::unique_ptr<PageManagerPort> port;

  /// Waits for the first word. Errors: unavailable (there is nobody), corrupt.
  static Result<AttachedPages> attach(OwnedFile socket);
};

}  // namespace sluice
