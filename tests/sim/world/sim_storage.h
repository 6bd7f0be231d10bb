// The shared disk of a simulated world. It survives the processes. A write is first in the page
// cache of the machine that made it; a power loss of that machine drops or tears what was not
// synced: bytes of files, and names in directories (a directory keeps a list of the changes that
// are not durable yet). Owned by the world; processes reach it through SimFiles.
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
  // For a file, `data` is what readers see, of which the first `synced` bytes are durable.
  std::string data;
  uint64_t synced = 0;
  uint32_t writer_host = 0;
  uint64_t version = 0;  // of an object
  // A directory: what readers see, what is durable, and what lies between.
  struct Change {
    std::string name;
    std::shared_ptr<SimInode> target;  // null: removed
    std::string other_name;            // renamed away from this name in the same change
    uint32_t host;
  };
  std::map<std::string, std::shared_ptr<SimInode>, std::less<>> entries;
  std::map<std::string, std::shared_ptr<SimInode>, std::less<>> durable;
  std::vector<Change> changes;
};

// The parts of an object store besides the objects: directories that are there by themselves
// ("dir/"), and uploads by their names.
struct SimObjects {
  struct Upload {
    std::string path;
    std::map<uint32_t, std::string> parts;
  };
  bool used = false;  // the processes of this world keep their files in it
  std::set<std::string> markers;
  std::map<std::string, Upload> uploads;
  uint64_t last = 0;  // version or name of an upload
};

class SimStorage {
 public:
  explicit SimStorage(SimWorld& world);

  SimObjects& objects() { return objects_; }
  const SimObjects& objects() const { return objects_; }

  // The faults of the disk, besides the shares in Swarm.
  struct Faults {
    bool read_only = false;
    std::optional<uint64_t> free_bytes;  // absent: no end
    int64_t fail_sync_in = 0;            // the n-th sync from now fails; 0: none
  };
  Faults& faults() { return faults_; }

  void PowerLoss(uint32_t host);
  // FlipBit and Truncate damage a regular file at rest; NOT_FOUND, OUT_OF_RANGE.
  absl::Status FlipBit(const std::string& path, uint64_t offset, int bit);
  absl::Status Truncate(const std::string& path, uint64_t size);
  // Returns the path and the size of every regular file, sorted; for tests and checkers.
  std::vector<std::pair<std::string, uint64_t>> AllFiles() const;
  absl::StatusOr<std::string> Contents(const std::string& path) const;

  // These are for SimFiles. Paths are absolute; `host` is the machine that acts.
  absl::StatusOr<std::shared_ptr<SimInode>> Find(const std::string& path) const;
  absl::StatusOr<std::shared_ptr<SimInode>> FindDirectory(const std::string& path) const;
  // Returns the directory that holds `path`, and its last name.
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
