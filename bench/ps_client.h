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
  uint32_t lanes = 0;  // lanes of a synchronous round; 0: each push is an update
  uint32_t partitions = 1;
  uint64_t partition_bytes = 0;

  std::string JobJson() const;
  DataPlan Plan() const;
  std::vector<VariableSpec> Variables() const;
  std::vector<PartitionSpec> Partitions() const;
};

// Starts a ps at "unix:/path" or "127.0.0.1:port"; `dir` is the job's DIR.
std::unique_ptr<Child> StartPs(const std::string& address, const std::string& dir, int threads);
std::string FreeTcpAddress();

// Makes a call and returns the reply. A process that is starting answers UNAVAILABLE and is asked
// again for up to 30 seconds. Any other error ends this process.
template <class Reply, class Request>
Reply Ask(Link& link, std::string_view method, const Request& request);
extern template PsDescription Ask(Link&, std::string_view, const DescribeRequest&);
extern template SnapshotReply Ask(Link&, std::string_view, const SnapshotRequest&);
extern template JoinReply Ask(Link&, std::string_view, const JoinRequest&);
extern template WorkReply Ask(Link&, std::string_view, const WorkRequest&);

// Raises the generation, and creates the job's partitions on the ps or restores them from a
// checkpoint. Returns the fence for later calls.
Fence LoadPs(Link& link, const PsJob& job, uint64_t generation, const std::string& checkpoint = "");
// Orders a snapshot into DIR/checkpoints, and waits until it is durable.
SnapshotReply OrderSnapshot(Link& link, const Fence& fence, const std::string& dir, uint64_t round);
// Writes the manifest for the snapshot, as a coordinator does. Returns the checkpoint's name.
std::string CommitSnapshot(const PsJob& job, const Fence& fence, const std::string& dir,
                           uint64_t round, const SnapshotReply& written);

// A worker's exchanges with a ps. Each exchange pushes a gradient for every partition and pulls all
// values; in a job with rounds, the values after the pushed batch's round.
class Exchanger {
 public:
  // `split`: a split (or lane) that no other exchanger uses.
  Exchanger(Link& link, Fence fence, const PsJob& job, uint64_t split);

  void Start(bool push, bool pull);  // starts the exchange of the next batch
  void Finish();                     // waits for the exchange, checks the reply, copies the values

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
