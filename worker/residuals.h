// The residual of each partition: the part of gradients that a lossy encoding dropped, and the next
// push carries (error feedback, exchange/compression.h). A push has a pending residual, which
// replaces the residual once a ps has applied the push, so that nothing is pushed twice. No locks:
// gradients are encoded while no exchange of the gradients is under way.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace paracord {

class Residuals {
 public:
  explicit Residuals(size_t partitions) : of_(partitions) {}

  // Makes room for a gradient of `elements` elements. A residual that was forgotten is zero.
  void Resize(size_t partition, uint64_t elements);
  // Sets elements of pending(), from `first` on, to gradient plus residual. Several threads may do
  // so for ranges that do not overlap.
  void Add(size_t partition, uint64_t first, std::span<const float> gradient);
  // Returns the gradient plus the residual; the encoder leaves what it drops.
  std::span<float> pending(size_t partition) { return of_[partition].pending; }
  // A ps has applied the push.
  void Applied(size_t partition) { of_[partition].residual.swap(of_[partition].pending); }
  // Nobody knows whether a ps has applied the push.
  void Forget(size_t partition) { of_[partition].residual.clear(); }

 private:
  struct OfPartition {
    std::vector<float> residual;  // empty: zero
    std::vector<float> pending;
  };
  std::vector<OfPartition> of_;
};

}  // namespace paracord
