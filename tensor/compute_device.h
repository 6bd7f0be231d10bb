// The computing device: memory, copies from and to the host, waiting, and tracing. Ops (ops.h) adds
// the arithmetic. Uploads, downloads and operations may be asynchronous: they are issued in the
// order of the calls, and Finish waits for all. Used by one thread at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace paracord {

// An array in the device's memory. Frees itself, and must not outlive its Device.
using DeviceArray = std::unique_ptr<float[], std::function<void(float*)>>;

// The result of planning a device's memory (Device::EndPlan), in bytes.
struct MemoryPlan {
  int64_t needed = 0;           // bytes that the device must have free, with `work` and `code`
  int64_t work = 0;             // scratch memory of the operations
  int64_t code = 0;             // reserved for kernels and libraries loaded later
  int64_t free = 0, total = 0;  // of the device, before the plan's allocation
};

// An interval of work on the device, in microseconds of CLOCK_MONOTONIC. `lane` is a row of the
// trace, unlike a lane of a job: 0 has the operations, 1 the uploads, 2 the downloads, 3 the
// all-reduces. Spans of one row never overlap.
struct DeviceSpan {
  const char* name = "";
  int lane = 0;
  int64_t begin_us = 0, end_us = 0;
};

class Device {
 public:
  virtual ~Device() = default;

  // Returns memory with undefined contents; RESOURCE_EXHAUSTED when the device has no more. After
  // an error and until Finish, a GPU returns the error instead.
  virtual absl::StatusOr<DeviceArray> Allocate(int64_t floats) = 0;
  // While `keep` is true, Allocate uses only memory that EndPlan has taken, and returns
  // RESOURCE_EXHAUSTED if there is no room in it. No effect without a plan; false at first.
  virtual void KeepToPlan(bool keep) = 0;
  // Bytes allocated and not yet freed.
  virtual int64_t allocated_bytes() const = 0;
  // Begins a rehearsal to find a program's need of memory. The caller makes the calls of every kind
  // of run, frees all allocations, then calls EndPlan. Until then nothing is computed or copied;
  // allocations are counted, and their addresses must not be followed. Called at most once, before
  // the first allocation, and only if host_memory() is false.
  virtual void BeginPlan() = 0;
  // Ends the rehearsal and takes the needed memory from the device in one piece, from which later
  // allocations are made. Returns RESOURCE_EXHAUSTED, with `plan` filled in, if the device has less
  // memory than `plan.needed`.
  virtual absl::Status EndPlan(MemoryPlan& plan) = 0;
  // Binds the calling thread to the device. Every thread calls Enter before its first use of the
  // device, and again after taking over from another thread.
  virtual void Enter() = 0;
  // Waits until nothing is in flight. Returns the first error since the last Finish, or a DATA_LOSS
  // that came later (the device is lost). After an error a GPU computes and copies nothing until
  // Finish has returned it; only all-reduces (group_ops.h) are still issued.
  virtual absl::Status Finish() = 0;

  // True if the device computes in the host's memory; copies and plans are then unnecessary.
  virtual bool host_memory() const = 0;
  // Copies n floats to the device, after the operations issued so far. `host` may be overwritten as
  // soon as Upload has returned.
  virtual void Upload(int64_t n, const float* host, float* device) = 0;
  // Like Upload, but the copy overlaps with operations in flight, and operations issued later wait
  // for the copy. The caller promises that nothing issued since the last Finish uses `device`, and
  // leaves `host` unchanged until the next Finish.
  virtual void UploadBeside(int64_t n, const float* host, float* device) = 0;
  // Copies n floats to the host after the operations issued so far, while later operations go on.
  // `host` holds the numbers after the next Finish, if that returns OK; until then no operation may
  // write to `device`.
  virtual void Download(int64_t n, const float* device, float* host) = 0;
  // Like Download; AwaitDownload then returns `name` when the copy is complete.
  virtual void DownloadAwaited(int64_t n, const float* device, float* host, size_t name) = 0;
  // Waits for the oldest DownloadAwaited since the last Finish that no AwaitDownload has returned,
  // while the device goes on computing, and returns its `name`; the numbers are then in `host`.
  // Returns nullopt when none is left, or after an error, which Finish then returns.
  virtual std::optional<size_t> AwaitDownload() = 0;
  // Page-locks host memory that stays mapped for this Device's life: UploadBeside and downloads
  // then need no staging buffer. Memory that does not begin a page, or that the system does not
  // lock, is copied through a staging buffer. Repeated calls for an address do nothing.
  virtual void PageLock(const void* host, size_t bytes) = 0;
  // Returns the spans recorded since the last call, and records spans from now on if `note` is
  // true. Called after Finish.
  virtual std::vector<DeviceSpan> TakeSpans(bool note) = 0;
};

}  // namespace paracord
