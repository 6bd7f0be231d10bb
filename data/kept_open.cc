#include "data/kept_open.h"

#include <sys/resource.h>

#include <algorithm>
#include <list>
#include <unordered_map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/mutex.h"
#include "common/status_macros.h"

namespace paracord {
namespace {

// The open files, most recently used first.
class OpenOnes {
 public:
  std::shared_ptr<const ReadFile> Find(const void* key) {
    MutexLock lock(mu_);
    const auto found = places_.find(key);
    if (found == places_.end()) return nullptr;
    order_.splice(order_.begin(), order_, found->second);
    return found->second->second;
  }

  // If two threads opened a file at once, the first handle stays and the second is closed.
  void Keep(const void* key, std::shared_ptr<const ReadFile> file) {
    Order dropped;  // closed without the lock
    MutexLock lock(mu_);
    if (places_.contains(key)) return;
    order_.emplace_front(key, std::move(file));
    places_[key] = order_.begin();
    for (const size_t max = Max(); order_.size() > max;) {
      places_.erase(order_.back().first);
      dropped.splice(dropped.begin(), order_, std::prev(order_.end()));
    }
  }

  void Forget(const void* key) {
    Order dropped;
    MutexLock lock(mu_);
    const auto found = places_.find(key);
    if (found == places_.end()) return;
    dropped.splice(dropped.begin(), order_, found->second);
    places_.erase(found);
  }

 private:
  using Order = std::list<std::pair<const void*, std::shared_ptr<const ReadFile>>>;

  // A quarter of the limit of descriptors, since sockets take some, too.
  static size_t Max() {
    rlimit limit{};
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return 1;
    return std::clamp<size_t>(limit.rlim_cur / 4, 1, kKeptOpenMax);
  }

  Mutex mu_;
  Order order_;
  std::unordered_map<const void*, Order::iterator> places_;
};

OpenOnes& Ones() {
  static OpenOnes* const ones = new OpenOnes;
  return *ones;
}

class KeptOpenFile : public ReadFile {
 public:
  KeptOpenFile(Files& files, std::string path, std::shared_ptr<const ReadFile> file)
      : files_(files), path_(std::move(path)), size_(file->size()), identity_(file->identity()) {
    Ones().Keep(this, std::move(file));
  }
  ~KeptOpenFile() override { Ones().Forget(this); }

  uint64_t size() const override { return size_; }
  absl::Status ReadAt(uint64_t offset, std::span<char> out) const override {
    ASSIGN_OR_RETURN(const std::shared_ptr<const ReadFile> file, Get());
    return file->ReadAt(offset, out);
  }
  std::string identity() const override {
    const absl::StatusOr<std::shared_ptr<const ReadFile>> file = Get();
    return file.ok() ? (*file)->identity() : "";
  }

 private:
  absl::StatusOr<std::shared_ptr<const ReadFile>> Get() const {
    if (std::shared_ptr<const ReadFile> open = Ones().Find(this)) return open;
    ASSIGN_OR_RETURN(std::shared_ptr<const ReadFile> file, files_.Open(path_));
    if (file->size() != size_ || file->identity() != identity_) {
      return absl::DataLossError(
          absl::StrCat(path_, ": has changed since these data were opened; start again with it"));
    }
    Ones().Keep(this, file);
    return file;
  }

  Files& files_;
  const std::string path_;
  const uint64_t size_;
  const std::string identity_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<ReadFile>> OpenKept(Files& files, const std::string& path) {
  ASSIGN_OR_RETURN(std::shared_ptr<const ReadFile> file, files.Open(path));
  return std::make_unique<KeptOpenFile>(files, path, std::move(file));
}

}  // namespace paracord
