// Pages between machines under schedules made by chance: what the asking and the answering side say
// and do at each event, beside what they did before. Times stand on their limits often.
#include <array>
#include <catch2/catch.hpp>
#include <deque>

#include "dataplane/page_puller.h"
#include "tests/dataplane/message_words.h"
#include "tests/dataplane/page_shelf.h"
#include "tests/journal.h"
#include "tests/outcomes.h"

using namespace sluice;
using pages::Bytes;

namespace {

std::string words(PeerLife life) {
  return std::to_string(life.machine) + '/' + std::to_string(life.incarnation);
}

/// Long ones by their begin and a digest.
std::string shortened(const std::string& line) {
  return line.size() < 160 ? line : line.substr(0, 120) + "..., " + test::digest_of({line});
}

std::string words(const std::vector<PeerMessage>& messages) {
  std::string text;
  for (const PeerMessage& one : messages)
    text += "; to " + words(one.peer) + ": " + shortened(text_of(one.bytes));
  return text;
}

std::string words(const PageServerCounts& counts) {
  return std::to_string(counts.pages) + ' ' + std::to_string(counts.bytes) + ' ' +
         std::to_string(counts.missing) + ' ' + std::to_string(counts.busy) + ' ' +
         std::to_string(counts.refused);
}

/// Who asks, up to ten who answer, and what is on its way.
struct World {
  World(std::uint64_t seed, std::uint32_t bytes)
      : chance(seed), page(bytes), puller(hello_of(1, bytes)) {}

  std::uint64_t pick(std::uint64_t most) { return chance.next() % (most + 1); }

  struct Server {
    Server(std::uint64_t incarnation, std::uint32_t bytes)
        : machine(hello_of(incarnation, bytes), receipts) {
      machine.met(client);
      shelf.bytes = bytes;
    }
    PageServer machine;
    Shelf shelf;
  };

