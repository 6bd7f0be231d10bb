// The residual of each partition: the part of gradients that a lossy encoding has dropped, and that
// the next push carries (error feedback, exchange/compression.h). Encoding leaves a pending
// residual, which replaces the residual once a ps has applied the push, so that nothing is pushed
// twice. Has no locks: gradients with residuals are not encoded while a push is under way.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace paracord {

class Residuals {
 public:
  explicit Residuals(size_t partitions) : of_(partitions) {}

  // Makes room for a gradient of `elements` elements. Elements that the residual lacks become zero.
  void Resize(size_t partition, uint64_t elements);
  // Sets elements of pending(), from `first` on, to `gradient` plus the residual. Several threads
  // may call Add at once for ranges that do not overlap.
  void Add(size_t partition, uint64_t first, std::span<const float> gradient);
  // Returns gradient plus residual, which the encoder replaces by what the encoding has dropped.
  std::span<float> pending(size_t partition) { return of_[partition].pending; }
  // A ps has applied the push: the pending residual becomes the residual.
  void Applied(size_t partition) { of_[partition].residual.swap(of_[partition].pending); }
  // To be called if it is unknown whether a ps has applied the push: the residual becomes zero.
  void Forget(size_t partition) { of_[partition].residual.clear(); }

 private:
  struct OfPartition {
    std::vector<float> residual;  // empty: all zeros
    std::vector<float> pending;
  };
  std::vector<OfPartition> of_;
};

}  // namespace paracord
