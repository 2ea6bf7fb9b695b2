// Tables of pages in memory and on a disk, driven by chance: which page goes where and which goes,
// beside what it was before.
#include <algorithm>
#include <catch2/catch.hpp>

#include "base/random.h"
#include "dataplane/page_table.h"
#include "dataplane/segment_index.h"
#include "tests/journal.h"
#include "tests/outcomes.h"

using namespace sluice;

namespace {

std::string words(const PageKey& key) {
  return std::to_string(key.words[0]) + '.' + std::to_string(key.words[1] % 1000);
}

/// What follows a page: few keys, of which some meet others in their first 64 bits.
PageKey follow(const PageKey& before, std::uint64_t which) {
  SplitMix64 random(before.words[1] * 31 + which);
  const std::uint64_t all = random.next();
  return {{all % 97, all, before.words[1], which}};
}

class Heard final : public PageWatcher {
 public:
  void published(Page page) override { text += " published " + std::to_string(page); }
  void dropped(Page page) override { text += " dropped " + std::to_string(page); }
  std::string text;
};

/// Histories that share pages, each with the keys of what it has written.
struct Histories {
  Histories(std::uint64_t seed, std::string_view policy)
      : chance(seed),
        pages(6 + static_cast<std::uint32_t>(pick(20))),
        rows(1 + static_cast<std::uint32_t>(pick(4))),
        table(pages, rows, make_eviction(policy, {pages, 2 * pages}).value()) {
    table.watch(&heard);
  }
  struct One {
    Sequence sequence;
    std::vector<PageKey> keys;  // of its pages, whole or not
  };

  std::uint64_t pick(std::uint64_t most) { return chance.next() % (most + 1); }

  std::vector<PageKey> chain() {
    std::vector<PageKey> keys;
    for (std::uint64_t i = 0, most = pick(6); i < most; ++i)
      keys.push_back(follow(keys.empty() ? PageKey{} : keys.back(), pick(5) == 0 ? 1 : 0));
    return keys;
  }
  std::string open() {
    One one;
    one.keys = chain();
    const auto wanted = static_cast<std::uint32_t>(pick(8 * rows));
    const Admission admission = table.ask(one.keys, wanted);
    one.sequence = table.open(one.keys);
    one.keys.resize(one.sequence.pages().size());
    all.push_back(std::move(one));
    return "opens; asked for " + std::to_string(wanted) + ": " + std::to_string(admission.cached) +
           " there, " + std::to_string(admission.fresh) + " fresh" +
           (admission.fits ? "" : ", no room");
  }
  std::string fork(const One& from) {
    One one;
    one.sequence = table.fork(from.sequence);
    one.keys = from.keys;
    one.keys.resize(one.sequence.pages().size());
    all.push_back(std::move(one));
    return "forks";
  }
  std::string write(One& one) {
    const std::uint32_t before = one.sequence.rows();
    const auto more = static_cast<std::uint32_t>(pick(3 * rows));
    const auto ahead = static_cast<std::uint32_t>(pick(2) == 0 ? pick(2 * rows) : 0);
    std::vector<CopyPage> copies;
    const Result<void> room = table.reserve(one.sequence, before + more + ahead, copies);
    if (!room.ok()) return room.error().message;
    std::string text = "writes " + std::to_string(more) + " of " + std::to_string(more + ahead);
    for (const CopyPage& copy : copies)
      text += ", copies " + std::to_string(copy.rows) + " rows of " + std::to_string(copy.from) +
              " to " + std::to_string(copy.to);
    if (more == 0) return text;
    table.wrote(one.sequence, before + more);
    const std::size_t at = before / rows, end = (before + more + rows - 1) / rows;
    // A page that is gone on with holds the same as its like, or another content.
    const bool keeps = before % rows != 0 && pick(1) == 0 && one.keys.size() > at;
    one.keys.resize(keeps ? at + 1 : at);
    while (one.keys.size() < end)
      one.keys.push_back(
          follow(one.keys.empty() ? PageKey{} : one.keys.back(), pick(5) == 0 ? 1 : 0));
    return text;
  }
  std::string publish(One& one) {
    std::string text = "publishes";
    while ((one.sequence.published() + 1) * rows <= one.sequence.rows()) {
      const PageKey& key = one.keys[one.sequence.published()];
      const bool done = table.publish(one.sequence, key);
      text += ' ' + words(key) + (done ? "" : " not");
      if (!done || pick(3) == 0) break;
    }
    return text;
  }
  std::string truncate(One& one) {
    const auto to = static_cast<std::uint32_t>(pick(one.sequence.rows()));
    const auto reserved =
        static_cast<std::uint32_t>(pick(2) == 0 ? pick(one.sequence.rows() + rows) : 0);
    table.truncate(one.sequence, to, reserved);
    one.keys.resize(std::min<std::size_t>(one.keys.size(), (to + rows - 1) / rows));
    return "cut to " + std::to_string(to) + ", keeps " + std::to_string(reserved);
  }
  std::string step() {
    heard.text.clear();
    table.set_time(++time * 100);
    std::string line;
    if (all.empty() || pick(5) == 0) {
      line = open();
    } else {
      const auto at = static_cast<std::ptrdiff_t>(pick(all.size() - 1));
      One& one = all[static_cast<std::size_t>(at)];
      line = std::to_string(at) + ' ';
      switch (pick(11)) {
        case 0:
          line += all.size() < 8 ? fork(one) : "stays";
          break;
        case 1:
          line += truncate(one);
          break;
        case 2:
        case 3:
          line += "goes";
          table.release(one.sequence);
          all.erase(all.begin() + at);
          break;
        case 4:
        case 5:
        case 6:
          line += publish(one);
          break;
        default:
          line += write(one);
      }
    }
    line += heard.text + "; " + std::to_string(table.free_pages()) + " free, " +
            std::to_string(table.cached_pages()) + " cached;";
    for (const One& one : all) {
      line += ' ' + std::to_string(one.sequence.rows()) + '/' +
              std::to_string(one.sequence.published());
      for (const Page page : one.sequence.pages()) line += ',' + std::to_string(page);
    }
    for (Page page = 0; page < table.capacity(); ++page)
      line += (page == 0 ? "; " : " ") + std::to_string(table.references(page)) +
              (table.is_published(page) ? "p" : "") + std::to_string(table.generation(page)) + "<" +
              (table.parent(page) == no_page ? "" : std::to_string(table.parent(page)));
    return line;
  }

