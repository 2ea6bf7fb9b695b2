// Roles and a parameter that do what a text says, and a catalog of them, for tests of role hosts.
//
// Thread: any for `Deeds`; the rest as roles are.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "base/worker_pool.h"
#include "roles/catalog.h"

namespace sluice::deeds {

/// What roles and parameters did, in their order. Thread: any.
class Deeds {
 public:
  void add(const std::string& deed) {
    const std::lock_guard lock(mutex_);
    deeds_.push_back(deed);
  }
  std::vector<std::string> take() {
    const std::lock_guard lock(mutex_);
    return std::exchange(deeds_, {});
  }

 private:
  std::mutex mutex_;
  std::vector<std::string> deeds_;
};

/// A value with more attributes than can travel.
inline PayloadRef stuck() {
  auto* made = new Payload;
  for (int i = 0; i < 1000; ++i) made->attributes.emplace_back("a", i);
  return PayloadRef(made);
}

/// Does what stands in the activation's field `x`. False: that is none of these.
inline bool does(Activation& activation, const std::string& deed) {
  if (deed == "yields") {
    activation.yield("y", make_text("made"));
  } else if (deed == "hands on") {
    activation.yield("y", activation.inputs("more")[1]);
  } else if (deed == "yields nothing") {
    const FieldValue none{"y", {}};
    activation.yield(std::span(&none, 1));
  } else if (deed == "yields stuck") {
    activation.yield("y", stuck());
    activation.yield("y", make_number(2));
  } else if (deed == "warns") {
    activation.warn("take care");
  } else if (deed == "reads others") {
    static_cast<void>(activation.inputs("foreign"));
    static_cast<void>(activation.inputs("strange"));
  } else if (deed == "says what it is") {
    activation.yield(
        "y",
        make_text(std::string(activation.node()) + ' ' + std::string(activation.interface()) + ' ' +
                  std::string(activation.session()) + ' ' + std::to_string(activation.call()) +
                  ' ' + std::to_string(activation.group())));
  } else if (deed == "is it cancelled") {
    activation.yield("y", make_text(activation.cancelled() ? "cancelled" : "wanted"));
  } else if (deed == "waits") {
    activation.warn("waits");
    while (!activation.cancelled()) std::this_thread::yield();
  } else {
    return false;
  }
  return true;
}

class Plain final : public Role {
 public:
  Plain(Deeds& deeds, std::string name) : deeds_(deeds), name_(std::move(name)) {}
  ~Plain() override { deeds_.add(name_ + " goes"); }
  Result<void> run(Activation& activation) override {
    const std::string deed = activation.input("x")->text;
    if (deed == "fails after stuck") {
      activation.yield("y", stuck());
      return Error{ErrorCode::not_found, "no such thing"};
    }
    if (deed == "fails") return Error{ErrorCode::not_found, "no such thing"};
    if (deed == "throws") throw std::runtime_error("broken");
    if (deed == "throws a number") throw 7;
    if (!does(activation, deed)) return Error{ErrorCode::invalid_argument, "what? " + deed};
    return {};
  }

 private:
  Deeds& deeds_;
  const std::string name_;
};

/// Each activation's text says what becomes of it in a step.
class Steps final : public SteppedRole {
 public:
  explicit Steps(Deeds& deeds) : deeds_(deeds) {}
  ~Steps() override { deeds_.add("steps go"); }
  void admit(Activation& activation) override {
    const std::string deed = activation.input("x")->text;
    if (deed == "is refused") throw std::runtime_error("not you");
    if (deed == "is kept and refused") {
      held_.push_back(&activation);
      throw std::runtime_error("not you either");
    }
    if (deed == "strange") strange_ = true;
    held_.push_back(&activation);
  }
  bool busy() const override { return !held_.empty(); }
  void step(std::vector<StepOutcome>& ended) override {
    bool throws = false;
    std::vector<Activation*> stay;
    for (Activation* const one : held_) {
      const std::string deed = one->input("x")->text;
      if (deed == "ends" || deed == "is kept and refused") {
        ended.push_back({one, {}});
      } else if (deed == "fails") {
        ended.push_back({one, Error{ErrorCode::deadline, "too late"}});
      } else if (deed == "ends when cancelled") {
        if (one->cancelled())
          ended.push_back({one, {}});
        else
          stay.push_back(one);
      } else if (deed == "throws") {
        throws = true;
        stay.push_back(one);
      } else if (deed != "is forgotten") {
        if (does(*one, deed))
          ended.push_back({one, {}});
        else
          stay.push_back(one);
      }
    }
    held_ = throws && clears_ ? std::vector<Activation*>() : stay;
    if (strange_) ended.push_back({reinterpret_cast<Activation*>(this), {}});
    if (throws) throw std::runtime_error("step broken");
  }
  void clear_when_throwing() { clears_ = true; }

