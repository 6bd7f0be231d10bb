// Copies arrays between the host's memory and the device's. A slot is a numbered buffer of device
// memory that grows as needed. If the device uses the host's memory, nothing is copied, and Upload,
// Expect and Reserve return the address of `host`. Owned by the program and destroyed before the
// Ops; used by one thread.
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

  // Copies `host` to the slot and returns the copy, valid until the slot's next use. Once copied,
  // `host` may change.
  absl::StatusOr<const float*> Upload(size_t slot, std::span<const float> host);
  // Expect returns the address that `host` will have on the device, and Send starts the copy, which
  // overlaps with computation (Ops::UploadBeside); `host` must not change until the next
  // Ops::Finish. Between two calls of Ops::Finish, Expect and Send may be called once for a slot.
  absl::StatusOr<const float*> Expect(size_t slot, std::span<const float> host);
  void Send(size_t slot);
  // Reserve returns the slot's memory, to which operations write results; Download then starts
  // their copy to `host`, which has the results after the next Ops::Finish that returns OK. An
  // `awaited` download can be waited for earlier: Ops::AwaitDownload waits for the downloads one by
  // one, in the order of the calls of Download, and returns the slot's number.
  absl::StatusOr<float*> Reserve(size_t slot, std::span<float> host);
  void Download(size_t slot, bool awaited);
  // Returns the slot's memory, for `floats` results that stay on the device.
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

// The copies of a program: a DeviceCopy for each kind of array.
struct ProgramCopies {
  explicit ProgramCopies(Ops& ops)
      : parameters(ops), gradients(ops), inputs(ops), targets(ops), weights(ops) {}

  // The bytes of the batch's inputs, targets and weights on the device.
  int64_t batch_bytes() const { return inputs.bytes() + targets.bytes() + weights.bytes(); }
  void Release() {
    for (DeviceCopy* copy : {&parameters, &gradients, &inputs, &targets, &weights}) copy->Release();
  }

  DeviceCopy parameters, gradients, inputs, targets, weights;
};

// Returns the `n` floats at `device` for the host to read. If the device uses the host's memory,
// they are read in place; otherwise waits for the device and copies them to `copy`.
absl::StatusOr<std::span<const float>> ReadBack(Ops& ops, int64_t n, const float* device,
                                                std::vector<float>& copy);

}  // namespace paracord
