// What a language model loses beside processes that are always busy, and beside another of ours.
//
// Usage: bench_busy_neighbour [--root REPOSITORY] [--model FILE.gguf [--peer LLAMA_BENCH]]
//
// 128 tokens of prompt, then 40 of answer, on all cores, of SmolLM2-135M's shape (random weights in
// bf16) or of a file; the peer (llama.cpp's llama-bench, or bench/llama_bench.py) on the same file.
// Alone, beside one and three processes that never rest, and beside another of its kind; by turns
// in one run, medians. Targets on two cores: at most 1.3 times as long beside one busy process, 2.2
// times beside three. Beside it what the scheduler gives as many threads as there are cores that
// share no memory and never wait for each other: they take pieces of arithmetic until as many are
// done as last, alone, as long as our prompt and our answer. Ours are more threads while others
// want the cores (base/crowd.h). CPU time, against that alone, is what we lose ourselves, by
// spinning and by cold caches; cores are what the scheduler gave.
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "base/worker_pool.h"
#include "bench/peer.h"
#include "bench/usage.h"
#include "engine/family/model.h"

extern char** environ;

using namespace sluice;

namespace {

using Clock = std::chrono::steady_clock;
constexpr std::size_t prompt = 128, answer = 40;
constexpr int rounds = 5;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}
/// What the process has computed or spun so far.
double cpu_seconds() {
  timespec now{};
  ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}
double median(std::vector<double> values) {
  std::ranges::sort(values);
  return values[values.size() / 2];
}

/// Other processes, busy as long as this lives.
class Neighbours {
 public:
  Neighbours(const std::vector<std::string>& each, int count) {
    std::vector<char*> arguments;
    for (const std::string& word : each) arguments.push_back(const_cast<char*>(word.c_str()));
    arguments.push_back(nullptr);
    posix_spawn_file_actions_t actions;  // a peer prints its figures
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
    for (int i = 0; i < count; ++i) {
      pid_t child = 0;
      SLUICE_CHECK(
          ::posix_spawn(&child, arguments[0], &actions, nullptr, arguments.data(), environ) == 0,
          "a neighbour can be started");
      children_.push_back(child);
    }
    posix_spawn_file_actions_destroy(&actions);
  }
  ~Neighbours() {
    for (const pid_t child : children_) ::kill(child, SIGKILL);
    for (const pid_t child : children_) ::waitpid(child, nullptr, 0);
  }
  Neighbours(const Neighbours&) = delete;
  Neighbours& operator=(const Neighbours&) = delete;

 private:
  std::vector<pid_t> children_;
};

DecoderShape smollm2(DecoderShape shape) {
  shape.vocabulary = 49'152;
  shape.layers = 30;
  shape.block.width = 576;
  shape.block.heads = 9;
  shape.block.kv_heads = 3;
  shape.block.head_dim = 64;
  shape.block.mlp = 1536;
  shape.positions_max = 8192;
  shape.rope.theta = 1e5;
  return shape;
}

struct Times {
  double prefill = 0, decode = 0;  // seconds
  double cpu = 0;                  // of all threads, for both; 0: not known
};

class Ours {
 public:
  explicit Ours(const Decoder& decoder)
      : decoder_(decoder), pool_(decoder.kv_shape(16), (prompt + answer) / 16 + 2) {
    decoder_.embed(std::vector<std::int32_t>(prompt, 20), rows_);
    decoder_.embed(std::vector<std::int32_t>(1, 20), row_);
  }

  Times answer_once() {
    KvSequence sequence;
    Times times;
    const double before = cpu_seconds();
    auto start = Clock::now();
    forward(sequence, rows_);
    times.prefill = seconds_since(start);
    start = Clock::now();
    for (std::size_t i = 0; i < answer; ++i) {
      forward(sequence, row_);
      decoder_.logits(hidden_, logits_);
    }
    times.decode = seconds_since(start);
    times.cpu = cpu_seconds() - before;
    pool_.truncate(sequence, 0);
    return times;
  }

