#include "runtime/hosts/common_param.h"

#include <algorithm>
#include <iterator>
#include <string>
#include <utility>

namespace sluice::hosts {

namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

/// What each process has for itself: prompts that it has answered, and its sessions.
void add_own(PoolReport& all, PoolReport one) {
  all.prompts += one.prompts;
  all.asked += one.asked;
  all.memory += one.memory;
  all.brought += one.brought;
  all.computed += one.computed;
  all.sessions += one.sessions;
  std::ranges::move(one.session_list, std::back_inserter(all.session_list));
  all.age_ms = std::max(all.age_ms, one.age_ms);
}

}  // namespace

void CommonParam::end_session(std::string_view session) {
  if (here_ != nullptr) here_->end_session(session);
  for (const auto& hosted : hosted_) hosted->end_session(session);
}

std::vector<std::pair<std::string, std::uint64_t>> CommonParam::counts() const {
  return here_ != nullptr ? here_->counts() : std::vector<std::pair<std::string, std::uint64_t>>();
}

std::optional<PoolReport> CommonParam::pool_report(milliseconds patience) const {
  const auto until = steady_clock::now() + patience;
  std::vector<PoolReport> reports;
  std::string where = here_ != nullptr ? "here" : "";
  if (here_ != nullptr)
    if (auto one = here_->pool_report(patience)) reports.push_back(*std::move(one));
  for (const auto& hosted : hosted_) {
    const auto left = std::chrono::duration_cast<milliseconds>(until - steady_clock::now());
    if (auto one = hosted->look(std::max(left, milliseconds(0))))
      reports.push_back(*std::move(one));
    where += (where.empty() ? "in host '" : " and in host '") + hosted->host()->name() + "'";
  }
  // Of who has not been seen yet there is nothing but names.
  const auto seen = std::ranges::find_if(reports, [](const auto& one) { return one.age_ms >= 0; });
  if (reports.empty()) return std::nullopt;
  if (seen == reports.end()) return reports.front();
  PoolReport all = *seen;
  for (PoolReport& one : reports)
    if (&one != &*seen && one.age_ms >= 0) add_own(all, std::move(one));
  std::ranges::sort(all.session_list, {}, &PoolSession::name);
  if (all.session_list.size() > PoolReport::sessions_most)
    all.session_list.resize(PoolReport::sessions_most);
  all.layout += ", " + where;
  shared_->show(all);
  return all;
}

const HostedParam* CommonParam::in(const HostProcess& host) const {
  const auto it =
      std::ranges::find_if(hosted_, [&](const auto& one) { return one->host().get() == &host; });
  return it == hosted_.end() ? nullptr : it->get();
}

}  // namespace sluice::hosts
