// The lists of all kernel bodies: the maps, and the reductions (launch.h). nvcc compiles each body
// to a kernel (kernels.cu), the C++ compiler to a function (tests/cuda_host). An unlisted body does
// not link.
#pragma once

#include "tensor/cuda/cell.h"
#include "tensor/cuda/elementwise.h"
#include "tensor/cuda/launch.h"
#include "tensor/cuda/loss.h"
#include "tensor/cuda/norm.h"
#include "tensor/cuda/resample.h"
#include "tensor/cuda/softmax.h"
#include "tensor/cuda/walk.h"
#include "tensor/cuda/window.h"

#define PARACORD_CUDA_MAPS(X) \
  X(ActivateBody)             \
  X(ActivateBackwardBody)     \
  X(AffineBody)               \
  X(AddBody)                  \
  X(FillBody)                 \
  X(ConvertBody)              \
  X(ToFloat16Body)            \
  X(ProductFactorsBody)       \
  X(BiasBody)                 \
  X(FromShortBody)            \
  X(DropoutBody)              \
  X(NoiseBody)                \
  X(PenaltyGradientBody)      \
  X(CopyWalkBody)             \
  X(TransposeBody)            \
  X(BinaryBody)               \
  X(FlatBinaryBody)           \
  X(GatherBody)               \
  X(ScatterKeyBody)           \
  X(MergeRunsBody)            \
  X(ScatterSumBody)           \
  X(NormalizeBody)            \
  X(NormColumnBackwardBody)   \
  X(SparsemaxBody)            \
  X(SparsemaxBackwardBody)    \
  X(CellForwardBody)          \
  X(CellBackwardBody)         \
  X(PoolBody)                 \
  X(PoolBackwardBody)         \
  X(ConvBody) X(ConvInputBody) X(UniformBody) X(RandomMapBody) X(ResampleBody) X(ResizeBackwardBody)

// Each reduction also has a kernel that joins the results of its parts (JoinParts in launch.h).
#define PARACORD_CUDA_REDUCTIONS(X) \
  X(LargestBody)                    \
  X(PenaltyBody)                    \
  X(SumBody)                        \
  X(SumRowsBody)                    \
  X(SumWalkBody)                    \
  X(MomentsBody)                    \
  X(NormColumnSumsBody)             \
  X(NormRowBackwardBody)            \
  X(SoftmaxBody)                    \
  X(SoftmaxBackwardBody)            \
  X(MaskedSoftmaxBody)              \
  X(MaskedSoftmaxBackwardBody)      \
  X(BinaryTargetsBody) X(ProbabilitySumBody) X(LogSumBody) X(LossBody) X(ConvKernelBody)
