// A global parameter that several processes of this machine have: role hosts, and this one.
//
// Each has one of its own over what they share (`SharedParam`), which is here. The end of a session
// goes to all of them; whoever looks at its pool sees that once, with the sessions of all.
// Thread: any. Errors: none, as of each.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "roles/catalog.h"
#include "runtime/hosts/hosted_param.h"

namespace sluice::hosts {

class CommonParam final : public GlobalParam {
 public:
  explicit CommonParam(std::shared_ptr<SharedParam> shared) : shared_(std::move(shared)) {}

  void add(std::unique_ptr<HostedParam> hosted) { hosted_.push_back(std::move(hosted)); }
  void set_here(std::unique_ptr<GlobalParam> here) { here_ = std::move(here); }

  void end_session(std::string_view session) override;
  std::vector<std::pair<std::string, std::uint64_t>> counts() const override;
  std::optional<PoolReport> pool_report(std::chrono::milliseconds patience) const override;

  /// Null: that host has none.
  const HostedParam* in(const HostProcess& host) const;
  /// This process's; null: it has none.
  GlobalParam* here() const { return here_.get(); }

 private:
  std::shared_ptr<SharedParam> shared_;  // goes last
  std::unique_ptr<GlobalParam> here_;
  std::vector<std::unique_ptr<HostedParam>> hosted_;
};

}  // namespace sluice::hosts
