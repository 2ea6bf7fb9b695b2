// Time to the first token when the beginning of a prompt has been computed before, beside no reuse.
//
// Usage: bench_prefix MODEL [TOKENS [FOLDER]]
// MODEL: a checkpoint with a chat template, TOKENS: about so many of the long part (1500). Four
// ways, by turns, medians of five: turn two of a chat with its own sequence, the same when only the
// pages are there, the first turn of another session with the same system prompt, and turn two over
// a pool of several processes, by the pool of another one than turn one. With FOLDER,
// which is made and removed: turn two when a folder on a disk alone has the pages, as after a
// restart. From the messages to the first token: template, tokens and lookup are in it.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "bench/usage.h"
#include "engine/storage/kept_pool.h"
#include "engine/storage/shared_pages.h"
#include "engine/tasks/chat_model.h"

using namespace sluice;

namespace {

using Clock = std::chrono::steady_clock;
constexpr std::size_t page_tokens = 16;

/// Words that no two places have in the same order.
std::string long_text(std::size_t words, unsigned seed) {
  constexpr const char* some[] = {"the ",  "table ", "is ",    "red ",  "and ", "near ",  "a ",
                                  "door ", "that ",  "opens ", "when ", "it ",  "rains ", "again "};
  std::string text;
  for (std::size_t i = 0; i < words; ++i) {
    seed = seed * 1664525U + 1013904223U;
    text += some[(seed >> 16U) % std::size(some)];
  }
  return text;
}

struct Begun {
  Generation generation;
  double seconds = 0;
  std::size_t kept = 0;
};

/// Until its first token. `own`: of what was said before; none: pages by their content only.
/// `source`: where pages may be that memory has not; null: nowhere.
Begun first_token(const ChatModel& chat, KvPool& pool, const std::vector<ChatMessage>& messages,
                  bool share, Generation* own, PageSource* source = nullptr) {
  const auto start = Clock::now();
  GenerationOptions options;
  options.tokens_max = 8;
  options.share_prefix = share;
  Generation generation = std::move(chat.begin(messages, options)).value();
  generation.options.end_tokens.clear();
  if (own != nullptr)
    chat.keep_prefix(pool, std::move(own->sequence), own->origin, own->history, generation, true);
  const std::size_t prompt = generation.history.size();
  Generator generator(chat.model().text(), pool, &chat.tokenizer(), Budget{512, 1});
  generator.use(source);
  generator.add(std::move(generation));
  std::vector<std::uint64_t> advanced;
  std::size_t computed = 0;
  while (generator.find(0)->tokens.empty()) {  // a long prompt takes several steps
    generator.step(advanced);
    computed += generator.last_tokens();
  }
  Begun begun;
  begun.seconds = std::chrono::duration<double>(Clock::now() - start).count();
  begun.kept = prompt - computed;
  while (generator.busy()) generator.step(advanced);
  begun.generation = std::move(*generator.remove(0));
  return begun;
}

struct Times {
  const char* what;
  std::vector<double> seconds = {};
  std::size_t kept = 0;

