#include "coordinator/core/throughput.h"

#include <algorithm>

namespace paracord {
namespace {

constexpr int64_t kWindowMs = 2000;

}  // namespace

void Throughput::Start(int64_t now_ms) {
  running_ = true;
  window_.since_ms = now_ms - window_.length_ms;
}

void Throughput::Stop(int64_t now_ms) {
  running_ = false;
  window_.length_ms = now_ms - window_.since_ms;
}

void Throughput::Tick(int64_t now_ms) {
  if (!running_ || now_ms - window_.since_ms < kWindowMs || window_.computed == 0) return;
  before_ = std::exchange(window_, Window{.since_ms = now_ms});
  before_.length_ms = now_ms - before_.since_ms;
}

void Throughput::Count(const WorkRequest& report, int64_t now_ms) {
  if (report.computed() > 0) counted_ms_ = now_ms;
  window_.computed += report.computed();
  window_.samples += report.samples();
  window_.staleness_sum += report.staleness_sum();
  window_.loss_sum += report.loss_sum();
}

void Throughput::CountSteps(const WorkRequest& report, double elapsed_seconds, size_t workers,
                            uint32_t devices) {
  if (report.computed() == 0) return;
  steps_.batches += report.computed();
  steps_.seconds += elapsed_seconds;
  steps_.compute_seconds += std::min(report.compute_seconds(), elapsed_seconds * devices);
  steps_.waited_seconds += std::min(report.waited_seconds(), elapsed_seconds);
  steps_.workers = workers;
  steps_.devices = devices;
}

Throughput::Window Throughput::Recently(int64_t now_ms) const {
  Window sum = window_;
  if (running_) sum.length_ms = now_ms - window_.since_ms;
  sum.length_ms += before_.length_ms;
  sum.computed += before_.computed;
  sum.samples += before_.samples;
  sum.staleness_sum += before_.staleness_sum;
  sum.loss_sum += before_.loss_sum;
  return sum;
}

}  // namespace paracord
