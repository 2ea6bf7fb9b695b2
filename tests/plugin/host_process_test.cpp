// A role host's process without a runner: its control socket when it is full, hosts that are not
// there in time, and what ends a session in it.
#include "runtime/hosts/host_process.h"

#include <unistd.h>

#include <cerrno>
#include <cstdio>

#include "hosted_world.h"
#include "runtime/hosts/hosted_param.h"
#include "tests/system/failing_call.h"

using namespace sluice;
using namespace std::chrono_literals;
using hosts::HostOptions;
using hosts::HostProcess;
using test::FailingCall;
using Texts = std::vector<std::string>;
using State = hosts::HostSupervision::State;

namespace {

template <typename T>
std::string said(const Result<T>& result) {
  return result.ok() ? "well"
                     : std::string(to_string(result.error().code)) + ": " + result.error().message;
}

hosts::MakeRole mortal() {
  hosts::MakeRole made;
  made.role.name.text = "one";
  made.role.plugin.text = "mortal";
  return made;
}

/// What is noticed of a host, in its order. Thread: any.
class Notices {
 public:
  void add(const std::string& line) {
    const std::lock_guard lock(mutex_);
    lines_.push_back(line);
  }
  Texts all() {
    const std::lock_guard lock(mutex_);
    return lines_;
  }

 private:
  std::mutex mutex_;
  Texts lines_;
};

HostOptions lying(const std::string& how, const std::string& more = "") {
  HostOptions options;
  options.command = {SLUICE_LYING_HOST, how, more};
  options.rules.least = 1h;  // the second death is followed by no life
  return options;
}

/// Until it has died so often and waits for its next start.
hosts::HostStatus down(HostProcess& host, std::uint64_t deaths) {
  for (;;) {
    hosts::HostStatus status = host.status();
    if (status.starts == deaths && status.state == State::down && status.pid < 0) return status;
    std::this_thread::yield();
  }
}

/// What a program says on its standard error meanwhile.
std::string on_stderr(const std::function<void()>& what) {
  std::FILE* const file = std::tmpfile();
  REQUIRE(file != nullptr);
  std::fflush(stderr);
  const int before = ::dup(STDERR_FILENO);
  ::dup2(::fileno(file), STDERR_FILENO);
  what();
  std::fflush(stderr);
  ::dup2(before, STDERR_FILENO);
  ::close(before);
  std::rewind(file);
  std::string text;
  for (int c = 0; (c = std::fgetc(file)) != EOF;) text += static_cast<char>(c);
  std::fclose(file);
  return text;
}

}  // namespace

TEST_CASE("what the control socket has no room for goes in its order when it has") {
  const NothingLeft nothing;
  const FailingCall fails("sendmsg", EAGAIN, 1, 3);
  HostProcess host("late", HostedWorld::host_options());
  const Result<HostProcess::Member> made = host.add(mortal(), "role 'one'");
  CHECK(said(made) == "well");
  CHECK(host.status().state == State::serves);
  CHECK(host.status().starts == 1);
  CHECK(fails.calls() >= 4);
}

TEST_CASE("a socket that goes to a host goes now or never") {
  const NothingLeft nothing;
  HostOptions options = HostedWorld::host_options();
  options.rules.least = 1h;
  const FailingCall fails("sendmsg", EAGAIN, 2);  // behind the greeting
  HostProcess host("full", options);
  CHECK(said(host.add(mortal(), "role 'one'")) ==
        "unavailable: host 'full' does not read its control socket; activations that were in it: "
        "0");
}

TEST_CASE(
    "a host that is not there in time says how its last life ended, or that it was given up") {
  const NothingLeft nothing;
  HostOptions options;
  options.command = {"/bin/true"};
  options.patience = 20ms;
  options.rules.least = 1h;
  HostProcess host("short", options);
  const std::string ended = "host 'short' ended with status 0; activations that were in it: 0";
  const hosts::HostStatus status = down(host, 2);
  CHECK(status.ended == ended);
  CHECK(status.activations == 0);
  CHECK(status.next > 59min);
  CHECK(said(host.life([] { return false; })) ==
        "unavailable: host 'short' was not there again within 20 ms; " + ended);
  options.patience = 1h;
  HostProcess patient("short", options);
  down(patient, 2);
  CHECK(said(patient.life([] { return true; })) ==
        "cancelled: cancelled while host 'short' was started");
}

TEST_CASE("a host that can make a role once and refuses it later is down with its words") {
  const NothingLeft nothing;
  const Folder folder;
  HostOptions options = lying("made once", folder.str() + "/made");
  options.patience = 20ms;
  HostProcess host("liar", options);
  REQUIRE(said(host.add(mortal(), "role 'one'")) == "well");
  const auto life = host.life([] { return false; });
  REQUIRE(life.ok());
  REQUIRE(host.channel(**life, 0)->send(std::vector<std::byte>(1)).ok());
  const std::string why = "host 'liar' could not make role 'one' again: it has no room";
  CHECK(down(host, 2).ended == why + "; activations that were in it: 0");
  CHECK(said(host.life([] { return false; })) ==
        "unavailable: host 'liar' was not there again within 20 ms; " + why +
            "; activations that were in it: 0");
  CHECK((*life)->verdict == "host 'liar' ended with status 3; activations that were in it: 0");
  CHECK(host.channel(**life, 0) == nullptr);
}

