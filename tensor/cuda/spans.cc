#include "tensor/cuda/spans.h"

#include <time.h>

#include <utility>

namespace paracord::cuda {
namespace {

constexpr size_t kSpansMax = 4096;  // spans of a step

int64_t NowUs() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return int64_t{now.tv_sec} * 1000000 + now.tv_nsec / 1000;
}

}  // namespace

Spans::~Spans() {
  for (const Event event : events_) (void)runtime_.DestroyEvent(event);
}

size_t Spans::NewEvent(Stream stream) {
  if (used_ == events_.size()) {
    const absl::StatusOr<Event> event = runtime_.CreateTimedEvent();
    failed_ = failed_ || !event.ok();
    if (failed_) return 0;
    events_.push_back(*event);
  }
  failed_ = failed_ || !runtime_.Record(events_[used_], stream).ok();
  return used_++;
}

void Spans::Begin(const char* name, int lane, Stream stream) {
  if (!on_ || failed_ || spans_.size() >= kSpansMax) return;
  if (used_ == 0) {  // the idle device records the event at once
    base_us_ = NowUs();
    NewEvent(stream);
  }
  spans_.push_back({name, lane, NewEvent(stream), 0});
}

void Spans::End(int lane, Stream stream) {
  if (!on_ || failed_) return;
  for (size_t i = spans_.size(); i-- > 0;) {
    if (spans_[i].lane != lane) continue;
    if (spans_[i].end == 0) spans_[i].end = NewEvent(stream);
    return;
  }
}

std::vector<DeviceSpan> Spans::Take(bool on) {
  std::vector<DeviceSpan> taken;
  const auto at = [&](size_t event) {
    const absl::StatusOr<float> ms = runtime_.ElapsedMs(events_[0], events_[event]);
    failed_ = failed_ || !ms.ok();
    return ms.ok() ? base_us_ + static_cast<int64_t>(static_cast<double>(*ms) * 1e3) : 0;
  };
  for (const Span& span : spans_) {
    if (failed_) break;
    if (span.end == 0) continue;
    const int64_t begin = at(span.begin), end = at(span.end);
    if (!failed_) taken.push_back({span.name, span.lane, begin, end});
  }
  spans_.clear();
  used_ = 0;
  failed_ = false;
  on_ = on;
  return taken;
}

}  // namespace paracord::cuda
