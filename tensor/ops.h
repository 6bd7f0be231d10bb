// The tensor operations that layers and losses are written over, for one device. CpuOps
// (cpu/cpu_ops.h) is the definition of correct; CUDA implements the same declarations. Tensors are
// float32, row-major, images NHWC, and lie in the device's memory; those of type Tensor may be
// bfloat16. What has shapes to prepare for (matmul, convolution, pooling) is made once and run
// often. Operations may be asynchronous: Finish waits. Used by one thread at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace paracord {

// Memory of the device, freed with its owner, which must not outlive the Ops.
using DeviceArray = std::unique_ptr<float[], std::function<void(float*)>>;

// Numbers that an operation reads: float32, or bfloat16, of which every one becomes float32 before
// it computes. As both, where several products take the bfloat16 that Ops::Convert made of them.
struct ConstTensor {
  ConstTensor(const float* numbers = nullptr, const uint16_t* rounded = nullptr)  // NOLINT: as it
      : float32(numbers), bfloat16(rounded) {}
  operator const float*() const { return float32; }  // NOLINT: where nothing else is taken
  bool operator==(std::nullptr_t) const { return float32 == nullptr && bfloat16 == nullptr; }
  // From element n on.
  ConstTensor operator+(int64_t n) const {
    return {float32 == nullptr ? nullptr : float32 + n,
            bfloat16 == nullptr ? nullptr : bfloat16 + n};
  }
  const float* float32;      // or null
  const uint16_t* bfloat16;  // or null
};
// And that it writes, as the one or, rounded to the nearest and to even, the other. A gradient
// comes as its tensor does.
struct Tensor {
  Tensor(float* numbers = nullptr) : float32(numbers) {}  // NOLINT: as it
  explicit Tensor(uint16_t* rounded) : bfloat16(rounded) {}
  operator float*() const { return float32; }                   // NOLINT: as above
  operator ConstTensor() const { return {float32, bfloat16}; }  // NOLINT
  bool operator==(std::nullptr_t) const { return float32 == nullptr && bfloat16 == nullptr; }
  Tensor operator+(int64_t n) const {
    if (bfloat16 != nullptr) return Tensor(bfloat16 + n);
    return float32 == nullptr ? nullptr : float32 + n;
  }
  float* float32 = nullptr;      // or null
  uint16_t* bfloat16 = nullptr;  // or null
};

enum class ActivationKind {
  kLinear,
  kRelu,
  kLeakyRelu,  // alpha: slope below zero
  kElu,        // alpha: scale below zero
  kSelu,
  kSigmoid,
  kHardSigmoid,  // clip(alpha x + 0.5, 0, 1); alpha is 1/6 in Keras 3, 0.2 in Keras 2
  kTanh,
  kSoftplus,
  kSoftsign,
  kExponential,
  kSilu,
  kGelu,      // by the error function
  kGeluTanh,  // the approximation by tanh
  kSoftmax,   // along the last axis
  kLogSoftmax,
  kSparsemax,    // along the last axis
  kGlu,          // not an operation: a layer (keras/layers/activation.cc)
  kReluGeneral,  // x up to beta from gamma on, alpha (x - gamma) below
  kAffine,       // alpha x + beta
  kPower,        // alpha x ^ beta
  kClip,         // between alpha and beta
  kExpm1,
  kLog,
  kLog1p,
  kSin,
  kCos,
  kAbs,
  kSign,
  kCelu,      // alpha
  kHardSilu,  // x hard_sigmoid(x)
  kHardTanh,
  kHardShrink,  // alpha: zero within
  kSoftShrink,
  kTanhShrink,
  kLogSigmoid,
  kMish,
  kSquareplus,  // alpha: b of (x + sqrt(x^2 + b)) / 2
  kSparsePlus,
  kSparseSigmoid,
  kThreshold,  // x where it is above alpha, else beta
  kNotEqual,   // 1 where x is not alpha, else 0
  kFloor,
  kCeil,
  kRound,  // to even
  kTruncate,
  kErf,
  kTan,
  kArctan,
  kSinh,
  kCosh,
};

// What a plan of memory came to, in bytes.
struct MemoryPlan {
  int64_t needed = 0;           // at once
  int64_t work = 0;             // of it, for operations to work in
  int64_t code = 0;             // of it, for code that is loaded later
  int64_t free = 0, total = 0;  // of the device, before
};

// Of what a device did, in microseconds of CLOCK_MONOTONIC. `lane`: those of one do not overlap.
struct DeviceSpan {
  const char* name = "";
  int lane = 0;
  int64_t begin_us = 0, end_us = 0;
};

