#include "store/snapshot.h"

#include <algorithm>
#include <chrono>
#include <map>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/failpoint.h"
#include "common/status_macros.h"
#include "common/trace.h"
#include "storage/safetensors.h"

namespace paracord {
namespace {

constexpr uint64_t kCopiedMax = uint64_t{256} << 20;  // bytes
constexpr auto kGiveWayStep = std::chrono::microseconds(100);
constexpr int kGiveWaySteps = 50;       // at a time
constexpr int kGiveWayStepsAll = 5000;  // in one snapshot

struct Taken {
  const Partition* partition;
  Partition::Image image;
  std::string ledger{};  // in the file's format
};

absl::Status Voided() { return absl::AbortedError("the snapshot was voided by a newer order"); }

// Yields to pushes that are being applied, within limits, because both need memory bandwidth and
// processors.
class GiveWay {
 public:
  explicit GiveWay(const Content& content) : content_(content) {}
  void operator()() {
    for (int i = 0; i < kGiveWaySteps && left_ > 0 && content_.pushes.load() > 0; ++i, --left_) {
      std::this_thread::sleep_for(kGiveWayStep);
    }
  }

 private:
  const Content& content_;
  int left_ = kGiveWayStepsAll;
};

// Memory for a copy. Its pages are touched here and not under a partition's lock.
ChunkRefs FreshChunks(uint64_t elements) {
  constexpr size_t kPageFloats = 4096 / sizeof(float);
  ChunkRefs chunks = Block(elements).chunks();
  for (const ChunkRef& chunk : chunks) {
    const std::span<float> values = chunk.mutable_values();
    for (size_t i = 0; i < values.size(); i += kPageFloats) values[i] = 0;
  }
  return chunks;
}

// Memory for copies of the partitions, in order; empty for one that no longer fits in kCopiedMax.
std::vector<Partition::Image> MakeRoom(const Content& content) {
  std::vector<Partition::Image> room;
  uint64_t left = kCopiedMax;
  for (const auto& partition : content.partitions) {
    Partition::Image& copy = room.emplace_back();
    if (partition->resident_bytes() > left) continue;
    left -= partition->resident_bytes();
    const uint64_t elements = partition->facts().bytes / sizeof(float);
    copy.value = FreshChunks(elements);
    for (const SlotSpec& slot : partition->slots()) {
      copy.slots.push_back(FreshChunks(slot.of_rows ? partition->rows().rows : elements));
    }
  }
  return room;
}

void MoveTo(ChunkRefs& room, ChunkRefs& chunks) {
  for (size_t i = 0; i < chunks.size(); ++i) {
    std::ranges::copy(chunks[i].values(), room[i].mutable_values().begin());
    chunks[i] = std::move(room[i]);
  }
}

// A push that meets a chunk we reference must write it elsewhere. So partitions for which there is
// room are copied at once, one after another, and a push meets at most one of them.
absl::StatusOr<std::vector<Taken>> TakeAll(const Content& content, GiveWay& give_way,
                                           const std::atomic<bool>& voided) {
  std::vector<Partition::Image> room = MakeRoom(content);
  std::vector<Taken> taken;
  for (size_t i = 0; i < content.partitions.size(); ++i) {
    const Partition& partition = *content.partitions[i];
    const bool copied = !room[i].value.empty();
    if (voided.load()) return Voided();
    if (copied) give_way();
    taken.push_back({&partition, partition.TakeImage()});
    if (!copied) continue;
    Partition::Image& image = taken.back().image;
    MoveTo(room[i].value, image.value);
    for (size_t s = 0; s < image.slots.size(); ++s) MoveTo(room[i].slots[s], image.slots[s]);
  }
  return taken;
}

absl::StatusOr<std::unique_ptr<SafetensorsWriter>> Begin(Files& files,
                                                         const PsFileIdentity& identity,
                                                         const std::string& path,
                                                         std::vector<Taken>& taken) {
  std::vector<TensorInfo> tensors;
  std::map<std::string, PartitionMetadata> metadata;
  for (Taken& item : taken) {
    const Partition::Facts& facts = item.partition->facts();
    tensors.push_back({.name = facts.name, .shape = facts.shape});
    for (const SlotSpec& slot : item.partition->slots()) {
      tensors.push_back({.name = SlotTensorName(facts.name, slot.name),
                         .shape = item.partition->SlotShape(slot)});
    }
    item.ledger = LedgerToText(item.image.ledger.ToProto(/*intervals=*/true));
    metadata[facts.name] = {.updates = item.image.updates, .healthy = item.image.healthy};
  }
  for (const Taken& item : taken) {
    tensors.push_back({.name = LedgerTensorName(item.partition->facts().name),
                       .dtype = "U8",
                       .shape = {item.ledger.size()}});
  }
  return SafetensorsWriter::Create(files, path, std::move(tensors),
                                   PsFileMetadata(identity, metadata));
}

// Releases each chunk once it is written, so that training need not copy it on write.
absl::Status AppendChunks(GiveWay& give_way, SafetensorsWriter& writer, ChunkRefs& chunks,
                          const std::atomic<bool>& voided) {
  for (ChunkRef& chunk : chunks) {
    if (voided.load()) return Voided();
    give_way();
    RETURN_IF_ERROR(writer.Append(chunk.values()));
    chunk = ChunkRef();
  }
  return absl::OkStatus();
}

absl::Status WriteAll(GiveWay& give_way, SafetensorsWriter& writer, std::vector<Taken>& taken,
                      const std::atomic<bool>& voided) {
  for (size_t i = 0; i < taken.size(); ++i) {
    if (i == taken.size() / 2) FAILPOINT_STATUS("ps.snapshot.half");
    RETURN_IF_ERROR(AppendChunks(give_way, writer, taken[i].image.value, voided));
    for (ChunkRefs& slot : taken[i].image.slots) {
      RETURN_IF_ERROR(AppendChunks(give_way, writer, slot, voided));
    }
  }
  for (const Taken& item : taken) RETURN_IF_ERROR(writer.Append(item.ledger));
  return writer.Finish();
}

}  // namespace

absl::StatusOr<SnapshotReply> WriteSnapshot(Files& files, const Content& content,
                                            const PsFileIdentity& identity,
                                            const std::string& directory,
                                            const std::atomic<bool>& voided) {
  FAILPOINT_STATUS("ps.snapshot.begin");
  if (voided.load()) return Voided();
  const std::string name = PsFileName(identity.ps, identity.ps_count);
  const std::string path = absl::StrCat(directory, "/", name);
  const TraceSpan span("snapshot");
  GiveWay give_way(content);
  ASSIGN_OR_RETURN(std::vector<Taken> taken, TakeAll(content, give_way, voided));
  absl::StatusOr<std::unique_ptr<SafetensorsWriter>> begun = Begin(files, identity, path, taken);
  absl::Status written = begun.status();
  if (written.ok()) written = WriteAll(give_way, **begun, taken, voided);
  if (written.ok()) written = files.SyncDirectory(directory);
  if (!written.ok()) {
    files.RemoveTree(path).IgnoreError();  // frees the disk; the snapshot has failed anyway
    return written;
  }
  FAILPOINT("ps.snapshot.synced");

  SnapshotReply reply;
  reply.set_file(name);
  reply.set_bytes((*begun)->bytes());
  reply.set_crc32c((*begun)->crc32c());
  for (const Taken& item : taken) {
    *reply.add_partitions() =
        DescribePartition(item.partition->facts(), item.image, /*intervals=*/false);
  }
  return reply;
}

}  // namespace paracord
