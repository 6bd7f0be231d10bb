#include "net/intake.h"

#include <utility>

namespace paracord {

uint64_t Intake::Begin() {
  MutexLock lock(mu_);
  calls_[++last_];
  arriving_.insert(last_);
  return last_;
}

uint64_t Intake::bytes() const {
  MutexLock lock(mu_);
  return bytes_;
}

bool Intake::IsOldest(uint64_t call) const {
  return !arriving_.empty() && *arriving_.begin() == call;
}

bool Intake::Take(uint64_t call, uint64_t bytes, std::function<void()> resume) {
  MutexLock lock(mu_);
  Call& taking = calls_.at(call);
  taking.bytes += bytes;
  bytes_ += bytes;
  if (bytes_ <= bytes_max_ || taking.bytes <= small_bytes_ || IsOldest(call)) return true;
  taking.resume = std::move(resume);
  waiting_.insert(call);
  return false;
}

// All, where there is room: each asks again with what it has read then.
Intake::Resumes Intake::WhoMayGoOn() {
  Resumes resumes;
  while (!waiting_.empty() && (bytes_ <= bytes_max_ || IsOldest(*waiting_.begin()))) {
    resumes.push_back(std::exchange(calls_.at(*waiting_.begin()).resume, nullptr));
    waiting_.erase(waiting_.begin());
  }
  return resumes;
}

void Intake::Arrived(uint64_t call) {
  Resumes resumes;
  {
    MutexLock lock(mu_);
    arriving_.erase(call);
    resumes = WhoMayGoOn();
  }
  for (const auto& resume : resumes) resume();
}

void Intake::End(uint64_t call) {
  Resumes resumes;
  std::function<void()> forgotten;
  {
    MutexLock lock(mu_);
    const auto it = calls_.find(call);
    bytes_ -= it->second.bytes;
    forgotten = std::move(it->second.resume);
    calls_.erase(it);
    arriving_.erase(call);
    waiting_.erase(call);
    resumes = WhoMayGoOn();
  }
  for (const auto& resume : resumes) resume();
}

}  // namespace paracord
