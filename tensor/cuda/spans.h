// Records the times of the device's work, by timed events on its streams, for a trace; off by
// default. Owned by the engine; used by one thread at a time.
#pragma once

#include <cstdint>
#include <vector>

#include "tensor/cuda/runtime.h"
#include "tensor/ops.h"

namespace paracord::cuda {

class Spans {
 public:
  explicit Spans(Runtime& runtime) : runtime_(runtime) {}
  ~Spans();

  bool on() const { return on_; }
  // Begins a span of the lane (DeviceSpan). The first Begin after Take also relates the device's
  // clock to the host's; the device must be idle then.
  void Begin(const char* name, int lane, Stream stream);
  // Ends the lane's last span.
  void End(int lane, Stream stream);
  // Returns the ended spans since the last Take, and records spans from now on if `on` is true. The
  // streams must be idle. Spans are lost, without an error, if an event fails or a step has more
  // than 4096.
  std::vector<DeviceSpan> Take(bool on);

 private:
  struct Span {
    const char* name = "";
    int lane = 0;
    size_t begin = 0, end = 0;  // indices in events_; `end` is 0 until the span ends
  };
  size_t NewEvent(Stream stream);

  Runtime& runtime_;
  bool on_ = false, failed_ = false;
  std::vector<Event> events_;  // the first `used_` are recorded, events_[0] at time base_us_
  size_t used_ = 0;
  int64_t base_us_ = 0;
  std::vector<Span> spans_;
};

}  // namespace paracord::cuda
