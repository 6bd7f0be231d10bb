// Real files, of which a test sees what was opened.
#pragma once

#include <map>
#include <memory>
#include <string>

#include "common/files.h"
#include "common/mutex.h"

namespace paracord {

class WatchedFiles : public PosixFiles {
 public:
  absl::StatusOr<std::unique_ptr<ReadFile>> Open(const std::string& path) override {
    MutexLock lock(mu_);
    ++opened_[path];
    return PosixFiles::Open(path);
  }
  int Opened(const std::string& path) const {
    MutexLock lock(mu_);
    const auto found = opened_.find(path);
    return found == opened_.end() ? 0 : found->second;
  }

 private:
  mutable Mutex mu_;
  std::map<std::string, int> opened_ ABSL_GUARDED_BY(mu_);  // by path
};

}  // namespace paracord
