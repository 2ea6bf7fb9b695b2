#include "cli/line_editor.h"

#include <histedit.h>
#include <poll.h>
#include <signal.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <clocale>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <string_view>

#include "cli/key_decoder.h"

namespace sluice::cli {

namespace {

constexpr int lines_kept = 1000;
constexpr char ctrl_c = 3;
constexpr char ctrl_z = 26;

char* prompt(EditLine*) {
  static char text[] = "> ";
  return text;
}

class Editor final : public LineEditor {
 public:
  explicit Editor(int stop) : stop_(stop) {
    // The characters of a line are UTF-8 whatever the user's language is.
    if (std::setlocale(LC_CTYPE, "C.UTF-8") == nullptr) return;
    edit_ = el_init("sluice", stdin, stdout, stderr);
    history_ = history_init();
    if (edit_ == nullptr || history_ == nullptr) return;
    HistEvent event;
    history(history_, &event, H_SETSIZE, lines_kept);
    history(history_, &event, H_SETUNIQUE, 1);
    el_set(edit_, EL_CLIENTDATA, this);
    el_set(edit_, EL_PROMPT, prompt);
    el_set(edit_, EL_EDITOR, "emacs");
    el_set(edit_, EL_HIST, history, history_);
    el_set(edit_, EL_GETCFN, next_key);
    // Ctrl-C and Ctrl-Z come as keys: the library would send signals to the whole process group.
    el_set(edit_, EL_SETTY, "-d", "-isig", nullptr);
    ready_ = true;
  }
  ~Editor() override {
    if (history_ != nullptr) history_end(history_);
    if (edit_ != nullptr) el_end(edit_);
  }
  Editor(const Editor&) = delete;
  Editor& operator=(const Editor&) = delete;

  bool ready() const { return ready_; }

  Result<bool> next(std::string& line) override {
    el_resize(edit_);
    el_set(edit_, EL_PREP_TERM, 1);  // before the prompt is shown: what follows it are keys
    int count = 0;
    const char* text = el_gets(edit_, &count);
    if (problem_.has_value()) return *problem_;
    if (text == nullptr || count <= 0) return false;
    line.assign(text, static_cast<std::size_t>(count));
    while (line.ends_with('\n') || line.ends_with('\r')) line.pop_back();
    HistEvent event;
    if (line.find_first_not_of(" \t") != std::string::npos)
      history(history_, &event, H_ENTER, line.c_str());
    return true;
  }

 private:
  /// 1: a key is there; 0: no more are wanted.
  static int next_key(EditLine* edit, wchar_t* key) {
    Editor* self = nullptr;
    el_get(edit, EL_CLIENTDATA, &self);
    for (;;) {
      if (const std::optional<wchar_t> decoded = self->keys_.take()) {
        *key = *decoded;
        return 1;
      }
      std::array<pollfd, 2> events{pollfd{STDIN_FILENO, POLLIN, 0}, pollfd{self->stop_, POLLIN, 0}};
      if (::poll(events.data(), events.size(), -1) < 0) continue;  // a signal
      if (events[1].revents != 0) return 0;
      char byte = 0;
      const ssize_t got = ::read(STDIN_FILENO, &byte, 1);
      if (got < 0 && errno == EINTR) continue;
      if (got < 0)
        self->problem_ = Error{ErrorCode::unavailable,
                               std::string("the input cannot be read: ") + std::strerror(errno)};
      if (got <= 0 || byte == ctrl_c) return 0;
      if (byte == ctrl_z)
        self->suspend();
      else
        self->keys_.add(byte);
    }
  }

  /// Gives the terminal back to the shell until the program goes on.
  void suspend() {
    el_set(edit_, EL_PREP_TERM, 0);
    ::raise(SIGTSTP);
    el_set(edit_, EL_PREP_TERM, 1);
    el_set(edit_, EL_REFRESH);
  }

  const int stop_;
  EditLine* edit_ = nullptr;
  History* history_ = nullptr;
  bool ready_ = false;
  KeyDecoder keys_;
  std::optional<Error> problem_;
};

}  // namespace

std::unique_ptr<LineEditor> LineEditor::open(int stop) {
  const char* terminal = std::getenv("TERM");
  if (::isatty(STDIN_FILENO) == 0 || ::isatty(STDOUT_FILENO) == 0 || terminal == nullptr ||
      std::string_view(terminal).empty() || std::string_view(terminal) == "dumb")
    return nullptr;
  auto editor = std::make_unique<Editor>(stop);
  if (!editor->ready()) return nullptr;
  return editor;
}

}  // namespace sluice::cli
