#include "server/snapshot.h"

#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/failpoint.h"
#include "common/mutant.h"
#include "common/status_macros.h"
#include "common/trace.h"
#include "storage/safetensors.h"

namespace paracord {
namespace {

struct Taken {
  const Partition::Facts* facts;
  Partition::Image image;
};

std::vector<Taken> TakeAll(const Content& content) {
  std::vector<Taken> taken;
  for (const auto& partition : content.partitions) {
    taken.push_back({&partition->facts(), partition->TakeImage()});
  }
  return taken;
}

absl::StatusOr<std::unique_ptr<SafetensorsWriter>> Begin(Files& files, const Content& content,
                                                         const PsFileIdentity& identity,
                                                         const std::string& path,
                                                         const std::vector<Taken>& taken) {
  std::vector<TensorInfo> tensors;
  std::map<std::string, PartitionMetadata> metadata;
  for (const Taken& item : taken) {
    const Partition::Facts& facts = *item.facts;
    tensors.push_back({.name = facts.name, .shape = facts.shape});
    for (size_t s = 0; s < item.image.slots.size(); ++s) {
      tensors.push_back({.name = SlotTensorName(facts.name, content.optimizer.slots[s].name),
                         .shape = facts.shape});
    }
    const PartitionLedger& ledger =
        MUTANT("ledger_outside_snapshot") ? PartitionLedger() : item.image.ledger;
    metadata[facts.name] = {.ledger = ledger.ToProto(/*intervals=*/true),
                            .updates = item.image.updates,
                            .healthy = item.image.healthy};
  }
  return SafetensorsWriter::Create(files, path, std::move(tensors),
                                   PsFileMetadata(identity, metadata));
}

// Lets go of each chunk once it is written, so that training need no longer copy around it.
absl::Status AppendChunks(SafetensorsWriter& writer, ChunkRefs& chunks,
                          const std::atomic<bool>& voided) {
  for (ChunkRef& chunk : chunks) {
    if (voided.load()) return absl::AbortedError("the snapshot was voided by a newer order");
    RETURN_IF_ERROR(writer.Append(chunk.values()));
    chunk = ChunkRef();
  }
  return absl::OkStatus();
}

absl::Status WriteAll(SafetensorsWriter& writer, std::vector<Taken>& taken,
                      const std::atomic<bool>& voided) {
  for (size_t i = 0; i < taken.size(); ++i) {
    if (i == taken.size() / 2) FAILPOINT_STATUS("ps.snapshot.half");
    RETURN_IF_ERROR(AppendChunks(writer, taken[i].image.value, voided));
    for (ChunkRefs& slot : taken[i].image.slots) {
      RETURN_IF_ERROR(AppendChunks(writer, slot, voided));
    }
  }
  return writer.Finish();
}

}  // namespace

absl::StatusOr<SnapshotReply> WriteSnapshot(Files& files, const Content& content,
                                            const PsFileIdentity& identity,
                                            const std::string& directory,
                                            const std::atomic<bool>& voided) {
  FAILPOINT_STATUS("ps.snapshot.begin");
  if (voided.load()) return absl::AbortedError("the snapshot was voided by a newer order");
  const std::string name = PsFileName(identity.ps, identity.ps_count);
  const std::string path = absl::StrCat(directory, "/", name);
  const TraceSpan span("snapshot");
  std::vector<Taken> taken = TakeAll(content);

  ASSIGN_OR_RETURN(const std::unique_ptr<SafetensorsWriter> writer,
                   Begin(files, content, identity, path, taken));
  absl::Status written = WriteAll(*writer, taken, voided);
  if (written.ok()) written = files.SyncDirectory(directory);
  if (!written.ok()) {
    files.RemoveTree(path).IgnoreError();  // gives the disk back; the round has failed anyway
    return written;
  }
  FAILPOINT("ps.snapshot.synced");

  SnapshotReply reply;
  reply.set_file(name);
  reply.set_bytes(writer->bytes());
  reply.set_crc32c(writer->crc32c());
  for (const Taken& item : taken) {
    *reply.add_partitions() = DescribeCounts(*item.facts, item.image.ledger, item.image.updates,
                                             item.image.healthy, /*intervals=*/false);
  }
  return reply;
}

}  // namespace paracord
