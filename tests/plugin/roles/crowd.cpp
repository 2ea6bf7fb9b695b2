// A stepped role with a global parameter: says numbers, one a step; its session's tally goes on.
#include <algorithm>
#include <cstdint>
#include <map>
#include <mutex>
#include <sluice/role.hpp>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

using namespace sluice::plugin;

namespace {

class Tally final : public Param {
 public:
  explicit Tally(const sluice_param_making&) {}
  void end_session(std::string_view session) override {
    const std::lock_guard lock(mutex_);
    said_.erase(std::string(session));
  }
  std::int64_t next(std::string_view session) {
    const std::lock_guard lock(mutex_);
    return ++said_[std::string(session)];
  }

 private:
  std::mutex mutex_;
  std::map<std::string, std::int64_t> said_;
};

class Crowd final : public SteppedRole {
 public:
  explicit Crowd(const Making& making)
      : word_(making.text("word")),
        from_(making.whole("from")),
        gain_(static_cast<float>(making.real("gain"))),
        tally_(*making.param<Tally>("tally")) {}

  Status admit(Activation activation) override {
    const auto upto = activation.input("upto");
    if (!upto || upto->number() < 0) return invalid("it cannot count to that");
    counting_.push_back({activation, upto->number(), from_});
    return {};
  }

  Status step() override {
    for (One& one : counting_) {
      const std::string_view note = one.activation.text("note");
      // It keeps what has ended then: the host has to refuse it.
      if (note == "throw") throw std::runtime_error("the crowd ran away");
      if (one.activation.cancelled()) {
        one.activation.retire({Code::cancelled, "nobody listens"});
        one.ended = true;
      } else if (one.said < one.upto) {
        ++one.said;
        const std::string words = word_ + " " + std::to_string(one.said) + " of " +
                                  std::to_string(tally_.next(one.activation.session()));
        one.activation.yield("said", Output::text(words));
      } else {
        finish(one);
      }
    }
    std::erase_if(counting_, [](const One& one) { return one.ended; });
    return {};
  }

 private:
  struct One {
    Activation activation;
    std::int64_t upto;
    std::int64_t said;
    bool ended = false;
  };

  /// A tensor that the host made, and an input handed on: neither is copied.
  void finish(One& one) {
    const std::int64_t shape[]{one.upto};
    const Filled<float> strip = one.activation.make<float>(Type::tensor, shape);
    std::ranges::fill(strip.elements, gain_);
    one.activation.yield({{"strip", strip.value}, {"note", *one.activation.input("note")}});
    one.activation.retire();
    one.ended = true;
  }

  std::string word_;
  std::int64_t from_;
  float gain_;
  Tally& tally_;
  std::vector<One> counting_;
};

}  // namespace

SLUICE_ROLE_WITH_PARAM(Crowd, Tally)
