// The simulated disk as one process sees it. Dies with the process: the operation during which the
// process dies takes no effect, except that half of a write may remain. Made by SimNode.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "common/files.h"
#include "sim/world/sim_node.h"
#include "sim/world/sim_storage.h"

namespace paracord {

class SimFiles : public Files {
 public:
  explicit SimFiles(SimNode& node) : node_(node) {}

  absl::StatusOr<std::unique_ptr<ReadFile>> Open(const std::string& path) override;
  absl::StatusOr<std::unique_ptr<WriteFile>> Create(const std::string& path) override;
  absl::StatusOr<std::unique_ptr<WriteFile>> OpenToAppend(const std::string& path) override;
  absl::Status CreateExclusive(const std::string& path, std::string_view contents) override;
  absl::Status Rename(const std::string& from, const std::string& to) override;
  absl::Status SyncDirectory(const std::string& path) override;
  absl::Status MakeDirectories(const std::string& path) override;
  absl::StatusOr<std::vector<std::string>> List(const std::string& path) override;
  absl::Status RemoveTree(const std::string& path) override;

 private:
  class Reader;
  class Writer;

  absl::StatusOr<std::unique_ptr<WriteFile>> Write(const char* what, const std::string& path,
                                                   bool truncate);
  // Returns OK if a change of `path` may proceed: the process lives and the disk is writable.
  absl::Status Begin(const char* what, const std::string& path);
  absl::Status DrawSyncError(const std::string& path);
  SimStorage& storage();

  SimNode& node_;
};

}  // namespace paracord