  SplitMix64 chance;
  std::uint32_t pages, rows;
  PageTable table;
  Heard heard;
  std::vector<One> all;  // goes before the table
  std::uint64_t time = 0;
};

std::vector<std::string> play(std::uint64_t seed, std::string_view policy, int steps) {
  Histories histories(seed, policy);
  std::vector<std::string> journal;
  for (int i = 0; i < steps; ++i) journal.push_back(histories.step());
  return journal;
}

/// Folders of small segments: what stands where, and which goes.
struct Folder {
  static constexpr std::uint32_t content = 1000;  // a record is one block
  explicit Folder(std::uint64_t seed)
      : chance(seed),
        limits{segment_block * (5 + pick(20)) + pick(2) - 1,
               segment_block * (1 + pick(6)) + pick(2) - 1},
        index(7, 5, content, limits) {}

  std::uint64_t pick(std::uint64_t most) { return chance.next() % (most + 1); }
  static PageKey key_of(std::uint64_t number) { return {{number, 0, 0, 0}}; }

  std::string words(const StoredPage& page) const {
    return std::to_string(page.segment) + ':' + std::to_string(page.slot) + '=' +
           std::to_string(page.head.key.words[0]) + '<' +
           std::to_string(page.head.parent.words[0]) + '@' + std::to_string(page.head.generation);
  }
  std::string find() {
    const std::uint64_t number = index.last_segment() + pick(2);
    const std::uint64_t layout = pick(3) == 0 ? 6 : 5, owner = pick(5) == 0 ? 8 : 7;
    if (number == 0 || (number == index.last_segment() && index.segments() > 0)) return "";
    const SegmentHead head{owner, number, layout, content, 3};
    std::vector<std::byte> file(segment_block);
    write_segment_head(head, file);
    for (std::uint32_t slot = 0; slot < 3; ++slot) {
      std::vector<std::byte> record(record_bytes(content));
      const std::uint64_t key = 1 + pick(30);
      if (pick(4) != 0)
        write_record(head, slot,
                     {key_of(key), key_of(key - 1), pick(1) == 0 ? pick(9) : number << 24U},
                     record);
      file.insert(file.end(), record.begin(), record.end());
    }
    const auto cut = static_cast<std::ptrdiff_t>(pick(3) * 700);
    file.erase(file.end() - cut, file.end());
    SegmentScan scan(7, number, file.size());
    while (const auto range = scan.wants())
      scan.take(std::span(file).subspan(range->offset, range->bytes));
    index.found(number, file.size(), scan);
    return "finds " + std::to_string(number) + " with " + std::to_string(scan.whole().size()) +
           " whole, " + std::to_string(scan.unfinished()) + " unfinished, " +
           std::to_string(scan.broken()) + " broken";
  }
  std::string begin() {
    const std::uint64_t key = 1 + pick(30);
    if (index.knows(key_of(key))) return "knows " + std::to_string(key);
    const PageKey parent = key_of(pick(3) == 0 ? 0 : key - 1);
    if (!index.has_room_behind(parent)) return "has no room behind it for " + std::to_string(key);
    const SegmentIndex::Writing made = index.begin(key_of(key), parent);
    writing.push_back(made.page);
    std::string text = "begins " + words(made.page) + (made.opens ? " in a new one" : "");
    for (const std::uint64_t segment : made.drops) text += ", drops " + std::to_string(segment);
    return text;
  }
  std::string step() {
    std::string line;
    const PageKey key = key_of(1 + pick(30));
    const StoredPage* page = index.find(key);
    switch (pick(12)) {
      case 0:
        line = pick(2) == 0 ? find() : "";
        break;
      case 1:
      case 2:
      case 3:
        index.used(key);
        line = "used " + std::to_string(key.words[0]);
        break;
      case 4:
        index.lost(key, page == nullptr || pick(3) == 0 ? 1 : page->head.generation);
        line = "lost " + std::to_string(key.words[0]);
        break;
      case 5:
        line = pick(5) == 0 ? "closes" : "";
        if (!line.empty())
          index.close(index.last_segment() -
                      std::min<std::uint64_t>(index.last_segment(), pick(1)));
        break;
      case 6:
      case 7:
      case 8:
        if (writing.size() < 3) line = begin();
        break;
      default: {
        if (writing.empty()) break;
        const auto at = writing.begin() + static_cast<std::ptrdiff_t>(pick(writing.size() - 1));
        const bool written = pick(7) != 0;
        line = (written ? "wrote " : "wrote not ") + words(*at);
        index.ended(*at, written);
        writing.erase(at);
      }
    }
    if (line.empty()) return line;
    line += "; " + std::to_string(index.pages()) + " pages, " + std::to_string(index.bytes()) +
            " bytes, " + std::to_string(index.segments()) + " segments, last " +
            std::to_string(index.last_segment()) + ";";
    for (std::uint64_t segment = 0; segment <= index.last_segment() + 1; ++segment)
      line += index.is_full(segment) ? 'f' : '-';
    std::vector<PageKey> keys;
    for (std::uint64_t number = 1; number <= 31; ++number) {
      keys.push_back(key_of(number));
      const StoredPage* stored = index.find(keys.back());
      if (stored != nullptr) line += ' ' + words(*stored) + (index.knows(keys.back()) ? "" : "?");
    }
    for (std::size_t first = 0; first < 31; first += 1 + pick(5))
      line += " +" + std::to_string(index.match(keys, first));
    return line;
  }

