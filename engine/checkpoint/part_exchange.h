// Brings together processes of one computer that use the same parts of checkpoints: in the process
// that starts them, or that starts who starts them.
//
// It has a descriptor of each part that is there, as long as somebody uses it, and maps none.
// Thread: one of its own, asleep in the kernel, which waits for no process in particular; functions
// from any. Errors: unavailable (no descriptors left). Bounds: `asks_max` of each process, together
// with the processes that it lets take part; beyond them, and for what is no packet of ours, a
// process is left to itself and loads what it needs.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "base/bell.h"
#include "base/owned_file.h"
#include "base/result.h"
#include "engine/checkpoint/part_broker.h"
#include "engine/checkpoint/part_packets.h"

namespace sluice {

class PartExchange {
 public:
  static constexpr std::size_t asks_max = 256;

  PartExchange();
  ~PartExchange();
  PartExchange(const PartExchange&) = delete;
  PartExchange& operator=(const PartExchange&) = delete;

  /// A socket for a process, whose PartClient is to have it; until it is closed, "host 'models'"
  /// takes part. Its PartClient can let others take part, "host 'x' of machine 'read'", say.
  Result<OwnedFile> join(std::string name);

  /// A part that is used or being loaded, for people.
  struct Report {
    std::string what;
    std::uint64_t bytes = 0;           // 0: it is not there yet
    std::string maker;                 // meanwhile
    std::vector<std::string> holders;  // as they joined, each once for each use
    std::vector<std::string> waiting;
  };
  std::vector<Report> report();

 private:
  using Ask = PartBroker::Ask;
  struct Member {
    OwnedFile socket;
    std::string name;
    std::uint64_t by = 0;  // who let it take part; 0: the owner of this
    std::size_t asks = 0;  // and members by it
  };
  struct Asked {
    OwnedFile socket;
    std::uint64_t member = 0;  // may have gone
    std::string name, what;
  };
  struct Memory {
    OwnedFile file;
    std::uint64_t bytes = 0;
  };

  void run();
  void serve();
  // Under the lock.
  void hear_member(std::uint64_t member);
  /// False: it is no packet of a member.
  bool take(std::uint64_t member, ReceivedPacket received);
  void leave(std::uint64_t member);
  /// One that asked, or that it let take part, is gone.
  void one_less(std::uint64_t member);
  void hear_ask(Ask ask);
  /// And what comes of it.
  void perform(PartBroker::Effects effects);
  Result<void> tell(const PartBroker::Effect& effect);
  void end(Ask ask, PartBroker::Effects& effects);

  std::mutex mutex_;
  bool stops_ = false;
  std::uint64_t next_ = 1;
  std::map<std::uint64_t, Member> members_;
  std::map<Ask, Asked> asks_;
  std::map<PartKey, Memory> memories_;
  PartBroker broker_;

  const Bell bell_;
  std::thread thread_;
};

}  // namespace sluice