  std::string meet(PeerLife life) {
    const auto [it, is_new] = servers.try_emplace(life, life.incarnation, page);
    for (std::uint64_t key = 0, most = pick(12); key < most; ++key)
      it->second.shelf.there[key_of(key)] = 1;
    puller.met(life, hello_of(life.incarnation + (pick(40) == 0 ? 1 : 0), page), now);
    return (is_new ? "meets " : "meets again ") + words(life);
  }
  std::string lose(PeerLife life) {
    if (servers.erase(life) == 0) return "";
    puller.lost(life, now);
    return "loses " + words(life);
  }
  std::string begin() {
    constexpr std::size_t counts[] = {1, 2, 5, 12, pages::keys_most, pages::keys_most + 1};
    const std::size_t count = counts[pick(19) == 0 ? pick(5) : pick(3)];
    last = now;
    const bool begun = puller.begin(++pull, keys_of(pick(3), count), now);
    return "begins " + std::to_string(pull) + " of " + std::to_string(count) +
           (begun ? "" : ": nobody");
  }
  std::string fetch() {
    if (found.empty()) return "";
    const auto [id, pages] = found.front();
    found.pop_front();
    const std::size_t wanted = pick(2) == 0 ? 1 + pick(pages - 1) : pages;
    last = now;
    fetch_into(puller, id, places(wanted, page), now);
    return "fetches " + std::to_string(wanted) + " of " + std::to_string(id);
  }
  std::string pass() {
    constexpr std::array<std::int64_t, 9> times{1,
                                                PagePuller::find_patience,
                                                PagePuller::page_patience,
                                                PagePuller::pull_patience,
                                                PagePuller::first_pause,
                                                PagePuller::longest_pause,
                                                PagePuller::page_patience / 2,
                                                PagePuller::pull_patience / 4,
                                                2 * PagePuller::first_pause};
    const std::int64_t time = times[pick(1) == 0 ? pick(times.size() - 1) : 0];
    // Often at the limit itself, of what was begun last.
    now = pick(1) == 0 ? now + time : std::max(now, last + time);
    puller.tick(now);
    return "at " + std::to_string(now);
  }
  std::string deliver() {
    if (to_client.empty()) return "";
    auto [from, bytes] = std::move(to_client.front());
    to_client.pop_front();
    std::string how;
    switch (pick(40)) {
      case 0:
        return "a message is lost";
      case 1:
        bytes[pick(bytes.size() - 1)] ^= std::byte{1};
        how = ", changed";
        break;
      case 2:
        to_client.push_front({from, bytes});
        how = ", which comes again";
        break;
      case 3:
        from.incarnation ^= 1U;
        how = ", as another life's";
        break;
      default:
        break;
    }
    const std::string text = shortened(text_of(bytes));
    puller.take(from, std::move(bytes), now);
    return "hears " + words(from) + how + ": " + text;
  }
  std::string serve() {
    if (to_servers.empty()) return "";
    const PeerMessage one = std::move(to_servers.front());
    to_servers.pop_front();
    const auto it = servers.find(one.peer);
    if (it == servers.end()) return "nobody hears";
    std::vector<PeerMessage> out;
    it->second.machine.take(client, *pages::decode(one.bytes), it->second.shelf, out);
    return answered(it->first, it->second, out);
  }
  std::string go_on() {
    for (auto& [life, server] : servers)
      if (server.machine.has_more() && pick(1) == 0) {
        std::vector<PeerMessage> out;
        server.machine.go_on(server.shelf, out);
        return answered(life, server, out);
      }
    return "";
  }
  std::string answered(PeerLife life, const Server& server, std::vector<PeerMessage>& out) {
    const std::string text = words(life) + " says" + words(out) + "; owes " +
                             std::to_string(server.machine.owed(client)) + ", counts " +
                             words(server.machine.counts());
    for (PeerMessage& message : out) to_client.push_back({life, std::move(message.bytes)});
    return text;
  }
  /// A message that nobody sent, about a question that there was.
  std::string forge(PeerLife life) {
    const std::uint64_t id = asked - std::min(asked, pick(5));
    const auto some = static_cast<std::uint32_t>(pick(6));
    const Bytes bytes =
        pick(1) == 0 ? encode(pages::Found{id, some, 5})
                     : encode(pages::End{id, some, static_cast<pages::End::Status>(pick(3)), 6});
    puller.take(life, bytes, now);
    return "is told by " + words(life) + ": " + text_of(bytes);
  }
  std::string act() {
    const PeerLife life{1 + static_cast<std::uint32_t>(pick(9)),
                        1 + static_cast<std::uint32_t>(pick(1))};
    switch (pick(23)) {
      case 0:
      case 1:
        return meet(life);
      case 2:
        return pick(3) == 0 ? lose(life) : "";
      case 3: {
        const auto it = servers.find(life);
        if (it == servers.end()) return "";
        it->second.shelf.there.erase(key_of(pick(12)));
        return "gives up";
      }
      case 4:
      case 5:
        return begin();
      case 6: {
        if (pull == 0 || pick(3) != 0) return "";
        const std::uint64_t which = pull - pick(std::min<std::uint64_t>(pull, 3));
        std::erase_if(found, [&](const auto& one) { return one.first == which; });
        puller.cancel(which);
        return "cancels " + std::to_string(which);
      }
      case 7:
      case 8:
        return pass();
      case 9:
      case 10:
        return fetch();
      case 11:
        return pick(2) == 0 ? forge(life) : "";
      case 12:
      case 13:
      case 14:
      case 15:
        return serve();
      case 16:
      case 17:
        return go_on();
      default:
        return deliver();
    }
  }
  /// What came of it; empty: nothing was done.
  std::string step() {
    std::string line = act();
    if (line.empty()) return line;
    std::vector<PeerMessage> out = puller.take_out();
    line += words(out);
    for (PeerMessage& message : out) {
      const auto read = pages::decode(message.bytes);
      if (const auto* find = std::get_if<pages::Find>(&*read)) asked = std::max(asked, find->id);
      if (const auto* ask = std::get_if<pages::Ask>(&*read)) asked = std::max(asked, ask->id);
      to_servers.push_back(std::move(message));
    }
    for (const PullEvent& event : puller.take_events()) {
      line += "; pull " + std::to_string(event.pull);
      switch (event.kind) {
        case PullEvent::Kind::found:
          found.emplace_back(event.pull, event.pages);
          line += " found " + std::to_string(event.pages) + " at " + words(event.peer);
          break;
        case PullEvent::Kind::page:
          line += " has page " + std::to_string(event.pages) + " of " +
                  std::to_string(event.place->size()) + " bytes, " +
                  std::to_string(crc32c(bytes_of(event.place)));
          break;
        case PullEvent::Kind::ended:
          line += " ended " + std::to_string(static_cast<int>(event.end)) + " with " +
                  std::to_string(event.pages) + " of " + words(event.peer);
          std::erase_if(found, [&](const auto& one) { return one.first == event.pull; });
      }
    }
    return line + "; " + std::to_string(puller.pulls()) + " pulls, " +
           std::to_string(puller.stale()) + " stale" + (puller.has_peers(now) ? "" : ", alone");
  }

