// copies: gives out its text as often as its option says, so that frames multiply.
#include <sluice/role.hpp>

#include <cstdint>
#include <string>

namespace {

namespace sp = sluice::plugin;

class Copies final : public sp::Role {
 public:
  explicit Copies(const sp::Making& making) : times_(making.whole("times")) {}

  sp::Status run(sp::Activation activation) override {
    const std::string text(activation.text("text"));
    for (std::int64_t i = 0; i < times_ && !activation.cancelled(); ++i)
      activation.yield("text", sp::Output::text(text));
    return {};
  }

 private:
  std::int64_t times_;
};

}  // namespace

SLUICE_ROLE(Copies)
