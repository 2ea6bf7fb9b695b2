#include "cli/process_answer.h"

#include <chrono>

namespace sluice::cli {

namespace {

constexpr std::chrono::seconds answer_patience{1};

}  // namespace

ProcessAnswer ask_process(const RunningProcess& process) {
  ProcessAnswer answer;
  const Result<std::string> text =
      process.reader ? process.reader->read(answer_patience)
                     : Result<std::string>(Error{ErrorCode::unavailable, process.silent});
  if (!text.ok()) {
    answer.silent = text.error().message;
    return answer;
  }
  answer.json = nlohmann::ordered_json::parse(*text, nullptr, false);
  if (!answer.json.is_object())
    answer.silent = "what it says cannot be read: it is of another version";
  return answer;
}

}  // namespace sluice::cli
