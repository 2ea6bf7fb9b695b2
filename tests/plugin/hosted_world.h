// Workflows over plugins in role hosts, and what they may leave behind.
#pragma once

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <future>

#include "runtime/hosts/hosted_catalog.h"
#include "world.h"

namespace sluice {

/// A workflow whose roles stand in hosts as `groups` says.
struct HostedWorld {
  Catalog catalog;
  LoadedWorkflow loaded;
  hosts::HostedCatalog hosted;
  std::unique_ptr<Runner> runner;
  std::string refused;

  static hosts::HostOptions host_options() {
    hosts::HostOptions options;
    options.command = {SLUICE_ROLE_HOST, built_plugins()};
    return options;
  }
  /// As where the kernel has none.
  static hosts::CgroupSystem no_cgroups() {
    hosts::CgroupSystem system;
    system.cgroups = system.mounts = "/dev/null";
    return system;
  }
  HostedWorld(const std::string& workflow, const std::vector<hosts::HostGroup>& groups,
              const hosts::HostOptions& options = host_options(),
              const hosts::CgroupSystem& system = no_cgroups()) {
    REQUIRE(add_plugins(catalog, built_plugins()) == "");
    loaded = load_workflow("test.yaml", workflow);
    const Plan plan = plan_workflow(loaded, catalog.declarations());
    for (const Diagnostic& d : loaded.diagnostics) INFO(d.message);
    REQUIRE(!has_errors(loaded.diagnostics));
    const WorkflowSpec* const spec = &loaded.spec;
    hosted = hosts::host_roles(catalog, {&spec, 1}, groups, options, system);
    auto made = Runner::create(loaded.spec, plan, hosted.catalog, {});
    if (made.ok())
      runner = std::move(made).value();
    else
      refused = made.error().message;
  }
  Answer call(CallRequest request) {
    Answer answer;
    answer.outcome = runner->call(std::move(request), [&](std::string_view, const PayloadRef& v) {
      answer.outputs.push_back(v->type == ValueType::tensor ? v->tensor.describe() : v->text);
    });
    return answer;
  }
  /// The one output, or what went wrong.
  std::string say(const std::string& input, const std::string& text,
                  const std::string& session = "s",
                  std::chrono::milliseconds deadline = std::chrono::milliseconds(0)) {
    const Answer answer =
        call({.session = session, .inputs = {{input, make_text(text)}}, .deadline = deadline});
    return answer.outcome.ok && answer.outputs.size() == 1 ? answer.outputs[0] : answer.error();
  }
  std::future<std::string> begin(const std::string& input, const std::string& text,
                                 const std::string& session) {
    return std::async(std::launch::async,
                      [this, input, text, session] { return say(input, text, session); });
  }
};

/// A pipe at which a role waits, in whatever process.
class Gate {
 public:
  explicit Gate(const Folder& folder) : path_((folder.path / std::to_string(made++)).string()) {
    REQUIRE(::mkfifo(path_.c_str(), 0600) == 0);
  }
  ~Gate() {
    if (fd_ >= 0) ::close(fd_);
    if (kept_ >= 0) ::close(kept_);
  }
  Gate(const Gate&) = delete;
  Gate& operator=(const Gate&) = delete;
  std::string deed() const { return "at " + path_; }
  /// Until a role is there: again, behind the death of the one that was.
  void meet() {
    if (kept_ >= 0) ::close(kept_);  // or the gate would meet itself
    const int fd = ::open(path_.c_str(), O_WRONLY | O_CLOEXEC);
    if (fd_ >= 0) ::close(fd_);
    fd_ = fd;
    kept_ = ::open(path_.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC);
  }
  /// For one role; of several, for one that is still to come too: the byte waits for it.
  void open() const { REQUIRE(::write(fd_, "x", 1) == 1); }

 private:
  static inline int made = 0;
  const std::string path_;
  int fd_ = -1;
  /// A reader of our own: a byte written between two roles is kept, and no broken pipe.
  int kept_ = -1;
};

/// When it goes, this process has the descriptors and children that it had.
class NothingLeft {
 public:
  NothingLeft() : before_(descriptors()) {}
  ~NothingLeft() {
    CHECK(descriptors() == before_);
    CHECK((::waitpid(-1, nullptr, WNOHANG) == -1 && errno == ECHILD));
  }
  NothingLeft(const NothingLeft&) = delete;
  NothingLeft& operator=(const NothingLeft&) = delete;

 private:
  static std::size_t descriptors() {
    const std::filesystem::directory_iterator all("/proc/self/fd");
    return static_cast<std::size_t>(std::distance(begin(all), end(all)));
  }
  const std::size_t before_;
};

}  // namespace sluice
