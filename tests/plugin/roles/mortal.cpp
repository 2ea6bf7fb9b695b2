// A plain role that dies as its input says.
#include "mortal.h"

using namespace sluice::plugin;

class Mortal final : public Role {
 public:
  explicit Mortal(const Making& making) {
    if (making.text("born") == "dead") ::raise(SIGSEGV);
    if (making.text("born") == "once" && ::unlink(std::string(making.text("file")).c_str()) != 0)
      ::raise(SIGABRT);
  }
  Status run(Activation activation) override {
    std::string said(activation.text("text"));
    const std::string deed = said;
    if (deed.starts_with("flood"))
      while (!activation.cancelled()) activation.yield("word", Output::text(deed));
    if (deed == "again") return activation.yield("word", *activation.input("text")), Status{};
    if (deed.starts_with("then ")) activation.yield("word", Output::text("said"));
    const Status status = mortal::act(deed, said);
    activation.yield("word", Output::text(said));
    return status;
  }
};

SLUICE_ROLE(Mortal)