  SplitMix64 chance;
  std::uint32_t page;
  PagePuller puller;
  std::int64_t now = 0, last = 0;
  std::uint64_t pull = 0, asked = 0;
  std::map<PeerLife, Server> servers;
  std::deque<PeerMessage> to_servers;
  std::deque<std::pair<PeerLife, Bytes>> to_client;
  std::deque<std::pair<std::uint64_t, std::size_t>> found;
};

std::vector<std::string> play(std::uint64_t seed, int steps, std::uint32_t bytes) {
  World world(seed, bytes);
  std::vector<std::string> journal;
  for (int i = 0; i < steps; ++i)
    if (std::string line = world.step(); !line.empty()) journal.push_back(std::move(line));
  return journal;
}

/// A server that two peers ask more than they take.
std::vector<std::string> flood(std::uint64_t seed, int steps, std::uint32_t bytes) {
  SplitMix64 chance(seed);
  const auto pick = [&](std::uint64_t most) { return chance.next() % (most + 1); };
  PageServer server(hello_of(3, bytes), receipts);
  Shelf shelf;
  shelf.bytes = bytes;
  for (std::uint64_t key = 0; key < 20; ++key) shelf.there[key_of(key)] = key;
  std::map<PeerLife, std::deque<std::uint64_t>> sent;  // receipts
  std::vector<std::string> journal;
  const std::size_t most = std::max<std::size_t>(pages::ask_bytes_most / bytes, 1);
  for (int i = 0; i < steps; ++i) {
    const PeerLife peer{1 + static_cast<std::uint32_t>(pick(1)), 1};
    std::vector<PeerMessage> out;
    std::string line = words(peer);
    const auto id = static_cast<std::uint64_t>(i);
    const std::uint64_t what = pick(20);
    if (what == 0 && pick(20) == 0) {
      server.lost(peer);
      sent[peer].clear();
      line += " is lost";
    } else if (what == 1 || i < 4) {
      server.met(peer);
      line += " is met";
    } else if (what < 4) {
      server.take(peer, pages::Find{id, keys_of(pick(20), 1 + pick(5))}, shelf, out);
      line += " seeks";
    } else if (what < 12) {
      const std::size_t count =
          pick(5) == 0 ? most + pick(1) : 1 + pick(std::min<std::size_t>(most, 4) - 1);
      if (count > pages::keys_most) continue;
      server.take(peer, pages::Ask{id, keys_of(pick(3), count)}, shelf, out);
      line += " asks for " + std::to_string(count);
    } else if (what < 13) {
      line += server.take_note(peer, id, out) ? " tells" : " tells too much";
    } else if (what == 13) {
      server.take(peer, pages::Proof{}, shelf, out);
      line += " says what is no question";
    } else if (what == 14 && !sent[peer].empty() && pick(3) == 0) {
      const std::size_t at = pick(sent[peer].size() - 1);
      const std::uint64_t receipt = sent[peer][at] + (pick(5) == 0 ? 1 : 0);
      server.take(peer, pages::Took{receipt}, shelf, out);
      if (receipt == sent[peer][at])
        sent[peer].erase(sent[peer].begin(),
                         sent[peer].begin() + static_cast<std::ptrdiff_t>(at) + 1);
      line += " took";
    } else if (server.has_more()) {
      server.go_on(shelf, out);
      line = "goes on";
    }
    for (const PeerMessage& one : out) {
      const auto read = pages::decode(one.bytes);
      if (const auto* found = std::get_if<pages::Found>(&*read))
        sent[one.peer].push_back(found->receipt);
      if (const auto* end = std::get_if<pages::End>(&*read)) sent[one.peer].push_back(end->receipt);
      if (const auto* noted = std::get_if<pages::Noted>(&*read))
        sent[one.peer].push_back(noted->receipt);
    }
    journal.push_back(line + words(out) + "; owed " + std::to_string(server.owed({1, 1})) +
                      " and " + std::to_string(server.owed({2, 1})) + ", counts " +
                      words(server.counts()));
  }
  return journal;
}

}  // namespace

TEST_CASE("pages are asked for and given under schedules made by chance as they were before") {
  test::Outcomes outcomes("pages_journal");
  for (const std::string& line : play(1, 120, page_bytes)) outcomes.add("chance 1", line);
  for (std::uint64_t seed = 1; seed <= 60; ++seed)
    outcomes.add("small pages", test::digest_of(play(seed, 1500, page_bytes)));
  for (std::uint64_t seed = 1; seed <= 3; ++seed)  // three questions fill what may be in flight
    outcomes.add("large pages", test::digest_of(play(seed, 500, 1U << 20U)));
  outcomes.require_as_kept();
}

TEST_CASE("peers that ask for more than they take are answered as before") {
  test::Outcomes outcomes("pages_flood");
  for (const std::string& line : flood(1, 60, page_bytes)) outcomes.add("chance 1", line);
  for (std::uint64_t seed = 1; seed <= 10; ++seed)
    outcomes.add("small pages", test::digest_of(flood(seed, 3000, page_bytes)));
  for (std::uint64_t seed = 1; seed <= 4; ++seed)
    outcomes.add("large pages", test::digest_of(flood(seed, 300, 1U << 20U)));
  outcomes.require_as_kept();
}
