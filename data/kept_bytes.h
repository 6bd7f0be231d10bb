// A cache of facts that are slow to find in files: where the records of data begin, or which words
// they have, or a compiler's result for a program. Each entry is a file in the directory of
// KeepPlace (for most, DIR/index of the job), for the next start of this worker and of others.
// Never required: an entry that is damaged or does not fit the files is ignored and rewritten, and
// an unwritable directory costs a line in the log. Owned by a reader while it opens; one thread.
//
// The file, little-endian: "PCRDKEPT", format version (4 bytes), length of the subject (8), the
// subject, the body, CRC-32C of all before (4). The subject is text and names everything the body
// depends on; for each data file, the path and ReadFile::identity. The file name has the kind and a
// hash of the subject. Written by a rename without a sync: a torn file has a wrong checksum.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>

#include "common/files.h"
#include "common/mutex.h"
#include "common/random.h"
#include "config/job.h"

namespace paracord {

// The names of the entries that this process has loaded or saved in a directory. Thread-safe.
class KeptNames {
 public:
  void Add(const std::string& name) {
    MutexLock lock(mu_);
    names_.insert(name);
  }
  bool Has(const std::string& name) const {
    MutexLock lock(mu_);
    return names_.contains(name);
  }

 private:
  mutable Mutex mu_;
  std::set<std::string> names_ GUARDED_BY(mu_);
};

class KeptBytes {
 public:
  // Returns nullopt if no entry can be kept for the files: no place was given, the files are small,
  // or the storage cannot tell whether a file has changed. `depends` names everything besides the
  // files that determines the body.
  static std::optional<KeptBytes> Of(Files& files, const KeepPlace& place, const std::string& kind,
                                     const std::string& depends,
                                     std::span<const std::string> paths);

  // Returns the body saved for an equal subject, if any.
  std::optional<std::string> Load() const;
  // Whether the files are unchanged since Of().
  bool StillHolds() const;
  // Saves the body, unless it is too large or the files have changed since Of(). Failures are
  // logged. Removes other entries beyond 256, or beyond `bytes_max` in all: first unfinished ones,
  // then entries neither loaded nor saved by this process, then the rest, each in order of names.
  void Save(std::string_view body, uint64_t bytes_max = UINT64_MAX) const;
  std::string path() const;

 private:
  KeptBytes(Files& files, KeepPlace place, std::string kind, std::string depends,
            std::span<const std::string> paths)
      : files_(&files),
        place_(std::move(place)),
        kind_(std::move(kind)),
        depends_(std::move(depends)),
        paths_(paths.begin(), paths.end()) {}
  std::string Subject(uint64_t& bytes) const;
  std::string name() const;
  absl::Status Write(std::string_view body) const;
  void MakeRoom(uint64_t bytes_max) const;
  int TurnOf(const std::string& other) const;

  Files* files_;
  KeepPlace place_;
  std::string kind_, depends_;
  std::vector<std::string> paths_;
  std::string subject_;
};

// Returns the place `folder` in a job's directory; no place if `dir` is "" or in an object store.
KeepPlace PlaceIn(const std::string& dir, Random& random, const std::string& folder = "index");

}  // namespace paracord
