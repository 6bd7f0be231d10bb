#include "keras/stage_links.h"

#include <mutex>
#include <utility>

namespace paracord {
namespace {

absl::Status OtherStageFailed() { return absl::AbortedError("another stage has failed"); }

}  // namespace

void StageLinks::Reset() {
  MutexLock lock(mu_);
  forward_.assign(stages_, {});
  backward_.assign(stages_, {});
  reported_.clear();
  ended_ = 0;
  failed_ = absl::OkStatus();
}

absl::Status StageLinks::Send(Queues StageLinks::*queues, size_t cut,
                              StageTensors tensors) ABSL_NO_THREAD_SAFETY_ANALYSIS {
  std::unique_lock<std::mutex> lock(mu_.native());
  std::deque<StageTensors>& queue = (this->*queues)[cut];
  changed_.wait(lock, [&]() ABSL_NO_THREAD_SAFETY_ANALYSIS {
    return !failed_.ok() || queue.size() < stages_;
  });
  if (!failed_.ok()) return OtherStageFailed();
  queue.push_back(std::move(tensors));
  changed_.notify_all();
  return absl::OkStatus();
}

absl::StatusOr<StageTensors> StageLinks::Receive(Queues StageLinks::*queues,
                                                 size_t cut) ABSL_NO_THREAD_SAFETY_ANALYSIS {
  std::unique_lock<std::mutex> lock(mu_.native());
  std::deque<StageTensors>& queue = (this->*queues)[cut];
  changed_.wait(lock,
                [&]() ABSL_NO_THREAD_SAFETY_ANALYSIS { return !failed_.ok() || !queue.empty(); });
  if (!failed_.ok()) return OtherStageFailed();
  StageTensors tensors = std::move(queue.front());
  queue.pop_front();
  changed_.notify_all();
  return tensors;
}

void StageLinks::Report(size_t variable) {
  MutexLock lock(mu_);
  reported_.push_back(variable);
  changed_.notify_all();
}

void StageLinks::End(const absl::Status& status) {
  MutexLock lock(mu_);
  ++ended_;
  if (failed_.ok()) failed_ = status;  // later errors are consequences
  changed_.notify_all();
}

std::optional<size_t> StageLinks::NextReported() ABSL_NO_THREAD_SAFETY_ANALYSIS {
  std::unique_lock<std::mutex> lock(mu_.native());
  changed_.wait(lock, [&]() ABSL_NO_THREAD_SAFETY_ANALYSIS {
    return !failed_.ok() || !reported_.empty() || ended_ == stages_;
  });
  if (!failed_.ok() || reported_.empty()) return std::nullopt;
  const size_t variable = reported_.front();
  reported_.pop_front();
  return variable;
}

absl::Status StageLinks::status() {
  MutexLock lock(mu_);
  return failed_;
}

}  // namespace paracord
