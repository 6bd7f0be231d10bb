// A preloaded library that makes file systems refuse what Linux' own support. ODD_STORAGE lists
// "sync" (CIFS and several FUSE mounts: EINVAL for syncs of directories) and "locks" (Lustre, some
// NFS and FUSE mounts: EOPNOTSUPP). Until the file ODD_STORAGE_UNTIL is there, "stale" (a share
// that its server has exported anew: ESTALE) and "denied" (EACCES) keep directories from being
// made.
#include <dlfcn.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>

namespace {

bool Lacks(const char* what) {
  const char* all = std::getenv("ODD_STORAGE");
  return all != nullptr && std::strstr(all, what) != nullptr;
}

bool IsIll() {
  const char* until = std::getenv("ODD_STORAGE_UNTIL");
  return until != nullptr && access(until, F_OK) != 0;
}

}  // namespace

extern "C" int mkdir(const char* path, mode_t mode) noexcept {
  if (IsIll() && (Lacks("stale") || Lacks("denied"))) {
    errno = Lacks("stale") ? ESTALE : EACCES;
    return -1;
  }
  return reinterpret_cast<int (*)(const char*, mode_t)>(dlsym(RTLD_NEXT, "mkdir"))(path, mode);
}

extern "C" int fsync(int fd) {
  struct stat info {};
  if (Lacks("sync") && fstat(fd, &info) == 0 && S_ISDIR(info.st_mode)) {
    errno = EINVAL;
    return -1;
  }
  return reinterpret_cast<int (*)(int)>(dlsym(RTLD_NEXT, "fsync"))(fd);
}

extern "C" int flock(int fd, int operation) noexcept {
  if (Lacks("locks")) {
    errno = EOPNOTSUPP;
    return -1;
  }
  return reinterpret_cast<int (*)(int, int)>(dlsym(RTLD_NEXT, "flock"))(fd, operation);
}
