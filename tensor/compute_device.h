// The device that operations compute on: its memory, the copies between it and the host, waiting,
// and tracing. Ops (ops.h) adds the arithmetic. Uploads, downloads and operations may be
// asynchronous: they are issued in order, and Finish waits for all of them. Used by one thread at a
// time; every thread calls Enter before its first use.
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

// An array in the device's memory. It frees itself and must not outlive its Device.
using DeviceArray = std::unique_ptr<float[], std::function<void(float*)>>;

// The result of planning a device's memory (Device::EndPlan), in bytes.
struct MemoryPlan {
  int64_t needed = 0;           // the peak of what is in use at once, `work` and `code` included
  int64_t work = 0;             // scratch memory of the operations
  int64_t code = 0;             // reserved for kernels and libraries that are loaded later
  int64_t free = 0, total = 0;  // the device's memory before the plan took its part
};

// An interval in which the device was busy, in microseconds of CLOCK_MONOTONIC. Spans of one lane
// never overlap.
struct DeviceSpan {
  const char* name = "";
  int lane = 0;
  int64_t begin_us = 0, end_us = 0;
};

class Device {
 public:
  virtual ~Device() = default;

  // Returns memory with undefined contents; RESOURCE_EXHAUSTED when the device has no more.
  virtual absl::StatusOr<DeviceArray> Allocate(int64_t floats) = 0;
  // While `keep` is true, Allocate returns RESOURCE_EXHAUSTED instead of asking the device for
  // memory that the plan has no room for. It has no effect without a plan and is off at first.
  virtual void KeepToPlan(bool keep) = 0;
  // Bytes that Allocate has given out and that have not been freed.
  virtual int64_t allocated_bytes() const = 0;
  // Begins a rehearsal that finds out how much memory a program needs. The caller rehearses every
  // kind of run it will do and frees all that it allocated, then calls EndPlan. Until then nothing
  // is computed or copied; allocations are counted, and their addresses must not be followed.
  // Called at most once, before the first allocation, and only if host_memory() is false.
  virtual void BeginPlan() = 0;
  // Ends the rehearsal and takes the memory it needed from the device in one piece, from which
  // Allocate then gives. Returns RESOURCE_EXHAUSTED, with `plan` filled in, if the device has less.
  virtual absl::Status EndPlan(MemoryPlan& plan) = 0;
  // Binds the calling thread to the device. Every thread calls this before its first use of the
  // device, and again whenever it takes over from another thread.
  virtual void Enter() = 0;
  // Waits until nothing is in flight. Returns the first error since the last Finish; after an
  // error nothing more is issued until Finish has reported it.
  virtual absl::Status Finish() = 0;

  // True if the device computes on the host's memory, so that nothing need be copied or planned.
  virtual bool host_memory() const = 0;
  // Copies n floats to the device, after the operations issued so far. `host` may be overwritten as
  // soon as this returns.
  virtual void Upload(int64_t n, const float* host, float* device) = 0;
  // Copies like Upload, but overlaps with operations already in flight; operations issued later
  // wait for the copy. The caller promises that nothing issued since the last Finish uses `device`,
  // and leaves `host` unchanged until the next Finish.
  virtual void UploadBeside(int64_t n, const float* host, float* device) = 0;
  // Copies n floats to the host after the operations issued so far, overlapping with later ones.
  // `host` holds the numbers after the next Finish that returns OK; until then the caller must not
  // let an operation write to `device`.
  virtual void Download(int64_t n, const float* device, float* host) = 0;
  // Copies like Download. AwaitDownload reports the completion by `name`.
  virtual void DownloadAwaited(int64_t n, const float* device, float* host, size_t name) = 0;
  // Waits for the oldest DownloadAwaited since the last Finish that has not been reported, while
  // the device goes on computing, and returns its name; its numbers are then in `host`. Returns
  // nullopt when there are no more, or after an error, which Finish then returns.
  virtual std::optional<size_t> AwaitDownload() = 0;
  // Page-locks host memory that stays mapped for as long as this Device lives, so that copies from
  // and to it need no staging buffer. `host` should begin a page. Memory that cannot be locked is
  // staged as before; repeated calls for one address do nothing.
  virtual void PageLock(const void* host, size_t bytes) = 0;
  // Returns the spans recorded since the last call and turns recording on or off. Called after
  // Finish.
  virtual std::vector<DeviceSpan> TakeSpans(bool note) = 0;
};

}  // namespace paracord