 private:
  void forward(KvSequence& sequence, const std::vector<float>& rows) {
    const Chunk chunk{&sequence, rows};
    SLUICE_CHECK(decoder_.forward(pool_, {&chunk, 1}, hidden_).ok());
  }

  const Decoder& decoder_;
  KvPool pool_;
  std::vector<float> rows_, row_, hidden_, logits_;
};

/// As many threads as cores, which only compute.
class Independent {
 public:
  /// As much work as lasts, alone, as long as these.
  explicit Independent(const Times& alone) {
    constexpr int tried = 2000;
    const auto start = Clock::now();
    for (int i = 0; i < tried; ++i) compute_piece();
    const double each = seconds_since(start) / tried / static_cast<double>(thread_limit());
    prompt_ = static_cast<std::size_t>(alone.prefill / each);
    answer_ = static_cast<std::size_t>(alone.decode / each);
  }
  Times work_once() const {
    Times times;
    const double before = cpu_seconds();
    times.prefill = compute(prompt_);
    times.decode = compute(answer_);
    times.cpu = cpu_seconds() - before;
    return times;
  }

 private:
  /// Some ten microseconds.
  static void compute_piece() {
    for (volatile int turns = 0; turns < 20'000;) turns = turns + 1;
  }
  static double compute(std::size_t pieces) {
    std::atomic<std::size_t> taken = 0;
    const auto start = Clock::now();
    std::vector<std::jthread> threads;
    for (std::size_t i = 0; i < thread_limit(); ++i)
      threads.emplace_back([&] {
        while (taken.fetch_add(1, std::memory_order_relaxed) < pieces) compute_piece();
      });
    threads.clear();
    return seconds_since(start);
  }

  std::size_t prompt_ = 0, answer_ = 0;
};

struct Options {
  std::string root = ".", model, peer, busy;
};

Options read_options(int argc, char** argv) {
  Options options;
  for (int i = 1; i + 1 < argc; ++i) {
    const std::string name = argv[i];
    if (name == "--root") options.root = argv[i + 1];
    if (name == "--model") options.model = argv[i + 1];
    if (name == "--peer") options.peer = argv[i + 1];
    if (name == "--be-busy") options.busy = argv[i + 1];
  }
  return options;
}

/// The file's decoder, or one of its shape.
struct Loaded {
  std::optional<Model> model;
  std::optional<Decoder> random;
  const Decoder& decoder() const { return model.has_value() ? model->text() : *random; }
};

Result<Loaded> load(const Options& options) {
  Loaded made;
  if (!options.model.empty()) {
    Result<Model> model = Model::open(options.model);
    if (!model.ok()) return model.error();
    made.model = std::move(*model);
    return made;
  }
  const Result<Architecture> scenes = Architecture::load(options.root + "/models/scenes");
  if (!scenes.ok()) return scenes.error();
  const SafetensorsFile file = SafetensorsFile::random(2);
  DecoderShape shape = smollm2(*scenes->text);
  const DecoderNames names = find_decoder(file, shape);
  Result<Decoder> decoder = Decoder::load(shape, names, file, kernels::WeightFormat::bf16);
  if (!decoder.ok()) return decoder.error();
  made.random = std::move(*decoder);
  return made;
}

/// As one of the neighbours. Never returns.
void be_busy(const Options& options) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (options.busy == "decoding")
    if (const Result<Loaded> loaded = load(options); loaded.ok())
      for (Ours ours(loaded->decoder());;) (void)ours.answer_once();
  for (volatile std::uint64_t turns = 0;;) turns = turns + 1;
}

struct Company {
  const char* what;
  const char* how;
  int count;
};
constexpr Company companies[] = {{"alone", "", 0},
                                 {"beside one busy process", "looping", 1},
                                 {"beside three busy processes", "looping", 3},
                                 {"beside another of its kind", "decoding", 1}};
using Measured = std::vector<std::vector<Times>>;  // [company][round]