 private:
  Deeds& deeds_;
  std::vector<Activation*> held_;
  bool strange_ = false, clears_ = false;
};

class Pages final : public GlobalParam {
 public:
  Pages(Deeds& deeds, std::string name, std::int64_t pages)
      : deeds_(deeds), name_(std::move(name)), pages_(pages) {}
  ~Pages() override { deeds_.add("parameter " + name_ + " goes"); }
  void end_session(std::string_view session) override {
    if (session == "bad") throw std::runtime_error("no end");
    deeds_.add("session " + std::string(session) + " ends in " + name_);
  }
  /// As old as it may be waited for.
  std::optional<PoolReport> pool_report(std::chrono::milliseconds patience) const override {
    if (pages_ == 0) return std::nullopt;
    if (pages_ == 15) throw std::runtime_error("no look");
    PoolReport report;
    report.pages = static_cast<std::uint64_t>(pages_);
    report.age_ms = patience.count();
    return report;
  }

 private:
  Deeds& deeds_;
  const std::string name_;
  const std::int64_t pages_;
};

inline std::string option(const RoleSpec& role, std::string_view key) {
  for (const OptionSpec& one : role.options)
    if (one.key.text == key) return one.value.text;
  return {};
}

/// Plugins `plain`, `stepped` and, sharing pages, a parameter's kind.
inline void fill(Catalog& catalog, Deeds& deeds) {
  const auto told = [&deeds](const RoleMaking& making) {
    const std::size_t least = std::min<std::size_t>(making.threads, WorkerPool::shared().threads());
    deeds.add("made " + making.role->name.text + " " + std::to_string(making.replica) + " of '" +
              making.model_directory + "' on " + std::to_string(making.threads) + " threads" +
              (thread_limit() == least ? "" : ", which its loops do not know") + ", parameters " +
              std::to_string(making.global_params.size()));
  };
  Plugin plain;
  plain.declaration.name = "plain";
  plain.make = [&deeds, told](const RoleMaking& making) -> Result<RoleInstance> {
    told(making);
    if (option(*making.role, "fails") == "yes")
      return Error{ErrorCode::not_found, "no weights in " + making.model_directory};
    if (option(*making.role, "throws") == "yes") throw std::runtime_error("cannot");
    for (GlobalParam* const param : making.global_params) param->end_session("none");
    return RoleInstance(std::make_unique<Plain>(deeds, making.role->name.text));
  };
  catalog.add(plain);
  Plugin stepped;
  stepped.declaration.name = "stepped";
  stepped.make = [&deeds, told](const RoleMaking& making) -> Result<RoleInstance> {
    told(making);
    auto made = std::make_unique<Steps>(deeds);
    if (option(*making.role, "clears") == "yes") made->clear_when_throwing();
    return RoleInstance(std::unique_ptr<SteppedRole>(std::move(made)));
  };
  catalog.add(stepped);
  catalog.add_global_param(
      "pages", [&deeds](const GlobalParamMaking& making) -> Result<std::unique_ptr<GlobalParam>> {
        if (making.spec->pages == 13) return Error{ErrorCode::exhausted, "no room for 13 pages"};
        if (making.spec->pages == 14) throw std::runtime_error("out of pages");
        deeds.add("parameter " + making.spec->name.text + " of '" + making.model_directory +
                  "', pages " + std::to_string(making.spec->pages));
        return std::unique_ptr<GlobalParam>(
            std::make_unique<Pages>(deeds, making.spec->name.text, making.spec->pages));
      });
}

}  // namespace sluice::deeds
