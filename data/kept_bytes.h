// A cache of facts about files that take long to find: where the records of data begin, or which
// words they have, or what a compiler makes of a program. Each is a file in the directory that
// KeepPlace names (DIR/index of the job), for the next start of this worker and of others. It is
// never needed: an entry that does not fit is ignored and written anew, and a directory that cannot
// be written to costs a line in the log. Owned by a reader while it opens; one thread.
//
// The file, little-endian: "PCRDKEPT", format version (4 bytes), length of the subject (8), the
// subject, the body, CRC-32C of all before (4). The subject is text and says everything the body
// depends on; of each data file that is what FileIdentity says. The name is the kind and a hash of
// the subject. It appears by a rename and is not synced: of a torn one the checksum is wrong.
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

// The names of the entries of one directory that a process has loaded or saved. Thread-safe.
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
  // Returns nullopt if nothing of these files is kept, because no place was given, the files are
  // small, or the storage cannot tell whether they have changed. `depends` names everything besides
  // the files on which the body depends.
  static std::optional<KeptBytes> Of(Files& files, const KeepPlace& place, const std::string& kind,
                                     const std::string& depends,
                                     std::span<const std::string> paths);

  // Returns the body that was saved for the same subject, if there is one.
  std::optional<std::string> Load() const;
  // Whether the files are unchanged since Of().
  bool StillHolds() const;
  // Saves the body, unless the files have changed since Of(). Failures are logged. Other entries go
  // where all together have more than `bytes_max`: first unfinished ones, then those that this
  // process has neither loaded nor saved, then the rest, by their names.
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

// Returns the place in a job's directory; nowhere if `dir` is "" or in an object store.
KeepPlace PlaceIn(const std::string& dir, Random& random, const std::string& folder = "index");

}  // namespace paracord
