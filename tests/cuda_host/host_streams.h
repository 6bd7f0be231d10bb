// Streams, events and captured graphs on the processor: queues whose tasks run when a caller waits,
// in an order that a seed chooses within the constraints of streams and events. Owned by
// HostRuntime; one thread.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "tensor/cuda/runtime.h"
#include "tests/cuda_host/host_memory.h"

namespace paracord::cuda {

class HostStreams {
 public:
  // Calls `done`, unless empty, with each task as it runs.
  HostStreams(HostMemory& memory, uint64_t seed,
              std::function<void(const char* what, size_t bytes)> done)
      : memory_(memory), random_(seed), done_(std::move(done)) {}

  uint64_t Random() { return random_(); }
  Stream CreateStream();
  void DestroyStream(Stream stream) { streams_.erase(stream); }
  absl::Status Ask(Stream stream, const char* what, std::function<void()> work, size_t bytes = 0);
  // Runs all tasks of the stream.
  absl::Status Run(Stream stream);

  enum class EventKind { kPlain, kTimed, kOfHost };
  Event CreateEvent(EventKind kind);
  void DestroyEvent(Event event) { events_.erase(event); }
  bool GraphRecords(Event event) const;
  absl::Status Record(Event event, Stream stream);
  absl::Status Wait(Stream stream, Event event);
  // Runs tasks until the event's last record is reached.
  absl::Status Await(Event event);
  // The number of tasks that ran between two events.
  absl::StatusOr<int64_t> Between(Event from, Event to);

  absl::Status BeginCapture(Stream stream);
  absl::StatusOr<StepGraph> EndCapture(Stream stream);
  absl::Status LaunchGraph(StepGraph graph, Stream stream);
  void DestroyGraph(StepGraph graph) { graphs_.erase(graph); }
  bool capturing() const { return capture_ != nullptr; }
  // Makes a capture in progress fail.
  absl::Status Forbidden(const char* what);

  // Returns the names of leaked objects, or "".
  std::string Left() const;

 private:
  struct HostEvent {
    uint64_t recorded = 0, done = 0;
    EventKind kind = EventKind::kPlain;
    bool captured = false;  // last recorded in a capture, and only valid there
    int64_t at = 0;         // when it was reached, as a count of tasks
  };
  struct Task {
    const char* what = "";
    size_t bytes = 0;
    std::function<void()> work;
    std::shared_ptr<HostEvent> record, wait;
    uint64_t number = 0;   // number of the record
    bool outside = false;  // in a graph: records the event outside of the graph, too
  };
  using Queue = std::deque<Task>;
  struct HostGraph {
    Queue* main = nullptr;
    std::map<Queue*, Queue> tasks;  // keyed by the stream that issued the tasks
    std::map<HostEvent*, std::shared_ptr<HostEvent>> events;  // the last record of each event
    std::string broken;
  };

  Queue* Find(Stream stream);
  Queue* Captured(Queue* queue);
  bool Joined(const HostGraph& graph, const Queue* queue) const;
  static bool Ready(const Queue& queue);
  bool RunOne();

  HostMemory& memory_;
  std::mt19937_64 random_;
  const std::function<void(const char* what, size_t bytes)> done_;
  int64_t tasks_done_ = 0;
  std::map<Stream, std::unique_ptr<Queue>> streams_;
  std::map<Event, std::shared_ptr<HostEvent>> events_;
  std::unique_ptr<HostGraph> capture_;
  std::map<StepGraph, std::unique_ptr<HostGraph>> graphs_;
  std::vector<std::unique_ptr<Queue>> branches_;  // branches of launched graphs
};

}  // namespace paracord::cuda
