#include "cli/process_answer.h"

#include <chrono>

#include "cli/json_fields.h"

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
  const nlohmann::ordered_json* const processes = member(answer.json, "processes");
  const bool lists_processes = processes != nullptr && processes->is_array();
  const bool whole = process.machine.empty() ? lists_processes : answer.json.is_object();
  if (!whole) answer.silent = "what it says cannot be read: it is of another version";
  return answer;
}

}  // namespace sluice::cli
