#include "store/snapshot.h"

#include <algorithm>
#include <chrono>
#include <iterator>
#include <map>
#include <memory>
#include <string_view>
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

constexpr auto kGiveWayStep = std::chrono::microseconds(100);
constexpr int kGiveWaySteps = 50;       // at a time
constexpr int kGiveWayStepsAll = 5000;  // in one snapshot

constexpr uint64_t kCopiedMax = uint64_t{256} << 20;  // bytes of partitions

struct Taken {
  const Partition* partition;
  std::unique_ptr<PartitionImage> image;
  bool copied = false;
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

// Images of all partitions, which have memory for copies in order, as long as it fits in the share,
// unless they are of tables.
std::vector<Taken> MakeImages(const Content& content, const ImageOrder& order,
                              MemoryReservation& reserved) {
  const bool tables = std::ranges::any_of(
      content.partitions, [](const auto& partition) { return partition->is_table(); });
  // The rest is for what rows of tables were before they changed.
  uint64_t left = std::min(kCopiedMax, order.snapshots->bytes_max() / (tables ? 2 : 1));
  std::vector<Taken> images;
  for (const auto& partition : content.partitions) {
    const uint64_t bytes = partition->resident_bytes();
    const bool copied = !partition->is_table() && bytes <= left && reserved.More(bytes);
    if (copied) left -= bytes;
    images.push_back({partition.get(), partition->NewImage(copied, order), copied});
  }
  return images;
}

// A push that meets a chunk we reference must write it elsewhere. So partitions for which there is
// room are copied at once, one after another, and a push meets at most one of them.
absl::StatusOr<std::vector<Taken>> TakeAll(const Content& content, const ImageOrder& order,
                                           GiveWay& give_way, MemoryReservation& reserved,
                                           const std::atomic<bool>& voided) {
  std::vector<Taken> images = MakeImages(content, order, reserved);
  for (Taken& one : images) {
    if (voided.load()) return Voided();
    if (one.copied) give_way();
    one.image->Refer();
    one.image->Copy();
  }
  // Those whose tensors are bytes come last, as a file has them.
  std::stable_partition(images.begin(), images.end(), [](const Taken& one) {
    return one.image->tensors().front().dtype == "F32";
  });
  return images;
}

absl::StatusOr<std::unique_ptr<SafetensorsWriter>> Begin(Files& files,
                                                         const PsFileIdentity& identity,
                                                         const std::string& path,
                                                         std::vector<Taken>& taken) {
  std::vector<TensorInfo> tensors;
  std::map<std::string, PartitionMetadata> metadata;
  for (Taken& item : taken) {
    const std::string& name = item.partition->facts().name;
    std::ranges::move(item.image->tensors(), std::back_inserter(tensors));
    item.ledger = LedgerToText(item.image->counts().ledger.ToProto(/*intervals=*/true));
    metadata[name] = item.image->metadata();
  }
  for (const Taken& item : taken) {
    tensors.push_back({.name = LedgerTensorName(item.partition->facts().name),
                       .dtype = "U8",
                       .shape = {item.ledger.size()}});
  }
  return SafetensorsWriter::Create(files, path, std::move(tensors),
                                   PsFileMetadata(identity, metadata));
}

absl::Status WriteAll(GiveWay& give_way, SafetensorsWriter& writer, std::vector<Taken>& taken,
                      const std::atomic<bool>& voided) {
  const auto append = [&](std::string_view bytes) -> absl::Status {
    if (voided.load()) return Voided();
    give_way();
    return writer.Append(bytes);
  };
  for (size_t i = 0; i < taken.size(); ++i) {
    if (i == taken.size() / 2) FAILPOINT_STATUS("ps.snapshot.half");
    RETURN_IF_ERROR(taken[i].image->Write(append));
  }
  for (const Taken& item : taken) RETURN_IF_ERROR(writer.Append(item.ledger));
  return writer.Finish();
}

}  // namespace

absl::StatusOr<SnapshotReply> WriteSnapshot(Files& files, const Content& content,
                                            const PsFileIdentity& identity,
                                            const std::string& directory, ImageOrder order,
                                            MemoryShare& copies, const std::atomic<bool>& voided) {
  order.snapshots = &copies;
  order.push_wait_ms = content.timeouts.ps_ms / 2;
  FAILPOINT_STATUS("ps.snapshot.begin");
  if (voided.load()) return Voided();
  const std::string name = PsFileName(identity.ps, identity.ps_count);
  const std::string path = absl::StrCat(directory, "/", name);
  const TraceSpan span("snapshot");
  GiveWay give_way(content);
  MemoryReservation reserved(copies);  // for as long as what is taken lives
  ASSIGN_OR_RETURN(std::vector<Taken> taken, TakeAll(content, order, give_way, reserved, voided));
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
  std::ranges::sort(taken, {}, [](const Taken& one) { return one.partition->facts().id; });
  for (const Taken& item : taken) {
    PartitionDescription& described = *reply.add_partitions();
    described =
        DescribePartition(item.partition->facts(), item.image->counts(), /*intervals=*/false);
    const std::optional<TableMetadata> table = item.image->metadata().table;
    described.set_delta(table.has_value() && table->since.has_value());
  }
  return reply;
}

}  // namespace paracord
