// How values and gradients of variables are encoded between workers and ps. Does no I/O.
#pragma once

#include <cstdint>

#include "config/job.h"
#include "proto/paracord.pb.h"
#include "worker/partition_layout.h"

namespace paracord {

struct TransferOptions {
  Encoding wire = ENCODING_FLOAT32;  // the job's `wire`
  CompressionSpec compression;
  // Whether pushes leave residuals, so that encoding needs the outcome of the push before.
  bool keeps_residuals() const { return compression.kind != CompressionSpec::Kind::kNone; }

  Encoding PullEncoding(const PartitionReplica& replica) const;
  Encoding PushEncoding(const PartitionReplica& replica) const;
  // Returns the bytes of a gradient of `elements` elements in an encoding of PushEncoding.
  uint64_t PushBytes(Encoding encoding, uint64_t elements) const;
};

// Returns how the job encodes values and gradients.
TransferOptions TransferOf(const Job& job);

}  // namespace paracord