TEST_CASE("the end of a session in a host that answers with nonsense, or not, ends the host") {
  const auto noticed_of = [](const std::string& how) {
    Notices notices;
    const NothingLeft nothing;
    HostOptions options = lying(how);
    options.hang_after = how == "silent" ? 5ms : 10'000ms;
    options.notice = [&](const std::string& line) { notices.add(line); };
    auto host = std::make_shared<HostProcess>("liar", options);
    auto param = hosts::make_hosted_param(host, {});
    REQUIRE(said(param) == "well");
    const std::string words = on_stderr([&] { (*param)->end_session("s"); });
    const auto* hosted = dynamic_cast<const hosts::HostedParam*>(param->get());
    REQUIRE(hosted != nullptr);
    CHECK(hosted->member() == 0);
    CHECK(hosted->host() == host);
    Texts lines = notices.all();
    if (!words.empty()) lines.push_back(words);
    return lines;
  };
  const std::string none = "; activations that were in it: 0";
  CHECK(noticed_of("made again").empty());
  CHECK(noticed_of("says no") == Texts{"warning: end_session: it never ends\n"});
  CHECK(noticed_of("stepped") ==
        Texts{"host 'liar' sent what is no message of a role host (no answer to the end of a "
              "session)" +
              none});
  CHECK(noticed_of("kind") ==
        Texts{"host 'liar' sent what is no message of a role host (no answer to the end of a "
              "session)" +
              none});
  CHECK(
      noticed_of("silent") ==
      Texts{"host 'liar' was ended, for the end of a session did not return within 50 ms" + none});
  CHECK(noticed_of("status") == Texts{"host 'liar' ended with status 3" + none});
}

TEST_CASE("the pool of a parameter in a host is seen, late, or as it was when it was seen last") {
  const NothingLeft nothing;
  const auto made = [](const std::string& how, Notices& notices) {
    HostOptions options = lying(how);
    options.notice = [&](const std::string& line) { notices.add(line); };
    hosts::MakeParam making;
    making.spec.name.text = "kv";
    making.model_directory = "/m";
    auto param = hosts::make_hosted_param(std::make_shared<HostProcess>("liar", options), making);
    REQUIRE(said(param) == "well");
    return std::move(param).value();
  };
  const auto look = [](const GlobalParam& param, std::chrono::milliseconds patience) {
    const std::optional<PoolReport> seen = param.pool_report(patience);
    if (!seen.has_value()) return std::string("no pool");
    return seen->name + " of " + seen->model + ": " + seen->layout + ", " +
           std::to_string(seen->pages) + " pages" + (seen->age_ms < 0 ? ", not seen yet" : "");
  };
  const std::string unseen = "kv of /m: , 0 pages, not seen yet";
  const std::string seven = "kv of : pages, in host 'liar', 7 pages";
  Notices notices;
  {
    const auto param = made("pool", notices);
    CHECK(look(*param, 60s) == seven);
    CHECK(look(*param, 0ms) == seven);  // it says no more: as it was seen last
  }
  {
    const auto param = made("pool late", notices);
    CHECK(look(*param, 0ms) == unseen);
    CHECK(look(*param, 0ms) == unseen);  // it is not asked a second time
    param->end_session("s");             // before whose end the report comes
    CHECK(look(*param, 0ms) == seven);
  }
  CHECK(look(*made("no pool", notices), 60s) == "no pool");
  {
    const auto param = made("status", notices);
    CHECK(look(*param, 60s) == unseen);  // it dies of it
    while (notices.all().empty()) std::this_thread::yield();
  }
  CHECK(notices.all() == Texts{"host 'liar' ended with status 3; activations that were in it: 0"});
  const std::string wrong = "host 'liar' sent what is no message of a role host (";
  const std::string none = "; activations that were in it: 0";
  Notices lies;
  CHECK(look(*made("pool, stepped", lies), 60s) == unseen);
  made("pool unasked", lies)->end_session("s");
  CHECK(lies.all() == Texts{wrong + "no answer to a look at a pool)" + none,
                            wrong + "no answer to the end of a session)" + none});
}

TEST_CASE("a host that leaves neither when it is left alone nor when it is asked to is made to") {
  const NothingLeft nothing;
  Notices notices;
  HostOptions options = lying("deaf");
  options.notice = [&](const std::string& line) { notices.add(line); };
  auto host = std::make_unique<HostProcess>("deaf", options);
  REQUIRE(said(host->add(mortal(), "role 'one'")) == "well");
  const pid_t process = host->status().pid;
  host.reset();
  CHECK((::kill(process, 0) == -1 && errno == ESRCH));
  CHECK(notices.all().empty());  // it was wanted
}
