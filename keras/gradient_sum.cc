#include "keras/gradient_sum.h"

namespace paracord {
namespace {

// The bucket size worth an all-reduce: few large buckets use the GPUs' links best, many small ones
// begin early.
constexpr size_t kBucketBytes = 4 << 20;

}  // namespace

void GradientSum::Begin() {
  gradients_.clear();
  done_.clear();
  waiting_.clear();
  waiting_bytes_ = 0;
  ended_ = !use_.adds;
}

void GradientSum::Final(size_t variable) {
  const Gradient& gradient = gradients_[variable];
  if (use_.factor != 1) ops_.Affine(gradient.n, use_.factor, 0, gradient.data, gradient.data);
  if (use_.adds && gradient.added) {
    Join(variable);
  } else {
    download_(variable);
  }
}

void GradientSum::Join(size_t variable) {
  done_.push_back(variable);
  waiting_.push_back(variable);
  waiting_bytes_ += static_cast<size_t>(gradients_[variable].n) * sizeof(float);
  if (!use_.held && waiting_bytes_ >= kBucketBytes) Flush();
}

void GradientSum::End() {
  if (ended_ || gradients_.empty()) return;
  while (done_.size() < order_.size()) {
    const size_t variable = order_[done_.size()];
    ops_.Fill(gradients_[variable].n, 0, gradients_[variable].data);
    Join(variable);
  }
  Flush();
  ended_ = true;
}

void GradientSum::Flush() {
  if (waiting_.empty()) return;
  std::vector<DeviceFloats> arrays;
  for (const size_t variable : waiting_) arrays.push_back(gradients_[variable]);
  if (use_.held) meet_();  // no replica allocates between here and its all-reduce
  group_.AllReduce(arrays);
  if (use_.held) meet_();  // all are issued, and complete whatever a replica does next
  for (const size_t variable : waiting_) {
    if (receives_) download_(variable);
  }
  waiting_.clear();
  waiting_bytes_ = 0;
}

}  // namespace paracord
