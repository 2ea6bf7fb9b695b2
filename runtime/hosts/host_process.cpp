#include "runtime/hosts/host_process.h"

#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include "base/count_text.h"
#include "base/file_packets.h"
#include "base/signal_name.h"
#include "runtime/hosts/spawn.h"

namespace sluice::hosts {

namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

constexpr milliseconds ping_every{1'000};
/// A process that dies closes its sockets first.
constexpr milliseconds death_throes{1'000};
constexpr std::size_t unsent_max = 1 << 16;  // messages
constexpr milliseconds before_kill{500};
constexpr milliseconds to_leave{2'000};
constexpr std::size_t works_shown = 4;
constexpr milliseconds cgroups_every{100};  // while there are any to remove
constexpr milliseconds to_remove{1'000};

std::string how_it_ended(int status) {
  if (WIFSIGNALED(status)) return "died by " + signal_name(WTERMSIG(status));
  if (WEXITSTATUS(status) == lost_connection) return "closed its connection";
  return "ended with status " + std::to_string(WEXITSTATUS(status));
}

std::string text_of(milliseconds time) { return std::to_string(time.count()) + " ms"; }

int timeout_of(steady_clock::duration left) {
  return static_cast<int>(std::max<std::int64_t>(std::chrono::ceil<milliseconds>(left).count(), 0));
}

bool is_readable(const OwnedFile& descriptor) {
  pollfd event{descriptor.get(), POLLIN, 0};
  return ::poll(&event, 1, 0) > 0;
}

}  // namespace

HostProcess::HostProcess(std::string name, HostOptions options)
    : name_(std::move(name)), options_(std::move(options)), supervision_(options_.rules) {
  // The process ends with the thread that started it, so it lives as long as this.
  thread_ = std::thread([this] { watch(); });
}

HostProcess::~HostProcess() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  wake();
  thread_.join();
}

void HostProcess::wake() const { bell_.ring(); }

Result<HostProcess::Member> HostProcess::add(Request making, std::string what, Connect connect) {
  std::unique_lock lock(mutex_);
  const auto number = static_cast<std::uint32_t>(members_.size());
  members_.push_back(std::make_unique<Making>());
  Making& mine = *members_.back();
  mine.request = std::move(making);
  mine.what = std::move(what);
  mine.connect = std::move(connect);
  wake();
  changed_.wait(lock, [&] { return mine.made || mine.gone; });
  if (mine.gone) return *mine.result.error;
  return Member{number, mine.result.stepped};
}

Result<std::shared_ptr<HostLife>> HostProcess::life(const std::function<bool()>& cancelled) {
  std::unique_lock lock(mutex_);
  const auto until = steady_clock::now() + options_.patience;
  for (;;) {
    if (supervision_.state() == HostSupervision::State::serves && !why_) return life_;
    const std::string last = life_ && life_->dead ? "; " + life_->verdict : "";
    const auto now = steady_clock::now();
    if (supervision_.state() == HostSupervision::State::refused) {
      const auto left = std::chrono::ceil<milliseconds>(supervision_.next() - now).count();
      return Error{ErrorCode::unavailable,
                   "host '" + name_ + "' died more than " +
                       count_text(options_.rules.deaths_max, "time") + " within " +
                       std::to_string(options_.rules.window.count()) +
                       " ms and is started again in " + std::to_string(left) + " ms" + last};
    }
    if (now >= until)
      return Error{ErrorCode::unavailable, "host '" + name_ + "' was not there again within " +
                                               std::to_string(options_.patience.count()) + " ms" +
                                               last};
    if (cancelled())
      return Error{ErrorCode::cancelled, "cancelled while host '" + name_ + "' was started"};
    changed_.wait_for(lock, Channel::tick);
  }
}

std::shared_ptr<Channel> HostProcess::channel(const HostLife& life, std::uint32_t member) {
  const std::lock_guard lock(mutex_);
  const auto it = life.channels.find(member);
  return it == life.channels.end() ? nullptr : it->second;
}

std::uint64_t HostProcess::begins(HostLife& life, std::string what) {
  const std::lock_guard lock(mutex_);
  life.works.emplace(++works_, std::move(what));
  return works_;
}

void HostProcess::ends(HostLife& life, std::uint64_t work) {
  const std::lock_guard lock(mutex_);
  life.works.erase(work);
}

bool HostProcess::session_lost(const HostLife& life, std::string_view session) {
  const std::lock_guard lock(mutex_);
  return sessions_.used(session, life.number);
}

void HostProcess::session_still_lost(std::string_view session) {
  const std::lock_guard lock(mutex_);
  sessions_.still_lost(session);
}

void HostProcess::session_ends(std::string_view session) {
  const std::lock_guard lock(mutex_);
  sessions_.forget(session);
}

std::string HostProcess::tries_again(const HostLife& life) {
  const std::lock_guard lock(mutex_);
  ++tried_again_;
  return life.how;
}

HostStatus HostProcess::status() {
  const std::lock_guard lock(mutex_);
  HostStatus status;
  status.name = name_;
  status.state = supervision_.state();
  status.pid = pid_;
  status.starts = lives_;
  if (life_ != nullptr && !life_->dead) status.activations = life_->works.size();
  if (pid_ < 0)
    status.next =
        std::max(std::chrono::ceil<milliseconds>(supervision_.next() - steady_clock::now()),
                 milliseconds(0));
  status.ended = ended_;
  status.tried_again = tried_again_;
  status.memory = {holder_, options_.memory, cgroup_ == nullptr ? 0 : cgroup_->peak()};
  return status;
}

void HostProcess::cancel(HostLife& life, std::uint32_t member, std::uint64_t activation) {
  const std::lock_guard lock(mutex_);
  if (!life.dead && life_.get() == &life) send(Cancel{member, activation});
}

void HostProcess::want_end(const HostLife& life, const std::string& why, Time when) {
  if (life.dead || life_.get() != &life || why_) return;
  why_ = why;
  end_at_ = when;
  wake();
}

Error HostProcess::wait_for_death(std::unique_lock<std::mutex>& lock, const HostLife& life) {
  changed_.wait(lock, [&] { return life.dead.load(); });
  return {ErrorCode::unavailable, life.verdict};
}

Error HostProcess::end(HostLife& life, const std::string& why) {
  std::unique_lock lock(mutex_);
  want_end(life, why, steady_clock::now());
  return wait_for_death(lock, life);
}

Error HostProcess::lost(HostLife& life, const Error& failure) {
  if (failure.code == ErrorCode::corrupt)
    return end(life, "sent what is no message of a role host (" + failure.message + ")");
  std::unique_lock lock(mutex_);
  want_end(life, "closed its connection", steady_clock::now() + death_throes);
  return wait_for_death(lock, life);
}

void HostProcess::send(const Control& message, std::span<const int> with) {
  wire::Bytes bytes = encode(message);
  if (unsent_.empty() && sends(bytes, with)) return;
  // A socket that is full. What has waited for too long is found by pings that nobody answers.
  if (with.empty() && unsent_.size() < unsent_max) {
    unsent_.push_back(std::move(bytes));
    return wake();
  }
  want_end(*life_, "does not read its control socket", steady_clock::now() + death_throes);
}

bool HostProcess::sends(const wire::Bytes& bytes, std::span<const int> with) const {
  return send_with_files(control_.get(), bytes, with, MSG_DONTWAIT) >= 0;
}

void HostProcess::watch() {
  std::unique_lock lock(mutex_);
  while (!stopping_) {
    if (pid_ < 0 && supervision_.is_due(steady_clock::now())) start(lock);
    if (pid_ >= 0 && greeted_ && !why_) make_members(lock);
    if (!stopping_) rest(lock);
    attend();
    remove_cgroups(milliseconds(0));
  }
  stop_process(lock);
  remove_cgroups(to_remove);
}

std::unique_ptr<Cgroup> HostProcess::make_cgroup(std::string& without) const {
  if (options_.memory == 0 || options_.cgroups == nullptr) return nullptr;
  auto made = options_.cgroups->make(options_.memory);
  if (made.ok()) return std::move(made).value();
  without = made.error().message;
  return nullptr;
}

void HostProcess::note_once(const std::string& without) {
  if (without.empty() || std::exchange(noted_, true) || !options_.notice) return;
  options_.notice("host '" + name_ + "': its `memory` is limited as address space, " +
                  "for it has no cgroup: " + without);
}

void HostProcess::start(std::unique_lock<std::mutex>& lock) {
  lock.unlock();
  std::string without;
  std::unique_ptr<Cgroup> cgroup = make_cgroup(without);
  Result<Spawned> spawned = spawn(options_.command, options_.memory, options_.cores,
                                  cgroup == nullptr ? -1 : cgroup->entrance());
  if (cgroup != nullptr && (!spawned.ok() || spawned->not_in_cgroup != 0)) {
    if (spawned.ok())
      without = cgroup->folder() + " let nobody in: " + std::strerror(spawned->not_in_cgroup);
    cgroup.reset();
  }
  lock.lock();
  using Holder = MemoryStatus::Holder;
  holder_ = options_.memory == 0 ? Holder::none : Holder::address_space;
  if (cgroup != nullptr)
    holder_ = cgroup->version() == CgroupVersion::v1 ? Holder::cgroup_v1 : Holder::cgroup_v2;
  cgroup_ = std::move(cgroup);
  note_once(without);
  const auto now = steady_clock::now();
  supervision_.started(now);
  life_ = std::make_shared<HostLife>();
  life_->number = ++lives_;
  why_.reset();
  asked_ = greeted_ = false;
  pinged_ = answered_ = 0;
  silent_since_ = now;
  ping_at_ = now + std::min(ping_every, options_.greets_within);
  if (!spawned.ok()) {
    life_->how = life_->verdict = "host '" + name_ + "' " + spawned.error().message;
    return reap();
  }
  pid_ = spawned->pid;
  handle_ = std::move(spawned->handle);
  control_ = std::move(spawned->control);
  send(Hello{});
  share_parts();
}

void HostProcess::share_parts() {
  if (!options_.parts) return;
  const OwnedFile theirs = options_.parts("host '" + name_ + "'");
  const int with = theirs.get();
  if (with >= 0) send(ShareParts{}, std::span(&with, 1));
}

void HostProcess::make_members(std::unique_lock<std::mutex>& lock) {
  const std::shared_ptr<HostLife> life = life_;
  for (std::uint32_t i = 0; i < members_.size() && !stopping_ && !life->dead; ++i) {
    Making& making = *members_[i];
    if (making.gone || life->channels.contains(i)) continue;
    auto sockets = socket_pair(SOCK_STREAM);
    if (!sockets.ok()) return want_end(*life, sockets.error().message, steady_clock::now());
    const auto channel = std::make_shared<Channel>(std::move(sockets->first));
    Result<OwnedFile> shared = making.connect ? making.connect() : OwnedFile();
    if (!shared.ok()) return want_end(*life, shared.error().message, steady_clock::now());
    const std::array<int, descriptors_max> with{sockets->second.get(), shared->get()};
    send(OpenChannel{i}, std::span(with).first(making.connect ? 2 : 1));
    shared->close();
    lock.unlock();
    const Result<Made> made = make(making, *channel, std::move(sockets->second));
    lock.lock();
    if (!made.ok()) {
      if (made.error().code == ErrorCode::unavailable)
        want_end(*life, "closed its connection", steady_clock::now() + death_throes);
      else
        want_end(*life, made.error().message, steady_clock::now());
      return;
    }
    if (made->error && making.made)
      return want_end(*life, "could not make " + making.what + " again: " + made->error->message,
                      steady_clock::now());
    making.gone = made->error.has_value();
    making.made = !making.gone;
    making.result = *made;
    life->channels[i] = channel;
    changed_.notify_all();
  }
  if (life->dead || why_ || stopping_) return;
  if (supervision_.state() == HostSupervision::State::serves) return;
  supervision_.serves();
  changed_.notify_all();
}

Result<Made> HostProcess::make(Making& making, Channel& channel, OwnedFile theirs) {
  theirs.close();
  const auto waiting = [this] {
    const std::lock_guard lock(mutex_);
    return attend();
  };
  const Result<wire::Bytes> request = encode(making.request);
  if (!request.ok()) return Made{false, request.error()};
  if (Result<void> sent = channel.send(*request, waiting); !sent.ok()) return sent.error();
  const Result<wire::Bytes> bytes = channel.receive(waiting);
  if (!bytes.ok()) return bytes.error();
  const Result<Reply> reply = decode_reply(*bytes);
  if (!reply.ok()) return reply.error();
  if (const Made* made = std::get_if<Made>(&*reply)) return *made;
  return Error{ErrorCode::corrupt, "answered something else than was asked"};
}

void HostProcess::rest(std::unique_lock<std::mutex>& lock) {
  const auto now = steady_clock::now();
  auto until = now + ping_every;
  if (pid_ < 0) until = std::max(supervision_.next(), now);
  if (!left_cgroups_.empty()) until = std::min(until, now + cgroups_every);
  if (pid_ >= 0) until = std::min(until, std::max(ping_at_, now));
  if (pid_ >= 0 && why_) until = std::min(until, asked_ ? kill_at_ : end_at_);
  std::array<pollfd, 3> events{
      {{bell_.descriptor(), POLLIN, 0},
       {handle_.get(), POLLIN, 0},
       {control_.get(), static_cast<short>(POLLIN | (unsent_.empty() ? 0 : POLLOUT)), 0}}};
  lock.unlock();
  ::poll(events.data(), events.size(), timeout_of(until - now));
  bell_.hear();
  lock.lock();
}

bool HostProcess::attend() {
  if (pid_ < 0) return false;
  listen();
  while (!unsent_.empty() && sends(unsent_.front(), {})) unsent_.pop_front();
  const auto now = steady_clock::now();
  ping(now);
  ask_to_end(now);
  if (is_readable(handle_)) reap();
  return pid_ >= 0 && !stopping_;
}

void HostProcess::listen() {
  std::array<std::byte, control_max> bytes{};
  // What is left is there at the next turn: whoever floods it must not keep others from their turn.
  for (int packets = 0; packets < 64; ++packets) {
    const ssize_t came = ::recv(control_.get(), bytes.data(), bytes.size(), MSG_DONTWAIT);
    if (came < 0) return;
    if (came == 0) {
      control_.close();  // it would be readable for ever
      return want_end(*life_, "closed its connection", steady_clock::now() + death_throes);
    }
    const Result<Control> control =
        decode_control(std::span(bytes).first(static_cast<std::size_t>(came)));
    if (!control.ok())
      return want_end(*life_,
                      "sent what is no message of a role host (" + control.error().message + ")",
                      steady_clock::now());
    const Ping* const pong = std::get_if<Ping>(&*control);
    const bool first_hello = std::holds_alternative<Hello>(*control) && !greeted_;
    if (!first_hello && (pong == nullptr || pong->number <= answered_ || pong->number > pinged_))
      return want_end(*life_, "sent what was not asked", steady_clock::now());
    if (pong != nullptr) answered_ = pong->number;
    if (first_hello) greeted_ = true;
  }
}

void HostProcess::ping(Time now) {
  if (now < ping_at_) return;
  ping_at_ = now + std::min(ping_every, options_.silent_after / 4);
  const auto silent = now - silent_since_;
  if (!greeted_) {
    if (silent >= options_.greets_within)
      want_end(*life_, "was ended, for it did not greet within " + text_of(options_.greets_within),
               now);
  } else if (pinged_ == answered_) {
    silent_since_ = now;
    send(Ping{++pinged_});
  } else if (silent >= options_.silent_after) {
    want_end(*life_, "was ended, for it did not answer for " + text_of(options_.silent_after), now);
  }
}

void HostProcess::ask_to_end(Time now) {
  if (!why_) return;
  if (!asked_ && now >= end_at_) {
    asked_ = true;
    kill_at_ = now + before_kill;
    ::kill(pid_, SIGTERM);
  } else if (asked_ && now >= kill_at_) {
    kill_at_ = Time::max();
    ::kill(pid_, SIGKILL);
  }
}

std::string HostProcess::works_text() const {
  const auto& works = life_->works;
  std::string text = "; activations that were in it: " + std::to_string(works.size());
  std::size_t shown = 0;
  for (const auto& [number, what] : works) {
    if (shown == works_shown) return text + ", ...)";
    text += (shown++ == 0 ? " (" : ", ") + what;
  }
  return works.empty() ? text : text + ")";
}

std::string HostProcess::memory_words(int status) const {
  const int signal = WIFSIGNALED(status) && !asked_ ? WTERMSIG(status) : 0;
  if (cgroup_ != nullptr) return memory_text(cgroup_->counts(), signal, options_.memory);
  if (options_.memory == 0 || signal != SIGABRT) return "";
  // What ends a program that gets no memory: an exception that nobody expects.
  return " (its `memory` is limited to " + std::to_string(options_.memory >> 20) +
         " MiB of address space)";
}

void HostProcess::remove_cgroups(milliseconds most) {
  std::erase_if(left_cgroups_,
                [&](const std::unique_ptr<Cgroup>& cgroup) { return cgroup->remove(most); });
}

void HostProcess::reap() {
  if (pid_ >= 0) {
    int status = 0;
    // What its roles have started goes too. Its number is kept until it is waited for.
    ::kill(-pid_, SIGKILL);
    ::waitpid(pid_, &status, 0);
    life_->how =
        "host '" + name_ + "' " + (asked_ ? *why_ : how_it_ended(status)) + memory_words(status);
    life_->verdict = life_->how + works_text();
  }
  pid_ = -1;
  if (cgroup_ != nullptr && !cgroup_->remove(milliseconds(0)))
    left_cgroups_.push_back(std::move(cgroup_));
  cgroup_.reset();
  unsent_.clear();
  handle_.close();
  control_.close();
  why_.reset();
  life_->channels.clear();
  life_->dead = true;
  ended_ = life_->verdict;
  supervision_.died(steady_clock::now());
  for (const auto& making : members_)
    if (!making->made && !making->gone) {
      making->gone = true;
      making->result.error = Error{ErrorCode::unavailable, life_->verdict};
    }
  changed_.notify_all();
  if (options_.notice && !stopping_) options_.notice(life_->verdict);
}

void HostProcess::stop_process(std::unique_lock<std::mutex>& lock) {
  if (pid_ < 0) return;
  life_->channels.clear();
  control_.close();
  lock.unlock();
  pollfd event{handle_.get(), POLLIN, 0};
  const auto ends_within = [&](milliseconds most) {
    const auto until = steady_clock::now() + most;
    int ended = -1;
    while (ended < 0) ended = ::poll(&event, 1, timeout_of(until - steady_clock::now()));
    return ended > 0;
  };
  if (!ends_within(to_leave)) ::kill(pid_, SIGTERM);
  if (!ends_within(before_kill)) ::kill(pid_, SIGKILL);
  lock.lock();
  reap();
}

}  // namespace sluice::hosts
