// Memory of roles over one checkpoint: one role, two in a process, two in two processes, which have
// its weights once or each for itself; and how long the weights take to be there.
//
// Usage: bench_weights MODEL [PRECISION]
// MODEL: a checkpoint that chats, a directory or a GGUF file; PRECISION: exact (default), bf16 or
// int8. Each role is a chat_model over a paged_kv of its own, and a forward has read its weights.
// Each line is of processes begun for it, added up: all that is resident (Rss); the same with what
// several processes share divided among them (Pss); what of that is in no file (anonymous); and Pss
// beside that of one role (2: nothing is shared). Then, of processes begun one after the other: the
// time until the model is open, and a token's over it, one alone and of two that share the first,
// which makes the weights, and the second, which attaches them.
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "bench/usage.h"
#include "engine/checkpoint/loaded_parts.h"
#include "engine/checkpoint/part_exchange.h"
#include "roles/chat_role.h"
#include "roles/chat_sessions.h"

using namespace sluice;

namespace {

struct Asked {
  std::string model, precision = "exact";
  kernels::WeightFormat format() const {
    return precision == "bf16"   ? kernels::WeightFormat::bf16
           : precision == "int8" ? kernels::WeightFormat::int8
                                 : kernels::WeightFormat::exact;
  }
};

/// A role and what it lists, which ends after it.
struct Chat {
  std::unique_ptr<GlobalParam> kv;
  RoleInstance role;
};

[[noreturn]] void fail(const std::string& what) {
  std::fprintf(stderr, "bench_weights: %s\n", what.c_str());
  std::exit(1);
}

template <typename T>
T need(Result<T> result) {
  if (!result.ok()) fail(result.error().message);
  return std::move(result).value();
}

/// Every matrix is read once, as a prompt reads them.
void read_weights(const Decoder& decoder) {
  KvPool pool(decoder.kv_shape(16), 2);
  KvSequence sequence;
  std::vector<std::int32_t> tokens;
  for (std::int32_t i = 0; i < 16; ++i) tokens.push_back(i);
  std::vector<float> rows, hidden;
  decoder.embed(tokens, rows);
  const Chunk chunk{&sequence, rows};
  if (const Result<void> ran = decoder.forward(pool, {&chunk, 1}, hidden); !ran.ok())
    fail(ran.error().message);
  std::vector<float> logits;
  decoder.logits(std::span(hidden).last(decoder.width()), logits);
  pool.release(sequence);
}

Chat chat_over(const Asked& asked) {
  GlobalParamSpec pages;
  pages.pages = 4;  // weights are what is asked for
  Chat made{need(ChatSessions::make({&pages, asked.model})), {}};
  RoleSpec role;
  role.name.text = "chat";
  role.options = {{{"precision", {}}, {asked.precision, {}}}};
  RoleMaking making;
  making.role = &role;
  making.model_directory = asked.model;
  making.global_params = {made.kv.get()};
  made.role = need(chat_model_plugin().make(making));
  auto& sessions = static_cast<ChatSessions&>(*made.kv);
  read_weights(need(sessions.engine(asked.model, asked.format(), {}))->model.model().text());
  return made;
}

/// In kB, as the kernel counts them.
struct Memory {
  double rss = 0, pss = 0, anonymous = 0;
  void add(pid_t process) {
    std::ifstream rollup("/proc/" + std::to_string(process) + "/smaps_rollup");
    std::map<std::string, double> values;
    std::string line;
    while (std::getline(rollup, line))
      if (const auto colon = line.find(':'); colon != std::string::npos)
        values[line.substr(0, colon)] = std::strtod(line.c_str() + colon + 1, nullptr);
    if (!values.contains("Pss")) fail("the kernel does not say what a process shares");
    rss += values["Rss"];
    pss += values["Pss"];
    anonymous += values["Pss_Anon"];
  }
};

/// A process that does its work, says what came of it, and stays until all are to end.
class Child {
 public:
  /// `exchange`: null: it shares weights with nobody.
  template <typename Said>
  Child(PartExchange* exchange, const std::function<Said()>& work, Said& said) {
    OwnedFile socket;
    if (exchange != nullptr) socket = need(exchange->join("a process"));
    int ready[2], end[2];
    if (pipe(ready) != 0 || pipe(end) != 0) fail("no pipe");
    pid_ = fork();
    if (pid_ < 0) fail("no process");
    if (pid_ == 0) {
      close(end[1]);
      if (exchange != nullptr)
        LoadedParts::here().share(
            std::make_shared<const PartClient>(OwnedFile(dup(socket.get()))),
            [](const std::string& line) { std::fprintf(stderr, "%s\n", line.c_str()); });
      const Said mine = work();
      char byte = 0;
      if (write(ready[1], &mine, sizeof mine) == sizeof mine) (void)!read(end[0], &byte, 1);
      _exit(0);
    }
    close(ready[1]);
    close(end[0]);
    const OwnedFile from(ready[0]);
    end_ = OwnedFile(end[1]);
    if (read(from.get(), &said, sizeof said) != sizeof said)
      fail("a process could not make its roles");
  }
  ~Child() {
    end_ = OwnedFile();
    waitpid(pid_, nullptr, 0);
  }
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;
  pid_t pid() const { return pid_; }

