#include "worker/residuals.h"

#include "exchange/compression.h"

namespace paracord {

void Residuals::Resize(size_t partition, uint64_t elements) {
  of_[partition].residual.resize(elements);
  of_[partition].pending.resize(elements);
}

void Residuals::Add(size_t partition, uint64_t first, std::span<const float> gradient) {
  OfPartition& own = of_[partition];
  AddResidual(gradient, std::span(own.residual).subspan(first, gradient.size()),
              std::span(own.pending).subspan(first, gradient.size()));
}

}  // namespace paracord
