// Pulls what other machines tell of their pages into a pool, while an engine over it runs or rests.
//
// Looks between two turns of the engine, when there is news: a turn waits for one look at most,
// which begins one question, and takes what has come. Where memory runs out amid one, what is under
// way is given up by the next. Thread: made and ended by any; whoever ends it has no turn of the
// engine then, for it waits for its thread, which may wait for one. Owns: a thread, which sleeps
// while there is no news.
#pragma once

#include <atomic>
#include <thread>

#include "engine/storage/kv_peers.h"
#include "engine/tasks/shared_engine.h"

namespace sluice {

class Preloader {
 public:
  /// Borrows all; `engine` is the shared one, whose pages those of `peers` are.
  Preloader(SharedEngine& shared, ModelEngine& engine, KvPeers& peers)
      : shared_(shared), engine_(engine), peers_(peers), thread_([this] { run(); }) {}
  ~Preloader();
  Preloader(const Preloader&) = delete;
  Preloader& operator=(const Preloader&) = delete;

 private:
  void run();
  bool look();

  SharedEngine& shared_;
  ModelEngine& engine_;
  KvPeers& peers_;
  bool ran_short_ = false;  // of memory, in the last look
  std::atomic<bool> stops_{false};
  std::thread thread_;
};

}  // namespace sluice
