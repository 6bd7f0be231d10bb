// The file seam. PosixFiles is the real implementation; the simulator's loses unsynced bytes. Paths
// are absolute. Every error names the path. Thread-safe.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace paracord {

class ReadFile {
 public:
  virtual ~ReadFile() = default;
  virtual uint64_t size() const = 0;
  // Fills all of `out` from `offset` on; OUT_OF_RANGE if the file is shorter.
  virtual absl::Status ReadAt(uint64_t offset, std::span<char> out) const = 0;
  // Returns a text that changes whenever the file is modified or replaced; "" if the storage cannot
  // tell.
  virtual std::string identity() const { return ""; }
};

// A file open for writing. The destructor closes the file without a sync. After an error every
// further call returns the error.
class WriteFile {
 public:
  virtual ~WriteFile() = default;
  virtual absl::Status Append(std::string_view bytes) = 0;
  virtual absl::Status Sync() = 0;
};

class Files {
 public:
  virtual ~Files() = default;
  virtual absl::StatusOr<std::unique_ptr<ReadFile>> Open(const std::string& path) = 0;
  // Creates a file, or truncates an existing file.
  virtual absl::StatusOr<std::unique_ptr<WriteFile>> Create(const std::string& path) = 0;
  // Opens a file to write at its end; creates a missing file.
  virtual absl::StatusOr<std::unique_ptr<WriteFile>> OpenToAppend(const std::string& path) = 0;
  // Creates `path` with `contents`, and syncs the file and its directory; ALREADY_EXISTS if the
  // path exists. Of several processes racing to create a path, exactly one succeeds.
  virtual absl::Status CreateExclusive(const std::string& path, std::string_view contents) = 0;
  virtual absl::Status Rename(const std::string& from, const std::string& to) = 0;
  virtual absl::Status SyncDirectory(const std::string& path) = 0;
  // Makes a directory and its missing parents; existing ones are no error. New names are synced.
  virtual absl::Status MakeDirectories(const std::string& path) = 0;
  // Returns the sorted names, not paths, in a directory. NOT_FOUND if there is none.
  virtual absl::StatusOr<std::vector<std::string>> List(const std::string& path) = 0;
  // Announces that the caller, having listed these files, opens them in order and reads each from
  // its start, to let a storage with long round trips fetch several at once.
  virtual void Expect(const std::vector<std::string>& /*paths*/) {}
  // Removes a file, or a directory with all its content. A missing path is no error.
  virtual absl::Status RemoveTree(const std::string& path) = 0;

  // Abandons unfinished, still invisible files below a directory, such as uploaded parts of a dead
  // process; does nothing where files become visible as they grow.
  virtual absl::Status AbandonUnfinished(const std::string& directory);

  // Replaces a file atomically and durably: temporary file, sync, rename, sync the directory, or
  // the storage's own way.
  virtual absl::Status WriteAtomic(const std::string& path, std::string_view contents);

  // PERMISSION_DENIED if `name`, requested by a peer, leads out of the directory `base`: by "..",
  // from the root, or through a symbolic link. A missing path leads nowhere.
  virtual absl::Status CheckBeneath(const std::string& base, const std::string& name);

  // Reads a file of at most 1 GiB.
  absl::StatusOr<std::string> ReadWhole(const std::string& path);
};

// Whether `error` (errno) means that the file system lacks the operation, as on CIFS and FUSE
// mounts.
bool IsUnknownToFileSystem(int error);

// Returns "s3" for "s3://bucket/key", and "" for a path in this machine's file systems.
std::string SchemeOf(const std::string& path);

// Returns the absolute path, without ".", ".." and a "/" at the end. A path with a scheme, or a
// relative path when the working directory is gone, is returned unchanged.
std::string AbsolutePath(const std::string& path);
// Returns the absolute path of `path`; a relative path starts at the directory `base`.
std::string PathIn(const std::string& base, const std::string& path);

// The file systems of this machine. A path with a scheme is INVALID_ARGUMENT. Where a file system
// cannot sync a directory (several network and FUSE mounts), the log says so once.
class PosixFiles : public Files {
 public:
  absl::StatusOr<std::unique_ptr<ReadFile>> Open(const std::string& path) override;
  absl::StatusOr<std::unique_ptr<WriteFile>> Create(const std::string& path) override;
  absl::StatusOr<std::unique_ptr<WriteFile>> OpenToAppend(const std::string& path) override;
  absl::Status CreateExclusive(const std::string& path, std::string_view contents) override;
  absl::Status Rename(const std::string& from, const std::string& to) override;
  absl::Status SyncDirectory(const std::string& path) override;
  absl::Status MakeDirectories(const std::string& path) override;
  absl::StatusOr<std::vector<std::string>> List(const std::string& path) override;
  absl::Status RemoveTree(const std::string& path) override;
  absl::Status CheckBeneath(const std::string& base, const std::string& name) override;
};

}  // namespace paracord
