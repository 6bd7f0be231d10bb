// Records the times of the device's work, by timed events on its streams, for a trace; off by
// default. Owned by the engine; one thread.
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
  // Begins a span. A step's first span relates the device's clock to the host's.
  void Begin(const char* name, int lane, Stream stream);
  // Ends the lane's last span.
  void End(int lane, Stream stream);
  // Returns the spans of a step; the streams must be idle. Errors of events only lose the spans.
  std::vector<DeviceSpan> Take(bool on);

 private:
  struct Span {
    const char* name = "";
    int lane = 0;
    size_t begin = 0, end = 0;  // indices of events
  };
  size_t NewEvent(Stream stream);

  Runtime& runtime_;
  bool on_ = false, failed_ = false;
  std::vector<Event> events_;  // the first `used_` are recorded; the first of all is at base_us_
  size_t used_ = 0;
  int64_t base_us_ = 0;
  std::vector<Span> spans_;
};

}  // namespace paracord::cuda
