// Starts a real ps process, and does with it what a coordinator and a worker do: loads partitions,
// orders snapshots, exchanges. For benchmarks; any failure ends the process. Each object is used by
// one thread.
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

// Partitions of one size on one ps, and the plan of a job that outlasts any benchmark.
struct PsJob {
  std::string optimizer = "sgd";
  uint32_t lanes = 0;  // lanes of a round; 0: an asynchronous job, each push is an update
  uint32_t partitions = 1;
  uint64_t partition_bytes = 0;

  std::string JobJson() const;
  DataPlan Plan() const;
  std::vector<VariableSpec> Variables() const;
  std::vector<PartitionSpec> Partitions() const;
};

// Starts a ps at `address`, which is "unix:/path" or "127.0.0.1:port". `dir` is the job's
// directory, and gets the file `log`; `threads` is the value of --threads.
std::unique_ptr<Child> StartPs(const std::string& address, const std::string& dir, int threads);
// Returns an address of this host with a port that nobody uses now.
std::string FreeTcpAddress();

// Makes a call and returns its reply. After UNAVAILABLE, which a starting process answers, calls
// again for up to 30 seconds. Other errors, and UNAVAILABLE after that time, end this process.
template <class Reply, class Request>
Reply Ask(Link& link, std::string_view method, const Request& request);
extern template PsDescription Ask(Link&, std::string_view, const DescribeRequest&);
extern template SnapshotReply Ask(Link&, std::string_view, const SnapshotRequest&);
extern template JoinReply Ask(Link&, std::string_view, const JoinRequest&);
extern template WorkReply Ask(Link&, std::string_view, const WorkRequest&);

// Raises the generation of the ps to `generation`, and has the ps create the job's partitions or,
// if `checkpoint` is not empty, restore them from `checkpoint`. Returns the fence (run, generation,
// boot id) for later calls.
Fence LoadPs(Link& link, const PsJob& job, uint64_t generation, const std::string& checkpoint = "");
// Has the ps write a snapshot below `dir`/checkpoints, and waits until the snapshot is durable.
SnapshotReply OrderSnapshot(Link& link, const Fence& fence, const std::string& dir, uint64_t round);
// Makes a checkpoint of the snapshot `written`, as a coordinator does: renames the snapshot's
// directory and writes the manifest. Returns the name of the checkpoint.
std::string CommitSnapshot(const PsJob& job, const Fence& fence, const std::string& dir,
                           uint64_t round, const SnapshotReply& written);

// A worker's exchanges with a ps, one after another. An exchange pushes a gradient for every
// partition, pulls all values, or does both. In a job with rounds, the pulled values are those
// after the round of the batch that was pushed last.
class Exchanger {
 public:
  // `split` is a split (in a job with rounds, a lane) that no other exchanger uses.
  Exchanger(Link& link, Fence fence, const PsJob& job, uint64_t split);

  void Start(bool push, bool pull);  // begins an exchange; a push is of the split's next batch
  // Waits for the reply, checks it, and copies the values. In a job with rounds, asks again until
  // the values are there.
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
