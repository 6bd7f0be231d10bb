// The file seam. PosixFiles is the real one; the simulator's loses what was not synced. Paths are
// absolute. Every error names the path. Thread-safe.
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
  // Returns a text that changes as soon as the file changes or is another file; "" if the storage
  // cannot tell.
  virtual std::string identity() const { return ""; }
};

// A file that is written. Destroying it closes it without a sync. After an error every
// further call returns that error.
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
  // Creates a file, or truncates the one that exists.
  virtual absl::StatusOr<std::unique_ptr<WriteFile>> Create(const std::string& path) = 0;
  // Opens a file to write at its end, or creates it.
  virtual absl::StatusOr<std::unique_ptr<WriteFile>> OpenToAppend(const std::string& path) = 0;
  // Creates `path` with `contents`, and syncs it and its directory; ALREADY_EXISTS if it exists. Of
  // several processes that try at once, one succeeds.
  virtual absl::Status CreateExclusive(const std::string& path, std::string_view contents) = 0;
  virtual absl::Status Rename(const std::string& from, const std::string& to) = 0;
  virtual absl::Status SyncDirectory(const std::string& path) = 0;
  // Makes a directory, which may exist, with its parents. The name of each one made is durable.
  virtual absl::Status MakeDirectories(const std::string& path) = 0;
  // Returns the sorted names, not paths, in a directory. NOT_FOUND if there is none.
  virtual absl::StatusOr<std::vector<std::string>> List(const std::string& path) = 0;
  // Announces that the caller, who has just listed these files, opens them in this order and reads
  // each from its start, so that a storage with long round trips can fetch several at once.
  virtual void Expect(const std::vector<std::string>& /*paths*/) {}
  // Removes a file, or a directory with all below it. A path that does not exist is no error.
  virtual absl::Status RemoveTree(const std::string& path) = 0;

  // Gives up what writers have begun below a directory and what has no name yet, such as the parts
  // of an upload whose process has died; nothing where files appear as they grow.
  virtual absl::Status AbandonUnfinished(const std::string& directory);

  // The one way to replace a file durably: temporary file, sync, rename, sync the directory, unless
  // the storage has another.
  virtual absl::Status WriteAtomic(const std::string& path, std::string_view contents);

  // PERMISSION_DENIED if `name`, which a peer has ordered, leads out of the directory `base`: by
  // "..", from the root, or through a symbolic link. A path that does not exist leads nowhere.
  virtual absl::Status CheckBeneath(const std::string& base, const std::string& name);

  // Reads a file of at most 1 GiB.
  absl::StatusOr<std::string> ReadWhole(const std::string& path);
};

// Whether `error` (errno) says that the file system does not know the operation at all, as CIFS and
// FUSE mounts answer.
bool IsUnknownToFileSystem(int error);

// Returns "s3" for "s3://bucket/key", and "" for a path in this machine's file systems.
std::string SchemeOf(const std::string& path);

// Returns the path from the root on, without ".", ".." and a "/" at the end. A path with a scheme
// is returned unchanged, and so is a relative one if the working directory is gone.
std::string AbsolutePath(const std::string& path);
// Returns the absolute path of `path`, which may be relative to the directory `base`.
std::string PathIn(const std::string& base, const std::string& path);

// The file systems of this machine. A path with a scheme is INVALID_ARGUMENT. Where a file system
// cannot sync a directory (several network and FUSE mounts), a line in the log says so once.
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
