// The file seam. PosixFiles is the real implementation; in the simulator a machine that crashes
// loses unsynced bytes. Paths are absolute. Errors of the file system name the path. Thread-safe.
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
  // tell whether it was.
  virtual std::string identity() const { return ""; }
};

// A file open for writing. The destructor closes the file without a sync. After an error every
// further call returns an error.
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
  // Opens a file to write at its end; creates a missing file. UNIMPLEMENTED in an object store, as
  // is Rename.
  virtual absl::StatusOr<std::unique_ptr<WriteFile>> OpenToAppend(const std::string& path) = 0;
  // Creates `path` with `contents`, and syncs the file and its directory; ALREADY_EXISTS if the
  // path exists. Of several processes racing to create a path, at most one succeeds.
  virtual absl::Status CreateExclusive(const std::string& path, std::string_view contents) = 0;
  virtual absl::Status Rename(const std::string& from, const std::string& to) = 0;
  virtual absl::Status SyncDirectory(const std::string& path) = 0;
  // Makes a directory and its missing parents, and syncs the new names. No error if all exist.
  virtual absl::Status MakeDirectories(const std::string& path) = 0;
  // Returns the sorted names (not paths) in a directory. NOT_FOUND if the directory does not exist.
  virtual absl::StatusOr<std::vector<std::string>> List(const std::string& path) = 0;
  // Announces that the caller has listed the directories of `paths`, and will open the files in the
  // order of `paths` and read each from the start. Lets slow storage fetch several files at once.
  virtual void Expect(const std::vector<std::string>& /*paths*/) {}
  // Removes a file, or a directory with all its content. A missing path is no error.
  virtual absl::Status RemoveTree(const std::string& path) = 0;

  // Abandons unfinished, still invisible files below a directory, such as the uploaded parts of a
  // dead process. Does nothing in a file system, where a file is visible while it grows.
  virtual absl::Status AbandonUnfinished(const std::string& directory);

  // Replaces a file atomically and durably. The default writes and syncs a temporary file, renames
  // it, and syncs the directory; an object store puts the object.
  virtual absl::Status WriteAtomic(const std::string& path, std::string_view contents);

  // Returns PERMISSION_DENIED if `name`, requested by a peer, leads out of the directory `base`: by
  // "..", as an absolute path, or through a symbolic link. OK if the path does not exist.
  virtual absl::Status CheckBeneath(const std::string& base, const std::string& name);

  // Reads a whole file. INVALID_ARGUMENT if the file is larger than 1 GiB.
  absl::StatusOr<std::string> ReadWhole(const std::string& path);
};

// Whether `error` (an errno) means that the file system lacks the operation, as CIFS and FUSE
// mounts may.
bool IsUnknownToFileSystem(int error);

// Returns "s3" for "s3://bucket/key", and "" for a path in this machine's file systems.
std::string SchemeOf(const std::string& path);

// Returns the absolute path, without ".", ".." and a "/" at the end. A path with a scheme only
// loses a "/" at the end. If the working directory is gone, a relative path stays relative.
std::string AbsolutePath(const std::string& path);
// Returns `path` without "." and "..". A relative path starts at the directory `base`; a path with
// a scheme is returned unchanged.
std::string PathIn(const std::string& base, const std::string& path);

// The file systems of this machine. A path with a scheme is INVALID_ARGUMENT. Where a file system
// cannot sync a file or directory (several network and FUSE mounts), syncs succeed, and the log
// says so once per process.
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
