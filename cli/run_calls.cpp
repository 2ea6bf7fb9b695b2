#include "cli/run_calls.h"

#include <fcntl.h>
#include <linux/magic.h>
#include <poll.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "base/bell.h"
#include "base/count_text.h"
#include "base/failpoint.h"
#include "cli/call_check.h"
#include "cli/call_lines.h"
#include "cli/commands.h"
#include "cli/file_kind.h"
#include "cli/interrupt.h"
#include "cli/line_buffer.h"
#include "cli/progress.h"

namespace sluice::cli {

namespace {

constexpr std::size_t line_bytes_max = std::size_t{64} << 20;
constexpr int held_look_ms = 10;  // while calls wait for a machine

/// A call that was started. Its observer fills it; then it is in `Finished`, and the reader's.
struct Started {
  CallLine line;
  std::string session;  // the line's, or one of its own, which ends with it
  CallOutputs outputs;
  CallOutcome outcome;
};

/// Where the runner's threads leave what has ended. Thread: any.
class Finished {
 public:
  void add(std::shared_ptr<Started> call) {
    {
      const std::lock_guard lock(mutex_);
      calls_.push_back(std::move(call));
    }
    news_.ring();
  }
  std::vector<std::shared_ptr<Started>> take() {
    news_.hear();
    const std::lock_guard lock(mutex_);
    return std::exchange(calls_, {});
  }
  /// Readable while something is there.
  int descriptor() const { return news_.descriptor(); }

 private:
  const Bell news_;
  std::mutex mutex_;
  std::vector<std::shared_ptr<Started>> calls_;
};

class Calls {
 public:
  Calls(const CallsOptions& options, int source, const Plan& plan, Runner& runner,
        OutputFiles files, Progress& progress)
      : options_(options),
        source_(source),
        plan_(plan),
        runner_(runner),
        files_(std::move(files)),
        progress_(progress),
        interrupts_(*options.interrupts),
        finished_(std::make_shared<Finished>()) {}

  RunEnd run();

 private:
  /// Not while a session is to end: what comes behind may be of that session, and begins anew.
  bool wants_lines() const {
    return !at_end_ && !ending_ && under_way_.size() < options_.concurrency;
  }
  void end_session();
  void end_own_sessions();
  /// True while new calls wait for machines, which is said once.
  bool is_held();
  /// Starts what is there and may run; true when it waits for bytes.
  bool start_lines();
  void start(NumberedLine text);
  Result<void> read_bytes();
  void answer(const Started& call);
  void stop(const char* why);
  /// Nothing while no call is under way: a line may be being typed there.
  void tell() {
    if (under_way_.empty()) return progress_.show("");
    progress_.show(count_text(under_way_.size(), "call") + " under way, " +
                   std::to_string(answered_) + " answered");
  }

