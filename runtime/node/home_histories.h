// What a home keeps of its sessions, for the drivers of all its workflows: roles that workflows
// share have one conversation.
//
// Thread: any, with the mutex held. Source: docs/CLUSTER.md, "What a session has said".
#pragma once

#include <mutex>

#include "runtime/node/history_store.h"

namespace sluice {

struct HomeHistories {
  std::mutex mutex;
  HistoryStore store;
};

}  // namespace sluice
