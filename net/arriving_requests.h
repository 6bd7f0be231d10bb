// Counts in the request budget (net/request_budget.h) the bytes of gRPC requests that are still
// arriving: gRPC receives a whole message, of any size, before it shows us a byte. The relay
// (net/frame_relay.h) can pause a connection, but not a single request. Hence the request budget
// sees one call for each connection; when the oldest request arriving on the connection ends, a new
// call replaces it. Complete requests are counted by gRPC's service instead. There is one object
// for each connection, used by the relay's thread alone.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>

#include "net/header_blocks.h"
#include "net/request_budget.h"

namespace paracord {

class ArrivingRequests {
 public:
  // gRPC's own memory for an open call, without messages; measured with 40,000 and 119,000 calls.
  static constexpr uint64_t kCallBytes = 16 << 10;
  // The most requests that may be arriving on a connection at once. This is above gRPC's own limit
  // for a connection, because gRPC may not have told the client its limit yet.
  static constexpr size_t kRequestsMax = 256;

  // `resume` runs when the connection may be read again after Count has returned false. `drop` runs
  // when the request budget wants the connection ended. Both may run on any thread, also after this
  // object has been destroyed.
  ArrivingRequests(std::shared_ptr<RequestBudget> request_budget, int64_t patience_ms,
                   std::function<void()> resume, std::function<void()> drop,
                   uint64_t call_bytes = kCallBytes)
      : requests_(std::move(request_budget)),
        patience_ms_(patience_ms),
        resume_(std::move(resume)),
        drop_(std::move(drop)),
        call_bytes_(call_bytes) {}
  ~ArrivingRequests();
  ArrivingRequests(const ArrivingRequests&) = delete;
  ArrivingRequests& operator=(const ArrivingRequests&) = delete;

  // Reports that `bytes` of a frame from the client have arrived. `ends`: they are the frame's
  // last.
  void Passed(const Http2Frame& frame, uint64_t bytes, bool ends);
  // Reports that bytes of a frame from the server have come, because the server may end a request
  // before the client has sent all of it. `ends` is true if they are the frame's last.
  void Answered(const Http2Frame& frame, bool ends);
  // Counts in the request budget the bytes reported since the last call. Returns false if nothing
  // more may be read from the client until `resume` runs.
  bool Count();
  // True if more than kRequestsMax requests are arriving at once.
  bool TooMany() const { return open_.size() > kRequestsMax; }
  // The number of RST_STREAM frames from the client. gRPC works for a while on each reset request.
  uint64_t resets() const { return resets_; }
  // How many requests the client has begun.
  uint64_t begun() const { return begun_; }

 private:
  void Close(uint32_t stream);

  const std::shared_ptr<RequestBudget> requests_;
  const int64_t patience_ms_;
  const std::function<void()> resume_;
  const std::function<void()> drop_;
  const uint64_t call_bytes_;
  // The bytes of each arriving request, keyed by the request's HTTP/2 stream.
  std::map<uint32_t, uint64_t> open_;
  uint64_t call_ = 0;     // the call's number in the request budget; 0: there is no call
  uint64_t counted_ = 0;  // bytes of this connection in the request budget
  uint64_t fresh_ = 0;    // bytes of `open_` not yet counted in the request budget
  uint64_t resets_ = 0;
  uint64_t begun_ = 0;
};

}  // namespace paracord
