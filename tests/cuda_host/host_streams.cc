#include "tests/cuda_host/host_streams.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"

namespace paracord::cuda {

Stream HostStreams::CreateStream() {
  auto queue = std::make_unique<Queue>();
  void* name = queue.get();
  streams_[name] = std::move(queue);
  return name;
}

Event HostStreams::CreateEvent(EventKind kind) {
  auto event = std::make_shared<HostEvent>();
  event->kind = kind;
  void* name = event.get();
  events_[name] = std::move(event);
  return name;
}

bool HostStreams::GraphRecords(Event event) const {
  const auto records = [event](const Task& task) {
    return task.outside && task.record.get() == event;
  };
  for (const auto& [name, graph] : graphs_) {
    for (const auto& [queue, tasks] : graph->tasks) {
      if (std::any_of(tasks.begin(), tasks.end(), records)) return true;
    }
  }
  return false;
}

HostStreams::Queue* HostStreams::Find(Stream stream) {
  const auto found = streams_.find(stream);
  return found == streams_.end() ? nullptr : found->second.get();
}

// The queue in which the capture keeps the stream's tasks; null if the stream is not captured.
HostStreams::Queue* HostStreams::Captured(Queue* queue) {
  if (capture_ == nullptr) return nullptr;
  const auto found = capture_->tasks.find(queue);
  return found == capture_->tasks.end() ? nullptr : &found->second;
}

absl::Status HostStreams::Forbidden(const char* what) {
  if (capture_ == nullptr) return absl::OkStatus();
  if (capture_->broken.empty()) capture_->broken = what;
  return absl::InternalError(
      absl::StrCat(what, ": operation not permitted when stream is capturing"));
}

absl::Status HostStreams::Ask(Stream stream, const char* what, std::function<void()> work,
                              size_t bytes) {
  Queue* const at = Find(stream);
  if (at == nullptr) return absl::InternalError("no such stream");
  Queue* const kept = Captured(at);
  (kept != nullptr ? kept : at)
      ->push_back({what, bytes, std::move(work), nullptr, nullptr, 0, false});
  return absl::OkStatus();
}

absl::Status HostStreams::Record(Event event, Stream stream) {
  Queue* const at = Find(stream);
  const auto found = events_.find(event);
  if (at == nullptr || found == events_.end()) return absl::InternalError("cudaEventRecord");
  if (Queue* const kept = Captured(at)) {
    if (found->second->kind == EventKind::kTimed) {
      return Forbidden("cudaEventRecord of a timed event");
    }
    if (found->second->kind == EventKind::kOfHost) {
      kept->push_back({"", 0, nullptr, found->second, nullptr, 0, /*outside=*/true});
      return absl::OkStatus();
    }
    auto& own = capture_->events[found->second.get()];
    own = std::make_shared<HostEvent>();
    found->second->captured = true;
    kept->push_back({"", 0, nullptr, own, nullptr, 1, false});
    return absl::OkStatus();
  }
  found->second->captured = false;
  at->push_back({"", 0, nullptr, found->second, nullptr, ++found->second->recorded, false});
  return absl::OkStatus();
}

absl::Status HostStreams::Wait(Stream stream, Event event) {
  Queue* const at = Find(stream);
  const auto found = events_.find(event);
  if (at == nullptr || found == events_.end()) return absl::InternalError("cudaStreamWaitEvent");
  if (capture_ != nullptr) {
    const auto own = capture_->events.find(found->second.get());
    if (own != capture_->events.end()) {  // this makes the stream part of the capture
      if (Captured(at) == nullptr && !at->empty()) {
        return Forbidden("cudaStreamWaitEvent of a stream with work of before");
      }
      capture_->tasks[at].push_back({"", 0, nullptr, nullptr, own->second, 1, false});
      return absl::OkStatus();
    }
    if (Captured(at) != nullptr) return Forbidden("cudaStreamWaitEvent of an event of before");
  }
  if (found->second->captured) {
    memory_.Note("cudaStreamWaitEvent: an event that was recorded in a capture last");
    return absl::InternalError("cudaStreamWaitEvent: operation not permitted on a captured event");
  }
  at->push_back({"", 0, nullptr, nullptr, found->second, found->second->recorded, false});
  return absl::OkStatus();
}

absl::StatusOr<int64_t> HostStreams::Between(Event from, Event to) {
  const auto a = events_.find(from), b = events_.find(to);
  for (const auto& event : {a, b}) {
    if (event == events_.end() || event->second->kind != EventKind::kTimed ||
        event->second->recorded == 0 || event->second->done < event->second->recorded) {
      memory_.Note("cudaEventElapsedTime of an event that is not timed, or not done");
      return absl::InternalError("cudaEventElapsedTime: invalid resource handle");
    }
  }
  return b->second->at - a->second->at;
}

// ---- running

bool HostStreams::Ready(const Queue& queue) {
  if (queue.empty()) return false;
  return queue.front().wait == nullptr || queue.front().wait->done >= queue.front().number;
}

// Runs a task of any stream that may continue. Returns false if none may.
bool HostStreams::RunOne() {
  std::erase_if(branches_, [](const auto& branch) { return branch->empty(); });
  std::vector<Queue*> ready;
  for (const auto& [name, queue] : streams_) {
    if (Ready(*queue)) ready.push_back(queue.get());
  }
  for (const auto& branch : branches_) {
    if (Ready(*branch)) ready.push_back(branch.get());
  }
  if (ready.empty()) {  // each stream waits for an event that is never recorded
    memory_.Note("streams wait for ever");
    for (const auto& [name, queue] : streams_) queue->clear();
    branches_.clear();
    return false;
  }
  Queue& queue = *ready[random_() % ready.size()];
  const Task task = std::move(queue.front());
  queue.pop_front();
  if (task.record != nullptr) {
    task.record->done = std::max(task.record->done, task.number);
    task.record->at = tasks_done_;
  }
  if (!task.work) return true;
  ++tasks_done_;
  if (done_) done_(task.what, task.bytes);
  task.work();
  return true;
}

absl::Status HostStreams::Run(Stream stream) {
  Queue* const at = Find(stream);
  if (at == nullptr) return absl::InternalError("cudaStreamSynchronize: no such stream");
  RETURN_IF_ERROR(Forbidden("cudaStreamSynchronize"));
  memory_.Show(true);
  while (!at->empty()) RunOne();
  memory_.Show(false);
  return absl::OkStatus();
}

absl::Status HostStreams::Await(Event event) {
  RETURN_IF_ERROR(Forbidden("cudaEventSynchronize"));
  const auto found = events_.find(event);
  if (found == events_.end() || found->second->kind != EventKind::kOfHost) {
    memory_.Note("cudaEventSynchronize of an event that is not for that");
    return absl::InternalError("cudaEventSynchronize: invalid resource handle");
  }
  const HostEvent& awaited = *found->second;
  memory_.Show(true);
  while (awaited.done < awaited.recorded && RunOne()) {
  }
  memory_.Show(false);
  return absl::OkStatus();
}

// ---- graphs

absl::Status HostStreams::BeginCapture(Stream stream) {
  Queue* const at = Find(stream);
  if (at == nullptr || capture_ != nullptr) return absl::InternalError("cudaStreamBeginCapture");
  capture_ = std::make_unique<HostGraph>();
  capture_->main = at;
  capture_->tasks[at];
  return absl::OkStatus();
}

// True if the main stream waits for the end of the queue.
bool HostStreams::Joined(const HostGraph& graph, const Queue* queue) const {
  if (queue == graph.main) return true;
  const Queue& tasks = graph.tasks.at(const_cast<Queue*>(queue));
  const Queue& main = graph.tasks.at(graph.main);
  return !tasks.empty() && tasks.back().record != nullptr &&
         std::any_of(main.begin(), main.end(),
                     [&](const Task& task) { return task.wait == tasks.back().record; });
}

absl::StatusOr<StepGraph> HostStreams::EndCapture(Stream stream) {
  if (capture_ == nullptr || Find(stream) != capture_->main) {
    return absl::InternalError("cudaStreamEndCapture: not capturing");
  }
  std::unique_ptr<HostGraph> graph = std::exchange(capture_, nullptr);
  if (!graph->broken.empty()) {
    return absl::InternalError("cudaStreamEndCapture: invalidated by " + graph->broken);
  }
  for (const auto& [queue, tasks] : graph->tasks) {
    if (!Joined(*graph, queue)) {
      return absl::InternalError("cudaStreamEndCapture: a stream was not joined");
    }
  }
  void* name = graph.get();
  graphs_[name] = std::move(graph);
  return name;
}

absl::Status HostStreams::LaunchGraph(StepGraph graph, Stream stream) {
  const auto found = graphs_.find(graph);
  Queue* const at = Find(stream);
  if (found == graphs_.end() || at == nullptr || capture_ != nullptr) {
    return absl::InternalError("cudaGraphLaunch: invalid argument");
  }
  std::map<HostEvent*, std::shared_ptr<HostEvent>> events;  // the events of this launch
  const auto own = [&](const std::shared_ptr<HostEvent>& event) -> std::shared_ptr<HostEvent> {
    if (event == nullptr) return nullptr;
    auto& mine = events[event.get()];
    if (mine == nullptr) mine = std::make_shared<HostEvent>();
    return mine;
  };
  for (const auto& [queue, tasks] : found->second->tasks) {
    Queue* to = at;
    if (queue != found->second->main) {
      branches_.push_back(std::make_unique<Queue>());
      to = branches_.back().get();
    }
    for (const Task& task : tasks) {
      if (task.outside) {
        to->push_back({"", 0, nullptr, task.record, nullptr, ++task.record->recorded, false});
        continue;
      }
      to->push_back({task.what, task.bytes, task.work, own(task.record), own(task.wait), 1, false});
    }
  }
  return absl::OkStatus();
}

std::string HostStreams::Left() const {
  if (!streams_.empty()) return "streams not destroyed";
  if (!events_.empty()) return "events not destroyed";
  if (!graphs_.empty()) return "graphs not destroyed";
  return "";
}

}  // namespace paracord::cuda
