// A role that remembers what its sessions say, and a parameter that tells it to their homes: the
// plainest that `SessionKeeper` allows, for tests of a cluster.
#pragma once

#include <algorithm>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/session_history.h"
#include "roles/catalog.h"

namespace sluice {

/// Says all that its session has said. Records are texts; "unsound" is none.
class Kept : public GlobalParam, public SessionKeeper {
 public:
  void end_session(std::string_view session) override {
    const std::lock_guard lock(mutex_);
    rows_.erase(std::string(session));
    told_.erase(std::string(session));
  }
  std::optional<HistoryMark> ask_history(const std::string& session, const std::string&,
                                         std::uint32_t life) override {
    const std::lock_guard lock(mutex_);
    Row& row = rows_[session];
    if (row.life == life) return {};
    return mark(row, row.said.size());
  }
  Result<void> settle_history(const std::string& session, const std::string&, std::uint32_t life,
                              const KeptHistory& kept, bool is_told) override {
    const std::lock_guard lock(mutex_);
    Row& row = rows_[session];
    row.life = life;
    row.is_told = is_told;
    told_.erase(session);
    Settled settled{kept.is_there, kept.part.behind.count, {}};
    for (const HistoryRecord& record : kept.part.records) {
      std::string text(reinterpret_cast<const char*>(record.data()), record.size());
      if (text == "unsound") {
        row.settled = Settled{true, 0, {}};
        return Error{ErrorCode::corrupt, "it is unsound"};
      }
      settled.texts.push_back(std::move(text));
    }
    row.settled = std::move(settled);
    return {};
  }
  /// An activation begins: behind what one of an earlier life may have left since it was settled.
  void begin(const std::string& session) {
    const std::lock_guard lock(mutex_);
    Row& row = rows_[session];
    const std::optional<Settled> settled = std::exchange(row.settled, {});
    if (!settled) return;
    if (settled->is_there) cut(row, settled->behind);
    for (const std::string& text : settled->texts) add(row, text);
    row.told = settled->is_there ? row.said.size() : 0;
    told_.erase(session);
  }
  void history_dropped(const std::string& session, const std::string&) override {
    const std::lock_guard lock(mutex_);
    rows_[session].told = 0;
    ++drops;
  }
  std::vector<ToldHistory> take_history(const std::string& session) override {
    const std::lock_guard lock(mutex_);
    return std::exchange(told_[session], {});
  }

  std::string say(const std::string& session, const std::string& role, const std::string& text) {
    const std::lock_guard lock(mutex_);
    Row& row = rows_[session];
    const std::size_t turn = row.said.size();
    add(row, text);
    if (row.is_told) {
      ToldHistory told{.role = role};
      told.is_too_large = text == "huge";
      told.part.behind = mark(row, row.told);
      told.part.turn = static_cast<std::uint32_t>(turn);
      told.part.complete = static_cast<std::uint32_t>(row.said.size());
      for (std::size_t i = row.told; i < row.said.size(); ++i) {
        const auto bytes = std::as_bytes(std::span(row.said[i]));
        told.part.records.emplace_back(bytes.begin(), bytes.end());
      }
      row.told = row.said.size();
      told_[session].push_back(std::move(told));
    }
    std::string all;
    for (const std::string& one : row.said) all += one;
    return all;
  }

  std::atomic<int> drops{0};

 private:
  struct Settled {
    bool is_there = false;
    std::size_t behind = 0;
    std::vector<std::string> texts{};
  };
  struct Row {
    std::vector<std::string> said;
    std::vector<std::uint64_t> chain;
    std::size_t told = 0;
    std::uint32_t life = 0;
    bool is_told = false;
    std::optional<Settled> settled{};
  };
  static HistoryMark mark(const Row& row, std::size_t count) {
    return {static_cast<std::uint32_t>(count), count == 0 ? 0 : row.chain[count - 1]};
  }
  static void cut(Row& row, std::size_t count) {
    row.said.resize(std::min(count, row.said.size()));
    row.chain.resize(row.said.size());
  }
  static void add(Row& row, std::string text) {
    const std::uint64_t before = row.chain.empty() ? 0 : row.chain.back();
    row.chain.push_back(next_in_chain(before, std::as_bytes(std::span(text))));
    row.said.push_back(std::move(text));
  }

  std::mutex mutex_;
  std::map<std::string, Row> rows_;
  std::map<std::string, std::vector<ToldHistory>> told_;
};

/// `before` and `after` what it says is remembered.
class KeepingRole final : public Role {
 public:
  using Hook = std::function<void(const std::string& text)>;
  KeepingRole(Kept& kept, std::string name, Hook before, Hook after)
      : kept_(kept), name_(std::move(name)), before_(std::move(before)), after_(std::move(after)) {}
  Result<void> run(Activation& activation) override {
    const std::string text = activation.input("x")->text;
    kept_.begin(std::string(activation.session()));
    before_(text);
    activation.yield("v", make_text(kept_.say(std::string(activation.session()), name_, text)));
    after_(text);
    return {};
  }

 private:
  Kept& kept_;
  std::string name_;
  Hook before_, after_;
};

}  // namespace sluice
