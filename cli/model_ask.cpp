// `sluice model ask`: a checkpoint answers a prompt, with pictures, as its family is talked to.
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "cli/call_value.h"
#include "cli/commands.h"
#include "cli/input_file.h"
#include "cli/kv_folder.h"
#include "cli/model_load.h"
#include "cli/terminal_text.h"
#include "engine/policy/action_tokens.h"
#ifdef SLUICE_CUDA
#include "engine/device/device_text.h"
#endif

namespace sluice::cli {

namespace {

constexpr std::size_t page_tokens = 16;

struct Options {
  std::string directory, prompt, system, precision = "exact", device = "cpu";
  std::vector<std::string> images;
  bool raw = false;
  KvFolder kv;
  KvKept kept;
  GenerationOptions generation;
};

Result<Generation> begin(const ChatModel& model, const Options& options) {
  if (options.raw) return model.begin_raw(options.prompt, options.generation);
  std::vector<ChatMessage> messages;
  if (!options.system.empty()) messages.push_back({"system", options.system, {}});
  ChatMessage said{"user", options.prompt, {}};
  for (const std::string& path : options.images) {
    const Result<Tensor> image = path == "-" ? read_input_picture() : read_picture(path);
    if (!image.ok()) return image.error();
    Result<PictureInput> picture = model.encode_picture(*image);
    if (!picture.ok()) return picture.error();
    said.pictures.push_back(std::move(picture).value());
  }
  messages.push_back(std::move(said));
  return model.begin(messages, options.generation);
}

int answer(const ChatModel& model, Generator& generator, Generation generation) {
  const std::uint64_t id = generation.id;
  generator.add(std::move(generation));
  std::vector<std::uint64_t> advanced;
  std::size_t printed = 0;
  const bool terminal = ::isatty(STDOUT_FILENO) != 0;
  while (generator.busy()) {
    generator.step(advanced);
    const std::string& all = generator.find(id)->text;
    const std::string text = terminal ? plain_text(all.substr(printed)) : all.substr(printed);
    std::fwrite(text.data(), 1, text.size(), stdout);
    std::fflush(stdout);
    printed = all.size();
  }
  const Generation& done = *generator.find(id);
  std::printf("\n");
  if (done.error.has_value()) return fail(done.error->message);
  if (model.model().architecture().family == Family::openvla)
    std::fputs(actions_text(model.model().architecture(), done.tokens).c_str(), stdout);
  note_drawing(model.model(), done);
  return 0;
}

/// Of the prompt and the longest answer: the model reads no more than its positions.
std::size_t tokens_most(const ChatModel& model, const Generation& generation) {
  const Decoder& text = model.model().text();
  return std::min(generation.rows.size() / text.width() + generation.options.tokens_max,
                  text.shape().positions_max);
}

std::size_t pages_of(const ChatModel& model, const Generation& generation) {
  return tokens_most(model, generation) / page_tokens + 2;
}

/// Before the pages are made: those of this answer, and not of a usual one.
Result<void> check_room(const ChatModel& model, const Options& options,
                        const Generation& generation) {
  const MemoryPlan plan = plan_memory(model.model().file(), model.model().architecture(),
                                      tokens_most(model, generation),
                                      format_named(options.precision), options.kept.dtype());
  if (plan.fits()) return {};
  return Error{ErrorCode::exhausted,
               "the prompt and --tokens " + std::to_string(generation.options.tokens_max) +
                   " of an answer do not fit: " + plan.text() + "; give fewer --tokens"};
}

/// The decoder on the device; pictures are encoded on the CPU.
int answer_on_device(const ChatModel& model, const Options& options, Generation generation) {
#ifdef SLUICE_CUDA
  if (options.precision == "int8") return fail("--device cuda runs exact and bf16");
  const auto precision = options.precision == "bf16" ? DeviceDecoder::Precision::bf16
                                                     : DeviceDecoder::Precision::exact;
  auto text = DeviceText::load(model.model().architecture(), model.model().file(), precision,
                               {page_tokens, pages_of(model, generation)});
  if (!text.ok()) return fail(text.error().message);
  Generator generator(**text, &model.tokenizer(), Budget{512, 1});
  return answer(model, generator, std::move(generation));
#else
  (void)model, (void)options, (void)generation;
  return fail("this program was built without CUDA; build it where nvcc is found");
#endif
}

int answer_on_cpu(const ChatModel& model, const Options& options, Generation generation) {
  if (const Result<void> room = check_room(model, options, generation); !room.ok())
    return fail(room.error().message);
  const Result<KeptPool> kept =
      make_pool(model.model().text().kv_shape(page_tokens, options.kept.dtype()),
                pages_of(model, generation), options.kv);
  if (!kept.ok()) return fail(kept.error().message);
  Generator generator(model.model().text(), *kept->pool, &model.tokenizer(), Budget{512, 1});
  generator.use(kept->tier.get());
  const std::uint64_t id = generation.id;
  const std::size_t prompt_tokens = generation.history.size();
  const int status = answer(model, generator, std::move(generation));
  tell_pages(kept->tier.get(), options.kv, prompt_tokens, *generator.find(id));
  tell_end(kept->tier.get(), options.kv);
  return status;
}

/// What was typed or piped as a prompt: the end of its line is not part of it.
Result<std::string> prompt_of(const std::string& given) {
  Result<std::string> text = given == "-" ? read_standard_input() : given;
  if (!text.ok()) return text;
  if (given == "-" && text->ends_with('\n')) text->pop_back();
  if (given == "-" && text->ends_with('\r')) text->pop_back();
  return checked_text("PROMPT", std::move(text).value());
}

Result<void> check_standard_input(const Options& options) {
  const auto pictures = std::ranges::count(options.images, "-");
  if (pictures == 0 || (pictures == 1 && options.prompt != "-")) return {};
  return invalid_argument("--image: standard input can be read once, and " +
                          std::string(options.prompt == "-" ? "PROMPT" : "another --image") +
                          " reads it");
}

int ask(Options options) {
  if (const Result<void> once = check_standard_input(options); !once.ok())
    return fail(once.error().message);
  Result<std::string> prompt = prompt_of(options.prompt);
  if (!prompt.ok()) return fail(prompt.error().message);
  if (prompt->empty() && options.images.empty())
    return fail("PROMPT is empty: say what the model is to answer");
  options.prompt = std::move(prompt).value();
  if (options.device == "cuda" && !options.kv.path.empty())
    return fail("--kv-folder keeps pages of the CPU: leave --device cuda out");
  if (options.device == "cuda" && options.kept.dtype() == Dtype::bf16)
    return fail("--kv-dtype is of pages of the CPU: leave --device cuda out");
  const Result<std::string> system = checked_text("--system", options.system);
  if (!system.ok()) return fail(system.error().message);
  for (const std::string& stop : options.generation.stop)
    if (const Result<std::string> text = checked_text("--stop", stop); !text.ok())
      return fail(text.error().message);
  // Before the weights are read the plan is for 4096 tokens: how many the prompt has, and what the
  // model reads, is known behind them.
  const Result<ChatModel> model =
      load_chat(options.directory, 4096, options.precision, options.kept.dtype());
  if (!model.ok()) return fail(model.error().message);
  Result<Generation> generation = begin(*model, options);
  if (!generation.ok()) return fail(generation.error().message);
  warn_of_unknown_words(*model, options.directory, options.system);
  warn_of_unknown_words(*model, options.directory, options.prompt);
  return options.device == "cuda" ? answer_on_device(*model, options, std::move(generation).value())
                                  : answer_on_cpu(*model, options, std::move(generation).value());
}

}  // namespace

void add_model_ask(Command model, Chosen& chosen) {
  auto options = std::make_shared<Options>();
  Command sub = model.add_subcommand("ask", "Let it answer a prompt, with pictures");
  sub.add_option("DIR", options->directory,
                 "a GGUF file, or a directory with config.json, safetensors and a tokenizer")
      .required();
  sub.add_option("PROMPT", options->prompt, "what the user says; - reads standard input")
      .required();
  const Option image =
      sub.add_option("--image", options->images,
                     "a PNG or JPEG before the prompt, or - (standard input); may be repeated");
  const Option system = sub.add_option("--system", options->system, "what the system says first");
  sub.add_flag("--raw", options->raw, "the prompt as it is, without the chat template")
      .excludes(image)
      .excludes(system);
  GenerationOptions& generation = options->generation;
  sub.add_option("--max-tokens,--tokens", generation.tokens_max, "of the answer, at most")
      .check(Range(1, 1 << 20));
  add_sampling(sub, generation);
  sub.add_option("--stop", generation.stop, "texts that end the answer");
  sub.add_option("--precision", options->precision, "exact, bf16 or int8")
      .one_of({"exact", "bf16", "int8"});
  sub.add_option("--device", options->device, "cpu or cuda, for the decoder")
      .one_of({"cpu", "cuda"});
  add_kv_dtype(sub, options->kept);
  add_kv_folder(sub, options->kv);
  sub.callback([options, &chosen] { chosen = [=] { return ask(*options); }; });
}

}  // namespace sluice::cli