struct Activation {
  ActivationKind kind = ActivationKind::kLinear;
  float alpha = 0, beta = 0, gamma = 0;
};

// Indices over a few axes, and how far one step along each goes in the operands (in elements): a
// broadcast is a step of 0, a transpose another order, a slice an offset and a step. Steps of an
// output may be 0 where values are added.
struct Walk {
  std::vector<int64_t> dims, a, b, y;  // b: empty unless there are two operands
};

enum class BinaryKind {
  kAdd,
  kSubtract,
  kMultiply,
  kDivide,
  kMaximum,
  kMinimum,
  kGreaterEqual,  // 1 or 0
  kLess,
  kLessEqual,
  kGreater,
  kEqual,
  kNotEqual,
  kAnd,  // of what is not 0
  kOr,
  kModulo,  // of the sign of b
  kKeep,    // a where b is not 0, else 0: whatever a is
  kAddRelu,
};

// Mean and variance over the rows of each column, or over the columns of each row; scale and offset
// have an element a column either way.
struct NormShape {
  bool by_column = false;
  int64_t rows = 0, columns = 0;
  float epsilon = 0;
  bool centred = true;  // else, by rows: the mean is zero, the variance the mean of squares
  float relu = 0;       // by column: a ReLU after all of it, up to so much; 0: none
};

// c (m, n) = a (m, k) b (k, n) [+ bias (n)], then ReLU if asked. A transposed operand lies in
// memory as (k, m) or (n, k).
struct MatmulShape {
  int64_t m = 0, k = 0, n = 0;
  bool transpose_a = false, transpose_b = false;
  bool bias = false, relu = false;
  int64_t batch = 1;  // so many of each operand, one after the other, but for the bias
};

// What products and convolutions take of their operands. What they add up is float32; the result of
// a GPU's convolution in 16 bits is rounded to them.
enum class Operands {
  kFloat32,
  kTf32,      // 11 significant bits may do: for a GPU's tensor cores. The CPU takes all.
  kFloat16,   // 11 may do, within a range of 2^29: an operand is scaled as a whole. The same.
  kBfloat16,  // 8 may do.
};

class Matmul {
 public:
  virtual ~Matmul() = default;
  // Whether it rounds operands to bfloat16 that do not come so. Else they are float32, too.
  virtual bool takes_bfloat16() const = 0;
  virtual void Run(ConstTensor a, ConstTensor b, const float* bias, float* c) = 0;
};

// One axis of a window that slides over an image.
struct WindowAxis {
  int64_t in = 0, out = 0;
  int64_t size = 1, stride = 1, dilation = 1;
  int64_t pad_before = 0, pad_after = 0;
};

struct ConvShape {
  int64_t batch = 0, in_channels = 0, out_channels = 0, groups = 1;
  WindowAxis height = {}, width = {};
  bool bias = false, relu = false;
  bool x_bfloat16 = false, y_bfloat16 = false;  // and their gradients
  int64_t inputs() const { return batch * height.in * width.in * in_channels; }  // elements of x
  int64_t outputs() const { return batch * height.out * width.out * out_channels; }
};

// What is asked for of x (batch, h, w, in_channels), kernel (h, w, in_channels / groups,
// out_channels) and bias (out_channels), from dy, the gradient before the ReLU.
struct ConvGradients {
  ConstTensor dy = {};
  float* dkernel = nullptr;       // or null
  float* dbias = nullptr;         // with dkernel, where there is a bias
  ConstTensor x = {};             // for dkernel
  Tensor dx = {};                 // or null
  const float* kernel = nullptr;  // for dx
};

// y (batch, h', w', out_channels).
class Conv2D {
 public:
  virtual ~Conv2D() = default;
  virtual void Forward(ConstTensor x, const float* kernel, const float* bias, Tensor y) = 0;
  virtual void Backward(const ConvGradients& gradients) = 0;
};

struct PoolShape {
  bool max = true;  // else the average of what lies inside the image
  int64_t batch = 0, channels = 0;
  WindowAxis height, width;
};

class Pool2D {
 public:
  virtual ~Pool2D() = default;
  virtual void Forward(ConstTensor x, Tensor y) = 0;
  // Of the last Forward.
  virtual void Backward(ConstTensor dy, Tensor dx) = 0;
};

