// Several transports in one process: what each heard, and a wait with a deadline.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "runtime/zmq/zmq_transport.h"
#include "tests/scratch_folder.h"

namespace sluice::testing {
/// A loopback port that nobody uses now.
int free_port();

struct Heard {
  Origin from;
  Channel channel = Channel::message;
  wire::Bytes bytes;
};

class Ear final : public TransportListener {
 public:
  void received(Origin from, Channel channel, MessageBytes given) override;
  void connected(Origin life) override;
  void silent(Origin life, const std::string& why) override;
  void refused(Origin by) override;
  void noticed(const std::string& line);

  /// Waits until `holds` is true of what was heard; false after ten seconds, or `within`.
  bool wait(const std::function<bool(const Ear&)>& holds,
            std::chrono::milliseconds within = std::chrono::seconds(10));
  bool wait_connected(std::uint32_t machine);
  bool wait_received(std::size_t count);
  bool wait_notice(const std::string& part);

  /// Under the lock of `wait`, or when nothing comes any more.
  std::vector<Heard> received_;
  std::vector<Origin> connected_;
  std::vector<std::pair<Origin, std::string>> silent_;
  std::vector<Origin> refused_;
  std::vector<std::string> notices_;
  std::size_t bytes_ = 0;
  /// Called for each message, on the transport's thread, before it is kept.
  std::function<void(Origin, Channel, const wire::Bytes&)> on_received;
  bool keeps = true;

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
};

struct Machine {
  std::unique_ptr<Ear> ear = std::make_unique<Ear>();
  std::unique_ptr<Transport> transport;  // before the ear it goes
};

/// Machines 1 to `lives.size()`, each in that life, all of which know each other.
struct Cluster {
  std::vector<ZmqOptions> options;
  std::vector<Machine> machines;

  Machine& at(std::size_t machine) { return machines[machine - 1]; }
  ZmqOptions& options_at(std::size_t machine) { return options[machine - 1]; }
  /// Makes and starts this machine.
  void begin(std::size_t machine);
  void begin_all();
  void end(std::size_t machine);
  bool wait_all_connected();
};

enum class Way { ipc, tcp, tcp_with_keys };
Cluster make_cluster(std::size_t machines, Way way, const ScratchFolder& directory);

wire::Bytes bytes_of(const std::string& text);
std::string text_of(const wire::Bytes& bytes);

}  // namespace sluice::testing