  void add(const Begun& begun) {
    seconds.push_back(begun.seconds);
    kept = begun.kept;
  }
  double median() {
    std::ranges::sort(seconds);
    return seconds[seconds.size() / 2];
  }
};

/// Each round's folder is new: what one leaves would help the next.
KeptPool kept_in(const ChatModel& chat, const std::string& folder, std::size_t pages) {
  return std::move(KeptPool::make(chat.model().text().kv_shape(page_tokens), pages, folder,
                                  std::uint64_t{4} << 30U))
      .value();
}

std::unique_ptr<KvPool> pool_of_process(const KvShape& shape, SharedPages& shared) {
  AttachedPages pages = AttachedPages::attach(shared.connect("bench").value()).value();
  return std::make_unique<KvPool>(
      shape, AttachedTable{std::move(pages.port), pages.shape.pages, pages.shape.secret},
      std::move(pages.bytes));
}

/// Turn one by one pool, turn two by another, over one table, which a thread of its own answers
/// for.
Begun by_another_process(const ChatModel& chat, std::size_t pages,
                         const std::vector<ChatMessage>& first) {
  const KvShape shape = chat.model().text().kv_shape(page_tokens);
  auto shared = SharedPages::make({static_cast<std::uint32_t>(pages), page_tokens,
                                   shape.page_bytes(), PageKeys::Secret{}})
                    .value();
  const auto one = pool_of_process(shape, *shared), two = pool_of_process(shape, *shared);
  std::vector<ChatMessage> asked = first;
  const std::string said = first_token(chat, *one, first, true, nullptr).generation.text;
  asked.push_back({"assistant", said, {}});
  asked.push_back({"user", "Why?", {}});
  Begun begun = first_token(chat, *two, asked, true, nullptr);
  begun.generation.sequence = {};  // it goes before its pool
  return begun;
}

void measure(const ChatModel& chat, std::size_t words, const std::string& folder) {
  const std::vector<ChatMessage> first{{"system", long_text(words, 1), {}},
                                       {"user", "What is near the door?", {}}};
  std::vector<ChatMessage> second{first[0], {"user", "And when does it open?", {}}};
  Times none{"no reuse"}, own{"turn two, its own sequence"}, pages{"turn two, pages"},
      other{"another session, pages"}, apart{"turn two, another process"},
      disk{"turn two, a folder's pages"};
  std::size_t prompt = 0;
  bool same = true;
  for (int round = 0; round < 5; ++round) {
    // A pool of its own for each way: what one leaves would help the next.
    std::vector<std::int32_t> want;
    for (Times* times : {&none, &own, &pages, &other}) {
      KvPool pool(chat.model().text().kv_shape(page_tokens), 3 * words / page_tokens + 64);
      Begun begun = first_token(chat, pool, first, times != &none, nullptr);
      std::vector<ChatMessage> asked = second;
      if (times != &other) {
        asked = first;
        asked.push_back({"assistant", begun.generation.text, {}});
        asked.push_back({"user", "Why?", {}});
      }
      Generation* before = times == &own ? &begun.generation : nullptr;
      if (before == nullptr) begun.generation = {};
      const Begun now = first_token(chat, pool, asked, times != &none, before);
      times->add(now);
      if (times == &other) continue;
      if (times == &none) want = now.generation.tokens;
      same = same && now.generation.tokens == want;
      prompt = now.generation.history.size() - want.size();
    }
    const std::size_t pages_most = 3 * words / page_tokens + 64;
    const Begun elsewhere = by_another_process(chat, pages_most, first);
    same = same && elsewhere.generation.tokens == want;
    apart.add(elsewhere);
    if (folder.empty()) continue;
    std::vector<ChatMessage> asked = first;
    {
      KeptPool kept = kept_in(chat, folder, pages_most);
      const Begun begun = first_token(chat, *kept.pool, first, true, nullptr, kept.source());
      asked.push_back({"assistant", begun.generation.text, {}});
      asked.push_back({"user", "Why?", {}});
    }
    {
      KeptPool kept = kept_in(chat, folder, pages_most);
      const Begun now = first_token(chat, *kept.pool, asked, true, nullptr, kept.source());
      disk.add(now);
      same = same && now.generation.tokens == want;
    }
    std::filesystem::remove_all(folder);
  }
  std::printf("prompt of %zu tokens; the answers are %s\n", prompt,
              same ? "the same" : "DIFFERENT");
  const double beside = none.median();
  for (Times* times : {&none, &own, &pages, &other, &apart, &disk})
    if (!times->seconds.empty())
      std::printf("  %-28s %8.1f ms   %5.1f %% of no reuse   %zu tokens kept\n", times->what,
                  1e3 * times->median(), 100 * times->median() / beside, times->kept);
}

}  // namespace

int main(int argc, char** argv) {
  constexpr const char* usage = "usage: bench_prefix MODEL [TOKENS [FOLDER]]";
  if (const auto status = usage_status(argc, argv, usage)) return *status;
  if (argc < 2) {
    std::fprintf(stderr, "%s\n", usage);
    return 2;
  }
  if (argc > 3 && std::filesystem::exists(argv[3])) {
    std::fprintf(stderr, "bench_prefix: %s is there already: name one that is not\n", argv[3]);
    return 2;
  }
  Result<Model> model = Model::open(argv[1]);
  Result<ChatModel> chat = model.ok() ? ChatModel::open(argv[1], std::move(model).value())
                                      : Result<ChatModel>(model.error());
  if (chat.ok() && !chat->chat().ok()) chat = chat->chat().error();
  if (!chat.ok()) {
    std::fprintf(stderr, "error: %s\n", chat.error().message.c_str());
    return 1;
  }
  measure(*chat, argc > 2 ? std::strtoul(argv[2], nullptr, 10) : 1500, argc > 3 ? argv[3] : "");
  return 0;
}
