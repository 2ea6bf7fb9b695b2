#include "engine/tasks/generator.h"

namespace sluice {

namespace {

PlannerOptions options_of(Budget budget) {
  PlannerOptions options;
  options.budget = static_cast<std::uint32_t>(budget.tokens);
  options.tasks_most = static_cast<std::uint32_t>(budget.sequences);
  return options;
}

}  // namespace

Generator::Generator(TextEngine& engine, const Tokenizer* tokenizer, Budget budget)
    : tokenizer_(tokenizer), engine_(engine, options_of(budget)) {
  engine_.watch = [this](const ForwardRecord& forward) {
    last_tokens_ = 0;
    for (const BatchItem& item : forward.items) last_tokens_ += item.rows;
  };
}

Generator::Generator(const Decoder& decoder, KvPool& pool, const Tokenizer* tokenizer,
                     Budget budget)
    : Generator(std::make_unique<CpuText>(decoder, pool), tokenizer, budget) {}

Generator::Generator(std::unique_ptr<TextEngine> own, const Tokenizer* tokenizer, Budget budget)
    : Generator(*own, tokenizer, budget) {
  own_ = std::move(own);
}

void Generator::add(Generation generation) {
  const std::uint64_t id = generation.id;
  auto task = std::make_unique<GenerationTask>(std::move(generation), tokenizer_);
  if (!task->done()) engine_.add(id, *task);
  tasks_[id] = std::move(task);
}

std::optional<Generation> Generator::remove(std::uint64_t id) {
  const auto it = tasks_.find(id);
  if (it == tasks_.end()) return std::nullopt;
  engine_.remove(id);
  Generation taken = it->second->release();
  tasks_.erase(it);
  return taken;
}

void Generator::step(std::vector<std::uint64_t>& advanced) {
  const std::size_t before = advanced.size();
  (void)engine_.step(advanced);
  for (std::size_t i = before; i < advanced.size(); ++i)
    if (tasks_.find(advanced[i])->second->done()) engine_.remove(advanced[i]);
}

const Generation* Generator::find(std::uint64_t id) const {
  const auto it = tasks_.find(id);
  return it == tasks_.end() ? nullptr : &it->second->generation();
}

}  // namespace sluice
