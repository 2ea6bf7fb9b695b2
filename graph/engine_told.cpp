// What an engine tells the homes of calls: what its roles warn of, and what does not come.
#include <utility>

#include "graph/engine.h"

namespace sluice {

void Engine::warn(ActivationId activation, std::vector<std::string> warnings, Effects& effects) {
  Record* const record = running(activation);
  if (record != nullptr) tell(*record, {std::move(warnings), nullptr, {}}, effects);
}

void Engine::tell(Record& record, Notice notice, Effects& effects) {
  if (!record.holding.credit) return;  // nobody hears of it any more
  Shares nothing;
  splitter_.settle(nothing, {}, Splitter::half_credit(record.holding), record.call, record.session,
                   std::move(notice), effects);
}

void Engine::warn_stopped(Record& record, std::string warning, Effects& effects) {
  Notice notice{{}, nullptr, {node_.id, 0, 0, Lost::Kind::stopped}};
  notice.warnings.push_back(std::move(warning));
  tell(record, std::move(notice), effects);
}

void Engine::note_silent(Record& record, Effects& effects) {
  if (!record.holding.credit || is_cancelled(record.call)) return;
  CallNews& news = call_record(record.call, record.session).news;
  if (news.leaves_out(node_.read & ~record.yielded))
    tell(record, {{}, nullptr, {node_.id, 0, news.left_out(), Lost::Kind::silent}}, effects);
}

Lost Engine::note_lost(const Bucket& bucket, std::uint16_t group, std::uint64_t missing) {
  CallNews& news = call_record(bucket.scope()->call, bucket.session()).news;
  if (!news.lacks(node_.groups.size(), group, missing)) return {};
  return {node_.id, group, missing, Lost::Kind::missing};
}

void Engine::note_run(Record& record, Effects& effects) {
  last_run_ = record.call;
  if (call_record(record.call, record.session).news.runs())
    tell(record, {{}, nullptr, {node_.id, 0, 0, Lost::Kind::ran}}, effects);
}

}  // namespace sluice
