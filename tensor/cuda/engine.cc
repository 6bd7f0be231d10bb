#include "tensor/cuda/engine.h"

#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/log.h"
#include "common/status_macros.h"

namespace paracord::cuda {
namespace {

constexpr auto kResults = static_cast<size_t>(Scratch::kResult);
constexpr int64_t kResultsMax = 256;  // results waiting for Finish

}  // namespace

Engine::~Engine() {
  (void)runtime_->UseDevice();  // the thread's current device may be another
  for (const Stream stream : {compute_, to_device_, to_host_, reduce_}) {
    if (stream != nullptr) (void)runtime_->Synchronize(stream);
  }
  for (const Buffer& buffer : work_) {
    if (buffer.memory != nullptr) (void)memory_.Give(buffer.memory);
  }
  for (const Event event : {computed_, uploaded_, reduced_}) {
    if (event != nullptr) (void)runtime_->DestroyEvent(event);
  }
  for (const Event event : host_events_) (void)runtime_->DestroyEvent(event);
  for (const Stream stream : {compute_, to_device_, to_host_, reduce_}) {
    if (stream != nullptr) (void)runtime_->DestroyStream(stream);
  }
}

absl::Status Engine::Init() {
  RETURN_IF_ERROR(runtime_->UseDevice());
  ASSIGN_OR_RETURN(compute_, runtime_->CreateStream());
  ASSIGN_OR_RETURN(to_device_, runtime_->CreateStream());
  ASSIGN_OR_RETURN(to_host_, runtime_->CreateStream());
  ASSIGN_OR_RETURN(computed_, runtime_->CreateEvent());
  ASSIGN_OR_RETURN(uploaded_, runtime_->CreateEvent());
  ASSIGN_OR_RETURN(const MemoryInfo memory, runtime_->GetMemoryInfo());
  device_bytes_ = memory.total;
  return absl::OkStatus();
}

// DATA_LOSS replaces an earlier error: only waiting reveals the loss of a device, while a library
// may have reported a vaguer error before.
bool Engine::Try(const char* what, const absl::Status& status) {
  const bool lost = absl::IsDataLoss(status) && !absl::IsDataLoss(error_);
  if (lost || (error_.ok() && !status.ok())) {
    error_ = absl::Status(status.code(), absl::StrCat(what, ": ", status.message()));
  }
  return error_.ok();
}

void Engine::SaySlow(const std::string& what) {
  if (!std::exchange(said_slow_, true)) Logger("device").Warn("{}", what);
}

absl::Status Engine::Enter() {
  absl::Status used = runtime_->UseDevice();
  Try("cuda", used);
  return used;
}

absl::Status Engine::Finish() {
  AskForResults();
  Wait();
  for (size_t i = 0; i < asked_count_ && ok(); ++i) *results_[i] = asked_[i];
  for (const Staged& download : downloads_) {
    if (ok()) std::memcpy(download.to, download.from, download.bytes);
  }
  results_.clear();
  asked_count_ = 0;
  downloads_.clear();
  awaited_.clear();
  next_awaited_ = 0;
  staging_.Reset();
  return std::exchange(error_, absl::OkStatus());
}

// Starts the copies of results not yet in flight.
void Engine::AskForResults() {
  if (results_.size() == asked_count_ || !runs()) return;
  asked_count_ = results_.size();
  const size_t bytes = asked_count_ * sizeof(double);
  auto* to = static_cast<double*>(staging_.Take(bytes));
  if (to == nullptr) {
    pageable_results_.resize(kResultsMax);
    to = pageable_results_.data();
  }
  asked_ = to;
  Try("result", runtime_->Copy(CopyKind::kToHost, work_[kResults].memory, to, bytes, compute_));
}

// Waits for all streams, even after an error: nothing is in flight afterwards.
void Engine::Wait() {
  for (const Stream stream : {compute_, to_device_, to_host_, reduce_}) {
    if (stream != nullptr) Try("cuda", runtime_->Synchronize(stream));
  }
}

void Engine::Release(void* memory) {
  if (!memory_.planning()) Wait();  // work using the memory may be in flight
  Try("cuda", memory_.Give(memory));
}

absl::StatusOr<DeviceArray> Engine::Allocate(int64_t floats) {
  RETURN_IF_ERROR(error_);  // after a failed Enter the thread has another device
  const size_t bytes = static_cast<size_t>(std::max<int64_t>(floats, 1)) * sizeof(float);
  if (keep_to_plan_ && !memory_.HasPlace(bytes)) {
    return absl::ResourceExhaustedError(
        absl::StrCat("the plan of the GPU's memory has no place for ", bytes, " bytes"));
  }
  ASSIGN_OR_RETURN(void* const memory, memory_.Take(bytes));
  allocated_bytes_ += static_cast<int64_t>(bytes);
  return DeviceArray(static_cast<float*>(memory), [this, bytes](float* p) {
    allocated_bytes_ -= static_cast<int64_t>(bytes);
    Release(p);
  });
}

absl::Status Engine::EndPlan(MemoryPlan& plan) {
  size_t work = 0;
  const auto buffers = std::exchange(work_, {});
  for (const Buffer& buffer : buffers) {
    if (buffer.bytes > 0) work += memory_.Padded(buffer.bytes);
  }
  const size_t planned = work + memory_.planned();
  const absl::StatusOr<MemoryInfo> info = runtime_->GetMemoryInfo();
  const absl::Status ended = memory_.EndPlan(work);
  RETURN_IF_ERROR(info.status());
  const size_t needed = planned + info->code;
  plan = {static_cast<int64_t>(needed), static_cast<int64_t>(work),
          static_cast<int64_t>(info->code), static_cast<int64_t>(info->free),
          static_cast<int64_t>(info->total)};
  RETURN_IF_ERROR(ended);
  if (needed > info->free) return absl::ResourceExhaustedError("no memory is left for code");
  for (size_t i = 0; i < buffers.size(); ++i) {
    if (buffers[i].bytes == 0) continue;
    ASSIGN_OR_RETURN(work_[i].memory, memory_.Take(buffers[i].bytes));
    work_[i].bytes = buffers[i].bytes;
  }
  return absl::OkStatus();
}

// With a plan, the plan's workspace: for another batch size the best algorithm might be another,
// with a larger workspace.
size_t Engine::workspace_max() const {
  // The best engines for large batches want up to kMost.
  constexpr size_t kLeast = 1 << 20, kMost = 1 << 30;
  const size_t planned = work_[static_cast<size_t>(Scratch::kWorkspace)].bytes;
  if (memory_.has_plan() && planned > 0) return planned;
  return std::clamp(device_bytes_ / 16, kLeast, kMost);
}

void* Engine::WorkBytes(Scratch name, size_t bytes) {
  if (!ok()) return nullptr;
  Buffer& buffer = work_[static_cast<size_t>(name)];
  bytes = std::max<size_t>(bytes, 256);
  if (buffer.bytes >= bytes) return memory_.planning() ? &buffer : buffer.memory;
  if (buffer.memory != nullptr) Release(std::exchange(buffer.memory, nullptr));
  buffer.bytes = 0;
  if (memory_.planning()) {
    buffer.bytes = bytes;
    return &buffer;  // not null: there will be some memory
  }
  const absl::StatusOr<void*> memory = memory_.Take(bytes);
  if (!Try("memory to work in", memory.status())) {
    if (memory.ok()) Try("cuda", memory_.Give(*memory));
    return nullptr;
  }
  buffer = {*memory, bytes};
  return buffer.memory;
}

void Engine::CopyToDevice(const void* from, void* device, size_t bytes) {
  spans_.Begin("copies to the device", kToDevice, to_device_);
  Try("upload", runtime_->Copy(CopyKind::kToDevice, from, device, bytes, to_device_));
  spans_.End(kToDevice, to_device_);
  Try("upload", runtime_->Record(uploaded_, to_device_)) &&
      Try("upload", runtime_->Wait(compute_, uploaded_));
}

void Engine::Upload(const void* host, void* device, size_t bytes) {
  if (!runs() || bytes == 0) return;
  // Operations in flight may still read the old contents of `device`.
  if (!Try("upload", runtime_->Record(computed_, compute_)) ||
      !Try("upload", runtime_->Wait(to_device_, computed_))) {
    return;
  }
  void* const staged = staging_.Take(bytes);
  if (staged != nullptr) std::memcpy(staged, host, bytes);
  CopyToDevice(staged == nullptr ? host : staged, device, bytes);
  // An asynchronous copy from page-locked memory would otherwise read after `host` may have
  // changed.
  if (staged == nullptr && staging_.IsPageLocked(host, bytes)) {
    Try("upload", runtime_->Synchronize(to_device_));
  }
}

void Engine::UploadBeside(const void* host, void* device, size_t bytes) {
  if (!runs() || bytes == 0) return;
  const void* from = host;
  if (!staging_.IsPageLocked(host, bytes)) {
    if (void* const staged = staging_.Take(bytes)) from = std::memcpy(staged, host, bytes);
  }
  CopyToDevice(from, device, bytes);
}

void Engine::Download(const void* device, void* host, size_t bytes) {
  (void)CopyToHost(device, host, bytes);
}

void Engine::DownloadAwaited(const void* device, void* host, size_t bytes, size_t name) {
  if (!CopyToHost(device, host, bytes)) return;
  if (awaited_.size() == host_events_.size()) {
    const absl::StatusOr<Event> event = runtime_->CreateHostEvent();
    if (!Try("download", event.status())) return;
    host_events_.push_back(*event);
  }
  const Event event = host_events_[awaited_.size()];
  if (Try("download", runtime_->Record(event, to_host_))) awaited_.push_back({name, event, host});
}

std::optional<size_t> Engine::AwaitDownload() {
  if (!runs() || next_awaited_ == awaited_.size()) return std::nullopt;
  AskForResults();  // part of the step that ends here (replay.h)
  const Awaited& next = awaited_[next_awaited_++];
  if (!ok() || !Try("download", runtime_->AwaitEvent(next.event))) return std::nullopt;
  const auto staged = std::find_if(downloads_.begin(), downloads_.end(),
                                   [&](const Staged& each) { return each.to == next.host; });
  if (staged != downloads_.end()) {
    std::memcpy(staged->to, staged->from, staged->bytes);
    downloads_.erase(staged);
  }
  return next.name;
}

// Returns false if no copy was issued.
bool Engine::CopyToHost(const void* device, void* host, size_t bytes) {
  if (!runs() || bytes == 0) return false;
  void* to = host;
  if (!staging_.IsPageLocked(host, bytes)) {
    if (void* const staged = staging_.Take(bytes)) to = staged;
  }
  if (!Try("download", runtime_->Record(computed_, compute_)) ||
      !Try("download", runtime_->Wait(to_host_, computed_))) {
    return false;
  }
  // Waits for the last all-reduce as well, and thereby for all earlier ones.
  if (reduce_ != nullptr && (!Try("download", runtime_->Record(reduced_, reduce_)) ||
                             !Try("download", runtime_->Wait(to_host_, reduced_)))) {
    return false;
  }
  spans_.Begin("copies to the host", kToHost, to_host_);
  Try("download", runtime_->Copy(CopyKind::kToHost, device, to, bytes, to_host_));
  spans_.End(kToHost, to_host_);
  if (to != host) downloads_.push_back({to, host, bytes});
  return ok();
}

// After an error the sums are undefined, but the other members, unaware of the error, need not
// wait. If AllReduce itself fails, the members wait until the group is aborted.
void Engine::AllReduce(std::span<const DeviceFloats> arrays) {
  if (memory_.planning() || group_lost_) return;
  const auto ask = [&]() -> absl::Status {
    if (reduce_ == nullptr) {
      RETURN_IF_ERROR(runtime_->UseDevice());  // an Enter may have failed
      ASSIGN_OR_RETURN(reduce_, runtime_->CreateStream());
    }
    if (reduced_ == nullptr) {
      ASSIGN_OR_RETURN(reduced_, runtime_->CreateEvent());
    }
    RETURN_IF_ERROR(runtime_->Record(computed_, compute_));
    RETURN_IF_ERROR(runtime_->Wait(reduce_, computed_));
    spans_.Begin("all-reduce", kReduce, reduce_);
    RETURN_IF_ERROR(runtime_->AllReduce(arrays, reduce_));
    spans_.End(kReduce, reduce_);
    return absl::OkStatus();
  };
  const absl::Status asked = ask();
  if (asked.ok()) return;
  group_lost_ = true;
  error_ = absl::DataLossError(absl::StrCat("all-reduce: ", asked.message()));
}

double* Engine::Result(double* host) {
  if (results_.size() == static_cast<size_t>(kResultsMax)) TakeOver();
  auto* const results = Work<double>(Scratch::kResult, kResultsMax);
  if (results == nullptr || !runs()) return results;
  results_.push_back(host);
  return results + results_.size() - 1;
}

const uint64_t* Engine::Key(uint64_t key) {
  auto* const slot = Work<uint64_t>(Scratch::kRandom, 1);
  if (slot == nullptr || !runs()) return slot;
  // The copy is in order on the computing stream: the previous key has been used. Without staging,
  // the copy of pageable memory is synchronous.
  void* const staged = staging_.Take(sizeof(key));
  const void* from = staged == nullptr ? &key : std::memcpy(staged, &key, sizeof(key));
  Do("key", [&] { return runtime_->Copy(CopyKind::kToDevice, from, slot, sizeof(key), compute_); });
  return ok() ? slot : nullptr;
}

// Fetches results when the table of results is full. Rare.
void Engine::TakeOver() {
  pageable_results_.resize(results_.size());
  Try("result", runtime_->Copy(CopyKind::kToHost, work_[kResults].memory, pageable_results_.data(),
                               results_.size() * sizeof(double), compute_));
  Try("result", runtime_->Synchronize(compute_));
  for (size_t i = 0; i < results_.size() && ok(); ++i) *results_[i] = pageable_results_[i];
  results_.clear();
  asked_count_ = 0;
}

Cut CutFor(int64_t outputs, int64_t count, bool across, bool whole) {
  constexpr int64_t kEach = 16;  // elements that pay for a thread in another part
  Cut cut;
  if (across) {
    while (cut.width() < kNeighbours && cut.width() < outputs) ++cut.bits;
  } else {
    // An output gets at most as many threads as elements.
    while (cut.width() < kThreads && kThreads / cut.width() / 2 >= count) ++cut.bits;
  }
  const int64_t blocks = (outputs + cut.width() - 1) / cut.width();
  if (whole || blocks >= kBlocksEnough) return cut;
  const int64_t useful = count / (kThreads / cut.width()) / kEach;
  cut.parts =
      static_cast<int>(std::clamp<int64_t>(std::min(useful, kBlocksEnough / blocks), 1, 1024));
  return cut;
}

}  // namespace paracord::cuda
