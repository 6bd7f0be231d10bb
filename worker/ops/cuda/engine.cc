#include "worker/ops/cuda/engine.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"

namespace paracord::cuda {

Engine::~Engine() {
  if (compute_ != nullptr) (void)runtime_->Synchronize(compute_);
  if (copies_ != nullptr) (void)runtime_->Synchronize(copies_);
  for (const Buffer& buffer : work_) {
    if (buffer.memory != nullptr) (void)memory_.Give(buffer.memory);
  }
  for (const Event event : {computed_, copied_}) {
    if (event != nullptr) (void)runtime_->DestroyEvent(event);
  }
  for (const Stream stream : {compute_, copies_}) {
    if (stream != nullptr) (void)runtime_->DestroyStream(stream);
  }
}

absl::Status Engine::Init() {
  RETURN_IF_ERROR(runtime_->UseDevice());
  ASSIGN_OR_RETURN(compute_, runtime_->CreateStream());
  ASSIGN_OR_RETURN(copies_, runtime_->CreateStream());
  ASSIGN_OR_RETURN(computed_, runtime_->CreateEvent());
  ASSIGN_OR_RETURN(copied_, runtime_->CreateEvent());
  return absl::OkStatus();
}

bool Engine::Try(const char* what, const absl::Status& status) {
  if (error_.ok() && !status.ok()) {
    error_ = absl::Status(status.code(), absl::StrCat(what, ": ", status.message()));
  }
  return error_.ok();
}

absl::Status Engine::Enter() {
  absl::Status used = runtime_->UseDevice();
  Try("cuda", used);
  return used;
}

absl::Status Engine::Finish() {
  // Both, whatever became of the first: nothing is under way when this returns.
  Try("cuda", runtime_->Synchronize(compute_));
  Try("cuda", runtime_->Synchronize(copies_));
  return std::exchange(error_, absl::OkStatus());
}

void Engine::Release(void* memory) {
  if (!memory_.planning()) {  // work may still be asked of it
    Try("cuda", runtime_->Synchronize(compute_));
    Try("cuda", runtime_->Synchronize(copies_));
  }
  Try("cuda", memory_.Give(memory));
}

absl::StatusOr<DeviceArray> Engine::Allocate(int64_t floats) {
  const size_t bytes = static_cast<size_t>(std::max<int64_t>(floats, 1)) * sizeof(float);
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
  const size_t needed = work + memory_.planned();
  const absl::StatusOr<MemoryInfo> info = runtime_->GetMemoryInfo();
  const absl::Status ended = memory_.EndPlan(work);
  RETURN_IF_ERROR(info.status());
  plan = {static_cast<int64_t>(needed), static_cast<int64_t>(work),
          static_cast<int64_t>(info->free), static_cast<int64_t>(info->total)};
  RETURN_IF_ERROR(ended);
  for (size_t i = 0; i < buffers.size(); ++i) {
    if (buffers[i].bytes == 0) continue;
    ASSIGN_OR_RETURN(work_[i].memory, memory_.Take(buffers[i].bytes));
    work_[i].bytes = buffers[i].bytes;
  }
  return absl::OkStatus();
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
    return &buffer;  // that there will be some
  }
  const absl::StatusOr<void*> memory = memory_.Take(bytes);
  if (!Try("memory to work in", memory.status())) {
    if (memory.ok()) Try("cuda", memory_.Give(*memory));
    return nullptr;
  }
  buffer = {*memory, bytes};
  return buffer.memory;
}

void Engine::Upload(const void* host, void* device, size_t bytes) {
  if (!runs() || bytes == 0) return;
  // What computes may still read what was there.
  Try("upload", runtime_->Record(computed_, compute_)) &&
      Try("upload", runtime_->Wait(copies_, computed_)) &&
      Try("upload", runtime_->Copy(CopyKind::kToDevice, host, device, bytes, copies_)) &&
      Try("upload", runtime_->Record(copied_, copies_)) &&
      Try("upload", runtime_->Wait(compute_, copied_));
}

void Engine::Download(const void* device, void* host, size_t bytes) {
  if (!runs() || bytes == 0) return;
  Try("download", runtime_->Record(computed_, compute_)) &&
      Try("download", runtime_->Wait(copies_, computed_)) &&
      Try("download", runtime_->Copy(CopyKind::kToHost, device, host, bytes, copies_)) &&
      Try("download", runtime_->Record(copied_, copies_)) &&
      Try("download", runtime_->Wait(compute_, copied_));
}

double Engine::Fetch(const double* device) {
  double value = 0;
  if (device == nullptr || !runs()) return 0;
  Try("result", runtime_->Copy(CopyKind::kToHost, device, &value, sizeof(value), compute_));
  // Waits even after an error: the copy may be under way.
  Try("result", runtime_->Synchronize(compute_));
  return ok() ? value : 0;
}

Cut CutFor(int64_t outputs, int64_t count, bool across, bool whole) {
  constexpr int64_t kEnough = 1024;  // blocks that fill any GPU
  constexpr int64_t kEach = 16;      // elements that are worth a thread of a part
  constexpr int kNeighbours = 32;    // threads that read together
  Cut cut;
  if (across) {
    while (cut.width < kNeighbours && cut.width < outputs) cut.width *= 2;
  } else {
    // As many threads an output as it has elements.
    while (cut.width < kThreads && kThreads / cut.width / 2 >= count) cut.width *= 2;
  }
  const int64_t blocks = (outputs + cut.width - 1) / cut.width;
  if (whole || blocks >= kEnough) return cut;
  const int64_t useful = count / (kThreads / cut.width) / kEach;
  cut.parts = static_cast<int>(std::clamp<int64_t>(std::min(useful, kEnough / blocks), 1, 1024));
  return cut;
}

}  // namespace paracord::cuda
