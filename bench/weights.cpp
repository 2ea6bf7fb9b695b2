// Memory of roles over one checkpoint: one role, two in a process, two in two processes.
//
// Usage: bench_weights MODEL [PRECISION]
// MODEL: a checkpoint that chats, a directory or a GGUF file; PRECISION: exact (default), bf16 or
// int8. Each role is a chat_model over a paged_kv of its own, and a forward has read its weights.
// Each line is of processes begun for it, added up: all that is resident (Rss); the same with what
// several processes share divided among them (Pss); what of that is in no file (anonymous); and Pss
// beside that of one role (2: nothing is shared).
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "bench/usage.h"
#include "roles/chat_role.h"
#include "roles/chat_sessions.h"

using namespace sluice;

namespace {

struct Asked {
  std::string model, precision = "exact";
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
  const auto format = asked.precision == "bf16"   ? kernels::WeightFormat::bf16
                      : asked.precision == "int8" ? kernels::WeightFormat::int8
                                                  : kernels::WeightFormat::exact;
  read_weights(need(sessions.engine(asked.model, format, {}))->model.model().text());
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

/// What so many processes hold, each when it has made its roles and all others have too.
Memory of_processes(int processes, int roles, const Asked& asked) {
  int ready[2], end[2];
  if (pipe(ready) != 0 || pipe(end) != 0) fail("no pipe");
  std::vector<pid_t> children;
  for (int i = 0; i < processes; ++i) {
    children.push_back(fork());
    if (children.back() < 0) fail("no process");
    if (children.back() != 0) continue;
    close(end[1]);
    close(ready[0]);
    std::vector<Chat> chats;
    for (int role = 0; role < roles; ++role) chats.push_back(chat_over(asked));
    char byte = 'x';
    if (write(ready[1], &byte, 1) == 1) (void)!read(end[0], &byte, 1);
    _exit(0);
  }
  close(ready[1]);
  close(end[0]);
  char byte = 0;
  for (int i = 0; i < processes; ++i)
    if (read(ready[0], &byte, 1) != 1) fail("a process could not make its roles");
  Memory memory;
  for (const pid_t child : children) memory.add(child);
  close(end[1]);
  close(ready[0]);
  for (const pid_t child : children) waitpid(child, nullptr, 0);
  return memory;
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
  const auto show = [&](const char* what, int processes, int roles, double one) {
    const Memory memory = of_processes(processes, roles, asked);
    std::printf("%-32s %8.1f %8.1f %10.1f %10.2f\n", what, memory.rss / 1024, memory.pss / 1024,
                memory.anonymous / 1024, one == 0 ? 1.0 : memory.pss / one);
    std::fflush(stdout);
    return memory.pss;
  };
  show("no role", 1, 0, 0);
  const double one = show("one role", 1, 1, 0);
  show("two roles in one process", 1, 2, one);
  show("two processes, a role each", 2, 1, one);
  return 0;
}
