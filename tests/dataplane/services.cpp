// Services of language models, each drawn from wide ranges by its seed: chats, agents with tools,
// and programs that ask about documents.
//
// The shapes are those that published studies of such services agree on: people think for a
// log-normal time; how long a conversation goes on differs from person to person; system prompts
// and documents are popular by Zipf's law; of a program's requests nearly all have one turn and
// come again within seconds; arrivals come in waves. How much of each there is, is drawn. Source:
// Wang et al., KVCache Cache in the Wild, ATC 2025; Wang et al., BurstGPT, 2024; Zheng et al.,
// LMSYS-Chat-1M, 2024.
#include <algorithm>
#include <cmath>

#include "tests/dataplane/maker.h"

namespace sluice {
namespace {

/// A log-normal amount.
struct Amount {
  double median = 1, spread = 1;
};

struct Service : Maker {
  explicit Service(std::uint64_t seed) : Maker(seed) {}

  /// In [low, high), any order of magnitude as likely as another.
  double between(double low, double high) { return low * std::pow(high / low, random.uniform()); }
  Amount amount(double low, double high) { return {between(low, high), between(0.4, 1.4)}; }
  double draw(Amount amount) { return amount.median * std::exp(amount.spread * random.normal()); }
  Blocks some(Amount blocks) {
    return fresh(static_cast<std::uint64_t>(1 + std::min(200.0, draw(blocks))));
  }
  bool happens(double chance) { return random.uniform() < chance; }

  std::vector<Blocks> prompts(std::uint64_t count, Amount length) {
    std::vector<Blocks> made;
    for (std::uint64_t i = 0; i < count; ++i) made.push_back(some(length));
    return made;
  }
  /// Begins of what comes in waves: `begin(at)` until there are about so many requests.
  template <typename Begin>
  void in_waves(double mean_s, std::size_t requests_wanted, const Begin& begin) {
    const double height = random.uniform() * 0.8, period = between(200, 4000);
    for (double at = 0; requests.size() < requests_wanted;) {
      at += wait(mean_s / (1 + height * std::sin(6.283 * at / period)));
      begin(at);
    }
  }
};

constexpr std::size_t wanted = 8000;  // requests, about

}  // namespace

std::vector<TraceRequest> chat_service(std::uint64_t seed) {
  Service service(seed);
  const auto prompts = service.prompts(1 + service.below(40), service.amount(1, 20));
  const Amount first = service.amount(1, 16), more = service.amount(0.5, 3);
  const Amount think = service.amount(15, 200);
  const double goes_on = 0.3 + 0.55 * service.random.uniform();
  const double persons = 0.3 * service.random.uniform();  // how much they differ
  const double tempers = 0.8 * service.random.uniform();  // in how fast they are
  const double edits = 0.15 * service.random.uniform();   // a turn is said in other words
  const double papers = 0.15 * service.random.uniform();  // a turn brings a long text
  service.in_waves(service.between(0.2, 3), wanted, [&](double at) {
    Blocks path = prompts[service.popular(prompts.size())];
    const double stays = std::clamp(goes_on + persons * service.random.normal(), 0.02, 0.97);
    const double speed = std::exp(tempers * service.random.normal());
    std::size_t before = path.size();
    extend(path, service.some(first));
    service.add(at, path);
    while (service.happens(stays)) {
      at += 3 + speed * service.draw(think);
      if (service.happens(edits))
        path.resize(before);
      else
        path.pop_back();
      before = path.size();
      extend(path, service.some(service.happens(papers) ? first : more));
      service.add(at, path);
    }
  });
  return service.sorted();
}

std::vector<TraceRequest> tool_service(std::uint64_t seed) {
  Service service(seed);
  const auto prompts = service.prompts(1 + service.below(30), service.amount(4, 60));
  const Amount task = service.amount(1, 12), result = service.amount(0.3, 4);
  const Amount tool = service.amount(1, 20), person = service.amount(30, 300);
  const double goes_on = 1 - 1 / service.between(3, 30);
  const double asks = 0.1 * service.random.uniform();      // a person is asked in between
  const double branches = 0.1 * service.random.uniform();  // another agent begins from here
  const auto most = static_cast<std::size_t>(service.between(60, 400));
  service.in_waves(service.between(1, 12), wanted, [&](double at) {
    const Blocks& prompt = prompts[service.popular(prompts.size())];
    Blocks path = prompt;
    extend(path, service.some(task));
    service.add(at, path);
    while (service.happens(goes_on)) {
      at += 0.5 + service.draw(service.happens(asks) ? person : tool);
      if (service.happens(branches)) {
        Blocks other = path;
        extend(other, service.some(task));
        service.add(at, other);
      }
      if (path.size() > most) {  // begins anew with a summary
        path = prompt;
        extend(path, service.some(task));
      } else {
        path.pop_back();
      }
      extend(path, service.some(result));
      service.add(at, path);
    }
  });
  return service.sorted();
}

std::vector<TraceRequest> document_service(std::uint64_t seed) {
  Service service(seed);
  const auto prompts = service.prompts(1 + service.below(200), service.amount(1, 12));
  const auto documents = service.prompts(200 + service.below(2000), service.amount(2, 40));
  const Amount question = service.amount(0.3, 2), pause = service.amount(1, 60);
  const double again = 0.9 * service.random.uniform();  // the same document is asked again
  const double with = service.random.uniform();         // a request has a document
  const double drift = service.between(100, 4000);      // seconds until others are popular
  service.in_waves(service.between(0.1, 1), wanted, [&](double at) {
    Blocks path = prompts[service.popular(prompts.size())];
    const auto shift = static_cast<std::uint64_t>(at / drift) * 31;
    if (service.happens(with))
      extend(path, documents[(service.popular(documents.size()) + shift) % documents.size()]);
    const std::size_t length = path.size();
    do {
      path.resize(length);
      extend(path, service.some(question));
      service.add(at, path);
      at += service.draw(pause);
    } while (service.happens(again));
  });
  return service.sorted();
}

}  // namespace sluice
