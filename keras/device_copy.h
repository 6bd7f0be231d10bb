// What a run needs of the host's memory on the device, and the other way round: slots of device
// memory that grow as needed. Where the device's memory is the host's nothing is copied. Owned by
// the program, goes before the Ops; used by one thread.
#pragma once

#include <span>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "tensor/ops.h"

namespace paracord {

class DeviceCopy {
 public:
  explicit DeviceCopy(Ops& ops) : ops_(ops) {}

  // The numbers as the device sees them, until the slot's next use. `host` may change at once.
  absl::StatusOr<const float*> Upload(size_t slot, std::span<const float> host);
  // Where they will be once Send was called, beside what is computed: `host` stays as it is until
  // Ops::Finish. Once a Finish; a slot that was sent is not sent again.
  absl::StatusOr<const float*> Expect(size_t slot, std::span<const float> host);
  void Send(size_t slot);
  // Where the device is to write what is wanted in `host`: Download then brings it there. It is
  // there after Ops::Finish, or when Ops::AwaitDownload says the slot's number.
  absl::StatusOr<float*> Reserve(size_t slot, std::span<float> host);
  void Download(size_t slot, bool awaited);
  // Of the slots together; giving them back.
  int64_t bytes() const;
  void Release() { slots_.clear(); }

 private:
  struct Slot {
    size_t size = 0;
    DeviceArray data;
    std::span<float> host;
    std::span<const float> expected;
  };
  void Pin(const float* host);
  absl::StatusOr<Slot*> Grow(size_t slot, size_t floats);

  Ops& ops_;
  std::vector<Slot> slots_;
};

// What lies on the device as the host sees it: in place, or in `copy`. Waits for it.
absl::StatusOr<std::span<const float>> ReadBack(Ops& ops, int64_t n, const float* device,
                                                std::vector<float>& copy);

}  // namespace paracord
