// The memory files of a connection between processes of a host (net/shared_connection.h): our
// segments known to the peer, and the peer's segments mapped here. Plain values; the connection
// says which of its threads uses which.
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

// Our segments known to the peer.
class ToldSegments {
 public:
  // Returns false if the peer has been told already.
  bool Add(uint64_t segment) { return told_.insert(segment).second; }
  // Forgets and returns the segments given back since the last call.
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

// The peer's segments, mapped here. A reader holds the mapping itself.
class PeerSegments {
 public:
  // Maps `fd` and takes ownership. Returns false if mmap fails or the number is already mapped.
  bool Map(uint64_t segment, int fd, uint64_t bytes) {
    std::optional<SharedMapping> mapping = SharedMapping::Map(fd, bytes);
    if (!mapping.has_value()) return false;
    return mapped_.emplace(segment, std::make_shared<SharedMapping>(*std::move(mapping))).second;
  }
  // Returns false for an unknown number.
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
