#include "runtime/zmq/keys.h"

#include <fcntl.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cerrno>
#include <cstring>
#include <string_view>
#include <zmq.hpp>

namespace sluice {

namespace {

constexpr std::size_t key_length = 40;
constexpr std::size_t name_max = 64;
constexpr std::size_t password_max = 128;

/// A descriptor that closes itself.
class File {
 public:
  explicit File(int descriptor) : descriptor_(descriptor) {}
  File(const File&) = delete;
  File& operator=(const File&) = delete;
  ~File() {
    if (descriptor_ >= 0) close(descriptor_);
  }
  explicit operator bool() const { return descriptor_ >= 0; }
  int get() const { return descriptor_; }

 private:
  int descriptor_;
};

bool is_key(const std::string& text) {
  std::array<std::uint8_t, 32> bytes{};
  return text.size() == key_length &&
         std::ranges::all_of(text, [](unsigned char c) { return c > ' ' && c < 127; }) &&
         zmq_z85_decode(bytes.data(), text.c_str()) != nullptr;
}

bool is_name(const std::string& name) {
  return !name.empty() && name.size() <= name_max &&
         std::isalnum(static_cast<unsigned char>(name[0])) != 0 &&
         std::ranges::all_of(name, [](unsigned char c) {
           return c < 128 && (std::isalnum(c) != 0 || c == '_' || c == '-' || c == '.');
         });
}

Error failed(const std::string& path, const std::string& what) {
  return {ErrorCode::invalid_argument, path + ": " + what + ": " + std::strerror(errno)};
}

bool write_all(int file, std::string_view text) {
  while (!text.empty()) {
    const ssize_t count = write(file, text.data(), text.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return false;
    text.remove_prefix(static_cast<std::size_t>(count));
  }
  return true;
}

/// A new file, or nothing: neither what is there nor where a link leads is written to.
Result<void> write_new(const std::string& path, const std::string& text, unsigned mode) {
  const File file(open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, mode));
  if (!file) return failed(path, "cannot be made");
  const bool written =
      fchmod(file.get(), mode) == 0 && write_all(file.get(), text) && fsync(file.get()) == 0;
  if (written) return {};
  const Error error = failed(path, "cannot be written");
  unlink(path.c_str());
  return error;
}

/// The keys of a file, one a line. `secret`: nobody else may read or change it.
Result<std::string> read_small(const std::string& path, bool secret) {
  const File file(open(path.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
  if (!file) return failed(path, "cannot be opened");
  struct stat found {};
  if (fstat(file.get(), &found) != 0) return failed(path, "cannot be looked at");
  if (!S_ISREG(found.st_mode)) return invalid_argument(path + " is no regular file");
  if (!secret && ((found.st_mode & 022U) != 0 || (found.st_uid != geteuid() && found.st_uid != 0)))
    return invalid_argument(path + " can be changed by others, who could be that machine then");
  if (secret && found.st_uid != geteuid())
    return invalid_argument(path + " belongs to user " + std::to_string(found.st_uid) +
                            ", not to this one");
  if (secret && (found.st_mode & 077U) != 0)
    return invalid_argument(path + " is open to others: chmod 0600 closes it");
  std::array<char, 4 * key_length> bytes{};
  const ssize_t got = read(file.get(), bytes.data(), bytes.size());
  if (got < 0) return failed(path, "cannot be read");
  return std::string(bytes.data(), static_cast<std::size_t>(got));
}

}  // namespace

Result<Keys> make_keys() {
  std::array<char, key_length + 1> made_public{}, made_secret{};
  if (zmq_curve_keypair(made_public.data(), made_secret.data()) != 0)
    return Error{ErrorCode::unavailable, "the ZeroMQ library here was built without CURVE keys"};
  return Keys{made_public.data(), made_secret.data()};
}

Result<void> write_keys(const std::string& directory, const std::string& machine,
                        const Keys& keys) {
  if (!is_name(machine))
    return invalid_argument("'" + machine +
                            "' cannot be a machine's name: letters, digits, _, - "
                            "and ., a letter or digit first, at most " +
                            std::to_string(name_max));
  const std::string base = directory + "/" + machine;
  const Result<void> hidden =
      write_new(base + ".secret", keys.public_key + "\n" + keys.secret_key + "\n", 0600);
  if (!hidden) return hidden;
  const Result<void> shown = write_new(base + ".public", keys.public_key + "\n", 0644);
  if (!shown) unlink((base + ".secret").c_str());
  return shown;
}

Result<Keys> read_secret(const std::string& path) {
  const Result<std::string> text = read_small(path, true);
  if (!text) return text.error();
  const std::string& both = *text;
  if (both.size() != 2 * key_length + 2 || both[key_length] != '\n' || both.back() != '\n' ||
      !is_key(both.substr(0, key_length)) || !is_key(both.substr(key_length + 1, key_length)))
    return Error{ErrorCode::corrupt, path + " holds no key pair of `sluice keys`"};
  Keys keys{both.substr(0, key_length), both.substr(key_length + 1, key_length)};
  std::array<char, key_length + 1> derived{};
  if (zmq_curve_public(derived.data(), keys.secret_key.c_str()) != 0 ||
      keys.public_key != derived.data())
    return Error{ErrorCode::corrupt, path + ": the two keys do not belong together"};
  return keys;
}

Result<void> write_shared_secret(const std::string& directory,
                                 const std::optional<std::array<std::uint8_t, 32>>& secret) {
  std::array<std::uint8_t, 32> bytes = secret.value_or(std::array<std::uint8_t, 32>{});
  const std::string path = directory + "/" + shared_secret_name;
  if (!secret && getrandom(bytes.data(), bytes.size(), 0) != static_cast<ssize_t>(bytes.size()))
    return failed(path, "there is no randomness for it");
  std::string text;
  constexpr std::string_view digits = "0123456789abcdef";
  for (const std::uint8_t byte : bytes) {
    text += digits[byte >> 4U];
    text += digits[byte & 15U];
  }
  // Under its name only when it is whole: others may look for it now, or make it.
  const std::string beside = path + "." + std::to_string(getpid());
  unlink(beside.c_str());
  if (const Result<void> written = write_new(beside, text + "\n", 0600); !written) return written;
  const bool made = link(beside.c_str(), path.c_str()) == 0 || errno == EEXIST;
  const Error error = made ? Error{} : failed(path, "cannot be made");
  unlink(beside.c_str());
  if (!made) return error;
  return {};
}

Result<std::array<std::uint8_t, 32>> read_shared_secret(const std::string& directory) {
  const std::string path = directory + "/" + shared_secret_name;
  const Result<std::string> text = read_small(path, true);
  if (!text) return text.error();
  std::array<std::uint8_t, 32> bytes{};
  const auto value = [](char c) {
    return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
  };
  const bool is_hex =
      text->size() == 2 * bytes.size() + 1 && text->back() == '\n' &&
      std::ranges::all_of(text->substr(0, 64), [&](char c) { return value(c) >= 0; });
  if (!is_hex) return Error{ErrorCode::corrupt, path + " holds no secret of `sluice keys`"};
  for (std::size_t i = 0; i < bytes.size(); ++i)
    bytes[i] = static_cast<std::uint8_t>(value((*text)[2 * i]) * 16 + value((*text)[2 * i + 1]));
  return bytes;
}

Result<std::string> read_password(const std::string& path) {
  Result<std::string> text = read_small(path, true);
  if (!text) return text.error();
  if (text->ends_with('\n')) text->pop_back();
  if (text->empty() || text->size() > password_max ||
      !std::ranges::all_of(*text, [](char c) { return c >= ' ' && c <= '~'; }))
    return invalid_argument(path + " is no password: one line of 1 to " +
                            std::to_string(password_max) + " printable characters");
  return text;
}

Result<std::string> read_public(const std::string& path) {
  const Result<std::string> text = read_small(path, false);
  if (!text) return text.error();
  if (text->size() != key_length + 1 || text->back() != '\n' ||
      !is_key(text->substr(0, key_length)))
    return Error{ErrorCode::corrupt, path + " holds no public key of `sluice keys`"};
  return text->substr(0, key_length);
}

}  // namespace sluice
