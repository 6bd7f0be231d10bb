// How values and gradients of variables are encoded between workers and ps. Pure.
#pragma once

#include <cstdint>

#include "config/job.h"
#include "proto/paracord.pb.h"
#include "worker/partition_layout.h"

namespace paracord {

struct TransferOptions {
  Encoding wire = ENCODING_FLOAT32;
  CompressionSpec compression;
  // Whether encoding a gradient needs the outcome of the exchange before.
  bool keeps_residuals() const { return compression.kind != CompressionSpec::Kind::kNone; }

  Encoding PullEncoding(const PartitionReplica& replica) const;
  Encoding PushEncoding(const PartitionReplica& replica) const;
  // Returns the bytes of `elements` gradients in an encoding that PushEncoding returned.
  uint64_t PushBytes(Encoding encoding, uint64_t elements) const;
};

// Returns how the job encodes values and gradients.
TransferOptions TransferOf(const Job& job);

}  // namespace paracord
