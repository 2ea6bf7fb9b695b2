// Files of keys with every byte changed and with every mode, and every kind of name: what is said
// of each, beside what was said before.
#include <sys/stat.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <fstream>
#include <iterator>

#include "tests/outcomes.h"
#include "tests/zmq/machines.h"

using namespace sluice;
using namespace sluice::testing;

namespace {

// A pair of ZeroMQ's own documentation, zmq_curve(7).
const std::string public_key = "Yne@$w-vo<fVvi]a<NY6T1ed:M$fCG*[IaLV{hID";
const std::string secret_key = "D:)Q[IlAW!ahhC2ac:9*A}h:p?([4%wOTJ%JR%cs";
const std::string shared(64, 'a');

class Folder {
 public:
  std::string path(const std::string& name) const { return directory_.path() + "/" + name; }
  void write(const std::string& name, const std::string& text, unsigned mode) const {
    ::unlink(path(name).c_str());
    std::ofstream(path(name), std::ios::binary) << text;
    REQUIRE(::chmod(path(name).c_str(), mode) == 0);
  }
  std::string plain(std::string text) const {
    for (std::size_t at; (at = text.find(directory_.path())) != std::string::npos;)
      text.replace(at, directory_.path().size(), "FOLDER");
    return text;
  }
  std::string secret(const std::string& text, unsigned mode = 0600) const {
    write("arm.secret", text, mode);
    const Result<Keys> keys = read_secret(path("arm.secret"));
    return keys.ok() ? keys->public_key + ' ' + keys->secret_key : plain(keys.error().message);
  }
  std::string known(const std::string& text, unsigned mode = 0644) const {
    write("arm.public", text, mode);
    const Result<std::string> key = read_public(path("arm.public"));
    if (!key.ok()) return plain(key.error().message);
    return *key + "\n" == text ? "the key of the file" : *key;
  }
  std::string together(const std::string& text, unsigned mode = 0600) const {
    write(std::string(shared_secret_name), text, mode);
    const auto bytes = read_shared_secret(directory_.path());
    if (!bytes.ok()) return plain(bytes.error().message);
    std::string all;
    for (std::size_t i = 0; i < bytes->size(); ++i)
      if ((*bytes)[i] != 0xaa) all += std::to_string(i) + ": " + std::to_string((*bytes)[i]) + ' ';
    return all;
  }

 private:
  ScratchFolder directory_;
};

test::Outcomes::Bytes file_of(const std::string& text) {
  const auto view = std::as_bytes(std::span(text));
  return {view.begin(), view.end()};
}

std::string words_of(const test::Outcomes::Bytes& bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

}  // namespace

TEST_CASE("each place of a file of keys that is changed is refused or read, as before") {
  test::Outcomes outcomes("key_files");
  const Folder folder;
  outcomes.change_bytes("secret", file_of(public_key + "\n" + secret_key + "\n"),
                        [&](const auto& bytes) { return folder.secret(words_of(bytes)); });
  outcomes.change_bytes("public", file_of(public_key + "\n"),
                        [&](const auto& bytes) { return folder.known(words_of(bytes)); });
  outcomes.change_bytes("shared", file_of("09f" + shared.substr(3) + "\n"),
                        [&](const auto& bytes) { return folder.together(words_of(bytes)); });
  for (const unsigned mode : {0400U, 0600U, 0644U, 0620U, 0602U, 0640U, 0604U, 0601U, 0700U}) {
    const std::string which = std::to_string(mode) + ": ";
    outcomes.add("modes",
                 which + folder.secret(public_key + "\n" + secret_key + "\n", mode).substr(0, 60));
    outcomes.add("modes", which + folder.known(public_key + "\n", mode).substr(0, 60));
    outcomes.add("modes", which + folder.together(shared + "\n", mode).substr(0, 60));
  }
  outcomes.add("much", folder.known(public_key + "\n" + std::string(500, 'x')));
  outcomes.require_as_kept();
}

TEST_CASE("each name of a machine is written under or refused, as before") {
  test::Outcomes outcomes("key_names");
  for (const std::string& name :
       {std::string("a"), std::string(64, 'a'), std::string(65, 'a'), std::string(),
        std::string("1"), std::string("_a"), std::string("-a"), std::string(".a"),
        std::string("a_"), std::string("a-"), std::string("a."), std::string("A"),
        std::string("a/b"), std::string("a b"), std::string("a\x7f"), std::string("\xc3\xa4"),
        std::string("a\xc3\xa4")}) {
    const Folder folder;
    const Result<void> written = write_keys(folder.path(""), name, {public_key, secret_key});
    std::string said = written.ok() ? "written" : folder.plain(written.error().message);
    for (const std::string ending : {".secret", ".public"}) {
      std::ifstream file(folder.path(name + ending));
      if (file) said += '|' + std::string(std::istreambuf_iterator<char>(file), {});
    }
    for (char& c : said) c = c == '\n' ? '/' : static_cast<unsigned char>(c) < 128 ? c : '?';
    outcomes.add("names", said);
  }
  const Folder folder;
  REQUIRE(write_shared_secret(folder.path("")).ok());
  const auto first = read_shared_secret(folder.path(""));
  REQUIRE(first.ok());
  CHECK(write_shared_secret(folder.path("")).ok());  // whoever was first has made it
  CHECK(*read_shared_secret(folder.path("")) == *first);
  const auto other = Folder();
  REQUIRE(write_shared_secret(other.path("")).ok());
  CHECK(*read_shared_secret(other.path("")) != *first);
  CHECK_FALSE(write_shared_secret(other.path("nowhere")).ok());
  outcomes.require_as_kept();
}
