// `sluice chat`: a conversation with a checkpoint in a terminal, or from lines of standard input.
//
// What was said keeps its keys and values: a turn computes only what is new. Ctrl-C stops an
// answer; between answers it ends the conversation, as the end of input does.
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/count_text.h"
#include "cli/call_value.h"
#include "cli/commands.h"
#include "cli/input_file.h"
#include "cli/interrupt.h"
#include "cli/kv_folder.h"
#include "cli/line_editor.h"
#include "cli/line_reader.h"
#include "cli/model_load.h"
#include "cli/terminal_text.h"

namespace sluice::cli {

namespace {

constexpr std::size_t page_tokens = 16;
constexpr std::size_t context_default = 4096;
constexpr const char* help =
    "/image FILE shows a picture, /reset starts anew, /quit ends; Ctrl-C stops an answer";

struct Options {
  std::string path, system, precision = "exact";
  std::optional<std::size_t> context_given;
  std::size_t context = 0;  // whole pages; no more than the model reads
  bool stats = false;
  KvFolder kv;
  KvKept kept;
  GenerationOptions generation;
};

void print_text(std::string_view text) {
  const std::string plain = plain_text(text);
  std::fwrite(plain.data(), 1, plain.size(), stdout);
  std::fflush(stdout);
}

/// The conversation so far, and the keys and values of it.
class Talk {
 public:
  Talk(const ChatModel& model, const Options& options, Interrupts& interrupts, KeptPool kept)
      : model_(model),
        options_(options),
        interrupts_(interrupts),
        kept_(std::move(kept)),
        pool_(*kept_.pool),
        generator_(model.model().text(), pool_, &model.tokenizer(), Budget{256, 1}) {
    generator_.use(kept_.tier.get());
    reset();
  }

  void reset();
  /// Stands before the next message.
  Result<void> add_picture(const std::string& path);
  /// Prints the answer as it is made, until Ctrl-C. Errors: as if it had not been asked.
  Result<void> say(const std::string& text);
  /// Waits until pages that later processes are to find are written; says so where they are not.
  void end() { tell_end(kept_.tier.get(), options_.kv); }

 private:
  /// The last message was not said: its pictures stand before the next one again.
  void take_back();
  Result<Generation> begin(std::vector<std::int32_t>& prompt);
  Generation run(Generation generation, bool& stopped);

