// A real ps process, driven as by a coordinator and a worker: started, adopted, loaded and
// exchanged with. For benchmarks; any failure ends the process. Each object is used by one thread.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "common/rpc.h"
#include "common/shared_memory.h"
#include "exchange/codec.h"
#include "processes.h"
#include "proto/paracord.pb.h"

namespace paracord::bench {

// Partitions of equal size on one ps, and the plan of a job without end.
struct PsJob {
  std::string optimizer = "sgd";
  uint32_t lanes = 0;  // lanes of a round; 0: asynchronous, each push is an update
  uint32_t partitions = 1;
  uint64_t partition_bytes = 0;

  std::string JobJson() const;
  DataPlan Plan() const;
  std::vector<VariableSpec> Variables() const;
  std::vector<PartitionSpec> Partitions() const;
};

// Starts a ps at "unix:/path" or "127.0.0.1:port". `dir` is the job's DIR, and gets the log.
std::unique_ptr<Child> StartPs(const std::string& address, const std::string& dir, int threads);
// Returns an address of this host whose port is free now.
std::string FreeTcpAddress();

// Makes a call and returns its reply. A process that is starting answers UNAVAILABLE, and is asked
// again for up to 30 seconds. Any other error ends this process.
template <class Reply, class Request>
Reply Ask(Link& link, std::string_view method, const Request& request);
extern template PsDescription Ask(Link&, std::string_view, const DescribeRequest&);
extern template SnapshotReply Ask(Link&, std::string_view, const SnapshotRequest&);
extern template JoinReply Ask(Link&, std::string_view, const JoinRequest&);
extern template WorkReply Ask(Link&, std::string_view, const WorkRequest&);

// Raises the generation of the ps to `generation`, and has it create the job's partitions, or
// restore them from `checkpoint` if that is not empty. Returns the fence for later calls.
Fence LoadPs(Link& link, const PsJob& job, uint64_t generation, const std::string& checkpoint = "");
// Orders a snapshot into DIR/checkpoints, where DIR is `dir`, and waits until it is durable.
SnapshotReply OrderSnapshot(Link& link, const Fence& fence, const std::string& dir, uint64_t round);
// Makes a checkpoint of the snapshot by writing its manifest, as a coordinator does. Returns the
// name of the checkpoint.
std::string CommitSnapshot(const PsJob& job, const Fence& fence, const std::string& dir,
                           uint64_t round, const SnapshotReply& written);

// A worker's exchanges with a ps, one after another. An exchange pushes a gradient for every
// partition, pulls all values, or does both; in a job with rounds it pulls the values after the
// round of the batch pushed last.
class Exchanger {
 public:
  // `split` is a split (or lane) that no other exchanger uses.
  Exchanger(Link& link, Fence fence, const PsJob& job, uint64_t split);

  void Start(bool push, bool pull);  // a push is of the next batch of the split
  // Waits for the exchange (in a job with rounds, until the values are there), checks the reply,
  // and copies the values.
  void Finish();

 private:
  struct Waiting;
  using SharedFloats = std::vector<float, SharedAllocator<float>>;

  Link& link_;
  const Fence fence_;
  const uint64_t split_;
  const bool rounds_;
  uint32_t next_batch_ = 0;
  std::vector<std::shared_ptr<SharedFloats>> gradients_;
  std::vector<std::vector<float>> values_;
  std::shared_ptr<Waiting> waiting_;
};

}  // namespace paracord::bench
