// The interface to files. PosixFiles is the implementation for the file systems of a machine, and
// ObjectFiles (objects/object_files.h) for an object store. In the simulation, a simulated machine
// that crashes loses the bytes that were not synced. Errors of the file system name the path. Files
// and ReadFile are thread-safe; a WriteFile is used by one thread at a time.
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
  // Fills all of `out` from `offset` on. Returns OUT_OF_RANGE if the file is too short.
  virtual absl::Status ReadAt(uint64_t offset, std::span<char> out) const = 0;
  // Returns a text that changes whenever the file is modified or replaced; "" if the storage cannot
  // tell that.
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
  // Creates a file, or truncates an existing file to no bytes.
  virtual absl::StatusOr<std::unique_ptr<WriteFile>> Create(const std::string& path) = 0;
  // Opens a file to write at its end; creates a missing file. OpenToAppend and Rename return
  // UNIMPLEMENTED in an object store.
  virtual absl::StatusOr<std::unique_ptr<WriteFile>> OpenToAppend(const std::string& path) = 0;
  // Creates a file with `contents`, and syncs the file and its directory. Returns ALREADY_EXISTS if
  // `path` exists. If several processes create a path at once, at most one of them succeeds.
  virtual absl::Status CreateExclusive(const std::string& path, std::string_view contents) = 0;
  virtual absl::Status Rename(const std::string& from, const std::string& to) = 0;
  virtual absl::Status SyncDirectory(const std::string& path) = 0;
  // Makes a directory and its missing parents, and syncs the new names. No error if all exist.
  virtual absl::Status MakeDirectories(const std::string& path) = 0;
  // Returns the sorted names (not paths) in a directory; NOT_FOUND if it does not exist.
  virtual absl::StatusOr<std::vector<std::string>> List(const std::string& path) = 0;
  // Announces that the caller will open the files `paths`, and read each from its start. If List
  // has just returned their names, an object store fetches the beginnings of several files at once.
  virtual void Expect(const std::vector<std::string>& /*paths*/) {}
  // Removes a file, or a directory with all its content. Returns OK if the path is missing.
  virtual absl::Status RemoveTree(const std::string& path) = 0;

  // Abandons the files below `directory` that are unfinished and invisible, such as the uploaded
  // parts of a dead process. Does nothing in a file system.
  virtual absl::Status AbandonUnfinished(const std::string& directory);

  // Replaces a file atomically and durably. The default implementation writes and syncs a temporary
  // file, renames it to `path`, and syncs the directory.
  virtual absl::Status WriteAtomic(const std::string& path, std::string_view contents);

  // Returns PERMISSION_DENIED if `name`, a path that another process has sent, may lead out of the
  // directory `base`: because `name` is absolute, has a part "..", or has a part that is a symbolic
  // link in `base`. Returns OK if no file `name` exists in `base`.
  virtual absl::Status CheckBeneath(const std::string& base, const std::string& name);

  // Reads a whole file. Returns INVALID_ARGUMENT if the file is larger than 1 GiB.
  absl::StatusOr<std::string> ReadWhole(const std::string& path);
};

// Whether `error` (an errno) means that the file system lacks the operation that failed.
bool IsUnknownToFileSystem(int error);

// Returns the scheme of a path: "s3" for "s3://bucket/key". Returns "" for a path without a scheme.
std::string SchemeOf(const std::string& path);

// Returns the absolute path, without ".", ".." and a "/" at the end. A path with a scheme only
// loses each "/" at the end. Without a working directory, a relative path stays relative.
std::string AbsolutePath(const std::string& path);
// Returns `path` without "." and "..". A relative path starts at `base`. A path with a scheme stays
// unchanged.
std::string PathIn(const std::string& base, const std::string& path);

// The file systems of this machine. The functions that return a status, except CheckBeneath, return
// INVALID_ARGUMENT for a path with a scheme. Where a file system cannot sync a file or directory
// (as several network and FUSE mounts), a sync returns OK, and the process logs one warning.
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
