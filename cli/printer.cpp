#include "cli/printer.h"

#include <utility>

#include "cli/call_value.h"

namespace sluice::cli {

void Printer::show(std::string_view output, const Payload& value) {
  cut_off_ = value.attribute("cut_off").value_or(cut_off_);
  if (files_.takes(output, value) && !unwritten_.contains(output) && save(output, value)) return;
  if (is_file_type(value.type)) return;
  const std::string text = file_bytes(value);
  if (several_) return show_lines(output, text);
  progress_.write(text);
  if (!text.empty()) line_open_ = !text.ends_with('\n');
}

void Printer::show_lines(std::string_view output, const std::string& text) {
  std::string& line = open_.try_emplace(std::string(output)).first->second;
  line += text;
  for (std::size_t end; (end = line.find('\n')) != std::string::npos; line.erase(0, end + 1))
    progress_.write(std::string(output) + ": " + line.substr(0, end + 1));
}

const std::string& Printer::finish() {
  end_line();
  for (const auto& [output, line] : open_)
    if (!line.empty()) progress_.write(output + ": " + line + "\n");
  open_.clear();
  return problem_;
}

void Printer::end_line() {
  if (std::exchange(line_open_, false)) progress_.write("\n");
}

bool Printer::save(std::string_view output, const Payload& value) {
  const Result<std::string> path = files_.write(output, value);
  if (!path.ok()) {
    if (problem_.empty()) problem_ = path.error().message;
    if (!is_file_type(value.type)) unwritten_.emplace(output);
    return false;
  }
  if (!is_file_type(value.type)) return true;
  end_line();
  const Tensor& tensor = value.tensor;
  progress_.write("[" + std::string(output) + ": " + *path + ", " +
                  (value.type == ValueType::image
                       ? std::to_string(tensor.dim(1)) + " x " + std::to_string(tensor.dim(0))
                       : tensor.describe()) +
                  "]\n");
  return true;
}

}  // namespace sluice::cli
