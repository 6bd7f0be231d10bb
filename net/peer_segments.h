// The memory files of one connection between processes of a host (net/shared_connection.h): those
// that this end has told the peer of, and those of the peer, which are mapped here. Values; the
// connection says which of its threads uses which.
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

// Segments of this process that the peer knows.
class ToldSegments {
 public:
  // Returns false if the peer has been told already.
  bool Add(uint64_t segment) { return told_.insert(segment).second; }
  // Forgets and returns those that were given back since the last time.
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
  uint64_t closed_seen_ = 0;  // of SharedSegmentsClosed
};

// Segments of the peer. Who reads from one holds it itself.
class PeerSegments {
 public:
  // Maps `fd` and takes ownership of it. Returns false if that cannot be, or if the number is
  // known.
  bool Map(uint64_t segment, int fd, uint64_t bytes) {
    std::optional<SharedMapping> mapping = SharedMapping::Map(fd, bytes);
    if (!mapping.has_value()) return false;
    return mapped_.emplace(segment, std::make_shared<SharedMapping>(*std::move(mapping))).second;
  }
  // Returns false if there is none of that number.
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
