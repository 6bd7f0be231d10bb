// An object store. Each function stands for one request to S3. ObjectFiles implements the Files
// interface with an ObjectStore; S3Store and a simulator implement ObjectStore. Objects appear
// whole or not at all. Paths are "s3://bucket/key".
//
// UNAVAILABLE: the store did not answer, or answered that the client should come back; the call may
// have succeeded, and may be repeated. NOT_FOUND: no such object. Thread-safe.
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
  std::string version;  // changes whenever the object is replaced
};

struct ObjectList {
  std::vector<std::string> names;  // paths without the prefix
  std::string next;                // `from` of the call that continues the list; "": it is complete
  // Facts of objects, by their names, if the store's list has them.
  std::map<std::string, ObjectFacts> facts;
};

// An upload that has been started and neither finished nor aborted.
struct OpenUpload {
  std::string path;
  std::string id;
};

class ObjectStore {
 public:
  virtual ~ObjectStore() = default;
  virtual absl::StatusOr<ObjectFacts> Look(const std::string& path) = 0;
  // Reads out.size() bytes from `offset`. DATA_LOSS: the object has another version by now.
  virtual absl::Status Get(const std::string& path, const std::string& version, uint64_t offset,
                           std::span<char> out) = 0;
  // Creates or replaces the object. With `if_absent`, returns ALREADY_EXISTS if the object exists;
  // of concurrent calls with `if_absent`, at most one succeeds.
  virtual absl::Status Put(const std::string& path, std::string_view bytes, bool if_absent) = 0;
  virtual absl::Status Remove(const std::string& path) = 0;  // OK if there is no such object
  // Lists objects whose path begins with `prefix`. Unless `deep`, names are cut after their first
  // "/", and equal names are listed once. `from` is "" or `next` of the previous list.
  virtual absl::StatusOr<ObjectList> List(const std::string& prefix, bool deep,
                                          const std::string& from) = 0;

  // An upload writes an object in parts of at least 5 MiB, except for the last part. StartUpload
  // returns the upload's id. FinishUpload makes the object appear, of the parts with these tags, in
  // this order. NOT_FOUND: the upload does not exist.
  virtual absl::StatusOr<std::string> StartUpload(const std::string& path) = 0;
  // Returns the tag of the part. `part` counts from 1.
  virtual absl::StatusOr<std::string> PutPart(const OpenUpload& upload, uint32_t part,
                                              std::string_view bytes) = 0;
  virtual absl::Status FinishUpload(const OpenUpload& upload,
                                    const std::vector<std::string>& tags) = 0;
  virtual absl::Status AbortUpload(const OpenUpload& upload) = 0;  // OK if it does not exist
  // Returns the open uploads of paths that begin with `prefix`.
  virtual absl::StatusOr<std::vector<OpenUpload>> Uploads(const std::string& prefix) = 0;
};

}  // namespace paracord
