#include "worker/transfer_options.h"

#include "exchange/compression.h"
#include "exchange/encoding.h"

namespace paracord {

Encoding TransferOptions::PullEncoding(const PartitionReplica& replica) const {
  return replica.moving_average ? ENCODING_FLOAT32 : wire;
}

Encoding TransferOptions::PushEncoding(const PartitionReplica& replica) const {
  constexpr uint64_t kIndices = uint64_t{1} << 32;
  // A moving statistic is pushed as it was observed, and may be of any size.
  if (replica.moving_average) return ENCODING_FLOAT32;
  if (replica.table) return wire;
  switch (compression.kind) {
    case CompressionSpec::Kind::kInt8:
      return ENCODING_INT8;
    case CompressionSpec::Kind::kTopK:
      if (replica.RangeIn(nullptr).elements <= kIndices) return ENCODING_TOP_K;
      break;
    case CompressionSpec::Kind::kNone:
      break;
  }
  return wire;
}

uint64_t TransferOptions::PushBytes(Encoding encoding, uint64_t elements) const {
  if (encoding == ENCODING_INT8) return Int8Bytes(elements);
  if (encoding == ENCODING_TOP_K) return TopKCount(elements, compression.ratio) * kTopKEntryBytes;
  return elements * ElementBytes(encoding);
}

TransferOptions TransferOf(const Job& job) {
  return {.wire = EncodingOfWire(job.wire), .compression = job.compression};
}

}  // namespace paracord
