#include "sim/world/sim_storage.h"

#include <algorithm>
#include <cerrno>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "common/probe.h"
#include "sim/world/sim_world.h"

namespace paracord {
namespace {

std::vector<std::string> Names(const std::string& path) {
  return absl::StrSplit(path, '/', absl::SkipEmpty());
}

void Collect(const SimInode& inode, const std::string& path,
             std::vector<std::pair<std::string, uint64_t>>& files) {
  if (!inode.directory) {
    files.emplace_back(path, inode.data.size());
    return;
  }
  for (const auto& [name, entry] : inode.entries) {
    Collect(*entry, absl::StrCat(path, "/", name), files);
  }
}

std::shared_ptr<SimInode> MakeRoot() {
  auto root = std::make_shared<SimInode>();
  root->directory = true;
  return root;
}

}  // namespace

SimStorage::SimStorage(SimWorld& world) : chance_(world.Fork(2)), root_(MakeRoot()) {}

absl::StatusOr<std::shared_ptr<SimInode>> SimStorage::Find(const std::string& path) const {
  std::shared_ptr<SimInode> inode = root_;
  for (const std::string& name : Names(path)) {
    if (!inode->directory) return absl::ErrnoToStatus(ENOTDIR, path);
    const auto it = inode->entries.find(name);
    if (it == inode->entries.end()) return absl::ErrnoToStatus(ENOENT, path);
    inode = it->second;
  }
  return inode;
}

absl::StatusOr<std::shared_ptr<SimInode>> SimStorage::FindDirectory(const std::string& path) const {
  auto inode = Find(path);
  if (inode.ok() && !(*inode)->directory) return absl::ErrnoToStatus(ENOTDIR, path);
  return inode;
}

absl::StatusOr<std::pair<std::shared_ptr<SimInode>, std::string>> SimStorage::FindParent(
    const std::string& path) const {
  const size_t slash = path.rfind('/');
  if (slash == std::string::npos || slash + 1 == path.size()) {
    return absl::InvalidArgumentError(absl::StrCat("not an absolute path of a file: ", path));
  }
  auto parent = FindDirectory(path.substr(0, slash));
  if (!parent.ok()) return parent.status();
  return std::make_pair(*std::move(parent), path.substr(slash + 1));
}

void SimStorage::Apply(std::map<std::string, std::shared_ptr<SimInode>, std::less<>>& entries,
                       const SimInode::Change& change) {
  if (!change.other_name.empty()) entries.erase(change.other_name);
  if (change.target == nullptr) {
    entries.erase(change.name);
  } else {
    entries[change.name] = change.target;
  }
}

void SimStorage::Change(SimInode& directory, SimInode::Change change) {
  Apply(directory.entries, change);
  directory.changes.push_back(std::move(change));
}

void SimStorage::SyncDirectory(SimInode& directory) {
  directory.durable = directory.entries;
  directory.changes.clear();
}

void SimStorage::PowerLoss(uint32_t host) {
  PROBE("sim.power_loss");
  LosePower(*root_, host);
}

void SimStorage::LosePower(SimInode& inode, uint32_t host) {
  if (!inode.directory) {
    if (inode.writer_host != host || inode.synced >= inode.data.size()) return;
    PROBE("sim.unsynced_bytes_lost");
    // Some unsynced bytes may have reached the disk. The last of these bytes may be zeros.
    const auto unsynced = static_cast<int64_t>(inode.data.size() - inode.synced);
    inode.data.resize(inode.synced + static_cast<uint64_t>(chance_.Between(0, unsynced)));
    if (inode.data.size() > inode.synced && chance_.Chance(0.3)) {
      PROBE("sim.torn_write");
      const auto kept = static_cast<int64_t>(inode.data.size() - inode.synced);
      const auto zeros = static_cast<size_t>(chance_.Between(1, kept));
      std::fill(inode.data.end() - static_cast<std::ptrdiff_t>(zeros), inode.data.end(), '\0');
    }
    inode.synced = inode.data.size();
    return;
  }
  // Half of the file systems have a journal that keeps the order of changes.
  const bool ordered = chance_.Chance(0.5);
  bool lost_one = false;
  std::vector<SimInode::Change> pending = std::exchange(inode.changes, {});
  for (SimInode::Change& change : pending) {
    if (change.host != host) {
      inode.changes.push_back(std::move(change));
      continue;
    }
    if ((ordered && lost_one) || chance_.Chance(0.5)) {
      PROBE("sim.unsynced_name_lost");
      lost_one = true;
    } else {
      Apply(inode.durable, change);
    }
  }
  if (!pending.empty()) {
    inode.entries = inode.durable;
    for (const SimInode::Change& change : inode.changes) Apply(inode.entries, change);
  }
  for (const auto& [name, entry] : inode.entries) LosePower(*entry, host);
}

absl::Status SimStorage::FlipBit(const std::string& path, uint64_t offset, int bit) {
  const auto inode = Find(path);
  if (!inode.ok()) return inode.status();
  if (offset >= (*inode)->data.size()) return absl::OutOfRangeError(path);
  char& byte = (*inode)->data[offset];
  byte = static_cast<char>(byte ^ (1 << bit));
  return absl::OkStatus();
}

absl::Status SimStorage::Truncate(const std::string& path, uint64_t size) {
  const auto inode = Find(path);
  if (!inode.ok()) return inode.status();
  if (size > (*inode)->data.size()) return absl::OutOfRangeError(path);
  (*inode)->data.resize(size);
  (*inode)->synced = std::min((*inode)->synced, size);
  return absl::OkStatus();
}

std::vector<std::pair<std::string, uint64_t>> SimStorage::AllFiles() const {
  std::vector<std::pair<std::string, uint64_t>> files;
  Collect(*root_, "", files);
  return files;
}

absl::StatusOr<std::string> SimStorage::Contents(const std::string& path) const {
  const auto inode = Find(path);
  if (!inode.ok()) return inode.status();
  return (*inode)->data;
}

}  // namespace paracord
