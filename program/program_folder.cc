#include "program/program_folder.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/files.h"
#include "common/status_macros.h"

namespace paracord {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kPrefix = "paracord-program-";
constexpr std::string_view kDrawn = "XXXXXX";  // mkdtemp puts letters and digits there

int OpenFolder(const std::string& path) {
  return open(path.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
}

// Whether the folder was left by a dead process of ours. If so, `lock` now holds the folder's lock
// until closed.
bool IsLeft(int lock) {
  struct stat facts {};
  return fstat(lock, &facts) == 0 && facts.st_uid == geteuid() && (facts.st_mode & 0077) == 0 &&
         flock(lock, LOCK_EX | LOCK_NB) == 0;
}

void RemoveLeftOnes(const std::string& parent) {
  std::error_code ignored;
  std::vector<std::string> paths;
  for (fs::directory_iterator it(parent, ignored), end; !ignored && it != end;
       it.increment(ignored)) {
    const std::string name = it->path().filename().string();
    if (name.starts_with(kPrefix) && name.size() == kPrefix.size() + kDrawn.size()) {
      paths.push_back(it->path().string());
    }
  }
  for (const std::string& path : paths) {
    const int lock = OpenFolder(path);
    if (lock < 0) continue;
    if (IsLeft(lock)) fs::remove_all(path, ignored);
    close(lock);
  }
}

absl::Status WriteFiles(const std::map<std::string, std::string>& texts, const std::string& path) {
  PosixFiles files;
  for (const auto& [name, text] : texts) {
    const std::string file = absl::StrCat(path, "/", name);
    RETURN_IF_ERROR(files.MakeDirectories(file.substr(0, file.rfind('/'))));
    RETURN_IF_ERROR(files.WriteAtomic(file, text));
    if (text.starts_with("#!")) chmod(file.c_str(), 0700);  // an executable script
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::unique_ptr<ProgramFolder>> ProgramFolder::Make(
    const std::map<std::string, std::string>& files, const std::string& parent) {
  const char* const temporary = getenv("TMPDIR");
  const bool set = temporary != nullptr && *temporary != '\0';
  const std::string below = !parent.empty() ? parent : set ? AbsolutePath(temporary) : "/tmp";
  RemoveLeftOnes(below);
  constexpr int kTries = 10;
  for (int i = 0; i < kTries; ++i) {
    std::string path = absl::StrCat(below, "/", std::string(kPrefix), std::string(kDrawn));
    if (mkdtemp(path.data()) == nullptr) {
      return absl::ErrnoToStatus(errno, absl::StrCat("cannot make ", path, " (TMPDIR says where)"));
    }
    const int lock = OpenFolder(path);
    // Without file locks the folder is kept all the same. Another process's clean-up may have
    // removed the folder before it was locked.
    struct stat held {};
    struct stat found {};
    const bool locked = lock >= 0 && (flock(lock, LOCK_EX | LOCK_NB) == 0 || errno != EWOULDBLOCK);
    if (locked && fstat(lock, &held) == 0 && lstat(path.c_str(), &found) == 0 &&
        held.st_ino == found.st_ino) {
      std::unique_ptr<ProgramFolder> folder(new ProgramFolder(path, lock));
      RETURN_IF_ERROR(WriteFiles(files, path));
      return folder;
    }
    if (lock >= 0) close(lock);
  }
  return absl::UnavailableError(absl::StrCat("cannot lock a folder below ", below));
}

ProgramFolder::~ProgramFolder() {
  std::error_code ignored;
  fs::remove_all(path_, ignored);
  close(lock_);
}

}  // namespace paracord
