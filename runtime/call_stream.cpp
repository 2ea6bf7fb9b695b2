#include "runtime/call_stream.h"

#include <condition_variable>
#include <mutex>
#include <optional>
#include <thread>

#include "runtime/mailbox.h"

namespace sluice {

struct CallStream::Told {
  std::mutex mutex;
  std::condition_variable changed;
  std::vector<std::pair<std::string_view, PayloadRef>> outputs;  // names are the plan's
  std::optional<CallOutcome> outcome;
  std::atomic<bool> news{false};
};

CallStream::CallStream() : told_(std::make_shared<Told>()) {}

CallObserver CallStream::observer() const {
  const auto add = [told = told_](auto put) {
    {
      const std::lock_guard lock(told->mutex);
      put(*told);
      if (told->news.exchange(true)) return;  // somebody was told of earlier ones
    }
    told->changed.notify_one();
  };
  return {
      [add](std::string_view output, const PayloadRef& value) {
        add([&](Told& told) { told.outputs.emplace_back(output, value); });
      },
      [add](CallOutcome outcome) { add([&](Told& told) { told.outcome = std::move(outcome); }); }};
}

CallOutcome CallStream::wait(const OnOutput& on_output) {
  std::vector<std::pair<std::string_view, PayloadRef>> batch;
  for (;;) {
    const auto until = std::chrono::steady_clock::now() + spin;
    while (!told_->news.load() && std::chrono::steady_clock::now() < until)
      std::this_thread::yield();
    std::unique_lock lock(told_->mutex);
    told_->changed.wait(lock, [this] { return told_->news.load(); });
    told_->news.store(false);
    batch.swap(told_->outputs);
    std::optional<CallOutcome> outcome = std::move(told_->outcome);
    lock.unlock();
    if (on_output)
      for (const auto& [name, value] : batch) on_output(name, value);
    if (outcome.has_value()) return std::move(*outcome);
    batch.clear();
  }
}

}  // namespace sluice
