// An object store, each function of which is one request: the seam below ObjectFiles, which S3 or a
// simulator implements. Objects appear whole or not at all. Paths are "s3://bucket/key".
//
// UNAVAILABLE: there was no answer, or one that says to come again; the request may have succeeded
// or not, and may be repeated. NOT_FOUND: there is no such object. Thread-safe.
#pragma once

#include <cstdint>
#include <map>
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
  // By name, as far as the store says them in its list.
  std::map<std::string, ObjectFacts> facts;
};

struct OpenUpload {
  std::string path;
  std::string id;
};

class ObjectStore {
 public:
  virtual ~ObjectStore() = default;
  virtual absl::StatusOr<ObjectFacts> Look(const std::string& path) = 0;
  // Fills all of `out` from `offset` on. DATA_LOSS: the object has another version now.
  virtual absl::Status Get(const std::string& path, const std::string& version, uint64_t offset,
                           std::span<char> out) = 0;
  // Replaces the object. With `if_absent` it returns ALREADY_EXISTS if there is one; of several
  // such calls at once, one succeeds.
  virtual absl::Status Put(const std::string& path, std::string_view bytes, bool if_absent) = 0;
  virtual absl::Status Remove(const std::string& path) = 0;  // may be gone
  // Lists the objects whose path begins with `prefix`. Unless `deep`, names end at their next "/",
  // which they include, and each is listed once. `from` is "", or `next` of the list before.
  virtual absl::StatusOr<ObjectList> List(const std::string& prefix, bool deep,
                                          const std::string& from) = 0;

  // An upload writes an object in parts, of which each but the last has at least 5 MiB.
  // FinishUpload makes the object appear; NOT_FOUND: there is no such upload, or no longer.
  virtual absl::StatusOr<std::string> StartUpload(const std::string& path) = 0;
  // Returns the part's tag. Parts count from 1.
  virtual absl::StatusOr<std::string> PutPart(const OpenUpload& upload, uint32_t part,
                                              std::string_view bytes) = 0;
  virtual absl::Status FinishUpload(const OpenUpload& upload,
                                    const std::vector<std::string>& tags) = 0;
  virtual absl::Status AbortUpload(const OpenUpload& upload) = 0;  // may be gone
  virtual absl::StatusOr<std::vector<OpenUpload>> Uploads(const std::string& prefix) = 0;
};

}  // namespace paracord
