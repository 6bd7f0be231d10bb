// How workers and ps encode the values and gradients that they exchange. Does no I/O.
#pragma once

#include <cstdint>

#include "config/job.h"
#include "proto/paracord.pb.h"
#include "worker/partition_layout.h"

namespace paracord {

struct TransferOptions {
  Encoding wire = ENCODING_FLOAT32;  // the job's `wire`
  CompressionSpec compression;
  // Whether pushes leave residuals (worker/residuals.h), so that a gradient can be encoded only
  // once the outcome of the push before is known.
  bool keeps_residuals() const { return compression.kind != CompressionSpec::Kind::kNone; }

  Encoding PullEncoding(const PartitionReplica& replica) const;
  Encoding PushEncoding(const PartitionReplica& replica) const;
  // Returns the bytes of a gradient of `elements` elements. `encoding`: a result of PushEncoding.
  uint64_t PushBytes(Encoding encoding, uint64_t elements) const;
};

TransferOptions TransferOf(const Job& job);

}  // namespace paracord