  const CallsOptions& options_;
  const int source_;
  const Plan& plan_;
  Runner& runner_;
  OutputFiles files_;
  Progress& progress_;
  Interrupts& interrupts_;
  const std::shared_ptr<Finished> finished_;
  LineBuffer lines_{line_bytes_max};
  std::optional<NumberedLine> next_;
  std::map<std::size_t, std::shared_ptr<CallHandle>> under_way_;  // by line
  std::size_t answered_ = 0;
  std::optional<CallLine> ending_;         // whose session ends as soon as no call is under way
  std::vector<std::string> own_sessions_;  // of calls that have ended, and that are still there
  bool source_ended_ = false;
  bool held_ = false;    // calls wait for machines
  bool at_end_ = false;  // nothing more is started
  bool failed_ = false;
  bool interrupted_ = false;
  std::size_t last_ = 0;  // the line that was started last
  std::string problem_;   // that ended it
  RunEnd end_;
};

/// Of a line that names none: nobody else is in it.
std::string own_session(std::size_t line) { return "--calls line " + std::to_string(line); }

void Calls::start(NumberedLine text) {
  if (text.text.find_first_not_of(" \t") == std::string::npos && !text.too_long) return;
  last_ = text.number;
  auto call = std::make_shared<Started>();
  call->line.number = text.number;
  call->line.session = options_.session;  // empty: the line may name one
  Result<void> read = text.too_long
                          ? Error{ErrorCode::exhausted,
                                  "it is longer than " + std::to_string(line_bytes_max) + " bytes"}
                          : read_call(text.text, plan_, call->line);
  if (read.ok()) read = options_.check->check(call->line.inputs);
  if (call->line.end_session && !call->line.session.empty()) {
    ending_.emplace();
    ending_->number = call->line.number;
    ending_->session = call->line.session;
  }
  if (!read.ok()) {
    call->outcome.error = {read.error().code,
                           "line " + std::to_string(text.number) + ": " + read.error().message};
    return answer(*call);
  }
  call->session = call->line.session.empty() ? own_session(text.number) : call->line.session;
  CallRequest request{call->session, std::move(call->line.inputs), call->line.deadline,
                      text.number};
  failpoint("call_begins");
  under_way_[text.number] = nullptr;
  tell();
  under_way_[text.number] =
      runner_.start(std::move(request), {[call](std::string_view output, const PayloadRef& value) {
                                           call->outputs.emplace_back(output, value);
                                         },
                                         [call, finished = finished_](CallOutcome outcome) {
                                           call->outcome = std::move(outcome);
                                           finished->add(call);
                                         }});
}

bool Calls::is_held() {
  const std::string why = options_.waits_for ? options_.waits_for() : std::string();
  if (!why.empty() && !held_)
    std::fprintf(stderr, "note: %s; new calls wait for it\n", why.c_str());
  return held_ = !why.empty();
}

bool Calls::start_lines() {
  while (wants_lines()) {
    if (!next_) next_ = lines_.take();
    if (!next_) {
      at_end_ = source_ended_;
      return !at_end_;
    }
    if (is_held()) return false;
    start(*std::exchange(next_, std::nullopt));
  }
  return false;
}

Result<void> Calls::read_bytes() {
  std::array<char, 65536> part;
  const ssize_t got = ::read(source_, part.data(), part.size());
  if (got < 0 && (errno == EINTR || errno == EAGAIN)) return {};
  if (got < 0)
    return Error{ErrorCode::unavailable,
                 (options_.source == "-" ? std::string("--calls -: standard input cannot be read: ")
                                         : options_.source + ": cannot be read: ") +
                     std::strerror(errno)};
  if (got > 0) {
    lines_.add({part.data(), static_cast<std::size_t>(got)});
  } else {
    source_ended_ = true;
    lines_.end();
  }
  return {};
}

void Calls::answer(const Started& call) {
  std::vector<WrittenFile> written;
  CallOutcome outcome = call.outcome;
  for (std::size_t i = 0; i < call.outputs.size(); ++i) {
    const auto& [name, value] = call.outputs[i];
    if (!files_.takes(name, *value)) continue;
    Result<std::string> path =
        files_.write(name, *value, "call-" + std::to_string(call.line.number) + "-");
    if (path.ok()) {
      written.push_back({i, std::move(path).value()});
      continue;
    }
    if (outcome.ok) outcome.error = path.error();
    outcome.ok = false;
  }
  // What could not be written stands nowhere in the line.
  CallOutputs shown;
  std::vector<WrittenFile> shown_files;
  for (std::size_t i = 0, next = 0; i < call.outputs.size(); ++i) {
    const bool has_file = next < written.size() && written[next].output == i;
    if (files_.takes(call.outputs[i].first, *call.outputs[i].second) && !has_file) continue;
    if (has_file) shown_files.push_back({shown.size(), written[next++].path});
    shown.push_back(call.outputs[i]);
  }
  end_.add(call.outcome);
  failed_ = failed_ || !outcome.ok;
  ++answered_;
  failpoint("call_ended");
  progress_.write(result_line(call.line, outcome, shown, shown_files));
  failpoint("call_answered");
  if (std::ferror(stdout) != 0) stop("");  // the program's end says that it could not be written
}

void Calls::end_session() {
  const CallLine line = *std::exchange(ending_, std::nullopt);
  const Result<void> ended = runner_.end_session(line.session);
  if (ended.ok()) return;
  problem_ = "line " + std::to_string(line.number) + ": end_session: " + ended.error().message;
  stop("");
}

/// One is refused while a role still holds on to its call: it is tried again when others end.
void Calls::end_own_sessions() {
  std::erase_if(own_sessions_,
                [&](const std::string& session) { return runner_.end_session(session).ok(); });
}

void Calls::stop(const char* why) {
  if (*why != '\0') progress_.show(why);
  at_end_ = true;
  failed_ = true;
  for (const auto& [line, handle] : under_way_)
    if (handle) handle->cancel();
}

RunEnd Calls::run() {
  tell();  // what was prepared is
  for (;;) {
    if (ending_ && under_way_.empty()) end_session();
    const bool wants_bytes = start_lines();
    if (ending_ && under_way_.empty()) continue;  // of a line whose call was not started
    if (at_end_ && under_way_.empty()) break;
    std::array<pollfd, 3> events{pollfd{finished_->descriptor(), POLLIN, 0},
                                 pollfd{interrupts_.descriptor(), POLLIN, 0},
                                 pollfd{wants_bytes ? source_ : -1, POLLIN, 0}};
    if (::poll(events.data(), events.size(), held_ ? held_look_ms : -1) < 0) continue;  // a signal
    if (events[1].revents != 0 && interrupts_.take()) {
      interrupted_ = true;
      stop("cancelling; press Ctrl-C again to end at once");
    }
    if (events[2].revents != 0)
      if (const Result<void> read = read_bytes(); !read.ok()) {
        problem_ = read.error().message;
        stop("");
      }
    if (events[0].revents == 0) continue;
    for (const std::shared_ptr<Started>& call : finished_->take()) {
      under_way_.erase(call->line.number);
      answer(*call);
      tell();
      if (call->line.session.empty()) own_sessions_.push_back(call->session);
    }
    end_own_sessions();
  }
  end_.status = problem_.empty() ? failed_ ? 1 : 0 : fail(problem_);
  if (last_ == 0 && problem_.empty() && !interrupted_) {
    progress_.show("");
    std::fprintf(stderr, "note: --calls %s has no line with a call: nothing was run\n",
                 options_.source.c_str());
  }
  if (interrupted_) {
    progress_.show("");
    std::fprintf(stderr, "note: ended by %s; lines behind %zu were not run\n",
                 interrupts_.words().c_str(), last_);
    end_.status = interrupts_.status();
  }
  return std::move(end_);
}

}  // namespace

Result<int> open_calls(const std::string& source) {
  if (source == "-") {
    const int copy = ::fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 0);
    if (copy >= 0) return copy;
    return Error{ErrorCode::unavailable,
                 std::string("--calls -: standard input cannot be read: ") + std::strerror(errno)};
  }
  const int file = ::open(source.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (file < 0)
    return Error{
        errno == ENOENT ? ErrorCode::not_found : ErrorCode::invalid_argument,
        source + (errno == ENOENT ? ": no such file"
                                  : std::string(": cannot be read: ") + std::strerror(errno))};
  struct stat facts {};
  struct statfs where {};
  // A shell's <(...): it has a writer, or had one, so nobody waits for ever.
  const bool piped = fstatfs(file, &where) == 0 && where.f_type == PIPEFS_MAGIC;
  const bool known = fstat(file, &facts) == 0;
  if (known && piped) return file;
  if (known && S_ISREG(facts.st_mode)) {
    const Result<void> kind = check_is_calls(source);
    if (kind.ok()) return file;
    ::close(file);
    return kind.error();
  }
  ::close(file);
  return invalid_argument(source + ": not a regular file; --calls - reads a pipe");
}

RunEnd run_calls(const CallsOptions& options, int source, const Plan& plan, Runner& runner,
                 OutputFiles files, Progress& progress) {
  if (::isatty(source) != 0)
    std::fputs("a call a line, as {\"inputs\": {...}}; Ctrl-D ends\n", stderr);
  RunEnd end = Calls(options, source, plan, runner, std::move(files), progress).run();
  ::close(source);
  return end;
}

}  // namespace sluice::cli