enum class LossKind {
  kSparseCategoricalCrossentropy,  // targets: one class index a row
  kCategoricalCrossentropy,        // targets: (rows, columns), as for the rest
  kBinaryCrossentropy,             // from here on the mean over the columns
  kMeanSquaredError,
  kMeanAbsoluteError,
  kMeanSquaredLogarithmicError,
  kMeanAbsolutePercentageError,
  kHuber,
  kLogCosh,
  kHinge,  // targets that are all 0 or 1 stand for -1 and 1
  kSquaredHinge,
  kPoisson,
  kBinaryFocalCrossentropy,
  kCategoricalHinge,  // from here on over the columns together
  kKlDivergence,
  kCosineSimilarity,              // negative
  kCategoricalFocalCrossentropy,  // of probabilities, with logits of their softmax
};

struct LossShape {
  LossKind kind = LossKind::kMeanSquaredError;
  bool from_logits = false;  // crossentropies: outputs come before the softmax or sigmoid
  int64_t rows = 0, columns = 0;
  float label_smoothing = 0;       // crossentropies with targets for each class
  float delta = 1;                 // Huber's
  float alpha = 0.25f, gamma = 2;  // of the focal ones
  bool balanced = false;           // of the binary one: alpha weighs the classes
  float log_offset = 0;            // within a binary crossentropy's logarithms: Keras 2's epsilon
};

// A step of a recurrent layer, in Keras' order of gates; each is `units` wide.
enum class CellKind {
  kSimple,        // h = activation(z)
  kLstm,          // gates i f c o; kept: the gates and activation(c)
  kGru,           // gates z r h, reset after the product; kept: the gates and the product's h
  kGruGates,      // reset before the product, first half: gates z and r, and h = r h0
  kGruCandidate,  // second half, of the same tensors: the product is of that h
};

struct CellShape {
  CellKind kind = CellKind::kSimple;
  int64_t batch = 0, units = 0;
  Activation activation, recurrent_activation;
};

// One step. Rows are the examples; a kind takes what it has use for.
struct CellStep {
  const float* mask = nullptr;               // (batch): 0 leaves the state as it is; or null
  const float *h0 = nullptr, *c0 = nullptr;  // (batch, units), the state before
  float* z = nullptr;                        // (batch, gates): from the input; gets += r
  float* kept = nullptr;                     // for the way back: LSTM 5, GRU 4 units a row
  float *h = nullptr, *c = nullptr;          // (batch, units), the state after
};

// What becomes of the scores that a mask hides, and so of a row of which it hides all.
enum class MaskedScore {
  kReplaced,  // by the lowest number: such a row is uniform, and has no gradient
  kZero,      // as kReplaced, and 0 after the softmax
  kLowered,   // 1e9 is taken off
};

struct SoftmaxShape {
  int64_t batch = 0, heads = 1, queries = 0, keys = 0;
  float scale = 1;      // of the scores
  bool causal = false;  // query i sees keys 0 to i
  MaskedScore masked = MaskedScore::kReplaced;
};

// How an image goes on beyond its edges.
enum class FillMode { kConstant, kReflect, kWrap, kNearest };

// One axis of an image that is resampled. A resizing stretches `size` pixels from `begin` on over
// the output; what of them lies outside of the image is the fill value.
struct ResampleAxis {
  int64_t in = 0, out = 0;
  int64_t begin = 0, size = 0;
};

// From images (batch, height.in, width.in, channels) to (batch, height.out, width.out, channels).
struct ResampleShape {
  int64_t batch = 0, channels = 0;
  ResampleAxis height, width;
  bool bilinear = true;                 // else the nearest pixel
  FillMode fill = FillMode::kConstant;  // of maps
  float fill_value = 0;
};

enum class MapKind {
  kFlip,       // along an axis whose number is at most 0.5
  kTranslate,  // by a share of the height and the width
  kRotate,     // by the rows' number, in degrees
  kZoom,       // about the centre: so many pixels of the input for one of the output
  kShift,      // by whole pixels: the number, rounded down
};

// A map for each example from the pixels of its output to places in its input. Two numbers are
// drawn, for rows and columns, uniform between low and high.
struct RandomMap {
  MapKind kind = MapKind::kFlip;
  int64_t height = 0, width = 0;  // of the input
  float low[2] = {0, 0}, high[2] = {1, 1};
  bool alike = false;     // columns by the draw for rows
  bool together = false;  // every example has the first one's
  bool inverse = false;   // back: from the input to the output
};

class Ops {
 public:
  virtual ~Ops() = default;

