// The Files seam over an object store. A file from Create() appears whole at Sync(), and no file
// grows afterwards. Renaming is impossible. A directory exists if an object below it exists, or the
// empty object "<directory>/", which MakeDirectories() puts. A request that fails with UNAVAILABLE
// is retried, even if the first try may have succeeded. Thread-safe.
#pragma once

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/files.h"
#include "common/mutex.h"
#include "objects/object_store.h"

namespace paracord {

class ObjectFiles : public Files {
 public:
  static constexpr size_t kPartBytes = 16 << 20;

  // Waits before a retry. `tries` have failed, the last one with `why`. Returns false to give up.
  using WaitFn = std::function<bool(int tries, const absl::Status& why)>;
  ObjectFiles(ObjectStore& store, WaitFn wait, size_t part_bytes = kPartBytes)
      : store_(store), wait_(std::move(wait)), part_bytes_(part_bytes) {}

  absl::StatusOr<std::unique_ptr<ReadFile>> Open(const std::string& path) override;
  absl::StatusOr<std::unique_ptr<WriteFile>> Create(const std::string& path) override;
  absl::StatusOr<std::unique_ptr<WriteFile>> OpenToAppend(const std::string& path) override;
  absl::Status CreateExclusive(const std::string& path, std::string_view contents) override;
  absl::Status Rename(const std::string& from, const std::string& to) override;
  absl::Status SyncDirectory(const std::string& path) override;
  absl::Status MakeDirectories(const std::string& path) override;
  absl::StatusOr<std::vector<std::string>> List(const std::string& path) override;
  void Expect(const std::vector<std::string>& paths) override;
  absl::Status RemoveTree(const std::string& path) override;
  absl::Status AbandonUnfinished(const std::string& directory) override;
  absl::Status WriteAtomic(const std::string& path, std::string_view contents) override;

 private:
  class Reader;
  class Writer;
  // Repeats a call while it fails with UNAVAILABLE, until `wait_` gives up. Sets `retried` if an
  // earlier try may have succeeded.
  template <class Call>
  auto Ask(Call call, bool* retried = nullptr);
  absl::Status CheckConditions(const std::string& path, std::string_view contents);
  absl::StatusOr<std::vector<std::string>> ListAll(const std::string& prefix, bool deep);
  // An object about to be opened, with its size and version from a listing.
  struct Expected {
    ObjectFacts facts;
    bool fetched = false;
    std::string beginning;  // first bytes; empty before they are fetched and after they are used
  };
  std::optional<Expected> TakeExpected(const std::string& path);
  void FetchFrom(const std::string& path);

  ObjectStore& store_;
  const WaitFn wait_;
  const size_t part_bytes_;
  std::atomic<bool> conditions_kept_ = false;  // the store was seen to respect `if_absent`
  Mutex mu_;
  // The objects that listings of directories have shown since the last Expect, by path.
  std::map<std::string, ObjectFacts> listed_ ABSL_GUARDED_BY(mu_);
  std::map<std::string, Expected> expected_ ABSL_GUARDED_BY(mu_);
};

}  // namespace paracord
