// A cache of facts that take long to find in files: where the records of a file begin, which words
// a text has, or the program that a compiler made. An entry is a file in the directory of a
// KeepPlace (for most entries, the folder `index` of the job's directory), so that later starts of
// this process and of others find it. Never required: an entry that is damaged or does not fit the
// files is ignored and may be written anew, and an entry that cannot be written costs a line in the
// log. A KeptBytes is used by one thread.
//
// An entry's file, little-endian: "PCRDKEPT", format version (4 bytes), length of the subject (8),
// the subject, the body, CRC-32C of all bytes before it (4). The subject is a text that names
// everything on which the body depends, among it the path and ReadFile::identity of each data file.
// The file's name has the kind and a hash of the subject. It gets its final name by a rename
// without a sync: a torn file has a wrong checksum.
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

// The names of the entries in a directory that this process has loaded or saved. Thread-safe.
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
  // Returns nullopt if no entry can be kept for the files `paths`: `place` has no directory, the
  // files are small or cannot be opened, or the storage cannot tell whether a file has changed.
  // `depends` names what the body depends on besides these files.
  static std::optional<KeptBytes> Of(Files& files, const KeepPlace& place, const std::string& kind,
                                     const std::string& depends,
                                     std::span<const std::string> paths);

  // Returns the body of the saved entry with an equal subject; nullopt if there is none.
  std::optional<std::string> Load() const;
  // Whether the files are unchanged since Of().
  bool StillHolds() const;
  // Saves the body, unless it is too large or the files have changed since Of(). Failures are
  // logged. Then removes other entries while the directory has more than 256 files or `bytes_max`
  // bytes, first those that this process has neither loaded nor saved.
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

// Returns the place `folder` in the job's directory `dir`. Returns a KeepPlace without directory if
// `dir` is "" or in an object store.
KeepPlace PlaceIn(const std::string& dir, Random& random, const std::string& folder = "index");

}  // namespace paracord