void print(const char* who, const Measured& measured) {
  std::printf("%s\n", who);
  const std::vector<Times>& alone = measured[0];
  for (std::size_t c = 0; c < std::size(companies); ++c) {
    std::vector<double> prefill, decode, prefill_ratio, decode_ratio, cpu_ratio, cores;
    for (std::size_t i = 0; i < measured[c].size(); ++i) {
      prefill.push_back(measured[c][i].prefill);
      decode.push_back(measured[c][i].decode);
      prefill_ratio.push_back(measured[c][i].prefill / alone[i].prefill);
      decode_ratio.push_back(measured[c][i].decode / alone[i].decode);
      if (alone[i].cpu == 0) continue;
      cpu_ratio.push_back(measured[c][i].cpu / alone[i].cpu);
      cores.push_back(measured[c][i].cpu / (measured[c][i].prefill + measured[c][i].decode));
    }
    std::printf("  %-28s prefill %7.1f ms, %5.2f of alone   answer %7.1f ms, %5.2f of alone",
                companies[c].what, median(prefill) * 1e3, median(prefill_ratio),
                median(decode) * 1e3, median(decode_ratio));
    if (!cpu_ratio.empty())
      std::printf("   CPU time %.2f, %.2f cores", median(cpu_ratio), median(cores));
    std::printf("\n");
  }
}

struct OursAndIndependent {
  Times ours, independent;
};

/// Both beside the same neighbours, one after the other.
OursAndIndependent ours_once(Ours& ours, const Independent& independent, const Options& options,
                             const Company& company) {
  const Neighbours neighbours({"/proc/self/exe", "--root", options.root, "--model", options.model,
                               "--be-busy", company.how},
                              company.count);
  (void)ours.answer_once();  // until they are there, and what was there before is forgotten
  return {ours.answer_once(), independent.work_once()};
}

/// The peer makes a run for itself before the one that it counts.
Result<Times> peer_once(const Options& options, const Company& company) {
  std::vector<std::string> neighbour{"/proc/self/exe", "--be-busy", company.how};
  if (std::string(company.how) == "decoding")
    neighbour = {options.peer,           "-m", options.model, "-p", "0", "-n",
                 std::to_string(answer), "-r", "1000000"};
  const Neighbours neighbours(neighbour, company.count);
  const Peer peer{options.peer, options.model};
  const Result<double> prefill = ask_peer(peer, "-p", prompt);
  if (!prefill.ok()) return prefill.error();
  const Result<double> decode = ask_peer(peer, "-n", answer);
  if (!decode.ok()) return decode.error();
  return Times{prompt / *prefill, answer / *decode};
}

Result<void> measure(const Options& options, const Decoder& decoder) {
  Ours ours(decoder);
  (void)ours.answer_once();  // warm-up
  const Independent independent(ours.answer_once());
  Measured of_ours(std::size(companies)), of_independent(std::size(companies)),
      of_peer(std::size(companies));
  for (int round = 0; round < rounds; ++round)
    for (std::size_t c = 0; c < std::size(companies); ++c) {
      const OursAndIndependent measured = ours_once(ours, independent, options, companies[c]);
      of_ours[c].push_back(measured.ours);
      of_independent[c].push_back(measured.independent);
      if (options.peer.empty()) continue;
      const Result<Times> theirs = peer_once(options, companies[c]);
      if (!theirs.ok()) return theirs.error();
      of_peer[c].push_back(*theirs);
    }
  std::printf("%zu threads\n", thread_limit());
  print("ours", of_ours);
  print("as many threads as cores, which never wait for each other", of_independent);
  if (!options.peer.empty()) print("llama.cpp", of_peer);
  return {};
}

}  // namespace

int main(int argc, char** argv) {
  constexpr const char* usage =
      "usage: bench_busy_neighbour [--root REPOSITORY] [--model FILE.gguf [--peer LLAMA_BENCH]]";
  if (const auto status =
          usage_status(argc, argv, usage, {"--root", "--model", "--peer", "--be-busy"}))
    return *status;
  const Options options = read_options(argc, argv);
  if (!options.busy.empty()) be_busy(options);
  const Result<Loaded> loaded = load(options);
  const Result<void> done = loaded.ok() ? measure(options, loaded->decoder()) : loaded.error();
  if (done.ok()) return 0;
  std::fprintf(stderr, "error: %s\n%s\n", done.error().message.c_str(), usage);
  return 1;
}
