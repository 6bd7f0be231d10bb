// Counts in the request budget the bytes of gRPC requests that are still arriving: gRPC receives a
// whole message, of any size, before it shows us a byte. HTTP/2 cannot pause a single request of a
// connection, hence the request budget sees each connection as a call, as old as the oldest request
// arriving there. The service counts a request once it is complete. Used by the relay's thread
// alone.
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
  // gRPC's own memory for a call, without messages; measured with 40,000 and 119,000 calls.
  static constexpr uint64_t kCallBytes = 16 << 10;
  // Above gRPC's limit for a connection, because gRPC may not have told the client its limit yet.
  static constexpr size_t kRequestsMax = 256;

  // `resume` and `drop` may run on any thread, and after this has been destroyed.
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

  // Takes note of bytes of a frame of the client. `ends`: they are the frame's last.
  void Passed(const Http2Frame& frame, uint64_t bytes, bool ends);
  // Takes note of a frame of the server, which may answer a request before all of it has come.
  // `ends`: the frame's last bytes have come.
  void Answered(const Http2Frame& frame, bool ends);
  // Counts what has passed. Returns false if no more may be read until `resume` runs.
  bool Count();
  // Whether the client has more requests under way than gRPC serves.
  bool TooMany() const { return open_.size() > kRequestsMax; }
  // How many requests the client has reset. gRPC works for a while on each of them.
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
  std::map<uint32_t, uint64_t> open_;  // the bytes of each request that is not complete, by stream
  uint64_t call_ = 0;     // its number in the request budget, valid while `open_` is not empty
  uint64_t counted_ = 0;  // bytes of this connection in the request budget
  uint64_t fresh_ = 0;    // bytes of `open_` not yet counted in the request budget
  uint64_t resets_ = 0;
  uint64_t begun_ = 0;
};

}  // namespace paracord
