// Real files with a record of opened paths, and failures on demand.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>

#include "common/files.h"
#include "common/mutex.h"
#include "common/status_macros.h"

namespace paracord {

class WatchedFiles : public PosixFiles {
 public:
  absl::StatusOr<std::unique_ptr<ReadFile>> Open(const std::string& path) override {
    RETURN_IF_ERROR(Try("open " + path));
    if (on_open) on_open();
    MutexLock lock(mu_);
    ++opened_[path];
    return PosixFiles::Open(path);
  }
  // Makes an operation fail until MakeWell: "open PATH", "remove PATH" or "sync PATH".
  void MakeIll(const std::string& what) {
    MutexLock lock(mu_);
    ill_.insert(what);
  }
  void MakeWell() {
    MutexLock lock(mu_);
    ill_.clear();
  }
  absl::Status RemoveTree(const std::string& path) override {
    RETURN_IF_ERROR(Try("remove " + path));
    return PosixFiles::RemoveTree(path);
  }
  absl::Status SyncDirectory(const std::string& path) override {
    RETURN_IF_ERROR(Try("sync " + path));
    return PosixFiles::SyncDirectory(path);
  }
  int Opened(const std::string& path) const {
    MutexLock lock(mu_);
    const auto found = opened_.find(path);
    return found == opened_.end() ? 0 : found->second;
  }

  std::function<void()> on_open;  // set only while no file is in use

 private:
  absl::Status Try(const std::string& what) const {
    MutexLock lock(mu_);
    if (!ill_.contains(what)) return absl::OkStatus();
    return absl::UnknownError("cannot " + what + ": input/output error");
  }

  mutable Mutex mu_;
  std::map<std::string, int> opened_ ABSL_GUARDED_BY(mu_);  // keyed by path
  std::set<std::string> ill_ ABSL_GUARDED_BY(mu_);
};

}  // namespace paracord
