#include "tests/zmq/machines.h"

#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <catch2/catch.hpp>
#include <cstdlib>

namespace sluice::testing {

int free_port() {
  // Below those that the kernel gives to whoever connects, and elsewhere for each process.
  static std::atomic<int> next{::getpid() * 97 % 10'000};
  for (;;) {
    const int port = 20'000 + next++ % 10'000;
    const int tried = socket(AF_INET, SOCK_STREAM, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<std::uint16_t>(port));
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    const bool free = bind(tried, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0;
    close(tried);
    if (free) return port;
  }
}

void Ear::received(Origin from, Channel channel, MessageBytes given) {
  wire::Bytes bytes = std::move(given).take();
  if (on_received) on_received(from, channel, bytes);
  const std::lock_guard lock(mutex_);
  bytes_ += bytes.size();
  if (keeps) received_.push_back({from, channel, std::move(bytes)});
  changed_.notify_all();
}

void Ear::connected(Origin life) {
  const std::lock_guard lock(mutex_);
  connected_.push_back(life);
  changed_.notify_all();
}

void Ear::silent(Origin life, const std::string& why) {
  const std::lock_guard lock(mutex_);
  silent_.emplace_back(life, why);
  changed_.notify_all();
}

void Ear::refused(Origin by) {
  const std::lock_guard lock(mutex_);
  refused_.push_back(by);
  changed_.notify_all();
}

void Ear::noticed(const std::string& line) {
  const std::lock_guard lock(mutex_);
  notices_.push_back(line);
  changed_.notify_all();
}

bool Ear::wait(const std::function<bool(const Ear&)>& holds, std::chrono::milliseconds within) {
  std::unique_lock lock(mutex_);
  return changed_.wait_for(lock, within, [&] { return holds(*this); });
}

bool Ear::wait_connected(std::uint32_t machine) {
  return wait([&](const Ear& ear) {
    for (const Origin life : ear.connected_)
      if (life.machine == machine) return true;
    return false;
  });
}

bool Ear::wait_received(std::size_t count) {
  return wait([&](const Ear& ear) { return ear.received_.size() >= count; },
              std::chrono::seconds(60));
}

bool Ear::wait_notice(const std::string& part) {
  return wait([&](const Ear& ear) {
    for (const std::string& line : ear.notices_)
      if (line.find(part) != std::string::npos) return true;
    return false;
  });
}

void Cluster::begin(std::size_t machine) {
  Machine& made = at(machine);
  made.ear = std::make_unique<Ear>();
  ZmqOptions given = options_at(machine);
  given.notice = [ear = made.ear.get()](const LinkNotice& heard) { ear->noticed(heard.text); };
  Result<std::unique_ptr<Transport>> transport = make_zmq_transport(std::move(given));
  INFO((transport ? std::string() : transport.error().message));
  REQUIRE(transport.ok());
  made.transport = std::move(*transport);
  made.transport->start(*made.ear);
}

void Cluster::begin_all() {
  for (std::size_t i = 1; i <= machines.size(); ++i) begin(i);
}

void Cluster::end(std::size_t machine) {
  at(machine).transport->stop();
  at(machine).transport.reset();
}

bool Cluster::wait_all_connected() {
  for (std::size_t i = 1; i <= machines.size(); ++i)
    for (std::size_t j = 1; j <= machines.size(); ++j)
      if (i != j && !at(i).ear->wait_connected(static_cast<std::uint32_t>(j))) return false;
  return true;
}

Cluster make_cluster(std::size_t machines, Way way, const ScratchFolder& directory) {
  Cluster cluster;
  cluster.machines.resize(machines);
  std::vector<Keys> keys(machines);
  std::vector<std::string> addresses;
  for (std::size_t i = 0; i < machines; ++i) {
    if (way == Way::tcp_with_keys) {
      Result<Keys> made = make_keys();
      REQUIRE(made.ok());
      keys[i] = *made;
    }
    addresses.push_back(way == Way::ipc ? "ipc://" + directory.path() + "/" + std::to_string(i + 1)
                                        : "tcp://127.0.0.1:" + std::to_string(free_port()));
  }
  for (std::size_t i = 0; i < machines; ++i) {
    ZmqOptions options;
    options.self = {static_cast<std::uint32_t>(i + 1), 1};
    options.bind = addresses[i];
    options.keys = keys[i];
    options.cluster = "test";
    options.linger = std::chrono::milliseconds(200);
    for (std::size_t j = 0; j < machines; ++j)
      if (j != i)
        options.peers.push_back(
            {static_cast<std::uint32_t>(j + 1), addresses[j], keys[j].public_key});
    cluster.options.push_back(std::move(options));
  }
  return cluster;
}

wire::Bytes bytes_of(const std::string& text) {
  const auto data = std::as_bytes(std::span(text));
  return {data.begin(), data.end()};
}

std::string text_of(const wire::Bytes& bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

}  // namespace sluice::testing
