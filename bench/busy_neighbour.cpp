// What a language model loses beside processes that are always busy, and beside another of ours.
//
// Usage: bench_busy_neighbour [--root REPOSITORY]
//
// SmolLM2-135M's shape, random weights in bf16: 128 tokens of prompt, then 40 of answer, on all
// cores. Alone, beside one and three processes that never rest, and beside one that decodes as
// we do; by turns in one run, medians. Targets on two cores: an answer takes at most 1.3 times as
// long beside one busy process, 2.2 times beside three.
#include <signal.h>
#include <spawn.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <string>
#include <vector>

#include "base/worker_pool.h"
#include "roles/model/config.h"

extern char** environ;

using namespace sluice;

namespace {

using Clock = std::chrono::steady_clock;
constexpr std::size_t prompt = 128, answer = 40;
constexpr int rounds = 5;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
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
    for (int i = 0; i < count; ++i) {
      pid_t child = 0;
      SLUICE_CHECK(
          ::posix_spawn(&child, "/proc/self/exe", nullptr, nullptr, arguments.data(), environ) == 0,
          "a neighbour can be started");
      children_.push_back(child);
    }
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
};

class Model {
 public:
  explicit Model(const DecoderShape& shape)
      : decoder_(std::move(Decoder::load(shape, ModelConfig::decoder_names(),
                                         SafetensorsFile::random(2), kernels::WeightFormat::bf16))
                     .value()),
        pool_(decoder_.kv_shape(16), (prompt + answer) / 16 + 2) {
    decoder_.embed(std::vector<std::int32_t>(prompt, 20), rows_);
    decoder_.embed(std::vector<std::int32_t>(1, 20), row_);
  }

  Times answer_once() {
    KvSequence sequence;
    Times times;
    auto start = Clock::now();
    forward(sequence, rows_);
    times.prefill = seconds_since(start);
    start = Clock::now();
    for (std::size_t i = 0; i < answer; ++i) {
      forward(sequence, row_);
      decoder_.logits(hidden_, logits_);
    }
    times.decode = seconds_since(start);
    pool_.truncate(sequence, 0);
    return times;
  }

 private:
  void forward(KvSequence& sequence, const std::vector<float>& rows) {
    const Chunk chunk{&sequence, rows};
    SLUICE_CHECK(decoder_.forward(pool_, {&chunk, 1}, hidden_).ok());
  }

  Decoder decoder_;
  KvPool pool_;
  std::vector<float> rows_, row_, hidden_, logits_;
};

/// As one of the neighbours. Never returns.
void be_busy(const std::string& how, const DecoderShape& shape) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (how == "decoding")
    for (Model model(shape);;) (void)model.answer_once();
  for (volatile std::uint64_t turns = 0;;) turns = turns + 1;
}

void print(const char* what, const std::vector<Times>& times, const std::vector<Times>& alone) {
  std::vector<double> prefill, decode, prefill_ratio, decode_ratio;
  for (std::size_t i = 0; i < times.size(); ++i) {
    prefill.push_back(times[i].prefill);
    decode.push_back(times[i].decode);
    prefill_ratio.push_back(times[i].prefill / alone[i].prefill);
    decode_ratio.push_back(times[i].decode / alone[i].decode);
  }
  std::printf("%-34s prefill %7.1f ms, %5.2f of alone   answer %7.1f ms, %5.2f of alone\n", what,
              median(prefill) * 1e3, median(prefill_ratio), median(decode) * 1e3,
              median(decode_ratio));
}

}  // namespace

int main(int argc, char** argv) {
  std::string root = ".", busy;
  for (int i = 1; i + 1 < argc; ++i) {
    if (std::string(argv[i]) == "--root") root = argv[i + 1];
    if (std::string(argv[i]) == "--be-busy") busy = argv[i + 1];
  }
  const Result<ModelConfig> config = ModelConfig::load(root + "/models/scenes");
  if (!config.ok()) {
    std::fprintf(stderr, "error: %s\nusage: bench_busy_neighbour [--root REPOSITORY]\n",
                 config.error().message.c_str());
    return 1;
  }
  const DecoderShape shape = smollm2(config->decoder());
  if (!busy.empty()) be_busy(busy, shape);
  Model model(shape);
  (void)model.answer_once();  // warm-up
  struct Company {
    const char* what;
    const char* how;
    int count;
  };
  constexpr Company companies[] = {{"alone", "", 0},
                                   {"beside one busy process", "looping", 1},
                                   {"beside three busy processes", "looping", 3},
                                   {"beside another that decodes", "decoding", 1}};
  std::map<const char*, std::vector<Times>> times;
  for (int round = 0; round < rounds; ++round)
    for (const Company& company : companies) {
      const Neighbours neighbours({argv[0], "--root", root, "--be-busy", company.how},
                                  company.count);
      if (company.count != 0) (void)model.answer_once();  // until they are there
      times[company.what].push_back(model.answer_once());
    }
  std::printf("%zu threads\n", thread_limit());
  for (const Company& company : companies)
    print(company.what, times[company.what], times[companies[0].what]);
  return 0;
}
