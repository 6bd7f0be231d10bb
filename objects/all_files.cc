#include "objects/all_files.h"

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <optional>
#include <thread>

#include "common/log.h"
#include "common/random.h"
#include "objects/s3_store.h"

namespace paracord {
namespace {

// Waits up to ten times within about a minute, with exponential backoff and jitter, so that refused
// processes do not retry in step. Logs a request's third failure, at most once in ten seconds over
// all requests.
class PatienceWithStore {
 public:
  bool Wait(int tries, const absl::Status& why) {
    constexpr int kTriesMax = 10, kToldAt = 3;
    constexpr int64_t kFirstMs = 100, kMostMs = 15000;
    if (tries >= kTriesMax) return false;
    if (tries == kToldAt) Tell(why);
    const int64_t most_ms = std::min(kMostMs, kFirstMs << (tries - 1));
    SystemRandom random;
    const auto share_ms = static_cast<int64_t>(random.Next() % static_cast<uint64_t>(most_ms / 2));
    std::this_thread::sleep_for(std::chrono::milliseconds(most_ms - share_ms));
    return true;
  }

 private:
  using Clock = std::chrono::steady_clock;
  void Tell(const absl::Status& why) {
    constexpr std::chrono::seconds kQuiet(10);
    const Clock::time_point now = Clock::now();
    {
      MutexLock lock(mu_);
      if (told_.has_value() && now - *told_ < kQuiet) return;
      told_ = now;
    }
    Logger("storage").Warn("the store does not answer and is asked again, for about a minute: {}",
                           std::string(why.message()));
  }

  Mutex mu_;
  std::optional<Clock::time_point> told_ ABSL_GUARDED_BY(mu_);
};

std::string Variable(const std::string& name) {
  const char* value = std::getenv(name.c_str());
  return value == nullptr ? "" : value;
}

}  // namespace

AllFiles::AllFiles() = default;
AllFiles::~AllFiles() = default;

Files& AllFiles::Of(const std::string& path) {
  if (SchemeOf(path) != "s3") return local_;
  MutexLock lock(mu_);
  if (objects_ == nullptr) {
    store_ = std::make_unique<S3Store>(Variable);
    objects_ = std::make_unique<ObjectFiles>(
        *store_, [patience = std::make_shared<PatienceWithStore>()](
                     int tries, const absl::Status& why) { return patience->Wait(tries, why); });
  }
  return *objects_;
}

absl::StatusOr<std::unique_ptr<ReadFile>> AllFiles::Open(const std::string& path) {
  return Of(path).Open(path);
}
absl::StatusOr<std::unique_ptr<WriteFile>> AllFiles::Create(const std::string& path) {
  return Of(path).Create(path);
}
absl::StatusOr<std::unique_ptr<WriteFile>> AllFiles::OpenToAppend(const std::string& path) {
  return Of(path).OpenToAppend(path);
}
absl::Status AllFiles::CreateExclusive(const std::string& path, std::string_view contents) {
  return Of(path).CreateExclusive(path, contents);
}
absl::Status AllFiles::Rename(const std::string& from, const std::string& to) {
  return Of(from).Rename(from, to);
}
absl::Status AllFiles::SyncDirectory(const std::string& path) {
  return Of(path).SyncDirectory(path);
}
absl::Status AllFiles::MakeDirectories(const std::string& path) {
  return Of(path).MakeDirectories(path);
}
absl::StatusOr<std::vector<std::string>> AllFiles::List(const std::string& path) {
  return Of(path).List(path);
}
void AllFiles::Expect(const std::vector<std::string>& paths) {
  std::vector<std::string> objects;
  for (const std::string& path : paths) {
    if (SchemeOf(path) == "s3") objects.push_back(path);
  }
  if (!objects.empty()) Of(objects[0]).Expect(objects);
}
absl::Status AllFiles::RemoveTree(const std::string& path) { return Of(path).RemoveTree(path); }
absl::Status AllFiles::AbandonUnfinished(const std::string& directory) {
  return Of(directory).AbandonUnfinished(directory);
}

absl::Status AllFiles::CheckBeneath(const std::string& base, const std::string& name) {
  return Of(base).CheckBeneath(base, name);
}
absl::Status AllFiles::WriteAtomic(const std::string& path, std::string_view contents) {
  return Of(path).WriteAtomic(path, contents);
}

}  // namespace paracord
