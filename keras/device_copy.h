// Copies between the host's memory and the device's, in numbered slots of device memory that grow
// as needed. If the device uses the host's memory, nothing is copied. Owned by the program and
// destroyed before the Ops; used by one thread.
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
  // change as soon as this returns.
  absl::StatusOr<const float*> Upload(size_t slot, std::span<const float> host);
  // Returns where the numbers of `host` will be once Send is called; Send copies them beside the
  // computation (Ops::UploadBeside), so `host` must not change until Ops::Finish. A slot may be
  // expected and sent once between two Finishes.
  absl::StatusOr<const float*> Expect(size_t slot, std::span<const float> host);
  void Send(size_t slot);
  // Returns device memory for numbers that are wanted in `host`; Download starts the copy of a slot
  // there. The numbers are in `host` after Ops::Finish. Those of a download that is `awaited` may
  // be there earlier: Ops::AwaitDownload returns the numbers of such slots, one a call, each as
  // soon as its copy has ended.
  absl::StatusOr<float*> Reserve(size_t slot, std::span<float> host);
  void Download(size_t slot, bool awaited);
  // The bytes of all slots on the device; Release frees them.
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

// The copies of a program, by what they are of.
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

// Returns device memory as the host sees it: in place, or copied to `copy`. Waits for the device.
absl::StatusOr<std::span<const float>> ReadBack(Ops& ops, int64_t n, const float* device,
                                                std::vector<float>& copy);

}  // namespace paracord