  SplitMix64 chance;
  SegmentLimits limits;
  SegmentIndex index;
  std::vector<StoredPage> writing;
};

}  // namespace

TEST_CASE("a table gives, shares, copies and gives up pages under chance as it did before") {
  test::Outcomes outcomes("page_tables");
  for (const std::string& line : play(1, "lru", 60)) outcomes.add("lru, chance 1", line);
  for (const std::string_view name : eviction_names()) {
    if (name == "learned" || name == "chosen") continue;  // the order of near floats
    for (std::uint64_t seed = 1; seed <= 20; ++seed)
      outcomes.add(std::string(name), test::digest_of(play(seed, name, 600)));
  }
  outcomes.require_as_kept();
}

TEST_CASE("an index of segments places, finds and drops pages under chance as it did before") {
  test::Outcomes outcomes("segment_index");
  for (std::uint64_t seed = 1; seed <= 60; ++seed) {
    Folder folder(seed);
    std::vector<std::string> journal;
    for (int i = 0; i < 600; ++i)
      if (std::string line = folder.step(); !line.empty()) journal.push_back(std::move(line));
    if (seed == 1)
      for (std::size_t at = 0; at < 60; ++at) outcomes.add("chance 1", journal[at]);
    outcomes.add("digests", test::digest_of(journal));
  }
  outcomes.require_as_kept();
}
