#include "sim/seen_partition.h"

#include <cstring>
#include <memory>

namespace paracord {
namespace {

std::vector<float> Joined(const ChunkRefs& chunks) {
  std::vector<float> values;
  for (const ChunkRef& chunk : chunks) {
    values.insert(values.end(), chunk.values().begin(), chunk.values().end());
  }
  return values;
}

}  // namespace

std::vector<float> SeenValues(const CountingOptions& counting, const Partition& partition) {
  if (!partition.is_table()) {
    ChunkRefs chunks;
    partition.Pull(chunks);
    return Joined(chunks);
  }
  if (partition.growing()) {
    const std::vector<uint64_t> ids = CountingIdsOf(counting, partition.facts().row_begin);
    std::vector<float> values(ids.size() * counting.batches);
    partition.PullRows(ids, values);
    return values;
  }
  std::vector<float> values(partition.facts().bytes / sizeof(float));
  partition.PullRange(0, values);
  return values;
}

StoredTensors ImageOf(const Partition& partition) {
  const std::unique_ptr<PartitionImage> image = partition.NewImage(/*copied=*/false);
  image->Refer();
  std::vector<float> all;
  image
      ->Write([&](std::string_view bytes) {
        const size_t before = all.size();
        all.resize(before + bytes.size() / sizeof(float));
        std::memcpy(all.data() + before, bytes.data(), bytes.size());
        return absl::OkStatus();
      })
      .IgnoreError();
  StoredTensors stored;
  stored.ledger = image->counts().ledger.ToProto(/*intervals=*/true);
  stored.updates = image->counts().updates;
  stored.healthy = image->counts().healthy;
  auto at = all.begin();
  for (const TensorInfo& tensor : image->tensors()) {
    int64_t size = 1;
    for (const uint64_t axis : tensor.shape) size *= static_cast<int64_t>(axis);
    const std::string& name = partition.facts().name;
    std::vector<float>& to =
        tensor.name == name ? stored.value
                            : stored.slots[tensor.name.substr(SlotTensorName(name, "").size())];
    to.assign(at, at + size);
    at += size;
  }
  return stored;
}

}  // namespace paracord
