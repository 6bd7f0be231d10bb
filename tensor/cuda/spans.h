// What a device did when, by events on its streams: for a trace, off otherwise. Owned by the
// engine; one thread.
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
  // The first of a step says where the device's clock is.
  void Begin(const char* name, int lane, Stream stream);
  // The span that began last in the lane.
  void End(int lane, Stream stream);
  // Everything of the streams is done. Errors of events cost the spans and nothing else.
  std::vector<DeviceSpan> Take(bool on);

 private:
  struct Span {
    const char* name = "";
    int lane = 0;
    size_t begin = 0, end = 0;  // events
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
