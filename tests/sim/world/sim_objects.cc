#include "sim/world/sim_objects.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/probe.h"
#include "common/status_macros.h"
#include "sim/world/sim_world.h"
#include "tests/objects/object_page.h"

namespace paracord {
namespace {

using Inode = std::shared_ptr<SimInode>;

absl::Status DeadNode() { return absl::CancelledError("the process is dead"); }
absl::Status Away(const std::string& path) {
  return absl::UnavailableError(path + ": the store gives no answer");
}

absl::StatusOr<Inode> FindObject(const SimStorage& storage, const std::string& path) {
  absl::StatusOr<Inode> inode = storage.Find(path);
  if (!inode.ok() || (*inode)->directory) return absl::NotFoundError(path);
  return inode;
}

// "<directory>/" is an empty object. Its presence keeps an empty directory in existence.
bool IsMarker(const std::string& path) { return path.ends_with('/'); }

Inode MakeParents(SimStorage& storage, const std::string& path) {
  Inode directory = *storage.Find("/");
  for (size_t end = path.find('/', 1); end != std::string::npos; end = path.find('/', end + 1)) {
    const size_t begin = path.rfind('/', end - 1) + 1;
    const std::string name = path.substr(begin, end - begin);
    if (name.empty()) continue;  // the empty name in "s3://"
    Inode& below = directory->entries[name];
    if (below == nullptr) below = std::make_shared<SimInode>();
    below->directory = true;
    directory->durable = directory->entries;
    directory = below;
  }
  return directory;
}

void PutNow(SimStorage& storage, const std::string& path, std::string_view bytes) {
  const Inode directory = MakeParents(storage, path);
  if (IsMarker(path)) {
    storage.objects().markers.insert(path);
    return;
  }
  const auto inode = std::make_shared<SimInode>();
  inode->data = bytes;
  inode->synced = bytes.size();
  inode->version = ++storage.objects().last;
  directory->entries[path.substr(path.rfind('/') + 1)] = inode;
  directory->durable = directory->entries;
}

// Removes directories that have become empty.
void RemoveNow(SimStorage& storage, std::string path) {
  auto& markers = storage.objects().markers;
  if (IsMarker(path)) {
    markers.erase(path);
    path.pop_back();
    const auto inode = storage.Find(path);
    if (!inode.ok() || !(*inode)->entries.empty()) return;
  } else if (!FindObject(storage, path).ok()) {
    return;
  }
  while (true) {
    const auto parent = storage.FindParent(path);
    if (!parent.ok()) return;
    const auto& [directory, name] = *parent;
    directory->entries.erase(name);
    directory->durable = directory->entries;
    path = path.substr(0, path.rfind('/'));
    if (!directory->entries.empty() || markers.contains(path + "/")) return;
  }
}

void Collect(const SimStorage& storage, const std::string& path, const SimInode& inode,
             std::vector<std::string>& keys) {
  if (!inode.directory) {
    keys.push_back(path);
    return;
  }
  if (storage.objects().markers.contains(path + "/")) keys.push_back(path + "/");
  for (const auto& [name, entry] : inode.entries) {
    Collect(storage, path + "/" + name, *entry, keys);
  }
}

}  // namespace

SimStorage& SimObjectStore::storage() { return node_.world().storage(); }

template <class Work>
auto SimObjectStore::Ask(const std::string& path, Work work) -> decltype(work()) {
  if (!node_.live()) return DeadNode();
  if (storage().chance().Chance(node_.world().swarm().read_error)) {
    PROBE("sim.object.refused");
    return Away(path);
  }
  return work();
}

template <class Work>
auto SimObjectStore::Change(const char* what, const std::string& path, Work work)
    -> decltype(work()) {
  const SimNode::Go go = node_.Operation();
  if (go == SimNode::Go::kDead) return DeadNode();
  SimWorld& world = node_.world();
  SimRandom& chance = storage().chance();
  world.trace().Record(world.now_us(), EventKind::kFile, node_.id(), what, HashBytes(path));
  if (go == SimNode::Go::kDyingHere) {
    if (chance.Chance(0.5)) (void)work();
    return DeadNode();
  }
  if (storage().faults().read_only || chance.Chance(world.swarm().write_error)) {
    PROBE("sim.object.refused");
    return Away(path);
  }
  auto done = work();
  if (!chance.Chance(world.swarm().sync_error)) return done;
  PROBE("sim.object.answer_lost");
  return Away(path);
}

absl::StatusOr<ObjectFacts> SimObjectStore::Look(const std::string& path) {
  return Ask(path, [&]() -> absl::StatusOr<ObjectFacts> {
    ASSIGN_OR_RETURN(const Inode inode, FindObject(storage(), path));
    return ObjectFacts{inode->data.size(), absl::StrCat(inode->version)};
  });
}

absl::Status SimObjectStore::Get(const std::string& path, const std::string& version,
                                 uint64_t offset, std::span<char> out) {
  return Ask(path, [&]() -> absl::Status {
    ASSIGN_OR_RETURN(const Inode inode, FindObject(storage(), path));
    if (absl::StrCat(inode->version) != version) return absl::DataLossError(path);
    if (offset + out.size() > inode->data.size()) return Away(path);  // truncated at rest
    std::copy_n(inode->data.data() + offset, out.size(), out.data());
    return absl::OkStatus();
  });
}

absl::Status SimObjectStore::Put(const std::string& path, std::string_view bytes, bool if_absent) {
  if (node_.live() && storage().chance().Chance(node_.world().swarm().late_put)) {
    return PutLater(path, std::string(bytes), if_absent);
  }
  return Change("put", path, [&]() -> absl::Status {
    if (if_absent && FindObject(storage(), path).ok()) {
      PROBE("sim.claim_lost");
      return absl::AlreadyExistsError(path);
    }
    PutNow(storage(), path, bytes);
    return absl::OkStatus();
  });
}

// Stores an object that is still in flight after its sender gave up or died. A newer object wins.
absl::Status SimObjectStore::PutLater(const std::string& path, std::string bytes, bool if_absent) {
  if (node_.Operation() != SimNode::Go::kGo) return DeadNode();
  SimWorld& world = node_.world();
  world.After(
      storage().chance().Between(0, 5'000'000), nullptr, EventKind::kWorld, "sim.late_put",
      HashBytes(path),
      [&world, path, bytes = std::move(bytes), if_absent, asked = storage().objects().last] {
        const auto there = FindObject(world.storage(), path);
        if (there.ok() && (if_absent || (*there)->version > asked)) return;
        PROBE("sim.object.late_put");
        PutNow(world.storage(), path, bytes);
      });
  return Away(path);
}

absl::Status SimObjectStore::Remove(const std::string& path) {
  return Change("remove", path, [&]() -> absl::Status {
    RemoveNow(storage(), path);
    return absl::OkStatus();
  });
}

absl::StatusOr<ObjectList> SimObjectStore::List(const std::string& prefix, bool deep,
                                                const std::string& from) {
  return Ask(prefix, [&]() -> absl::StatusOr<ObjectList> {
    constexpr size_t kPage = 5;
    ObjectList list;
    const std::string directory = prefix.substr(0, prefix.rfind('/'));
    const auto inode = storage().FindDirectory(directory);
    if (!inode.ok()) return list;
    std::vector<std::string> keys;
    Collect(storage(), directory, **inode, keys);
    std::sort(keys.begin(), keys.end());
    for (const std::string& key : keys) {
      if (!AddToPage(key, prefix, deep, from, kPage, list)) break;
    }
    return list;
  });
}

absl::StatusOr<std::string> SimObjectStore::StartUpload(const std::string& path) {
  return Change("start_upload", path, [&]() -> absl::StatusOr<std::string> {
    std::string id = absl::StrCat("upload-", ++storage().objects().last);
    storage().objects().uploads[id].path = path;
    return id;
  });
}

absl::StatusOr<std::string> SimObjectStore::PutPart(const OpenUpload& upload, uint32_t part,
                                                    std::string_view bytes) {
  return Change("put_part", upload.path, [&]() -> absl::StatusOr<std::string> {
    auto& uploads = storage().objects().uploads;
    const auto found = uploads.find(upload.id);
    if (found == uploads.end()) return absl::NotFoundError(upload.path);
    found->second.parts[part] = bytes;
    return absl::StrCat(part);
  });
}

absl::Status SimObjectStore::FinishUpload(const OpenUpload& upload,
                                          const std::vector<std::string>& tags) {
  return Change("finish_upload", upload.path, [&]() -> absl::Status {
    auto& uploads = storage().objects().uploads;
    const auto found = uploads.find(upload.id);
    if (found == uploads.end()) return absl::NotFoundError(upload.path);
    PROBE("sim.object.upload");
    std::string whole;
    for (const std::string& tag : tags) {
      whole += found->second.parts[static_cast<uint32_t>(std::stoul(tag))];
    }
    PutNow(storage(), upload.path, whole);
    uploads.erase(found);
    return absl::OkStatus();
  });
}

absl::Status SimObjectStore::AbortUpload(const OpenUpload& upload) {
  return Change("abort_upload", upload.path, [&]() -> absl::Status {
    storage().objects().uploads.erase(upload.id);
    return absl::OkStatus();
  });
}

absl::StatusOr<std::vector<OpenUpload>> SimObjectStore::Uploads(const std::string& prefix) {
  return Ask(prefix, [&]() -> absl::StatusOr<std::vector<OpenUpload>> {
    std::vector<OpenUpload> open;
    for (const auto& [id, upload] : storage().objects().uploads) {
      if (upload.path.starts_with(prefix)) open.push_back({upload.path, id});
    }
    return open;
  });
}

}  // namespace paracord