  const ChatModel& model_;
  const Options& options_;
  Interrupts& interrupts_;
  KeptPool kept_;
  KvPool& pool_;
  Generator generator_;
  std::vector<ChatMessage> messages_;
  std::vector<PictureInput> pictures_;
  bool ends_with_room_ = false;       // the answer may be no longer than the room there is
  KvSequence sequence_;               // of the first `sequence_.tokens` tokens below
  std::vector<std::int32_t> tokens_;  // of all messages
  RowsOrigin origin_;                 // what else decided its rows
};

void Talk::reset() {
  pool_.truncate(sequence_, 0);
  tokens_.clear();
  messages_.clear();
  pictures_.clear();
  if (!options_.system.empty()) messages_.push_back({"system", options_.system, {}});
}

Result<void> Talk::add_picture(const std::string& path) {
  const Result<Tensor> image = read_picture(path);
  if (!image.ok()) return image.error();
  Result<PictureInput> picture = model_.encode_picture(*image);
  if (!picture.ok()) return picture.error();
  pictures_.push_back(std::move(picture).value());
  return {};
}

Result<Generation> Talk::begin(std::vector<std::int32_t>& prompt) {
  Result<std::vector<std::int32_t>> made = model_.tokens(messages_);
  if (!made.ok()) return made.error();
  prompt = std::move(made).value();
  const std::size_t most = pool_.pages() * page_tokens;
  if (prompt.size() >= most)
    return Error{ErrorCode::exhausted,
                 "the conversation would have " + count_text(prompt.size(), "token") +
                     " and an answer, there is room for " + std::to_string(most) +
                     ": /reset starts anew, --context gives more"};
  GenerationOptions options = options_.generation;
  ends_with_room_ = most - prompt.size() < options.tokens_max;
  options.tokens_max = std::min(options.tokens_max, most - prompt.size());
  Result<Generation> generation = model_.begin_with(prompt, messages_, std::move(options));
  if (!generation.ok()) return generation;
  const std::size_t kept =
      model_.keep_prefix(pool_, std::move(sequence_), origin_, tokens_, *generation, true);
  sequence_ = {};
  if (options_.stats)
    std::fprintf(stderr, "prompt     %s, %zu kept in this chat, %zu new\n",
                 count_text(prompt.size(), "token").c_str(), kept, prompt.size() - kept);
  return generation;
}

Generation Talk::run(Generation generation, bool& stopped) {
  const std::uint64_t id = generation.id;
  generator_.add(std::move(generation));
  std::vector<std::uint64_t> advanced;
  std::size_t printed = 0;
  while (generator_.busy() && !(stopped = interrupts_.take())) {
    generator_.step(advanced);
    const std::string& text = generator_.find(id)->text;
    print_text(std::string_view(text).substr(printed));
    printed = text.size();
  }
  return std::move(generator_.remove(id)).value();
}

void Talk::take_back() {
  pictures_ = std::move(messages_.back().pictures);
  messages_.pop_back();
}

Result<void> Talk::say(const std::string& text) {
  warn_of_unknown_words(model_, options_.path, text);
  messages_.push_back({"user", text, std::move(pictures_)});
  pictures_.clear();
  std::vector<std::int32_t> prompt;
  Result<Generation> generation = begin(prompt);
  if (!generation.ok()) {
    take_back();
    return generation.error();
  }
  bool stopped = false;
  Generation done = run(std::move(generation).value(), stopped);
  sequence_ = std::move(done.sequence);
  origin_ = std::move(done.origin);
  const std::size_t prompt_tokens = prompt.size();
  tokens_ = std::move(prompt);
  tokens_.insert(tokens_.end(), done.tokens.begin(), done.tokens.end());
  std::printf("\n");
  std::fflush(stdout);
  tell_pages(kept_.tier.get(), options_.kv, prompt_tokens, done);
  if (done.error.has_value()) {
    take_back();
    return *done.error;
  }
  if (note_drawing(model_.model(), done)) {
    take_back();  // nothing was said that the talk could go on from
    return {};
  }
  messages_.push_back({"assistant", done.text, {}});
  const char* why = nullptr;
  if (stopped)
    why = "stopped";
  else if (done.finish == Generation::Finish::length)
    why = ends_with_room_ ? "cut off: --context gives more" : "cut off: --max-tokens gives more";
  if (why != nullptr) std::fprintf(stderr, "(%s)\n", why);
  return {};
}

/// What `/image FILE` names: blanks around it and one pair of quotes are not part of it, ~/ is the
/// user's folder. Empty: it is another command, or names nothing.
std::string file_of(const std::string& line) {
  constexpr const char* blanks = " \t\r";
  if (!line.starts_with("/image ") && !line.starts_with("/image\t")) return "";
  const std::size_t begin = line.find_first_not_of(blanks, 6);
  if (begin == std::string::npos) return "";
  std::string file = line.substr(begin, line.find_last_not_of(blanks) - begin + 1);
  if (file.size() > 2 && (file[0] == '"' || file[0] == '\'') && file.back() == file[0])
    file = file.substr(1, file.size() - 2);
  const char* const home = std::getenv("HOME");
  if (file.starts_with("~/") && home != nullptr) file.replace(0, 1, home);
  return file;
}

/// A line of the user. Errors are printed and the conversation goes on.
Result<void> take(Talk& talk, const std::string& line, bool& quit) {
  if (line.find_first_not_of(" \t\r") == std::string::npos) return {};
  if (const Result<std::string> text = checked_text("the message", line); !text.ok())
    return text.error();
  if (line[0] != '/') return talk.say(line);
  if (line.starts_with("//")) return talk.say(line.substr(1));
  if (line == "/quit" || line == "/exit") {
    quit = true;
    return {};
  }
  if (line == "/help") {
    std::printf("%s\n", help);
    return {};
  }
  if (line == "/reset") {
    talk.reset();
    return {};
  }
  if (const std::string file = file_of(line); !file.empty()) return talk.add_picture(file);
  const std::string command = line.substr(0, line.find_first_of(" \t"));
  if (command == "/image") return invalid_argument("/image needs a file: /image FILE");
  if (command == "/quit" || command == "/exit" || command == "/reset" || command == "/help")
    return invalid_argument(command + " stands alone in its line");
  return invalid_argument("there is no command '" + command +
                          "'; there are /image FILE, /reset, /help and /quit (a message that "
                          "begins with / is written with two)");
}

/// What `--context` comes to: whole pages, and no more than the model reads.
Result<std::size_t> context_of(const Options& options) {
  const Result<Architecture> architecture = load_architecture(options.path);
  if (!architecture.ok()) return architecture.error();
  const std::size_t most = architecture->text ? architecture->text->positions_max : context_default;
  if (options.context_given.value_or(0) > most)
    return invalid_argument("--context " + std::to_string(*options.context_given) +
                            ": the model reads at most " + std::to_string(most) + " tokens");
  const std::size_t wanted = options.context_given.value_or(std::min(context_default, most));
  return (wanted + page_tokens - 1) / page_tokens * page_tokens;
}

int chat(Options options) {
  const Result<std::string> system = checked_text("--system", options.system);
  if (!system.ok()) return fail(system.error().message);
  const Result<std::size_t> context = context_of(options);
  if (!context.ok()) return fail(context.error().message);
  options.context = *context;
  const Result<ChatModel> model =
      load_chat(options.path, options.context, options.precision, options.kept.dtype());
  if (!model.ok()) return fail(model.error().message);
  if (!model->chat().ok()) return fail(model->chat().error().message);
  Result<KeptPool> pool =
      make_pool(model->model().text().kv_shape(page_tokens, options.kept.dtype()),
                options.context / page_tokens, options.kv);
  if (!pool.ok()) return fail(pool.error().message);
  warn_of_unknown_words(*model, options.path, options.system);
  Interrupts interrupts(Interrupts::Of::ctrl_c);
  Talk talk(*model, options, interrupts, std::move(pool).value());
  const bool terminal = ::isatty(STDIN_FILENO) != 0 && ::isatty(STDOUT_FILENO) != 0;
  if (terminal) std::printf("%s\n", help);
  LineReader lines(STDIN_FILENO, interrupts.descriptor());
  const std::unique_ptr<LineEditor> editor = LineEditor::open(interrupts.descriptor());
  std::string line;
  bool failed = false;
  for (bool quit = false; !quit;) {
    if (terminal && !editor) std::printf("> ");
    std::fflush(stdout);
    const Result<bool> read = editor ? editor->next(line) : lines.next(line);
    if (!read.ok()) return fail(read.error().message);
    if (!*read) break;
    const Result<void> taken = take(talk, line, quit);
    failed = failed || !taken.ok();
    if (!taken.ok()) (void)fail(taken.error().message);
  }
  if (terminal) std::printf("\n");
  talk.end();
  return failed && !terminal ? 1 : 0;
}

}  // namespace

void add_chat(Command app, Chosen& chosen) {
  auto options = std::make_shared<Options>();
  Command sub = app.add_subcommand("chat", "Talk with a checkpoint, turn by turn");
  sub.add_option("MODEL", options->path,
                 "a GGUF file, or a directory with config.json, safetensors and a tokenizer")
      .required();
  sub.add_option("--system", options->system, "what the system says first");
  sub.add_option("--context", options->context_given,
                 "tokens there is room for: all that is said, rounded up to whole pages of 16; "
                 "left out, no more than the model reads")
      .check(Range(64, 1 << 20))
      .shown_default(std::to_string(context_default));
  GenerationOptions& generation = options->generation;
  generation.tokens_max = 1024;
  sub.add_option("--max-tokens,--tokens", generation.tokens_max, "of an answer, at most")
      .check(Range(1, 1 << 20))
      .shown_default();
  add_sampling(sub, generation);
  sub.add_option("--precision", options->precision, "exact, bf16 or int8")
      .one_of({"exact", "bf16", "int8"});
  sub.add_flag("--stats", options->stats,
               "tell for each turn how much of its prompt this chat has kept and how much is new");
  add_kv_dtype(sub, options->kept);
  add_kv_folder(sub, options->kv);
  sub.callback([options, &chosen] { chosen = [=] { return chat(*options); }; });
}

}  // namespace sluice::cli
