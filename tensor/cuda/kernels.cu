// The kernels: the two forms (launch.h) of every body.
#include "tensor/cuda/bodies.h"

namespace paracord::cuda {
namespace {

template <class Body>
__global__ void __launch_bounds__(kThreads) Map(const MapArgs<Body> args) {
  const int64_t step = static_cast<int64_t>(gridDim.x) * kThreads;
  args.Own(static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x, step);
}

template <class Body>
__global__ void __launch_bounds__(kThreads) Reduce(const ReduceArgs<Body> args) {
  using Value = typename Body::Value;
  // Raw bytes, because CUDA allows no constructors in shared memory.
  __shared__ alignas(16) unsigned char bytes[kThreads * sizeof(Value)];
  Value* const values = reinterpret_cast<Value*>(bytes);
  const int thread = static_cast<int>(threadIdx.x), part = static_cast<int>(blockIdx.y);
  const int output = args.OutputOf(thread), lane = args.LaneOf(thread);
  const int64_t i = static_cast<int64_t>(blockIdx.x) * args.width() + output;
  const bool inside = i < args.outputs;
  const int slot = args.SlotOf(output, lane);
  values[slot] = inside ? args.Own(i, lane, part) : Value();
  __syncthreads();
  for (int half = args.lanes() / 2; half > 0; half /= 2) {
    if (inside && lane < half) {
      args.body.Merge(values[slot], values[args.SlotOf(output, lane + half)]);
    }
    __syncthreads();
  }
  if (!inside) return;
  const Value& value = values[args.SlotOf(output, 0)];
  if (lane == 0) args.Write(i, part, value);
  args.MapOwn(i, lane, value);
}

}  // namespace

template <class Body>
const void* MapKernel() {
  return reinterpret_cast<const void*>(&Map<Body>);
}
template <class Body>
const void* ReduceKernel() {
  return reinterpret_cast<const void*>(&Reduce<Body>);
}

#define PARACORD_MAP(Body) template const void* MapKernel<Body>();
#define PARACORD_REDUCTION(Body)             \
  template const void* ReduceKernel<Body>(); \
  template const void* ReduceKernel<JoinParts<Body>>();
PARACORD_CUDA_MAPS(PARACORD_MAP)
PARACORD_CUDA_REDUCTIONS(PARACORD_REDUCTION)

}  // namespace paracord::cuda
