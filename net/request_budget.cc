#include "net/request_budget.h"

#include <algorithm>
#include <utility>

namespace paracord {

uint64_t RequestBudget::Begin(std::function<void()> drop, int64_t patience_ms) {
  std::function<void()> drop_stuck;
  uint64_t call = 0;
  {
    MutexLock lock(mu_);
    call = ++last_;
    calls_[call] = {.patience_ms = patience_ms, .drop = std::move(drop), .resume = {}};
    arriving_.insert(call);
    drop_stuck = DropOfWhoIsStuck();
  }
  if (drop_stuck) drop_stuck();
  return call;
}

std::function<void()> RequestBudget::DropOfWhoIsStuck() {
  if (waiting_.empty() || arriving_.empty()) {
    watched_ = 0;
    return nullptr;
  }
  const uint64_t oldest = *arriving_.begin();
  Call& call = calls_.at(oldest);
  const int64_t now = now_ms_();
  const uint64_t bytes = std::max(call.bytes, call.moved);
  watched_bytes_ = std::min(watched_bytes_, bytes);  // memory given back is no progress
  // If nobody has looked for a long time, this process may itself have been stopped.
  const bool blind = now - std::exchange(looked_ms_, now) >= kPatienceMs;
  if (blind || oldest != watched_ || bytes - watched_bytes_ >= kMovedMin) {
    watched_ = oldest;
    watched_bytes_ = bytes;
    watched_ms_ = now;
  }
  return now - watched_ms_ < call.patience_ms ? nullptr : Drop(call);
}

void RequestBudget::Moved(uint64_t call, uint64_t bytes) {
  MutexLock lock(mu_);
  calls_.at(call).moved = bytes;
}

void RequestBudget::Look() {
  std::function<void()> drop_stuck;
  {
    MutexLock lock(mu_);
    drop_stuck = DropOfWhoIsStuck();
  }
  if (drop_stuck) drop_stuck();
}

uint64_t RequestBudget::bytes() const {
  MutexLock lock(mu_);
  return bytes_;
}

bool RequestBudget::IsOldest(uint64_t call) const {
  return !arriving_.empty() && *arriving_.begin() == call;
}

std::function<void()> RequestBudget::Drop(Call& call) {
  call.dropped = true;
  return std::exchange(call.drop, nullptr);
}

// Drops the largest call when bytes_ exceed the limit plus one request; the oldest call within its
// limit goes on, and younger ones give way.
std::function<void()> RequestBudget::DropOfWhoHoards() {
  const uint64_t max = share_->bytes_max() + share_->spare();
  if (bytes_ <= max) return nullptr;
  uint64_t left = bytes_;
  Call* most = nullptr;
  for (const uint64_t number : arriving_) {
    Call& call = calls_.at(number);
    if (call.dropped) left -= call.bytes;  // a dropped call is about to free its bytes
    if (!call.drop || (IsOldest(number) && call.bytes <= share_->spare())) continue;
    if (most == nullptr || call.bytes > most->bytes) most = &call;
  }
  return left > max && most != nullptr ? Drop(*most) : nullptr;
}

bool RequestBudget::Take(uint64_t call, uint64_t bytes, std::function<void()> resume) {
  std::function<void()> drop;
  bool reads_on = true;
  {
    MutexLock lock(mu_);
    Call& taking = calls_.at(call);
    taking.bytes += bytes;
    bytes_ += bytes;
    share_->Add(bytes);
    reads_on = bytes_ <= share_->bytes_max() || taking.bytes <= small_bytes_ || IsOldest(call);
    if (!reads_on) {
      taking.resume = std::move(resume);
      waiting_.insert(call);
    }
    drop = DropOfWhoHoards();
    if (!drop) drop = DropOfWhoIsStuck();
  }
  if (drop) drop();
  return reads_on;
}

// Returns the `resume` of every call if there is room; resumed calls count their bytes again.
RequestBudget::Resumes RequestBudget::WhoMayGoOn() {
  Resumes resumes;
  while (!waiting_.empty() && (bytes_ <= share_->bytes_max() || IsOldest(*waiting_.begin()))) {
    resumes.push_back(std::exchange(calls_.at(*waiting_.begin()).resume, nullptr));
    waiting_.erase(waiting_.begin());
  }
  return resumes;
}

void RequestBudget::Give(uint64_t call, uint64_t bytes) {
  Resumes resumes;
  {
    MutexLock lock(mu_);
    calls_.at(call).bytes -= bytes;
    bytes_ -= bytes;
    share_->Subtract(bytes);
    resumes = WhoMayGoOn();
  }
  for (const auto& resume : resumes) resume();
}

void RequestBudget::Keep(uint64_t call, uint64_t bytes) {
  Resumes resumes;
  {
    MutexLock lock(mu_);
    const auto it = calls_.find(call);
    if (it == calls_.end() || it->second.bytes <= bytes) return;
    const uint64_t beyond = it->second.bytes - bytes;
    it->second.bytes = bytes;
    bytes_ -= beyond;
    share_->Subtract(beyond);
    resumes = WhoMayGoOn();
  }
  for (const auto& resume : resumes) resume();
}

uint64_t RequestBudget::Hold(uint64_t bytes) {
  MutexLock lock(mu_);
  calls_[++last_].bytes = bytes;
  bytes_ += bytes;
  share_->Add(bytes);
  return last_;
}

void RequestBudget::Arrived(uint64_t call) {
  Resumes resumes;
  {
    MutexLock lock(mu_);
    arriving_.erase(call);
    resumes = WhoMayGoOn();
  }
  for (const auto& resume : resumes) resume();
}

void RequestBudget::End(uint64_t call) {
  Resumes resumes;
  Call forgotten;
  {
    MutexLock lock(mu_);
    const auto it = calls_.find(call);
    bytes_ -= it->second.bytes;
    share_->Subtract(it->second.bytes);
    forgotten = std::move(it->second);
    calls_.erase(it);
    arriving_.erase(call);
    waiting_.erase(call);
    resumes = WhoMayGoOn();
  }
  for (const auto& resume : resumes) resume();
}

}  // namespace paracord
