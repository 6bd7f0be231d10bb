// The bodies as compiled by the C++ compiler, in the two forms of tensor/cuda/kernels.cu.
#include "tests/cuda_host/host_kernels.h"

#include <vector>

#include "tensor/cuda/bodies.h"

namespace paracord::cuda {
namespace {

template <class Body>
void HostMap(const void* bytes, const HostBlock& block) {
  const auto& args = *static_cast<const MapArgs<Body>*>(bytes);
  const int64_t step = static_cast<int64_t>(block.blocks_x) * kThreads;
  for (int t = 0; t < kThreads; ++t) {
    const int thread = block.backwards ? kThreads - 1 - t : t;
    args.Own(static_cast<int64_t>(block.x) * kThreads + thread, step);
  }
}

template <class Body>
void HostReduce(const void* bytes, const HostBlock& block) {
  using Value = typename Body::Value;
  const auto& args = *static_cast<const ReduceArgs<Body>*>(bytes);
  std::vector<Value> values(kThreads);
  const int part = static_cast<int>(block.y);
  // Does what a GPU's threads do between two barriers.
  const auto each = [&](auto&& work) {
    for (int t = 0; t < kThreads; ++t) {
      const int thread = block.backwards ? kThreads - 1 - t : t;
      const int output = args.OutputOf(thread), lane = args.LaneOf(thread);
      const int64_t i = static_cast<int64_t>(block.x) * args.width() + output;
      if (i < args.outputs) work(i, output, lane);
    }
  };
  const auto value = [&](int output, int lane) -> Value& {
    return values[static_cast<size_t>(args.SlotOf(output, lane))];
  };
  each([&](int64_t i, int output, int lane) { value(output, lane) = args.Own(i, lane, part); });
  for (int half = args.lanes() / 2; half > 0; half /= 2) {
    each([&](int64_t, int output, int lane) {
      if (lane < half) args.body.Merge(value(output, lane), value(output, lane + half));
    });
  }
  each([&](int64_t i, int output, int lane) {
    if (lane == 0) args.Write(i, part, value(output, 0));
    args.MapOwn(i, lane, value(output, 0));
  });
}

}  // namespace

template <class Body>
const void* MapKernel() {
  const HostKernel kernel = &HostMap<Body>;
  return reinterpret_cast<const void*>(kernel);
}
template <class Body>
const void* ReduceKernel() {
  const HostKernel kernel = &HostReduce<Body>;
  return reinterpret_cast<const void*>(kernel);
}

#define PARACORD_MAP(Body) template const void* MapKernel<Body>();
#define PARACORD_REDUCTION(Body)             \
  template const void* ReduceKernel<Body>(); \
  template const void* ReduceKernel<JoinParts<Body>>();
PARACORD_CUDA_MAPS(PARACORD_MAP)
PARACORD_CUDA_REDUCTIONS(PARACORD_REDUCTION)

}  // namespace paracord::cuda
