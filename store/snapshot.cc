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
constexpr int kGiveWaySteps = 50;       // steps in a row
constexpr int kGiveWayStepsAll = 5000;  // in one snapshot

constexpr uint64_t kCopiedMax = uint64_t{256} << 20;  // bytes of partitions

absl::Status Voided() { return absl::AbortedError("the snapshot was voided by a newer order"); }

// Calls a function once, when all partitions that are waited for have come.
class Countdown {
 public:
  Countdown(size_t count, std::function<void()> done) : left_(count), done_(std::move(done)) {}
  void One() {
    if (--left_ == 0) done_();
  }

 private:
  std::atomic<size_t> left_;
  const std::function<void()> done_;
};

}  // namespace

SnapshotTask::SnapshotTask(Files& files, const PartitionSet& content, SnapshotOrder order,
                           MemoryShare& copies, const std::atomic<bool>& voided)
    : files_(files),
      content_(content),
      order_(std::move(order)),
      copies_(copies),
      voided_(voided),
      yields_left_(kGiveWayStepsAll) {}

SnapshotTask::~SnapshotTask() { Forget(); }

bool SnapshotTask::Writes(const Partition& partition) const {
  return order_.only.empty() ||
         std::ranges::find(order_.only, partition.facts().id) != order_.only.end();
}

void SnapshotTask::YieldToPushes() {
  for (int i = 0; i < kGiveWaySteps && yields_left_ > 0 && content_.pushes.load() > 0; ++i) {
    --yields_left_;
    std::this_thread::sleep_for(kGiveWayStep);
  }
}

// Makes images of all partitions, in order: they copy as long as the copies fit in the share.
// Images of tables never copy.
absl::Status SnapshotTask::MakeImages() {
  FAILPOINT_STATUS("ps.snapshot.begin");
  if (voided_.load()) return Voided();
  ImageOrder order = order_.changes;
  order.snapshots = &copies_;
  order.push_wait_ms = content_.timeouts.ps_ms / 2;
  const bool tables = std::ranges::any_of(
      content_.partitions, [](const auto& partition) { return partition->is_table(); });
  // With tables, half of the share stays free for old values of rows.
  uint64_t left = std::min(kCopiedMax, copies_.bytes_max() / (tables ? 2 : 1));
  reserved_.emplace(copies_);
  for (const auto& partition : content_.partitions) {
    if (!Writes(*partition)) continue;
    const uint64_t bytes = partition->resident_bytes();
    const bool copied = !partition->is_table() && bytes <= left && reserved_->More(bytes);
    if (copied) left -= bytes;
    taken_.push_back({partition.get(), partition->NewImage(copied, order), copied});
  }
  return absl::OkStatus();
}

// A push must write a chunk elsewhere while the image references it. So partitions that fit are
// copied at once, one after another: a push meets at most one referenced partition.
absl::Status SnapshotTask::TakeNow() {
  RETURN_IF_ERROR(MakeImages());
  for (CapturedPartition& one : taken_) {
    if (voided_.load()) return Voided();
    if (one.copied) YieldToPushes();
    one.image->Refer();
    one.image->Copy();
  }
  return absl::OkStatus();
}

absl::Status SnapshotTask::TakeAt(uint64_t cut, std::function<void()> taken) {
  RETURN_IF_ERROR(MakeImages());
  content_.armed = this;
  const auto trained = std::ranges::count_if(
      taken_, [](const CapturedPartition& one) { return one.partition->facts().trained; });
  // One count more, so that `taken` runs only after all partitions have been asked.
  const auto left = std::make_shared<Countdown>(trained + 1, std::move(taken));
  for (CapturedPartition& one : taken_) {
    if (voided_.load()) return Voided();
    if (!one.partition->facts().trained) {
      one.image->Refer();
      continue;
    }
    one.awaited = true;
    RETURN_IF_ERROR(one.partition->ReferAt(cut, *one.image, [left] { left->One(); }));
  }
  FAILPOINT("ps.snapshot.armed");
  left->One();
  return absl::OkStatus();
}

