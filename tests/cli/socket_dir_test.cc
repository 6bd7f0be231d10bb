// The next owner of a socket folder removes the sockets of a killed owner, and nothing else.
#include "cli/socket_dir.h"

#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "tests/fakes.h"

namespace paracord {
namespace {

namespace fs = std::filesystem;

void MakeSocket(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  REQUIRE(path.size() < sizeof(address.sun_path));
  std::memcpy(address.sun_path, path.data(), path.size());
  const int fd = ::socket(AF_UNIX, SOCK_STREAM, 0);
  REQUIRE(::bind(fd, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0);
  ::close(fd);
}

// Makes a folder as left by a killed owner: with all files, and unlocked.
std::string Left(const std::string& parent, const std::string& name) {
  std::string path = parent + "/" + name;
  fs::create_directory(path);
  ::chmod(path.c_str(), 0700);
  std::ofstream(path + "/lock").flush();
  MakeSocket(path + "/ps-0");
  return path;
}

TEST_CASE("a folder lives as long as its owner") {
  const TestDirectory parent;
  std::string path;
  {
    const auto sockets = SocketDir::Make(parent.path());
    REQUIRE(sockets.ok());
    path = (*sockets)->path();
    MakeSocket(path + "/coordinator");
    const auto other = SocketDir::Make(parent.path());  // another owner starts now
    REQUIRE(other.ok());
    CHECK(fs::exists(path + "/coordinator"));
    CHECK((*other)->path() != path);
  }
  CHECK_FALSE(fs::exists(path));
  CHECK(fs::is_empty(parent.path()));
}

TEST_CASE("the sockets of a killed owner are removed") {
  const TestDirectory parent;
  const std::string left = Left(parent.path(), "paracord-AbC123");
  const auto sockets = SocketDir::Make(parent.path());
  REQUIRE(sockets.ok());
  CHECK_FALSE(fs::exists(left));
}

TEST_CASE("a folder with another name, other rights, no lock or other files is not removed") {
  const TestDirectory parent;
  const std::string longer = Left(parent.path(), "paracord-AbC1234");
  const std::string other = Left(parent.path(), "paracord-AbC-23");
  const std::string open = Left(parent.path(), "paracord-open12");
  ::chmod(open.c_str(), 0777);
  const std::string unlocked = Left(parent.path(), "paracord-nolock");
  fs::remove(unlocked + "/lock");
  fs::create_directory_symlink(longer, parent.path() + "/paracord-link12");
  const std::string precious = Left(parent.path(), "paracord-data12");
  std::ofstream(precious + "/thesis") << "text";
  REQUIRE(SocketDir::Make(parent.path()).ok());
  for (const std::string& path : {longer, other, open, unlocked}) {
    CAPTURE(path);
    CHECK(fs::exists(path + "/ps-0"));
  }
  CHECK(fs::exists(precious + "/thesis"));
  CHECK(fs::is_symlink(parent.path() + "/paracord-link12"));
}

TEST_CASE("a parent whose path leaves no room for a socket is refused") {
  const auto sockets = SocketDir::Make("/tmp/" + std::string(90, 'x'));
  CHECK(absl::IsInvalidArgument(sockets.status()));
  CHECK(std::string(sockets.status().message()).find("TMPDIR is too long") != std::string::npos);
}

}  // namespace
}  // namespace paracord
