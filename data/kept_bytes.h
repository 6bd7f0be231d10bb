// What was found out about data files by reading them whole (where their records begin, which words
// there are), kept for the next start of this worker and of others: a file in the directory that
// KeepPlace names, DIR/index of the job. A cache and nothing more: it is never needed, what does
// not fit is ignored and written anew, and a place that cannot be written to costs a line in the
// log. Owned by a reader while it opens; one thread.
//
// The file, little-endian: "PCRDKEPT", format version (4 bytes), length of the subject (8), the
// subject, the body, CRC-32C of all before (4). The subject is text and says everything the body
// depends on; of each data file that is what FileIdentity says. The name is the kind and a hash of
// the subject. It appears by a rename and is not synced: of a torn one the checksum is wrong.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "common/files.h"
#include "common/random.h"
#include "config/job.h"

namespace paracord {

class KeptBytes {
 public:
  // Nothing of these files is kept: no place was given, they are small, or the storage cannot tell
  // whether they have changed. `depends` is what the body depends on besides the files.
  static std::optional<KeptBytes> Of(Files& files, const KeepPlace& place, const std::string& kind,
                                     const std::string& depends,
                                     std::span<const std::string> paths);

  // The body, as it was saved for the same subject.
  std::optional<std::string> Load() const;
  // Whether the files are what they were at Of().
  bool StillHolds() const;
  // Nothing is saved if the files have changed since Of().
  void Save(std::string_view body) const;
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
  absl::Status Write(std::string_view body) const;
  void MakeRoom(const std::string& name) const;

  Files* files_;
  KeepPlace place_;
  std::string kind_, depends_;
  std::vector<std::string> paths_;
  std::string subject_;
};

// In a job's directory; nowhere if that is "".
KeepPlace PlaceIn(const std::string& dir, Random& random);

}  // namespace paracord