  // RESOURCE_EXHAUSTED when the device has no more. Contents are undefined.
  virtual absl::StatusOr<DeviceArray> Allocate(int64_t floats) = 0;
  // Whether Allocate from now on is also RESOURCE_EXHAUSTED where there was a plan and it has no
  // place for it (any more). Off at first.
  virtual void KeepToPlan(bool keep) = 0;
  // Bytes that Allocate gave and that have not gone.
  virtual int64_t allocated_bytes() const = 0;
  // A plan of memory, where it is not the host's: once, before anything is allocated. Until EndPlan
  // nothing is computed or copied, and memory is only counted: what is allocated must go before. A
  // run of all there is to do shows what is needed.
  virtual void BeginPlan() = 0;
  // Takes all of it from the device at once, for Allocate to give out. RESOURCE_EXHAUSTED, with
  // `plan` set: the device has not so much.
  virtual absl::Status EndPlan(MemoryPlan& plan) = 0;
  // To be called first by every thread, and again when another thread takes over.
  virtual void Enter() = 0;
  // Waits for everything that was asked for; the first error since the last Finish.
  virtual absl::Status Finish() = 0;

  // True: the device's memory is the host's, and nothing need be copied or planned.
  virtual bool host_memory() const = 0;
  // `host` may change when it returns. What was asked for before may still use what is there.
  virtual void Upload(int64_t n, const float* host, float* device) = 0;
  // The same beside what is computed, which only waits where it was asked for later: nothing that
  // was asked for since the last Finish uses what is there, and `host` stays as it is until then.
  virtual void UploadBeside(int64_t n, const float* host, float* device) = 0;
  // Beside what is computed later: `host` has the numbers after the next Finish that is OK, and
  // `device` must stay as it is until then.
  virtual void Download(int64_t n, const float* device, float* host) = 0;
  // The same of numbers that AwaitDownload waits for, and calls by this name.
  virtual void DownloadAwaited(int64_t n, const float* device, float* host, size_t name) = 0;
  // Waits until the numbers of a DownloadAwaited since the last Finish are in `host`, of each in
  // turn, while the device goes on; says which. Nothing: there are no more, or an error of Finish.
  virtual std::optional<size_t> AwaitDownload() = 0;
  // Memory of the host for as long as the Ops lives, of which copies will be direct if that can be
  // had: pages of its own. Again and again the same is nothing.
  virtual void Pin(const void* host, size_t bytes) = 0;
  // What the device has done since the last call, for a trace; and whether that is noted from now
  // on. After a Finish.
  virtual std::vector<DeviceSpan> TakeSpans(bool note) = 0;

  // For the products and convolutions that are made from now on.
  virtual void AllowOperands(Operands operands) = 0;
  // Whether kBfloat16 makes them faster.
  virtual bool has_bfloat16() const = 0;
  virtual absl::StatusOr<std::unique_ptr<Matmul>> MakeMatmul(const MatmulShape& shape) = 0;
  virtual absl::StatusOr<std::unique_ptr<Conv2D>> MakeConv2D(const ConvShape& shape) = 0;
  // Whether a convolution of tensors of bfloat16 is computed as that, and not made of one of
  // float32. Of a shape with any batch.
  virtual bool ComputesBfloat16(const ConvShape& shape) = 0;
  virtual absl::StatusOr<std::unique_ptr<Pool2D>> MakePool2D(const PoolShape& shape) = 0;

  // y = activation(x), over (rows, columns). x == y is allowed. Those along an axis: float32.
  virtual void Activate(Activation activation, int64_t rows, int64_t columns, ConstTensor x,
                        Tensor y) = 0;
  // dx = dy * activation'(x), where y = activation(x). dy == dx is allowed. x may be null where the
  // slope is a function of y (ReLU, sigmoid, tanh and others).
  virtual void ActivateBackward(Activation activation, int64_t rows, int64_t columns, ConstTensor x,
                                ConstTensor y, ConstTensor dy, Tensor dx) = 0;
  // y = scale * x + offset
  virtual void Affine(int64_t n, float scale, float offset, const float* x, float* y) = 0;
  // y += x
  virtual void Add(int64_t n, ConstTensor x, Tensor y) = 0;
  // sums[c] = sum over rows of x[r, c]
  virtual void SumRows(int64_t rows, int64_t columns, const float* x, float* sums) = 0;
  // Sets an element to zero with probability `rate`, multiplies it by 1 / (1 - rate) otherwise; the
  // choice is a pure function of (key, first + its index). x == y is allowed.
  virtual void Dropout(uint64_t key, float rate, int64_t first, int64_t n, ConstTensor x,
                       Tensor y) = 0;

