// The shared disk of a simulated world, which survives all processes. A write stays in the page
// cache of the writer's machine until a sync. A power loss of the machine drops or tears unsynced
// bytes of files and unsynced names in directories (a directory keeps a list of changes that are
// not durable). Owned by the world. Processes use SimFiles.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "sim/world/sim_random.h"

namespace paracord {

class SimWorld;

struct SimInode {
  bool directory = false;
  // Contents of a file as readers see it. The first `synced` bytes are durable.
  std::string data;
  uint64_t synced = 0;
  uint32_t writer_host = 0;
  uint64_t version = 0;  // version of an object
  // Names in a directory as readers see it, durable names, and the changes between the two.
  struct Change {
    std::string name;
    std::shared_ptr<SimInode> target;  // null: removed
    std::string other_name;            // a rename: the name before the change
    uint32_t host;
  };
  std::map<std::string, std::shared_ptr<SimInode>, std::less<>> entries;
  std::map<std::string, std::shared_ptr<SimInode>, std::less<>> durable;
  std::vector<Change> changes;
};

// State of an object store besides the objects: markers of directories ("dir/"), and open multipart
// uploads by id.
struct SimObjects {
  struct Upload {
    std::string path;
    std::map<uint32_t, std::string> parts;
  };
  bool used = false;  // processes keep their files in the object store
  std::set<std::string> markers;
  std::map<std::string, Upload> uploads;
  uint64_t last = 0;  // last version or upload id
};

class SimStorage {
 public:
  explicit SimStorage(SimWorld& world);

  SimObjects& objects() { return objects_; }
  const SimObjects& objects() const { return objects_; }

  // Faults of the disk that are switched on and off. Swarm has the random ones.
  struct Faults {
    bool read_only = false;
    std::optional<uint64_t> free_bytes;  // absent: unlimited
    int64_t fail_sync_in = 0;            // the n-th sync from now fails; 0: none
  };
  Faults& faults() { return faults_; }

  void PowerLoss(uint32_t host);
  // Damage a regular file at rest. Errors: NOT_FOUND, OUT_OF_RANGE.
  absl::Status FlipBit(const std::string& path, uint64_t offset, int bit);
  absl::Status Truncate(const std::string& path, uint64_t size);
  // Returns path and size of every regular file, sorted by path. For tests and oracles.
  std::vector<std::pair<std::string, uint64_t>> AllFiles() const;
  absl::StatusOr<std::string> Contents(const std::string& path) const;

  // For SimFiles. Paths are absolute; `host` is the machine that makes the change.
  absl::StatusOr<std::shared_ptr<SimInode>> Find(const std::string& path) const;
  absl::StatusOr<std::shared_ptr<SimInode>> FindDirectory(const std::string& path) const;
  // Returns the parent directory of `path`, and the last name in `path`.
  absl::StatusOr<std::pair<std::shared_ptr<SimInode>, std::string>> FindParent(
      const std::string& path) const;
  static void Change(SimInode& directory, SimInode::Change change);
  static void SyncDirectory(SimInode& directory);

  SimRandom& chance() { return chance_; }

 private:
  void LosePower(SimInode& inode, uint32_t host);
  static void Apply(std::map<std::string, std::shared_ptr<SimInode>, std::less<>>& entries,
                    const SimInode::Change& change);

  SimRandom chance_;
  Faults faults_;
  SimObjects objects_;
  const std::shared_ptr<SimInode> root_;
};

}  // namespace paracord
