// One machine's entry in the registry that the processes of a cluster share: what to ask next, and
// where it stands.
//
// A process takes its machine's name with a token of its own and is given an incarnation above all
// earlier ones; the entry holds for a lease from when the question left, and is renewed. Another
// process is refused the name until then, and a process that finds the name taken is **fenced**: it
// may not go on as this machine. Processes with other workflows are refused, and both are named.
// A registry that is away, slow, emptied or replaced ends no entry by itself: it lapses until it
// was made again, and the incarnation stays. One that is new or was emptied knows nobody: for a
// while (`young`) it lets only processes in that were in before, so that who lives has its name
// again before a newcomer asks. Pure: answers and the time go in, questions come out; an answer
// counts once, to the question that is open. Thread: one at a time.
// Source: docs/CLUSTER.md, "Registry"; Gray and Cheriton, Leases (1989).
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace sluice {

struct RegistrationSettings {
  std::string cluster;            // what its keys begin with, of letters, digits, `_` and `-`
  std::string machine;            // the name to take
  std::string token;              // of this process alone
  std::string workflow;           // digest of what all processes must agree on
  std::uint32_t incarnation = 1;  // the least that is wanted
  std::chrono::milliseconds lease{3000};
  /// How long a new or emptied registry keeps newcomers out; 0 where something else says that no
  /// other process is this machine.
  std::chrono::milliseconds young{0};
};

/// A command for the server, and the number that its answer comes with.
struct RegistryQuestion {
  std::uint64_t number = 0;
  std::vector<std::string> words;
};

struct RegistryStanding {
  enum class Kind : std::uint8_t {
    joining,  // not let in yet; `why`
    current,  // the entry holds now
    lapsed,   // it held, and the registry did not confirm it for a lease; `why`
    fenced,   // another process has the name, for good; `why`
  };
  Kind kind = Kind::joining;
  std::string why;
  std::vector<std::string> present = {};  // current: machines whose entries hold
};

class Registration {
 public:
  using Instant = std::chrono::nanoseconds;  // of a clock that only goes forward

  explicit Registration(RegistrationSettings settings);

  /// What is to be asked now. Nothing: a question is open, or it is not time.
  std::optional<RegistryQuestion> ask(Instant now);
  /// The server's answer: a list of texts. Any number but the open question's says nothing.
  void answered(std::uint64_t number, const std::vector<std::string>& words, Instant now);
  /// There is no answer and no connection, because of `why`.
  void broke(const std::string& why, Instant now);
  /// This process has begun a later life in place.
  void raise(std::uint32_t incarnation);

  /// When to ask next, or give up the open question.
  Instant due() const { return due_; }
  RegistryStanding standing(Instant now) const;
  /// Given by the registry; 0 until it was.
  std::uint32_t incarnation() const { return given_; }
  /// Machines whose entries hold, as the last answer said.
  const std::vector<std::string>& present() const { return present_; }
  /// How long an answer may take.
  std::chrono::milliseconds patience() const { return settings_.lease / 4; }
  /// Gives the name back.
  std::vector<std::string> farewell() const;

 private:
  std::vector<std::string> command(const std::string& script,
                                   const std::vector<std::string>& more) const;
  void take_entry(const std::vector<std::string>& words, Instant now);
  void refuse(const std::vector<std::string>& words);

  const RegistrationSettings settings_;
  std::uint32_t wanted_;
  std::uint32_t given_ = 0;
  bool registered_ = false;  // with the server that answered last
  std::string epoch_;        // of that server's data
  std::uint64_t asked_ = 0;  // questions so far
  bool open_ = false;
  Instant asked_at_{};
  std::uint32_t asked_incarnation_ = 0;
  Instant due_{};
  Instant holds_until_{};
  std::string why_ = "it has not been reached yet";
  std::string fenced_;
  std::vector<std::string> present_;
};

/// The text without bytes that a terminal would act on, at most 200 of them.
std::string printable(const std::string& text);

}  // namespace sluice
