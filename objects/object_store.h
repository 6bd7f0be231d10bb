// An object store as it answers one request each: the seam below ObjectFiles, which a simulator or
// S3 stands behind. Objects appear whole or not at all. Paths are "s3://bucket/key".
//
// UNAVAILABLE: there was no answer, or one that says to come again; what was asked for may have
// happened or not, and may be asked for again. NOT_FOUND: no such object. Thread-safe.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace paracord {

struct ObjectFacts {
  uint64_t size = 0;
  std::string version;  // another one as soon as the object is replaced
};

struct ObjectList {
  std::vector<std::string> names;  // below the prefix, without it
  std::string next;                // where to go on; "": that was all
};

struct OpenUpload {
  std::string path;
  std::string id;
};

class ObjectStore {
 public:
  virtual ~ObjectStore() = default;
  virtual absl::StatusOr<ObjectFacts> Look(const std::string& path) = 0;
  // Fills all of `out`. DATA_LOSS: the object is no longer that version.
  virtual absl::Status Get(const std::string& path, const std::string& version, uint64_t offset,
                           std::span<char> out) = 0;
  // `if_absent`: ALREADY_EXISTS where there is one; of several at once one succeeds.
  virtual absl::Status Put(const std::string& path, std::string_view bytes, bool if_absent) = 0;
  virtual absl::Status Remove(const std::string& path) = 0;  // may be gone
  // Of the objects whose path begins with `prefix`. Not `deep`: up to the next "/" and with it,
  // each such name once. `from`: what the list before said in `next`.
  virtual absl::StatusOr<ObjectList> List(const std::string& prefix, bool deep,
                                          const std::string& from) = 0;

  // An object in parts, of which each but the last has at least 5 MiB. FinishUpload makes it
  // appear; NOT_FOUND: there is no such upload, or no longer.
  virtual absl::StatusOr<std::string> StartUpload(const std::string& path) = 0;
  // Parts count from 1. The part's tag.
  virtual absl::StatusOr<std::string> PutPart(const OpenUpload& upload, uint32_t part,
                                              std::string_view bytes) = 0;
  virtual absl::Status FinishUpload(const OpenUpload& upload,
                                    const std::vector<std::string>& tags) = 0;
  virtual absl::Status AbortUpload(const OpenUpload& upload) = 0;  // may be gone
  virtual absl::StatusOr<std::vector<OpenUpload>> Uploads(const std::string& prefix) = 0;
};

}  // namespace paracord