  virtual void Fill(int64_t n, float value, Tensor y) = 0;
  // y = x
  virtual void Convert(int64_t n, ConstTensor x, Tensor y) = 0;
  // y = a, or y += a, along the walk.
  virtual void Copy(const Walk& walk, bool add, ConstTensor a, Tensor y) = 0;
  // y = a op b along the walk.
  virtual void Binary(BinaryKind kind, const Walk& walk, ConstTensor a, ConstTensor b,
                      Tensor y) = 0;

  // Mean and variance (the mean of squared differences) of each column or row. By row: float32.
  virtual void Moments(const NormShape& shape, ConstTensor x, float* mean, float* variance) = 0;
  // y = (x - mean) / sqrt(variance + epsilon) [* scale] [+ offset], then ReLU if asked; both may be
  // null.
  virtual void Normalize(const NormShape& shape, ConstTensor x, const float* mean,
                         const float* variance, const float* scale, const float* offset,
                         Tensor y) = 0;
  // The gradients of it; `constant`: mean and variance do not depend on x. Outputs may be null. The
  // offset is for the ReLU alone.
  virtual void NormalizeBackward(const NormShape& shape, bool constant, ConstTensor x,
                                 const float* mean, const float* variance, const float* scale,
                                 const float* offset, ConstTensor dy, Tensor dx, float* dscale,
                                 float* doffset) = 0;

  // y[i, :] = table[ids[i], :]; an id outside of the table gives zeros.
  virtual void Gather(int64_t count, int64_t width, int64_t table_rows, const float* ids,
                      const float* table, float* y) = 0;
  // dtable = 0, then dtable[ids[i], :] += dy[i, :].
  virtual void ScatterAdd(int64_t count, int64_t width, int64_t table_rows, const float* ids,
                          const float* dy, float* dtable) = 0;

  // `r`: what comes from the state, as wide as the gates that the kind computes.
  virtual void CellForward(const CellShape& shape, const CellStep& step, const float* r) = 0;
  // dh and dc: the gradients by h and c become those by h0 and c0, but for what comes through r.
  // Gradients by z go into dz (of kGruGates and kGruCandidate, each its gates), by r into dr (of
  // kSimple and kLstm it is dz). kGruGates takes for dc the gradient by its h.
  virtual void CellBackward(const CellShape& shape, const CellStep& step, float* dh, float* dc,
                            float* dz, float* dr) = 0;

  // y = softmax(scale x) over the keys that the mask (batch, queries, keys), or null, does not
  // hide. x, y (batch, heads, queries, keys); x == y is allowed, and so is dy == dx.
  virtual void MaskedSoftmax(const SoftmaxShape& shape, const float* mask, const float* x,
                             float* y) = 0;
  virtual void MaskedSoftmaxBackward(const SoftmaxShape& shape, const float* mask, const float* y,
                                     const float* dy, float* dx) = 0;

  // y = x + stddev * a normal number, a pure function of (key, first + index).
  virtual void AddNoise(uint64_t key, float stddev, int64_t first, int64_t n, const float* x,
                        float* y) = 0;
  // y[i] = a uniform number from low to high, a pure function of (key, first + i).
  virtual void Uniform(uint64_t key, float low, float high, int64_t first, int64_t n, float* y) = 0;
  // maps (batch, 6): a column and a row of the input, each a column's and a row's factor and an
  // offset; pure functions of (key, first + the example's index).
  virtual void RandomMaps(uint64_t key, const RandomMap& map, int64_t first, int64_t batch,
                          float* maps) = 0;
  // The images at the places that `maps` give to the pixels of y; null: resized.
  virtual void Resample(const ResampleShape& shape, const float* maps, const float* x,
                        float* y) = 0;
  // The gradient of a resizing.
  virtual void ResizeBackward(const ResampleShape& shape, const float* dy, float* dx) = 0;
  // The sum of l1 |x| + l2 x^2, which is there after the next Finish that is OK, unless it is null.
  // dx, unless null, gets += scale times its gradient.
  virtual void Penalty(int64_t n, float l1, float l2, const float* x, float scale, float* dx,
                       double* sum) = 0;

  // The sum over rows of the loss of a row, times its weight (null: 1), there as that of Penalty. A
  // row of weight 0 takes no part, whatever its targets. d_outputs, unless null, gets `scale` times
  // the gradient of that sum. Class indices of the other rows must have been checked.
  virtual void Loss(const LossShape& shape, const float* outputs, const float* targets,
                    const float* weights, float scale, float* d_outputs, double* sum) = 0;
};

}  // namespace paracord
