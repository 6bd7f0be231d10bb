#include "sim/world/sim_files.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/probe.h"
#include "common/status_macros.h"
#include "sim/world/sim_world.h"

namespace paracord {
namespace {

absl::Status Dead() { return absl::CancelledError("the process is dead"); }

std::shared_ptr<SimInode> NewInode(bool directory, uint32_t host) {
  auto inode = std::make_shared<SimInode>();
  inode->directory = directory;
  inode->writer_host = host;
  return inode;
}

}  // namespace

class SimFiles::Reader : public ReadFile {
 public:
  Reader(SimNode& node, std::string path, std::shared_ptr<SimInode> inode)
      : node_(node), path_(std::move(path)), inode_(std::move(inode)) {}

  uint64_t size() const override { return inode_->data.size(); }

  absl::Status ReadAt(uint64_t offset, std::span<char> out) const override {
    if (!node_.live()) return Dead();
    SimWorld& world = node_.world();
    if (world.storage().chance().Chance(world.swarm().read_error)) {
      PROBE("sim.read_error");
      return absl::ErrnoToStatus(EIO, absl::StrCat("read ", path_));
    }
    if (offset > inode_->data.size() || out.size() > inode_->data.size() - offset) {
      return absl::OutOfRangeError(absl::StrCat(path_, " ends at ", inode_->data.size()));
    }
    if (!out.empty()) std::memcpy(out.data(), inode_->data.data() + offset, out.size());
    return absl::OkStatus();
  }

 private:
  SimNode& node_;
  const std::string path_;
  const std::shared_ptr<SimInode> inode_;
};

class SimFiles::Writer : public WriteFile {
 public:
  Writer(SimFiles& files, std::string path, std::shared_ptr<SimInode> inode)
      : files_(files), path_(std::move(path)), inode_(std::move(inode)) {}

  absl::Status Append(std::string_view bytes) override {
    if (!error_.ok()) return error_;
    return error_ = TryAppend(bytes);
  }

  absl::Status Sync() override {
    if (sync_failed_) {
      // The kernel has dropped the dirty pages, so a second sync would report OK for lost data.
      files_.node_.world().Violation(absl::StrCat("second sync of ", path_, " after one failed"));
    }
    if (!error_.ok()) return error_;
    error_ = TrySync();
    sync_failed_ = !error_.ok() && files_.node_.live();
    return error_;
  }

 private:
  absl::Status TryAppend(std::string_view bytes) {
    const SimNode::Go go = files_.node_.Operation();
    if (go == SimNode::Go::kDead) return Dead();
    SimWorld& world = files_.node_.world();
    SimStorage& storage = world.storage();
    SimRandom& chance = storage.chance();
    const auto some = [&] {
      return static_cast<size_t>(chance.Between(0, static_cast<int64_t>(bytes.size())));
    };
    if (go == SimNode::Go::kDyingHere) {
      PROBE("sim.half_written");
      inode_->data.append(bytes.substr(0, some()));
      return Dead();
    }
    if (storage.faults().read_only) return absl::ErrnoToStatus(EROFS, path_);
    if (chance.Chance(world.swarm().write_error)) {
      PROBE("sim.write_error");
      inode_->data.append(bytes.substr(0, some()));
      return absl::ErrnoToStatus(EIO, absl::StrCat("write ", path_));
    }
    std::optional<uint64_t>& free_bytes = storage.faults().free_bytes;
    if (free_bytes.has_value() && *free_bytes < bytes.size()) {
      PROBE("sim.disk_full");
      inode_->data.append(bytes.substr(0, *free_bytes));
      free_bytes = 0;
      return absl::ErrnoToStatus(ENOSPC, path_);
    }
    if (free_bytes.has_value()) *free_bytes -= bytes.size();
    inode_->data.append(bytes);
    return absl::OkStatus();
  }

  absl::Status TrySync() {
    const SimNode::Go go = files_.node_.Operation();
    if (go == SimNode::Go::kDead) return Dead();
    SimWorld& world = files_.node_.world();
    if (go == SimNode::Go::kDyingHere) {
      const auto unsynced = static_cast<int64_t>(inode_->data.size() - inode_->synced);
      inode_->synced += static_cast<uint64_t>(world.storage().chance().Between(0, unsynced));
      return Dead();
    }
    RETURN_IF_ERROR(files_.DrawSyncError(path_));
    world.trace().Record(world.now_us(), EventKind::kFile, files_.node_.id(), "sync",
                         HashBytes(inode_->data));
    inode_->synced = inode_->data.size();
    return absl::OkStatus();
  }

