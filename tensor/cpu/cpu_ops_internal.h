// Declarations for the files of the CPU implementation only.
#pragma once

#include <array>
#include <functional>
#include <memory>

#include "absl/status/status.h"
#include "dnnl.hpp"
#include "tensor/ops.h"

namespace paracord::cpu {

// oneDNN's engine and stream, and the first error of a primitive of oneDNN.
struct Device {
  dnnl::engine engine{dnnl::engine::kind::cpu, 0};
  dnnl::stream stream{engine};
  absl::Status error;
  // Scratch memory of the product or convolution that runs; only one runs at a time.
  std::array<DeviceArray, 3> scratch;
  dnnl::memory scratchpad;  // oneDNN's own scratch memory for that product or convolution

  // Runs `work`, unless `error` is set. An exception of oneDNN becomes `error`.
  template <class Work>
  void Guard(const char* what, Work&& work) {
    if (!error.ok()) return;
    try {
      work();
    } catch (const dnnl::error& e) {
      error = absl::InternalError(std::string(what) + ": oneDNN: " + e.what());
    }
  }
};

// True if the processor has AMX, which multiplies bfloat16 faster than float32.
bool HasBfloat16();
// The floats of Device::scratch that a product needs for copies of its operands.
std::array<int64_t, 3> ScratchFloats(const MatmulShape& shape, bool bfloat16);
// With `bfloat16` the product rounds its operands to bfloat16; UNIMPLEMENTED if that would not be
// faster than float32.
absl::StatusOr<std::unique_ptr<Matmul>> MakeMatmul(Device& device, int threads,
                                                   const MatmulShape& shape, bool bfloat16);
std::array<int64_t, 3> ScratchFloats(const ConvShape& shape);  // for a convolution in bfloat16
// True if MakeConv2D can compute the shape in bfloat16, faster than in float32.
bool ComputesBfloat16(const Device& device, const ConvShape& shape);
absl::StatusOr<std::unique_ptr<Conv2D>> MakeConv2D(Device& device, int threads,
                                                   const ConvShape& shape, bool bfloat16);
// The floats of Device::scratch that Winograd's algorithm needs; all 0: the shape does not suit.
std::array<int64_t, 3> WinogradFloats(int threads, const ConvShape& shape);
std::unique_ptr<Conv2D> MakeWinograd(Device& device, int threads, const ConvShape& shape);
// For max pooling `pixels` has a float for each output, to remember where its maximum was.
std::unique_ptr<Pool2D> MakePool2D(int threads, const PoolShape& shape, DeviceArray pixels);

// The functions below are plain loops in the calling thread (loops.cc, loss.cc and others).
void Activate(Activation activation, int64_t rows, int64_t columns, const float* x, float* y);
void ActivateBackward(Activation activation, int64_t rows, int64_t columns, const float* x,
                      const float* y, const float* dy, float* dx);
void Affine(int64_t n, float scale, float offset, const float* x, float* y);
// y = exp(scale x - top)
void ExpOfDifference(int64_t n, float scale, const float* x, float top, float* y);
void Add(int64_t n, const float* x, float* y);
// Sums each of the first `count` columns over all rows.
void SumRows(int64_t rows, int64_t columns, int64_t count, const float* x, float* sums);
void Dropout(uint64_t key, float rate, int64_t first, int64_t n, const float* x, float* y);
void Convert(int64_t n, ConstTensor x, Tensor y);
void Fill(int64_t n, float value, Tensor y);
void Copy(const Walk& walk, bool add, ConstTensor a, Tensor y);
void Binary(BinaryKind kind, const Walk& walk, ConstTensor a, ConstTensor b, Tensor y);
void FlatBinary(BinaryKind kind, int64_t n, const float* a, const float* b, float* y);
// The functions from here to NormRowsBackward compute `count` rows from row `first` on.
void RowMoments(const NormShape& shape, const float* x, float* mean, float* variance, int64_t first,
                int64_t count);
void NormalizeRows(const NormShape& shape, const float* x, const float* mean, const float* variance,
                   const float* scale, const float* offset, float* y, int64_t first, int64_t count);
void NormalizeColumns(const NormShape& shape, ConstTensor x, const float* mean,
                      const float* variance, const float* scale, const float* offset, Tensor y,
                      int64_t first, int64_t count);
void NormRowsBackward(const NormShape& shape, bool constant, const float* x, const float* mean,
                      const float* variance, const float* scale, const float* dy, float* dx,
                      int64_t first, int64_t count);
// The functions from here to NormColumnsBackward compute `count` columns from column `first` on.
void ColumnMoments(const NormShape& shape, ConstTensor x, float* mean, float* variance,
                   int64_t first, int64_t count);
void NormRowsBackwardSums(const NormShape& shape, const float* x, const float* mean,
                          const float* variance, const float* dy, float* dscale, float* doffset,
                          int64_t first, int64_t count);
void NormColumnsBackward(const NormShape& shape, bool constant, ConstTensor x, const float* mean,
                         const float* variance, const float* scale, const float* offset,
                         ConstTensor dy, Tensor dx, float* dscale, float* doffset, int64_t first,
                         int64_t count);
void Gather(int64_t count, int64_t width, int64_t table_rows, const float* ids, const float* table,
            float* y);
void ScatterAdd(int64_t count, int64_t width, int64_t table_rows, const float* ids, const float* dy,
                float* dtable);
// The functions from here to MaskedSoftmaxBackward compute `count` examples from example `first`
// on.
void CellForward(const CellShape& shape, const CellStep& step, const float* r, int64_t first,
                 int64_t count);
void CellBackward(const CellShape& shape, const CellStep& step, float* dh, float* dc, float* dz,
                  float* dr, int64_t first, int64_t count);
void MaskedSoftmax(const SoftmaxShape& shape, const float* mask, const float* x, float* y,
                   int64_t first, int64_t count);
void MaskedSoftmaxBackward(const SoftmaxShape& shape, const float* mask, const float* y,
                           const float* dy, float* dx, int64_t first, int64_t count);
void AddNoise(uint64_t key, float stddev, int64_t first, int64_t n, const float* x, float* y);
void Uniform(uint64_t key, float low, float high, int64_t first, int64_t n, float* y);
void RandomMaps(uint64_t key, const RandomMap& map, int64_t first, int64_t batch, float* maps);
// Computes `count` rows of pixels from row `first` on, counted over all output images.
void Resample(const ResampleShape& shape, const float* maps, const float* x, float* y,
              int64_t first, int64_t count);
// Computes `count` examples from example `first` on.
void ResizeBackward(const ResampleShape& shape, const float* dy, float* dx, int64_t first,
                    int64_t count);
double Penalty(int64_t n, float l1, float l2, const float* x, float scale, float* dx);
double Loss(const LossShape& shape, const float* outputs, const float* targets,
            const float* weights, float scale, float* d_outputs);

}  // namespace paracord::cpu
