// Copies arrays between the host's memory and the device's. A slot is a numbered buffer of device
// memory that grows as needed. Nothing is copied if the device uses the host's memory. Owned by the
// program and destroyed before the Ops; used by one thread.
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

  // Copies `host` to the device and returns the copy, valid until the slot's next use. `host` may
  // change after Upload returns.
  absl::StatusOr<const float*> Upload(size_t slot, std::span<const float> host);
  // Returns the device address for `host`; Send later starts the copy beside the computation
  // (Ops::UploadBeside), hence `host` must not change until Ops::Finish. A slot may be expected and
  // sent once between two Finishes.
  absl::StatusOr<const float*> Expect(size_t slot, std::span<const float> host);
  void Send(size_t slot);
  // Returns a slot's device memory, for results that Download copies to `host`. The results are in
  // `host` after Ops::Finish. An `awaited` download may end earlier: each call of
  // Ops::AwaitDownload returns the number of one slot whose download has ended, in the order of
  // their ends.
  absl::StatusOr<float*> Reserve(size_t slot, std::span<float> host);
  void Download(size_t slot, bool awaited);
  // Returns a slot's device memory, for `floats` results that stay on the device.
  absl::StatusOr<float*> Keep(size_t slot, size_t floats);
  // The bytes of all slots on the device; Release frees the slots.
  int64_t bytes() const;
  void Release() { slots_.clear(); }

 private:
  struct Slot {
    size_t size = 0;
    DeviceArray data;
    std::span<float> host;
    std::span<const float> expected;
  };
  void PageLock(const float* host);
  absl::StatusOr<Slot*> Grow(size_t slot, size_t floats);

  Ops& ops_;
  std::vector<Slot> slots_;
};

// The copies of a program, grouped by content.
struct ProgramCopies {
  explicit ProgramCopies(Ops& ops)
      : parameters(ops), gradients(ops), inputs(ops), targets(ops), weights(ops) {}

  // The bytes of the batch on the device.
  int64_t batch_bytes() const { return inputs.bytes() + targets.bytes() + weights.bytes(); }
  void Release() {
    for (DeviceCopy* copy : {&parameters, &gradients, &inputs, &targets, &weights}) copy->Release();
  }

  DeviceCopy parameters, gradients, inputs, targets, weights;
};

// Returns `n` floats of device memory, readable by the host: in place if the device uses the host's
// memory, else copied to `copy`. Waits for the device.
absl::StatusOr<std::span<const float>> ReadBack(Ops& ops, int64_t n, const float* device,
                                                std::vector<float>& copy);

}  // namespace paracord