  SimFiles& files_;
  const std::string path_;
  const std::shared_ptr<SimInode> inode_;
  absl::Status error_;
  bool sync_failed_ = false;
};

SimStorage& SimFiles::storage() { return node_.world().storage(); }

absl::Status SimFiles::Begin(const char* what, const std::string& path) {
  if (node_.Operation() != SimNode::Go::kGo) return Dead();
  SimWorld& world = node_.world();
  world.trace().Record(world.now_us(), EventKind::kFile, node_.id(), what, HashBytes(path));
  if (!storage().faults().read_only) return absl::OkStatus();
  PROBE("sim.read_only");
  return absl::ErrnoToStatus(EROFS, absl::StrCat(what, " ", path));
}

absl::Status SimFiles::DrawSyncError(const std::string& path) {
  int64_t& fail_in = storage().faults().fail_sync_in;
  const bool ordered = fail_in > 0 && --fail_in == 0;
  if (!ordered && !storage().chance().Chance(node_.world().swarm().sync_error)) {
    return absl::OkStatus();
  }
  PROBE("sim.sync_error");
  return absl::ErrnoToStatus(EIO, absl::StrCat("sync ", path));
}

absl::StatusOr<std::unique_ptr<ReadFile>> SimFiles::Open(const std::string& path) {
  if (!node_.live()) return Dead();
  ASSIGN_OR_RETURN(std::shared_ptr<SimInode> inode, storage().Find(path));
  if (inode->directory) return absl::ErrnoToStatus(EISDIR, path);
  return std::make_unique<Reader>(node_, path, std::move(inode));
}

absl::StatusOr<std::unique_ptr<WriteFile>> SimFiles::Create(const std::string& path) {
  return Write("create", path, /*truncate=*/true);
}

absl::StatusOr<std::unique_ptr<WriteFile>> SimFiles::OpenToAppend(const std::string& path) {
  return Write("append", path, /*truncate=*/false);
}

absl::StatusOr<std::unique_ptr<WriteFile>> SimFiles::Write(const char* what,
                                                           const std::string& path, bool truncate) {
  RETURN_IF_ERROR(Begin(what, path));
  ASSIGN_OR_RETURN(auto parent, storage().FindParent(path));
  auto& [directory, name] = parent;
  std::shared_ptr<SimInode> inode;
  const auto it = directory->entries.find(name);
  if (it == directory->entries.end()) {
    inode = NewInode(false, node_.host());
    SimStorage::Change(*directory, {name, inode, "", node_.host()});
  } else {
    inode = it->second;
    if (inode->directory) return absl::ErrnoToStatus(EISDIR, path);
    if (truncate) {
      inode->data.clear();
      inode->synced = 0;
    }
    inode->writer_host = node_.host();
  }
  return std::make_unique<Writer>(*this, path, std::move(inode));
}

absl::Status SimFiles::CreateExclusive(const std::string& path, std::string_view contents) {
  const SimNode::Go go = node_.Operation();
  if (go == SimNode::Go::kDead) return Dead();
  SimWorld& world = node_.world();
  world.trace().Record(world.now_us(), EventKind::kFile, node_.id(), "claim", HashBytes(path));
  if (storage().faults().read_only) return absl::ErrnoToStatus(EROFS, path);
  ASSIGN_OR_RETURN(auto parent, storage().FindParent(path));
  auto& [directory, name] = parent;
  if (directory->entries.contains(name)) {
    PROBE("sim.claim_lost");
    return absl::ErrnoToStatus(EEXIST, path);
  }
  SimRandom& chance = storage().chance();
  if (go == SimNode::Go::kDyingHere && chance.Chance(0.3)) return Dead();
  std::shared_ptr<SimInode> inode = NewInode(false, node_.host());
  inode->data = contents;
  SimStorage::Change(*directory, {name, inode, "", node_.host()});
  if (go == SimNode::Go::kDyingHere) {
    PROBE("sim.claim_half_done");
    inode->data.resize(
        static_cast<size_t>(chance.Between(0, static_cast<int64_t>(contents.size()))));
    return Dead();
  }
  RETURN_IF_ERROR(DrawSyncError(path));
  inode->synced = inode->data.size();
  SimStorage::SyncDirectory(*directory);
  return absl::OkStatus();
}

absl::Status SimFiles::Rename(const std::string& from, const std::string& to) {
  RETURN_IF_ERROR(Begin("rename", to));
  ASSIGN_OR_RETURN(auto source, storage().FindParent(from));
  ASSIGN_OR_RETURN(auto target, storage().FindParent(to));
  const auto it = source.first->entries.find(source.second);
  if (it == source.first->entries.end()) return absl::ErrnoToStatus(ENOENT, from);
  const std::shared_ptr<SimInode> inode = it->second;
  if (source.first == target.first) {
    if (source.second == target.second) return absl::OkStatus();
    SimStorage::Change(*target.first, {target.second, inode, source.second, node_.host()});
    return absl::OkStatus();
  }
  SimStorage::Change(*target.first, {target.second, inode, "", node_.host()});
  SimStorage::Change(*source.first, {source.second, nullptr, "", node_.host()});
  return absl::OkStatus();
}

absl::Status SimFiles::SyncDirectory(const std::string& path) {
  RETURN_IF_ERROR(Begin("sync_directory", path));
  ASSIGN_OR_RETURN(std::shared_ptr<SimInode> directory, storage().FindDirectory(path));
  RETURN_IF_ERROR(DrawSyncError(path));
  SimStorage::SyncDirectory(*directory);
  return absl::OkStatus();
}

absl::Status SimFiles::MakeDirectories(const std::string& path) {
  RETURN_IF_ERROR(Begin("make_directories", path));
  for (size_t end = path.find('/', 1);; end = path.find('/', end + 1)) {
    const std::string prefix = path.substr(0, end);
    const auto found = storage().Find(prefix);
    if (found.ok() && !(*found)->directory) return absl::ErrnoToStatus(ENOTDIR, prefix);
    if (!found.ok()) {
      ASSIGN_OR_RETURN(auto parent, storage().FindParent(prefix));
      SimStorage::Change(*parent.first,
                         {parent.second, NewInode(true, node_.host()), "", node_.host()});
    }
    if (end == std::string::npos) return absl::OkStatus();
  }
}

absl::StatusOr<std::vector<std::string>> SimFiles::List(const std::string& path) {
  if (!node_.live()) return Dead();
  ASSIGN_OR_RETURN(std::shared_ptr<SimInode> directory, storage().FindDirectory(path));
  std::vector<std::string> names;
  for (const auto& [name, inode] : directory->entries) names.push_back(name);
  return names;
}

absl::Status SimFiles::RemoveTree(const std::string& path) {
  const SimNode::Go go = node_.Operation();
  if (go == SimNode::Go::kDead) return Dead();
  SimWorld& world = node_.world();
  world.trace().Record(world.now_us(), EventKind::kFile, node_.id(), "remove", HashBytes(path));
  if (storage().faults().read_only) return absl::ErrnoToStatus(EROFS, path);
  auto parent = storage().FindParent(path);
  if (absl::IsNotFound(parent.status())) return absl::OkStatus();
  RETURN_IF_ERROR(parent.status());
  auto& [directory, name] = *parent;
  const auto it = directory->entries.find(name);
  if (it == directory->entries.end()) return absl::OkStatus();
  const std::shared_ptr<SimInode> inode = it->second;
  // Removes the contents first, name by name, so that a death may leave any subset of the names.
  const std::map<std::string, std::shared_ptr<SimInode>, std::less<>> below = inode->entries;
  for (const auto& [entry, target] : below) {
    if (go == SimNode::Go::kDyingHere && storage().chance().Chance(0.5)) continue;
    SimStorage::Change(*inode, {entry, nullptr, "", node_.host()});
  }
  if (go == SimNode::Go::kDyingHere) return Dead();
  SimStorage::Change(*directory, {name, nullptr, "", node_.host()});
  return absl::OkStatus();
}

}  // namespace paracord
