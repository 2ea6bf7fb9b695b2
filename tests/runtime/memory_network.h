// Machines in one memory: a `Transport` for each, and a test that freezes, silences and delays
// them.
//
// One thread delivers, link by link in order. Nothing is lost but to a life that is over.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "runtime/transport.h"

namespace sluice {

class MemoryNetwork {
 public:
  MemoryNetwork() : thread_([this] { deliver(); }) {}
  ~MemoryNetwork() {
    {
      const std::lock_guard lock(mutex_);
      end_ = true;
      changed_.notify_all();
    }
    thread_.join();
  }

  std::unique_ptr<Transport> join(Origin self) { return std::make_unique<End>(*this, self); }

  /// What goes to it waits until `thaw`; what it says itself too, as of a process that is stopped.
  void freeze(std::uint32_t machine) {
    change([&] { frozen_.insert(machine); });
  }
  void thaw(std::uint32_t machine) {
    change([&] { frozen_.erase(machine); });
  }
  /// What one says to the other waits until `let_go`.
  void hold(std::uint32_t from, std::uint32_t to) {
    change([&] { held_.insert({from, to}); });
  }
  void let_go(std::uint32_t from, std::uint32_t to) {
    change([&] { held_.erase({from, to}); });
  }
  /// Nothing was heard of it for a lease: `by` is told.
  void silence(std::uint32_t machine, std::uint32_t by) {
    change([&] {
      const Origin life = lives_[machine];
      push({machine, by, [life](TransportListener& listener) {
              listener.silent(life, "nothing was heard of it for 1000 ms");
            }});
    });
  }
  /// The same of one that is frozen: what it says itself still waits.
  void silence_frozen(std::uint32_t machine, std::uint32_t by) {
    change([&] {
      const Origin life = lives_[machine];
      push({by, by, [life](TransportListener& listener) {
              listener.silent(life, "nothing was heard of it for 1000 ms");
            }});
    });
  }
  /// The life that is there now is gone with all that it has not said.
  void forget(std::uint32_t machine) {
    change([&] {
      std::erase_if(steps_, [&](const Step& s) { return s.from == machine || s.to == machine; });
      frozen_.erase(machine);
      listeners_[machine] = nullptr;
      lives_[machine] = {};
    });
  }
  /// As if this life had sent it.
  void inject(Origin from, std::uint32_t to, Channel channel, MessageBytes bytes) {
    change([&] { post(from, to, channel, std::move(bytes)); });
  }
  Origin life_of(std::uint32_t machine) {
    const std::lock_guard lock(mutex_);
    return lives_[machine];
  }
  /// Everything that was said was heard.
  bool is_idle() {
    const std::lock_guard lock(mutex_);
    return busy_ < 0 && next() == steps_.end();
  }
  /// Parcels that the one has heard from the other.
  std::size_t heard(std::uint32_t from, std::uint32_t to) {
    const std::lock_guard lock(mutex_);
    return heard_[{from, to}];
  }

 private:
  struct Step {
    std::uint32_t from = 0, to = 0;
    std::function<void(TransportListener&)> what;
    bool parcel = false;
  };

  class End final : public Transport {
   public:
    End(MemoryNetwork& network, Origin self) : network_(network), self_(self) {}
    void start(TransportListener& listener) override { network_.begin(self_, listener); }
    void send(Origin to, Channel channel, MessageBytes bytes) override {
      network_.change([&] {
        if (network_.lives_[self_.machine] == self_ && network_.lives_[to.machine] == to &&
            !network_.is_refused(self_, to))
          network_.post(self_, to.machine, channel, std::move(bytes));
      });
    }
    void refuse(Origin life) override { network_.refuse(self_, life); }
    void stop() override { network_.leave(self_); }

   private:
    MemoryNetwork& network_;
    const Origin self_;
  };

  template <typename Change>
  void change(Change what) {
    const std::lock_guard lock(mutex_);
    what();
    changed_.notify_all();
  }
  void push(Step step) { steps_.push_back(std::move(step)); }
  bool is_refused(Origin a, Origin b) const {
    return refused_.contains({a, b}) || refused_.contains({b, a});
  }
  void post(Origin from, std::uint32_t to, Channel channel, MessageBytes bytes) {
    auto held = std::make_shared<MessageBytes>(std::move(bytes));
    push({from.machine, to,
          [from, channel, held](TransportListener& listener) {
            listener.received(from, channel, std::move(*held));
          },
          true});
  }
  void begin(Origin self, TransportListener& listener) {
    change([&] {
      lives_[self.machine] = self;
      listeners_[self.machine] = &listener;
      for (const auto& [other, there] : listeners_) {
        if (other == self.machine || there == nullptr) continue;
        const Origin life = lives_[other];
        push({other, self.machine, [life](TransportListener& l) { l.connected(life); }});
        push({self.machine, other, [self](TransportListener& l) { l.connected(self); }});
      }
    });
  }
  void refuse(Origin by, Origin life) {
    change([&] {
      if (!refused_.insert({by, life}).second || lives_[life.machine] != life) return;
      push({by.machine, life.machine, [by](TransportListener& l) { l.refused(by); }});
    });
  }
  void leave(Origin self) {
    std::unique_lock lock(mutex_);
    if (lives_[self.machine] == self) {
      listeners_[self.machine] = nullptr;
      std::erase_if(steps_, [&](const Step& step) { return step.to == self.machine; });
    }
    // Also where the life was forgotten: its listener may still be told something.
    changed_.wait(lock, [&] { return busy_ != static_cast<std::int64_t>(self.machine); });
  }
  /// The first that nothing holds back, and that nothing before it on its link is.
  std::deque<Step>::iterator next() {
    for (auto step = steps_.begin(); step != steps_.end(); ++step)
      if (!frozen_.contains(step->to) && !frozen_.contains(step->from) &&
          !(step->parcel && held_.contains({step->from, step->to})))
        return step;
    return steps_.end();
  }
  void deliver() {
    std::unique_lock lock(mutex_);
    for (;;) {
      changed_.wait(lock, [&] { return end_ || next() != steps_.end(); });
      if (end_) return;
      const auto at = next();
      const Step step = std::move(*at);
      steps_.erase(at);
      TransportListener* const listener = listeners_[step.to];
      if (listener == nullptr) continue;
      busy_ = step.to;
      lock.unlock();
      step.what(*listener);
      lock.lock();
      busy_ = -1;
      if (step.parcel) ++heard_[{step.from, step.to}];
      changed_.notify_all();
    }
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Step> steps_;
  std::map<std::uint32_t, Origin> lives_;
  std::map<std::uint32_t, TransportListener*> listeners_;
  std::set<std::pair<Origin, Origin>> refused_;  // by, whom
  std::set<std::uint32_t> frozen_;
  std::set<std::pair<std::uint32_t, std::uint32_t>> held_;
  std::int64_t busy_ = -1;
  std::map<std::pair<std::uint32_t, std::uint32_t>, std::size_t> heard_;
  bool end_ = false;
  std::thread thread_;
};

}  // namespace sluice
