// Questions to the index's functions in a random order, and what a plain model answers to them.
#pragma once

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/random.h"
#include "tests/index/lua_server.h"

namespace sluice {

using Words = std::vector<std::string>;

inline constexpr const char* index_base = "sluice:laptop:pages:7";

/// A page of a tree: its number, sixteen bytes of it. Page n follows page n / 3.
inline std::string page_name(std::uint64_t number) {
  std::string name(16, '\0');
  for (std::size_t i = 0; i < 16; ++i) name[i] = static_cast<char>(i < 8 ? number >> (8 * i) : i);
  return name;
}
/// From the root down.
inline std::vector<std::uint64_t> chain_of(std::uint64_t page) {
  std::vector<std::uint64_t> chain;
  for (; page > 0; page /= 3) chain.insert(chain.begin(), page);
  return chain;
}

/// The functions as a map of sets, without a thought for what they cost.
class IndexModel {
 public:
  struct Owner {
    std::uint64_t life = 0, number = 0;
    std::int64_t until = 0;
    std::set<std::string> pages;
  };

  LuaAnswer ask(const Words& words, std::int64_t now) {
    if (words[1].ends_with("tell")) return tell(words, now);
    if (words[1].ends_with("find")) return find(words, now);
    const auto it = owners.find(std::stoul(words[4]));
    if (it != owners.end() && it->second.life == std::stoul(words[5])) owners.erase(it);
    return {{"ok"}, ""};
  }

  std::map<std::uint64_t, Owner> owners;
  std::string epoch;

 private:
  LuaAnswer tell(const Words& words, std::int64_t now) {
    const std::uint64_t machine = std::stoul(words[4]), life = std::stoul(words[5]),
                        number = std::stoul(words[6]);
    const bool is_anew = words[7] == "anew", is_next = words[7] == "next";
    const std::int64_t lease = std::stol(words[8]), keep = std::stol(words[9]);
    const std::size_t most = std::stoul(words[10]), added = std::stoul(words[12]);
    remove_old(now - keep);
    const Owner had = owners.contains(machine) ? owners.at(machine) : Owner{};
    const std::string named = epoch.empty() ? words[11] + "@" + std::to_string(now) : epoch;
    if (had.life > life) return {{"fenced", std::to_string(had.life)}, ""};
    const bool is_same = had.life == life && had.number == number;
    const bool follows = had.life == life && had.number + 1 == number && is_next;
    const bool begins = is_anew && (had.life < life || had.number < number);
    if (!is_same && !follows && !begins)
      return {{"gap", named, std::to_string(had.life == life ? had.number : 0)}, ""};
    Owner next = had;
    if (!is_same) {
      std::size_t pages = 0;
      for (const auto& [other, owner] : owners)
        pages += begins && other == machine ? 0 : owner.pages.size();
      if (added > 0 && pages + added > most) return {{"full", std::to_string(pages)}, ""};
      if (begins) next.pages.clear();
      for (std::size_t i = 13 + added; i < words.size(); ++i) next.pages.erase(words[i]);
      for (std::size_t i = 13; i < 13 + added; ++i) next.pages.insert(words[i]);
    }
    next.life = life;
    next.number = number;
    next.until = now + lease;
    owners[machine] = next;
    epoch = named;
    return {{"ok", epoch, std::to_string(number)}, ""};
  }

  LuaAnswer find(const Words& words, std::int64_t now) const {
    struct Has {
      std::size_t pages;
      std::uint64_t distance, machine;
    };
    std::vector<Has> found;
    const std::uint64_t asker = std::stoul(words[4]);
    for (const auto& [machine, owner] : owners) {
      std::size_t pages = 0;
      while (6 + pages < words.size() && owner.pages.contains(words[6 + pages])) ++pages;
      if (machine != asker && owner.until > now && pages > 0)
        found.push_back({pages, (machine + 65536 - asker) % 65536, machine});
    }
    std::ranges::sort(found, [](const Has& a, const Has& b) {
      return a.pages != b.pages ? a.pages > b.pages : a.distance < b.distance;
    });
    LuaAnswer answer{{"ok", epoch}, ""};
    for (std::size_t i = 0; i < std::min(found.size(), std::stoul(words[5])); ++i)
      for (const std::uint64_t word :
           {found[i].machine, owners.at(found[i].machine).life, std::uint64_t{found[i].pages}})
        answer.words.push_back(std::to_string(word));
    return answer;
  }

