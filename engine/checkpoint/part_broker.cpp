#include "engine/checkpoint/part_broker.h"

#include <utility>

#include "base/check.h"

namespace sluice {

using Kind = PartBroker::Effect::Kind;

void PartBroker::asks(Ask ask, const PartKey& key, Effects& effects) {
  SLUICE_CHECK(asks_.emplace(ask, key).second, "a question is asked once");
  const auto [it, is_first] = parts_.try_emplace(key);
  Part& part = it->second;
  if (is_first) {
    part.maker = ask;
    effects.push_back({Kind::make, ask, 0, key});
  } else if (part.there) {
    part.holders.insert(ask);
    effects.push_back({Kind::have, ask, 0, key});
  } else {
    part.waiting.push_back(ask);
    effects.push_back({Kind::wait, ask, part.maker, key});
  }
}

bool PartBroker::made(Ask ask, Effects& effects) {
  const auto asked = asks_.find(ask);
  if (asked == asks_.end()) return false;
  const PartKey& key = asked->second;
  Part& part = parts_.at(key);
  if (part.there || part.maker != ask) return false;
  part.there = true;
  part.holders.insert(ask);
  for (const Ask one : std::exchange(part.waiting, {})) {
    part.holders.insert(one);
    effects.push_back({Kind::have, one, 0, key});
  }
  return true;
}

void PartBroker::ends(Ask ask, Effects& effects) {
  const auto asked = asks_.find(ask);
  if (asked == asks_.end()) return;
  const PartKey key = asked->second;
  asks_.erase(asked);
  Part& part = parts_.at(key);
  if (part.there) {
    part.holders.erase(ask);
    if (!part.holders.empty()) return;
    parts_.erase(key);
    effects.push_back({Kind::drop, 0, 0, key});
  } else if (part.maker != ask) {
    std::erase(part.waiting, ask);
  } else if (part.waiting.empty()) {
    parts_.erase(key);
  } else {
    part.maker = part.waiting.front();
    part.waiting.pop_front();
    effects.push_back({Kind::make, part.maker, 0, key});
    for (const Ask one : part.waiting) effects.push_back({Kind::wait, one, part.maker, key});
  }
}

}  // namespace sluice