 private:
  pid_t pid_ = -1;
  OwnedFile end_;
};

/// What so many processes hold, each when it has made its roles and all others have too.
Memory of_processes(int processes, int roles, bool share, const Asked& asked) {
  PartExchange exchange;
  std::vector<std::unique_ptr<Child>> children;
  for (int i = 0; i < processes; ++i) {
    int made = 0;
    children.push_back(
        std::make_unique<Child>(share ? &exchange : nullptr, std::function<int()>([&] {
                                  static std::vector<Chat> chats;  // until the process ends
                                  for (int role = 0; role < roles; ++role)
                                    chats.push_back(chat_over(asked));
                                  return static_cast<int>(chats.size());
                                }),
                                made));
  }
  Memory memory;
  for (const auto& child : children) memory.add(child->pid());
  while (!children.empty()) children.pop_back();  // later ones hold the earlier ones' pipes
  return memory;
}

using Milliseconds = std::chrono::duration<double, std::milli>;

struct Times {
  double open = 0, token = 0;  // ms
};

/// Of a process: to open the model, and the best of some tokens.
Times time_model(const Asked& asked) {
  Times times;
  auto began = std::chrono::steady_clock::now();
  static const Model model = need(Model::open(asked.model, asked.format()));
  times.open = Milliseconds(std::chrono::steady_clock::now() - began).count();
  const Decoder& decoder = model.text();
  KvPool pool(decoder.kv_shape(16), 8);
  KvSequence sequence;
  std::vector<float> rows, hidden, logits;
  for (int token = 0; token < 64; ++token) {
    began = std::chrono::steady_clock::now();
    rows.clear();
    decoder.embed(std::vector<std::int32_t>{token}, rows);
    const Chunk chunk{&sequence, rows};
    if (const Result<void> ran = decoder.forward(pool, {&chunk, 1}, hidden); !ran.ok())
      fail(ran.error().message);
    decoder.logits(hidden, logits);
    const double took = Milliseconds(std::chrono::steady_clock::now() - began).count();
    times.token = token == 0 ? took : std::min(times.token, took);
  }
  pool.release(sequence);
  return times;
}

void show_times(const Asked& asked) {
  std::printf("%-32s %8s %8s\n", "", "open, ms", "token, ms");
  const auto line = [](const char* what, const Times& times) {
    std::printf("%-32s %8.1f %8.2f\n", what, times.open, times.token);
    std::fflush(stdout);
  };
  const std::function<Times()> work = [&] { return time_model(asked); };
  for (int round = 0; round < 3; ++round) {
    Times alone, first, second;
    { const Child child(nullptr, work, alone); }
    line("alone", alone);
    PartExchange exchange;
    const Child maker(&exchange, work, first);
    line("the first of two that share", first);
    const Child follower(&exchange, work, second);
    line("the second", second);
  }
}

}  // namespace

int main(int argc, char** argv) {
  constexpr const char* usage = "usage: bench_weights MODEL [exact|bf16|int8]";
  if (const auto status = usage_status(argc, argv, usage)) return *status;
  if (argc < 2 || argc > 3) {
    std::fprintf(stderr, "%s\n", usage);
    return 2;
  }
  Asked asked{argv[1]};
  if (argc == 3) asked.precision = argv[2];
  std::printf("%s, %s; MB\n", asked.model.c_str(), asked.precision.c_str());
  std::printf("%-32s %8s %8s %10s %10s\n", "", "Rss", "Pss", "anonymous", "of one");
  const auto show = [&](const char* what, int processes, int roles, bool share, double one) {
    const Memory memory = of_processes(processes, roles, share, asked);
    std::printf("%-32s %8.1f %8.1f %10.1f %10.2f\n", what, memory.rss / 1024, memory.pss / 1024,
                memory.anonymous / 1024, one == 0 ? 1.0 : memory.pss / one);
    std::fflush(stdout);
    return memory.pss;
  };
  show("no role", 1, 0, false, 0);
  const double one = show("one role", 1, 1, false, 0);
  show("two roles in one process", 1, 2, false, one);
  show("two processes, each its own", 2, 1, false, one);
  show("two processes that share", 2, 1, true, one);
  show("three processes that share", 3, 1, true, one);
  show_times(asked);
  return 0;
}
