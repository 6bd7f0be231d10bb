// All files of a process: those of the local file system, and in an object store those with paths
// "s3://bucket/key". Makes the store's client at the first such path, and repeats requests that
// fail with UNAVAILABLE for about a minute. Thread-safe.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "common/files.h"
#include "common/mutex.h"
#include "objects/object_files.h"

namespace paracord {

class AllFiles : public Files {
 public:
  AllFiles();
  ~AllFiles() override;

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
  absl::Status CheckBeneath(const std::string& base, const std::string& name) override;
  absl::Status WriteAtomic(const std::string& path, std::string_view contents) override;

 private:
  Files& Of(const std::string& path);

  PosixFiles local_;
  Mutex mu_;
  std::unique_ptr<ObjectStore> store_ ABSL_GUARDED_BY(mu_);
  std::unique_ptr<ObjectFiles> objects_ ABSL_GUARDED_BY(mu_);
};

}  // namespace paracord
