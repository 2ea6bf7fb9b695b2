// A stepped role that dies as its input says, in a step.
#include <algorithm>
#include <map>
#include <mutex>
#include <utility>

#include "mortal.h"

using namespace sluice::plugin;

namespace {

class Memory final : public Param {
 public:
  explicit Memory(const sluice_param_making&) {}
  void end_session(std::string_view session) override { counts.erase(std::string(session)); }
  std::map<std::string, int> counts;
};

}  // namespace

class MortalStepped final : public SteppedRole {
 public:
  explicit MortalStepped(const Making& making) : memory_(*making.param<Memory>("memory")) {}
  Status admit(Activation activation) override {
    held_.push_back(activation);
    return {};
  }
  Status step() override {
    std::vector<Activation> held = std::exchange(held_, {});
    for (Activation& one : held) {
      std::string said(one.text("text"));
      if (said == "keep") {
        held_.push_back(one);  // for ever
        continue;
      }
      if (said == "count") said = std::to_string(++memory_.counts[std::string(one.session())]);
      const Status status = mortal::act(std::string(one.text("text")), said);
      one.yield("word", Output::text(said));
      one.retire(status);
    }
    return {};
  }

 private:
  Memory& memory_;
  std::vector<Activation> held_;
};

SLUICE_ROLE_WITH_PARAM(MortalStepped, Memory)
