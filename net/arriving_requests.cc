#include "net/arriving_requests.h"

#include <algorithm>
#include <utility>

namespace paracord {

ArrivingRequests::~ArrivingRequests() {
  if (call_ != 0) requests_->End(call_);
}

void ArrivingRequests::Passed(const Http2Frame& frame, uint64_t bytes, bool ends) {
  const bool sends = frame.kind == Http2Frame::kHeaders || frame.kind == Http2Frame::kData;
  if (sends) {
    // gRPC keeps no data of a request after its reply.
    if (frame.kind == Http2Frame::kHeaders && open_.emplace(frame.stream, call_bytes_).second) {
      fresh_ += call_bytes_;
      ++begun_;
    }
    const auto request = open_.find(frame.stream);
    if (request == open_.end()) return;
    request->second += bytes;
    fresh_ += bytes;
  }
  const bool last =
      sends ? (frame.flags & Http2Frame::kEndStream) != 0 : frame.kind == Http2Frame::kResetStream;
  if (!last || !ends) return;
  if (!sends) ++resets_;
  Close(frame.stream);
}

void ArrivingRequests::Answered(const Http2Frame& frame, bool ends) {
  const bool answers = frame.kind == Http2Frame::kHeaders || frame.kind == Http2Frame::kData;
  const bool last = answers ? (frame.flags & Http2Frame::kEndStream) != 0
                            : frame.kind == Http2Frame::kResetStream;
  if (last && ends) Close(frame.stream);
}

void ArrivingRequests::Close(uint32_t stream) {
  const auto request = open_.find(stream);
  if (request == open_.end()) return;
  const bool oldest = request == open_.begin();
  const uint64_t bytes = request->second;
  open_.erase(request);
  const uint64_t uncounted = std::min(bytes, fresh_);
  fresh_ -= uncounted;
  counted_ -= bytes - uncounted;
  if (call_ == 0) return;
  if (oldest) {  // the next oldest request begins a new call of the request budget
    fresh_ += std::exchange(counted_, 0);
    requests_->End(std::exchange(call_, 0));
  } else if (bytes > uncounted) {
    requests_->Give(call_, bytes - uncounted);
  }
}

bool ArrivingRequests::Count() {
  if (call_ == 0 && fresh_ == 0) return true;
  if (call_ == 0) call_ = requests_->Begin(drop_, patience_ms_);
  counted_ += fresh_;
  return requests_->Take(call_, std::exchange(fresh_, 0), resume_);
}

}  // namespace paracord
