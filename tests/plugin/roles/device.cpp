// A plain role that takes as long as its option says, as a device would that computes elsewhere.
#include <poll.h>

#include <cstdint>
#include <sluice/role.hpp>

using namespace sluice::plugin;

class Device final : public Role {
 public:
  explicit Device(const Making& making)
      : milliseconds_(static_cast<int>(making.whole("milliseconds"))) {}
  Status run(Activation activation) override {
    if (activation.text("text").starts_with("fail")) return {Code::corrupt, "as told"};
    if (milliseconds_ > 0) (void)::poll(nullptr, 0, milliseconds_);
    activation.yield("word", *activation.input("text"));
    return {};
  }

 private:
  int milliseconds_;
};

SLUICE_ROLE(Device)
