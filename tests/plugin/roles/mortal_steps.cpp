// A stepped role without state that dies as its input says, in a step.
#include <utility>

#include "mortal.h"

using namespace sluice::plugin;

class MortalSteps final : public SteppedRole {
 public:
  explicit MortalSteps(const Making&) {}
  Status admit(Activation activation) override {
    held_.push_back(activation);
    return {};
  }
  Status step() override {
    for (Activation& one : std::exchange(held_, {})) {
      std::string said(one.text("text"));
      const std::string deed = said;
      if (deed.starts_with("then ")) one.yield("word", Output::text("said"));
      const Status status = mortal::act(deed, said);
      one.yield("word", Output::text(said));
      one.retire(status);
    }
    return {};
  }

 private:
  std::vector<Activation> held_;
};

SLUICE_ROLE(MortalSteps)
