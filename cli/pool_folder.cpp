#include "cli/pool_folder.h"

#include <cmath>
#include <cstdio>
#include <optional>

#include "base/count_text.h"
#include "cli/pool_snapshot.h"
#include "engine/storage/store_folder.h"

namespace sluice::cli {

namespace {

using Json = nlohmann::ordered_json;

std::string hex(std::uint64_t word) {
  char text[24];
  std::snprintf(text, sizeof text, "%016llx", static_cast<unsigned long long>(word));
  return text;
}

/// Enough of a key to tell it from others; all of it is of no use to anybody.
std::string key_words(const PageKey& key) { return hex(key.words[0]); }

struct Rates {
  double pages = 0, bytes = 0;  // below nothing: segments were removed
};

std::optional<Rates> rates_of(const FolderSnapshot& now, const FolderSnapshot* before) {
  if (before == nullptr || now.seconds <= before->seconds) return std::nullopt;
  const double passed = now.seconds - before->seconds;
  const auto grown = [&](auto more, auto less) {
    return (static_cast<double>(more) - static_cast<double>(less)) / passed;
  };
  return Rates{grown(now.report.pages, before->report.pages),
               grown(now.report.bytes, before->report.bytes)};
}

std::string segment_line(const FolderSegment& segment) {
  const std::string name = StoreFolder::name_of(segment.number);
  if (!segment.is_segment)
    return name + ": " + count_text(segment.bytes, "byte") + ", no segment of this folder" +
           (segment.bytes == 0 ? " yet" : "") + "\n";
  std::string text = name + ": " + count_text(segment.pages, "page") + ", room for " +
                     std::to_string(segment.room) + ", each " + std::to_string(segment.page_bytes) +
                     " bytes of layout " + hex(segment.layout) + "; " +
                     bytes_words(static_cast<double>(segment.bytes)) + ", written " +
                     std::to_string(segment.written_s) + " s ago";
  if (segment.unfinished > 0) text += "; " + std::to_string(segment.unfinished) + " unfinished";
  if (segment.broken > 0) text += "; " + std::to_string(segment.broken) + " broken";
  return text + "\n";
}

std::string page_line(const FolderPage& page) {
  const bool is_cut = page.depth == 0;
  return "  " + key_words(page.key) + " " +
         (is_cut ? "behind " + key_words(page.parent) + ", which may not be here"
                 : "page " + std::to_string(page.depth) + " of its chain" +
                       (page.depth > 1 ? ", behind " + key_words(page.parent) : "")) +
         "; " + StoreFolder::name_of(page.segment) + ", record " + std::to_string(page.slot) + "\n";
}

}  // namespace

std::string folder_text(const FolderSnapshot& now, const FolderSnapshot* before) {
  const StoreReport& report = now.report;
  std::string text = "pages      " + std::to_string(report.pages) + " in " +
                     count_text(report.segments, "segment") + ", " +
                     bytes_words(static_cast<double>(report.bytes)) + "\nunfinished " +
                     std::to_string(report.unfinished) + "\nbroken     " +
                     std::to_string(report.broken.size()) + "\nin use     " +
                     (report.is_held ? "yes" : "no") + "\n";
  if (const std::optional<Rates> rates = rates_of(now, before)) {
    char line[96];
    std::snprintf(line, sizeof line, "a second   %+.1f pages, %c%s\n", rates->pages,
                  std::signbit(rates->bytes) ? '-' : '+',
                  bytes_words(std::abs(rates->bytes)).c_str());
    text += line;
  }
  for (const std::string& line : report.broken) text += "  " + line + "\n";
  if (!report.broken.empty())
    text +=
        "what is broken is never used, but computed anew; it goes with its file, when the folder "
        "is full, or when you remove the file while nobody uses the folder\n";
  return text;
}

Json folder_json(const std::string& folder, const FolderSnapshot& now,
                 const FolderSnapshot* before) {
  const StoreReport& report = now.report;
  Json json{
      {"folder", folder},        {"pages", report.pages},           {"segments", report.segments},
      {"bytes", report.bytes},   {"unfinished", report.unfinished}, {"broken", report.broken},
      {"in_use", report.is_held}};
  if (const std::optional<Rates> rates = rates_of(now, before))
    json["per_second"] = {{"pages", rates->pages}, {"bytes", rates->bytes}};
  return json;
}

std::string folder_pages_text(const FolderPages& found, bool keys) {
  std::string text;
  for (const FolderSegment& segment : found.segments) text += segment_line(segment);
  text += "pages  " + std::to_string(found.pages.size()) + "; " +
          count_text(found.chains, "chain") + ", the longest of " +
          count_text(found.longest, "page") + "; " + count_text(found.cut, "page") +
          " whose chain begins elsewhere\n";
  text += std::string("in use ") + (found.is_held ? "yes" : "no") + "\n";
  if (keys)
    for (const FolderPage& page : found.pages) text += page_line(page);
  return text;
}

Json folder_pages_json(const FolderPages& found) {
  Json json{{"segments", Json::array()}, {"pages", Json::array()}, {"chains", found.chains},
            {"longest", found.longest},  {"cut", found.cut},       {"in_use", found.is_held}};
  for (const FolderSegment& one : found.segments) {
    Json row{{"number", one.number},
             {"file", StoreFolder::name_of(one.number)},
             {"bytes", one.bytes},
             {"written_s", one.written_s}};
    row["ours"] = one.is_segment;
    if (one.is_segment) {
      row["layout"] = hex(one.layout);
      row["page_bytes"] = one.page_bytes;
      row["room"] = one.room;
      row["pages"] = one.pages;
      row["unfinished"] = one.unfinished;
      row["broken"] = one.broken;
    }
    json["segments"].push_back(std::move(row));
  }
  for (const FolderPage& one : found.pages)
    json["pages"].push_back({{"key", key_words(one.key)},
                             {"parent", one.parent == PageKey{} ? "" : key_words(one.parent)},
                             {"depth", one.depth},
                             {"generation", one.generation},
                             {"segment", one.segment},
                             {"record", one.slot}});
  return json;
}

}  // namespace sluice::cli
