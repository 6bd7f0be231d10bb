// Counts in the intake what a client of gRPC has sent of requests that are not complete yet: gRPC
// takes a message whole before it shows a byte of it, whatever its size. HTTP/2 cannot be told to
// hold back one request of a connection, so that the connection is one call of the intake: as old
// as the oldest request that is arriving on it. Complete requests are counted by who serves them.
// Used by the relay's thread alone.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>

#include "net/header_blocks.h"
#include "net/intake.h"

namespace paracord {

class ArrivingRequests {
 public:
  // What gRPC has of a call besides its messages, measured with 40,000 and 119,000 calls.
  static constexpr uint64_t kCallBytes = 16 << 10;
  // More than gRPC lets a connection have at once, of which it may not have told the client yet.
  static constexpr size_t kRequestsMax = 256;

  // `resume` and `drop` may run on any thread, and after this has been destroyed.
  ArrivingRequests(std::shared_ptr<Intake> intake, int64_t patience_ms,
                   std::function<void()> resume, std::function<void()> drop,
                   uint64_t call_bytes = kCallBytes)
      : intake_(std::move(intake)),
        patience_ms_(patience_ms),
        resume_(std::move(resume)),
        drop_(std::move(drop)),
        call_bytes_(call_bytes) {}
  ~ArrivingRequests();
  ArrivingRequests(const ArrivingRequests&) = delete;
  ArrivingRequests& operator=(const ArrivingRequests&) = delete;

  // Takes note of bytes of a frame of the client.
  void Passed(const Http2Frame& frame, uint64_t bytes, bool ends);
  // Takes note of bytes of a frame of the server, which may answer a request before it is complete.
  void Answered(const Http2Frame& frame, bool ends);
  // Counts what has passed. Returns false if no more may be read until `resume` runs.
  bool Count();
  // Whether the client has more requests under way than gRPC serves.
  bool TooMany() const { return open_.size() > kRequestsMax; }
  // The requests that the client has reset, each of which gRPC works on for a while all the same.
  uint64_t resets() const { return resets_; }
  // The requests that the client has begun.
  uint64_t begun() const { return begun_; }

 private:
  void Close(uint32_t stream);

  const std::shared_ptr<Intake> intake_;
  const int64_t patience_ms_;
  const std::function<void()> resume_;
  const std::function<void()> drop_;
  const uint64_t call_bytes_;
  std::map<uint32_t, uint64_t> open_;  // the bytes of each request that is not complete, by stream
  uint64_t call_ = 0;                  // of the intake, while `open_` is not empty
  uint64_t counted_ = 0;               // bytes of the call
  uint64_t fresh_ = 0;                 // bytes of `open_` that are not counted yet
  uint64_t resets_ = 0;
  uint64_t begun_ = 0;
};

}  // namespace paracord
