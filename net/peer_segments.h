// The segments (memory files, common/shared_memory.h) of a connection between processes of a host
// (net/shared_connection.h): our segments that the peer knows, and the peer's segments that are
// mapped here. Neither class is thread-safe.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "common/shared_memory.h"

namespace paracord {

// Our segments that the peer has been told of.
class ToldSegments {
 public:
  // Adds a segment. Returns false if the peer has already been told of the segment.
  bool Add(uint64_t segment) { return told_.insert(segment).second; }
  // Removes and returns those segments that were returned to the kernel since the last call.
  std::vector<uint64_t> TakeClosed() {
    std::vector<uint64_t> taken;
    const uint64_t closed = SharedSegmentsClosed();
    if (std::exchange(closed_seen_, closed) == closed) return taken;
    for (const uint64_t segment : told_) {
      if (!IsSharedSegmentOpen(segment)) taken.push_back(segment);
    }
    for (const uint64_t segment : taken) told_.erase(segment);
    return taken;
  }

 private:
  std::set<uint64_t> told_;
  uint64_t closed_seen_ = 0;  // value of SharedSegmentsClosed at the last call
};

// The peer's segments that are mapped here, keyed by the number that the peer gave them. A mapping
// stays as long as somebody holds a pointer from Find, even after Unmap and Clear.
class PeerSegments {
 public:
  // Maps the file `fd` and takes ownership of `fd`. Returns false if SharedMapping::Map refuses the
  // file, or a segment of this number is mapped already.
  bool Map(uint64_t segment, int fd, uint64_t bytes) {
    std::optional<SharedMapping> mapping = SharedMapping::Map(fd, bytes);
    if (!mapping.has_value()) return false;
    return mapped_.emplace(segment, std::make_shared<SharedMapping>(*std::move(mapping))).second;
  }
  // Returns false if no segment of this number is mapped.
  bool Unmap(uint64_t segment) { return mapped_.erase(segment) == 1; }
  std::shared_ptr<const SharedMapping> Find(uint64_t segment) const {
    const auto it = mapped_.find(segment);
    return it == mapped_.end() ? nullptr : it->second;
  }
  void Clear() { mapped_.clear(); }

 private:
  std::map<uint64_t, std::shared_ptr<const SharedMapping>> mapped_;
};

}  // namespace paracord
