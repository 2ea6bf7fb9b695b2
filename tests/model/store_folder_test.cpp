// A folder of pages and what may stand in its place: each is taken, or refused with its words.
#include "engine/storage/store_folder.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>

#include "tests/scratch_folder.h"

namespace sluice {
namespace {

namespace fs = std::filesystem;

struct Place {
  ScratchFolder scratch;
  std::string path = scratch.path() + "/pages";

  template <typename Made>
  std::string said(const Made& made) const {
    if (made.ok()) return "taken";
    std::string text = made.error().message;
    for (std::size_t at; (at = text.find(path)) != std::string::npos;)
      text.replace(at, path.size(), "PAGES");
    return std::string(to_string(made.error().code)) + ", " + text;
  }
  std::string open() const { return said(StoreFolder::open(path)); }
  std::string look() const { return said(StoreFolder::look(path)); }
  void make() const { REQUIRE(::mkdir(path.c_str(), 0700) == 0); }
};

}  // namespace

TEST_CASE("a folder is made with the secret that is given, and one with another is refused") {
  const Place place;
  PageKeys::Secret secret{};
  secret.fill(5);
  CHECK(StoreFolder::open(place.path, &secret).value().secret() == secret);
  CHECK(StoreFolder::open(place.path, &secret).value().secret() == secret);
  CHECK(StoreFolder::open(place.path).value().secret() == secret);  // whatever it is
  secret.fill(6);
  CHECK(
      place.said(StoreFolder::open(place.path, &secret)) ==
      "invalid_argument, PAGES/secret: its pages are kept under another secret than that of these "
      "machines (kv-pages.secret), so none of them can be found: remove the folder, name another "
      "one, or give the machines the kv-pages.secret that they had when it was made");
  CHECK(place.open() == "taken");
}

TEST_CASE("machines have folders in a common one, which is their user's alone") {
  const Place place;
  CHECK(StoreFolder::of_machine("/pages", "gpu1") == "/pages/machine-gpu1");
  CHECK(StoreFolder::of_machine("/pages/", "gpu1") == "/pages/machine-gpu1");
  CHECK(StoreFolder::make_common(place.path).ok());
  CHECK(StoreFolder::make_common(place.path).ok());
  CHECK(place.look() == "not_found, PAGES: no pages are kept there");
  CHECK(StoreFolder::open(StoreFolder::of_machine(place.path, "secret")).ok());
  CHECK(StoreFolder::open(StoreFolder::of_machine(place.path, "lock")).ok());
  CHECK(place.look() ==
        "not_found, PAGES: no pages are kept there, but each machine's of a cluster in one of its "
        "own; name one of them: PAGES/machine-lock, PAGES/machine-secret");
  CHECK(place.open() == "taken");  // one of a single machine stands beside
  REQUIRE(::chmod(place.path.c_str(), 0750) == 0);
  CHECK(place.said(StoreFolder::make_common(place.path)).find("others may enter it") !=
        std::string::npos);
  const auto nowhere = StoreFolder::make_common(place.scratch.path() + "/none/pages");
  CHECK(place.said(nowhere).find("it cannot be made") != std::string::npos);
}

TEST_CASE("a folder is made with a secret of its own, and whoever looks at it sees the same") {
  const Place place;
  CHECK(place.look() == "not_found, PAGES: there is no such folder");
  place.make();
  CHECK(place.look() == "not_found, PAGES: no pages are kept there");
  PageKeys::Secret secret{};
  std::uint64_t owner = 0;
  {
    const auto folder = StoreFolder::open(place.path);
    REQUIRE(folder.ok());
    secret = folder->secret();
    owner = folder->owner();
    CHECK(secret != PageKeys::Secret{});
    CHECK(
        place.open() ==
        "unavailable, PAGES: it is in use by another paged_kv of this process, and a folder is of "
        "one chat, ask or paged_kv at a time: name another folder");
    std::ofstream(place.path + "/lock") << "1234567";  // as another process does
    CHECK(place.open() ==
          "unavailable, PAGES: it is in use by process 1234567, and a folder is of one chat, ask "
          "or paged_kv at a time: end that, or name another folder");
    std::ofstream(place.path + "/lock") << "";
    CHECK(place.open().find("in use by another process, and") != std::string::npos);
    const auto beside = StoreFolder::look(place.path);
    REQUIRE(beside.ok());
    CHECK(beside->is_held());
    CHECK(beside->secret() == secret);
    CHECK(beside->owner() == owner);
  }
  const auto after = StoreFolder::look(place.path);
  CHECK_FALSE(after->is_held());
  CHECK(StoreFolder::open(place.path)->secret() == secret);
  const Place other;
  CHECK(StoreFolder::open(other.path)->owner() != owner);
}

TEST_CASE("what stands in place of a folder, its lock or its secret is refused by name") {
  const Place place;
  SECTION("a file") {
    std::ofstream(place.path) << "x";
    const std::string why =
        "invalid_argument, PAGES: it cannot be entered, or is no folder or a link: Not a directory";
    CHECK(place.open() == why);
    CHECK(place.look() == why);
  }
  SECTION("a folder below a file") {
    std::ofstream(place.path) << "x";
    CHECK(place.said(StoreFolder::open(place.path + "/below")) ==
          "unavailable, PAGES/below: it cannot be made: Not a directory");
  }
  SECTION("a folder for its lock") {
    place.make();
    fs::create_directory(place.path + "/lock");
    CHECK(place.open() == "unavailable, PAGES: its lock cannot be opened: Is a directory");
    CHECK(place.look() == "not_found, PAGES: no pages are kept there");
  }
  SECTION("a link for its lock or its secret") {
    place.make();
    fs::create_symlink("/dev/zero", place.path + "/secret");
    CHECK(place.open() ==
          "unavailable, PAGES: its secret cannot be read: "
          "Too many levels of symbolic links");
    fs::remove(place.path + "/lock");
    fs::create_symlink("/dev/zero", place.path + "/lock");
    CHECK(place.open() ==
          "unavailable, PAGES: its lock cannot be opened: Too many levels of symbolic links");
  }
  SECTION("a secret of any other length") {
    place.make();
    for (const std::size_t size : {0U, 31U, 33U}) {
      std::ofstream(place.path + "/secret") << std::string(size, 's');
      const std::string why =
          "invalid_argument, PAGES/secret: it is not 32 bytes long; without it the pages cannot be "
          "found: remove the folder";
      CHECK(place.open() == why);
      CHECK(place.look() == why);
    }
    std::ofstream(place.path + "/secret") << std::string(32, 's');
    CHECK(place.open() == "taken");
    CHECK(StoreFolder::look(place.path)->secret()[31] == 's');
  }
  SECTION("segments whose secret is gone") {
    place.make();
    std::ofstream(place.path + "/segment-0000000000000001") << "pages";
    const std::string why =
        "invalid_argument, PAGES/secret: it is not there, and 1 segment of pages beside it; "
        "without "
        "it the pages cannot be found: put it back, or remove the folder";
    CHECK(place.open() == why);
    CHECK(place.look() == why);
    CHECK_FALSE(fs::exists(place.path + "/secret"));
    fs::remove(place.path + "/segment-0000000000000001");
    CHECK(place.open() == "taken");
  }
  SECTION("a folder where the new secret is written first") {
    place.make();
    fs::create_directory(place.path + "/secret.new");
    CHECK(place.open() == "unavailable, PAGES: its secret cannot be made: File exists");
    fs::remove(place.path + "/secret.new");
    std::ofstream(place.path + "/secret.new") << "of a process that died here";
    CHECK(place.open() == "taken");
    CHECK_FALSE(fs::exists(place.path + "/secret.new"));
  }
  SECTION("rights of others") {
    place.make();
    for (const mode_t mode : {0701U, 0710U, 0704U, 0777U}) {
      REQUIRE(::chmod(place.path.c_str(), mode) == 0);
      const std::string wrong =
          "invalid_argument, PAGES: others may enter it, and pages tell what was said: ";
      CHECK(place.open() == wrong + (mode == 0777U
                                         ? "name another, which is made where there is none"
                                         : "chmod 700, or name another"));
      CHECK(place.look() == "not_found, PAGES: no pages are kept there");
      std::ofstream(place.path + "/secret") << "s";
      CHECK(place.look() == wrong + "chmod 700, or name another");
      CHECK(place.open() == place.look());
      fs::remove(place.path + "/secret");
    }
    if (::geteuid() == 0) {
      REQUIRE(::chmod(place.path.c_str(), 0700) == 0);
      REQUIRE(::chown(place.path.c_str(), 12345, 12345) == 0);
      CHECK(place.open() ==
            "invalid_argument, PAGES: it is another user's; pages need a folder of your own");
      CHECK(place.look() == "not_found, PAGES: no pages are kept there");
    }
  }
}

TEST_CASE("segments are made once, listed in order, and nothing else in a folder is one") {
  const Place place;
  const auto folder = std::move(StoreFolder::open(place.path)).value();
  CHECK(folder.files()->empty());
  for (const bool direct : {true, false}) {
    const std::uint64_t number = direct ? 300 : 4;
    const auto made = folder.create(number, direct);
    REQUIRE(made.ok());
    if (!direct) CHECK_FALSE((*made)->is_direct());
    CHECK((::fcntl((*made)->descriptor(), F_GETFL) & O_NONBLOCK) == 0);
    REQUIRE(::ftruncate((*made)->descriptor(), 4096) == 0);
    CHECK(place.said(folder.create(number, direct)).find("cannot be opened: File exists") !=
          std::string::npos);
    CHECK(folder.read(number, direct).ok());
  }
  std::string name;
  for (const auto& entry : fs::directory_iterator(place.path))
    if (entry.path().filename().string().find("300") != std::string::npos ||
        entry.path().filename().string().find("12c") != std::string::npos)
      name = entry.path().filename().string();
  REQUIRE_FALSE(name.empty());
  for (const std::string& other : {name + "x", "x" + name, std::string("other"), name + ".new"})
    std::ofstream(place.path + "/" + other) << "x";
  const auto files = folder.files();
  REQUIRE(files.ok());
  REQUIRE(files->size() == 2);
  CHECK((*files)[0].number == 4);
  CHECK((*files)[1].number == 300);
  CHECK((*files)[1].bytes == 4096);
  SECTION("what is removed is gone, and may be removed again") {
    CHECK(folder.remove(300).ok());
    CHECK(folder.remove(300).ok());
    CHECK(folder.files()->size() == 1);
    CHECK(place.said(folder.read(300)) ==
          "unavailable, PAGES: " + name + " cannot be opened: No such file or directory");
  }
  SECTION("a folder or a pipe in place of a segment") {
    REQUIRE(folder.remove(300).ok());
    REQUIRE(::mkfifo((place.path + "/" + name).c_str(), 0600) == 0);
    CHECK(place.said(folder.read(300, false)) ==
          "invalid_argument, PAGES/" + name + ": it is no regular file");
    CHECK(folder.files()->size() == 1);
    fs::remove(place.path + "/" + name);
    fs::create_directory(place.path + "/" + name);
    CHECK(place.said(folder.remove(300)) ==
          "unavailable, PAGES: " + name + " cannot be removed: Is a directory");
    CHECK(place.said(folder.read(300, false)) ==
          "invalid_argument, PAGES/" + name + ": it is no regular file");
  }
}

}  // namespace sluice
