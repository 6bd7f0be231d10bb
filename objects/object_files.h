// The file seam over an object store. A file appears whole at Sync() and never grows after it.
// Nothing can be renamed. A directory exists if an object below it does, or the empty object
// "<directory>/" that MakeDirectories() puts. A request without an answer is repeated, even where
// the lost one may have succeeded. Thread-safe.
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

  // Waits before the next try, after `tries` of them, of which the last one ended with `why`;
  // returns false to give up.
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
  // Repeats a call until there is an answer. `retried` says whether an earlier call may have
  // succeeded.
  template <class Call>
  auto Ask(Call call, bool* retried = nullptr);
  absl::Status CheckConditions(const std::string& path, std::string_view contents);
  absl::StatusOr<std::vector<std::string>> ListAll(const std::string& prefix, bool deep);
  // An object whose size and version a list has said, and that is about to be opened.
  struct Expected {
    ObjectFacts facts;
    bool fetched = false;
    std::string beginning;  // the first bytes, from when they are fetched until they are handed out
  };
  std::optional<Expected> TakeExpected(const std::string& path);
  void FetchFrom(const std::string& path);

  ObjectStore& store_;
  const WaitFn wait_;
  const size_t part_bytes_;
  std::atomic<bool> conditions_kept_ = false;  // the store has shown that it does
  Mutex mu_;
  std::map<std::string, ObjectFacts> listed_ ABSL_GUARDED_BY(mu_);  // since the last Expect
  std::map<std::string, Expected> expected_ ABSL_GUARDED_BY(mu_);
};

}  // namespace paracord