  void remove_old(std::int64_t before) {
    std::set<std::pair<std::int64_t, std::string>> old;
    for (const auto& [machine, owner] : owners)
      if (owner.until <= before) old.emplace(owner.until, std::to_string(machine));
    std::size_t removed = 0;
    for (const auto& [until, machine] : old)
      if (removed++ < 4) owners.erase(std::stoul(machine));
  }
};

/// What six machines might say, most of it as they should.
class IndexHistory {
 public:
  static constexpr std::uint64_t machines = 6, pages = 60;

  /// `leases`: as a text, one of which each change gets. `least_room`: of pages, for some of them.
  IndexHistory(std::uint64_t seed, Words leases, std::string keep, std::size_t least_room = 20)
      : random_(seed),
        leases_(std::move(leases)),
        keep_(std::move(keep)),
        least_room_(least_room) {}

  Words next() {
    const std::uint64_t what = below(20);
    if (what < 9) return find();
    if (what == 9) {
      const std::uint64_t machine = below(machines);
      Machine& one = machines_[machine];
      if (below(3) == 0) {
        one.life += below(2);
        one.number = below(2) * one.number;
        one.pages.clear();
      }
      return {"FCALL",    "sluice_pages_1_leave",  "1",
              index_base, std::to_string(machine), std::to_string(one.life)};
    }
    return tell();
  }

 private:
  struct Machine {
    std::uint64_t life = 4, number = 0;
    std::set<std::uint64_t> pages = {};
    bool is_off = false;
  };

  std::uint64_t below(std::uint64_t most) { return random_.next() % most; }

  Words find() {
    Words words{"FCALL",
                "sluice_pages_1_find",
                "1",
                index_base,
                std::to_string(below(machines + 1)),
                std::to_string(1 + below(4))};
    const std::uint64_t page = 1 + below(pages);
    for (const std::uint64_t one : chain_of(page)) words.push_back(page_name(one));
    for (std::uint64_t more = below(3); more > 0; --more)  // that nobody has
      words.push_back(page_name(1000 + more));
    return words;
  }

  /// Closed under prefixes before and after, as a pool's pages are.
  Words tell() {
    const std::uint64_t machine = below(machines);
    Machine& one = machines_[machine];
    // What was refused, or repeated with other pages, must be followed by all of them.
    const bool is_anew = one.number == 0 || one.is_off || below(8) == 0;
    const bool is_same = !is_anew && below(6) == 0;
    const std::uint64_t step = is_same ? 0 : 1, taken = below(12) == 0 ? below(3) : step;
    one.number += taken;
    const bool is_earlier = below(16) == 0;
    one.is_off = taken != step || is_earlier;
    if (below(40) == 0) ++one.life;
    if (is_anew) one.pages.clear();
    std::set<std::uint64_t> added, removed;
    for (std::uint64_t times = is_same ? 0 : below(4); times > 0; --times)
      for (const std::uint64_t page : chain_of(1 + below(pages)))
        if (one.pages.insert(page).second) added.insert(page);
    for (std::uint64_t times = is_same ? 0 : below(6); times > 0 && !one.pages.empty(); --times) {
      const std::uint64_t leaf = *one.pages.rbegin();  // the largest number has no page behind it
      if (is_anew || added.contains(leaf)) break;
      one.pages.erase(leaf);
      removed.insert(leaf);
    }
    Words words{"FCALL",
                "sluice_pages_1_tell",
                "1",
                index_base,
                std::to_string(machine),
                std::to_string(one.life - (is_earlier ? 1 : 0)),
                std::to_string(one.number),
                is_anew   ? "anew"
                : is_same ? "same"
                          : "next",
                leases_[below(leases_.size())],
                keep_,
                std::to_string(below(8) == 0 ? least_room_ : 1000),
                "data",
                std::to_string(added.size())};
    for (const std::uint64_t page : added) words.push_back(page_name(page));
    for (const std::uint64_t page : removed) words.push_back(page_name(page));
    return words;
  }

  SplitMix64 random_;
  Words leases_;
  std::string keep_;
  std::size_t least_room_;
  std::map<std::uint64_t, Machine> machines_;
};

}  // namespace sluice