void SnapshotTask::Forget() {
  const SnapshotTask* self = this;
  if (content_.armed.compare_exchange_strong(self, nullptr)) {
    for (const auto& partition : content_.partitions) partition->ForgetImage();
  }
  taken_.clear();
  reserved_.reset();
}

absl::StatusOr<std::unique_ptr<SafetensorsWriter>> SnapshotTask::Begin(const std::string& path) {
  std::vector<TensorInfo> tensors;
  std::map<std::string, PartitionMetadata> metadata;
  for (CapturedPartition& item : taken_) {
    const std::string& name = item.partition->facts().name;
    std::ranges::move(item.image->tensors(), std::back_inserter(tensors));
    item.ledger = LedgerToText(item.image->counts().ledger.ToProto(/*intervals=*/true));
    metadata[name] = item.image->metadata();
  }
  for (const CapturedPartition& item : taken_) {
    tensors.push_back({.name = LedgerTensorName(item.partition->facts().name),
                       .dtype = "U8",
                       .shape = {item.ledger.size()}});
  }
  return SafetensorsWriter::Create(files_, path, std::move(tensors),
                                   PsFileMetadata(order_.identity, metadata));
}

absl::Status SnapshotTask::WriteAll(SafetensorsWriter& writer) {
  const auto append = [&](std::string_view bytes) -> absl::Status {
    if (voided_.load()) return Voided();
    YieldToPushes();
    return writer.Append(bytes);
  };
  for (size_t i = 0; i < taken_.size(); ++i) {
    if (i == taken_.size() / 2) FAILPOINT_STATUS("ps.snapshot.half");
    RETURN_IF_ERROR(taken_[i].image->Write(append));
  }
  for (const CapturedPartition& item : taken_) RETURN_IF_ERROR(writer.Append(item.ledger));
  return writer.Finish();
}

absl::StatusOr<SnapshotReply> SnapshotTask::Write() {
  const TraceSpan span("snapshot");
  if (voided_.load()) return Voided();
  for (CapturedPartition& one : taken_) {
    if (!one.awaited || !one.copied) continue;
    YieldToPushes();
    one.image->Copy();
  }
  // Images whose tensors are bytes come last, as the file format requires.
  std::stable_partition(taken_.begin(), taken_.end(), [](const CapturedPartition& one) {
    return one.image->tensors().front().dtype == "F32";
  });
  const std::string name = PsFileName(order_.identity.ps, order_.identity.ps_count);
  const std::string path = absl::StrCat(order_.directory, "/", name);
  absl::StatusOr<std::unique_ptr<SafetensorsWriter>> begun = Begin(path);
  absl::Status written = begun.status();
  if (written.ok()) written = WriteAll(**begun);
  if (written.ok()) written = files_.SyncDirectory(order_.directory);
  if (!written.ok()) {
    files_.RemoveTree(path).IgnoreError();  // frees the disk; the snapshot has failed anyway
    return written;
  }
  FAILPOINT("ps.snapshot.synced");
  SnapshotReply reply = Reply(name, **begun);
  Forget();
  return reply;
}

SnapshotReply SnapshotTask::Reply(const std::string& name, const SafetensorsWriter& writer) {
  SnapshotReply reply;
  reply.set_file(name);
  reply.set_bytes(writer.bytes());
  reply.set_crc32c(writer.crc32c());
  std::ranges::sort(taken_, {},
                    [](const CapturedPartition& one) { return one.partition->facts().id; });
  for (const CapturedPartition& item : taken_) {
    PartitionDescription& described = *reply.add_partitions();
    described =
        DescribePartition(item.partition->facts(), item.image->counts(), /*intervals=*/false);
    const std::optional<TableMetadata> table = item.image->metadata().table;
    described.set_delta(table.has_value() && table->since.has_value());
  }
  return reply;
}

}  // namespace paracord
