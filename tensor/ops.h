// The arithmetic of a device: the operations that layers and losses are written in. Those of
// cpu/cpu_ops.h define the correct results; the CUDA plug-in implements the same declarations.
// Tensors are dense, row-major, in the device's memory, and images are NHWC. `const float*` and
// `float*` are float32; ConstTensor and Tensor may be bfloat16. Operations whose preparation
// depends on shapes (matmul, convolution, pooling) are objects, made once and run often. An
// operation may be asynchronous; errors appear in Device::Finish. Used by one thread at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "tensor/compute_device.h"

namespace paracord {

// A tensor read by an operation, as float32, or as bfloat16 that is widened to float32 before use.
// Both pointers are set if the caller has a float32 tensor and its bfloat16 copy (Ops::Convert);
// operations that prefer bfloat16 then read the copy.
struct ConstTensor {
  // NOLINTNEXTLINE: implicit, so that a pointer is a tensor
  ConstTensor(const float* numbers = nullptr, const uint16_t* rounded = nullptr)
      : float32(numbers), bfloat16(rounded) {}
  // NOLINTNEXTLINE: for operations that take float32 alone
  operator const float*() const { return float32; }
  bool operator==(std::nullptr_t) const { return float32 == nullptr && bfloat16 == nullptr; }
  // The tensor from element n on.
  ConstTensor operator+(int64_t n) const {
    return {float32 == nullptr ? nullptr : float32 + n,
            bfloat16 == nullptr ? nullptr : bfloat16 + n};
  }
  const float* float32;      // null if there is only bfloat16
  const uint16_t* bfloat16;  // null if there is only float32
};
// A tensor written by an operation: float32, or bfloat16 rounded to nearest, ties to even. The
// gradient of a tensor has the type of the tensor.
struct Tensor {
  Tensor(float* numbers = nullptr) : float32(numbers) {}  // NOLINT: implicit, as in ConstTensor
  explicit Tensor(uint16_t* rounded) : bfloat16(rounded) {}
  operator float*() const { return float32; }  // NOLINT: for operations that write float32 alone
  operator ConstTensor() const { return {float32, bfloat16}; }  // NOLINT
  bool operator==(std::nullptr_t) const { return float32 == nullptr && bfloat16 == nullptr; }
  Tensor operator+(int64_t n) const {
    if (bfloat16 != nullptr) return Tensor(bfloat16 + n);
    return float32 == nullptr ? nullptr : float32 + n;
  }
  float* float32 = nullptr;      // null if the tensor is bfloat16
  uint16_t* bfloat16 = nullptr;  // null if the tensor is float32
};

enum class ActivationKind {
  kLinear,
  kRelu,
  kLeakyRelu,  // alpha is the slope below zero
  kElu,        // alpha is the scale below zero
  kSelu,
  kSigmoid,
  kHardSigmoid,  // clip(alpha x + 0.5, 0, 1); alpha is 1/6 in Keras 3, 0.2 in Keras 2
  kTanh,
  kSoftplus,
  kSoftsign,
  kExponential,
  kSilu,
  kGelu,      // exact, by the error function
  kGeluTanh,  // the approximation by tanh
  kSoftmax,   // along the last axis
  kLogSoftmax,
  kSparsemax,    // along the last axis
  kGlu,          // not computed by Ops, but by a layer (keras/layers/activation.cc)
  kReluGeneral,  // x from gamma to beta; beta above beta; alpha (x - gamma) below gamma
  kAffine,       // alpha x + beta
  kPower,        // alpha x ^ beta
  kClip,         // clamps x to [alpha, beta]
  kExpm1,
  kLog,
  kLog1p,
  kSin,
  kCos,
  kAbs,
  kSign,
  kCelu,      // alpha is Keras' alpha
  kHardSilu,  // x hard_sigmoid(x)
  kHardTanh,
  kHardShrink,  // zero where |x| <= alpha
  kSoftShrink,
  kTanhShrink,
  kLogSigmoid,
  kMish,
  kSquareplus,  // (x + sqrt(x^2 + alpha)) / 2
  kSparsePlus,
  kSparseSigmoid,
  kThreshold,  // x if x is above alpha, else beta
  kNotEqual,   // 1 where x is not alpha, else 0
  kFloor,
  kCeil,
  kRound,  // ties go to even
  kTruncate,
  kErf,
  kTan,
  kArctan,
  kSinh,
  kCosh,
};

struct Activation {
  ActivationKind kind = ActivationKind::kLinear;
  float alpha = 0, beta = 0, gamma = 0;
};

// A loop over an index space of a few axes. `dims` has the size of each axis; `a`, `b` and `y` have
// the strides of the operands and of the output, in elements. A broadcast is a stride of 0, a
// transpose a permutation of strides, a slice an offset of the pointer and larger strides. A stride
// of the output may be 0 only in operations that add to the output.
struct Walk {
  std::vector<int64_t> dims, a, b, y;  // b is empty for a single operand
};

enum class BinaryKind {
  kAdd,
  kSubtract,
  kMultiply,
  kDivide,
  kMaximum,
  kMinimum,
  kGreaterEqual,  // this and the next five give 1 or 0
  kLess,
  kLessEqual,
  kGreater,
  kEqual,
  kNotEqual,
  kAnd,  // an operand counts as true unless 0, also for kOr; the result is 1 or 0
  kOr,
  kModulo,   // the remainder has b's sign
  kKeep,     // a where b is not 0, else 0, even if a is NaN
  kAddRelu,  // a + b, and 0 where that is negative
};

// Normalisation of a (rows, columns) tensor. With `by_column`, each column has a mean and a
// variance over its rows; otherwise each row has them over its columns. Scale and offset have an
// element for each column in both cases.
struct NormShape {
  bool by_column = false;
  int64_t rows = 0, columns = 0;
  float epsilon = 0;
  // False, allowed only by row: the mean is taken as zero, and the variance as the mean of squares.
  bool centred = true;
  float relu = 0;  // upper bound of a ReLU after the offset, only by column; 0: no ReLU
};

// c (m, n) = a (m, k) b (k, n), plus the bias (n) if `bias`, then a ReLU if `relu`. With
// `transpose_a`, a lies in memory as (k, m); with `transpose_b`, b lies as (n, k).
struct MatmulShape {
  int64_t m = 0, k = 0, n = 0;
  bool transpose_a = false, transpose_b = false;
  bool bias = false, relu = false;
  int64_t batch = 1;  // number of matrices of a, b and c, contiguous, with a common bias
};

// The precision to which products and convolutions may round their operands. They accumulate in
// float32; a GPU's convolution in 16 bits also rounds its result to 16 bits.
enum class Operands {
  kFloat32,
  kTf32,      // 11 significant bits, for a GPU's tensor cores; the CPU uses float32
  kFloat16,   // 11 significant bits, each operand first scaled as a whole; the CPU uses float32
  kBfloat16,  // 8 significant bits
};

class Matmul {
 public:
  virtual ~Matmul() = default;
  // True if a and b of Run may be bfloat16; the caller may then round a tensor once (Ops::Convert)
  // for several products. False if both must be float32.
  virtual bool takes_bfloat16() const = 0;
  virtual void Run(ConstTensor a, ConstTensor b, const float* bias, float* c) = 0;
};

// An axis of a window sliding over an image; sizes, strides and padding are in pixels.
struct WindowAxis {
  int64_t in = 0, out = 0;
  int64_t size = 1, stride = 1, dilation = 1;
  int64_t pad_before = 0, pad_after = 0;
};

struct ConvShape {
  int64_t batch = 0, in_channels = 0, out_channels = 0, groups = 1;
  WindowAxis height = {}, width = {};
  bool bias = false, relu = false;
  bool x_bfloat16 = false, y_bfloat16 = false;  // x and dx are bfloat16; y and dy are bfloat16
  int64_t inputs() const { return batch * height.in * width.in * in_channels; }  // elements of x
  int64_t outputs() const { return batch * height.out * width.out * out_channels; }
};

// The requested gradients of a convolution. `dy` is the gradient of the output before the
// convolution's ReLU. x is (batch, h, w, in_channels), the kernel (h, w, in_channels / groups,
// out_channels), the bias (out_channels).
struct ConvGradients {
  ConstTensor dy = {};
  float* dkernel = nullptr;       // null if not wanted
  float* dbias = nullptr;         // wanted together with dkernel if the convolution has a bias
  ConstTensor x = {};             // needed for dkernel
  Tensor dx = {};                 // null if not wanted
  const float* kernel = nullptr;  // needed for dx
};

// A convolution for a shape. The output y is (batch, height.out, width.out, out_channels).
class Conv2D {
 public:
  virtual ~Conv2D() = default;
  virtual void Forward(ConstTensor x, const float* kernel, const float* bias, Tensor y) = 0;
  virtual void Backward(const ConvGradients& gradients) = 0;
};

struct PoolShape {
  bool max = true;  // false: the average over the pixels inside the image
  int64_t batch = 0, channels = 0;
  WindowAxis height, width;
};

class Pool2D {
 public:
  virtual ~Pool2D() = default;
  virtual void Forward(ConstTensor x, Tensor y) = 0;
  // Writes the gradient of the input x of the last Forward, from the gradient dy of its output.
  virtual void Backward(ConstTensor dy, Tensor dx) = 0;
};

enum class LossKind {
  kSparseCategoricalCrossentropy,  // targets: a class index per row
  kCategoricalCrossentropy,        // from here on targets are (rows, columns)
  kBinaryCrossentropy,             // from here on a row's loss is the mean over its columns
  kMeanSquaredError,
  kMeanAbsoluteError,
  kMeanSquaredLogarithmicError,
  kMeanAbsolutePercentageError,
  kHuber,
  kLogCosh,
  kHinge,  // if all targets are 0 or 1, they stand for -1 and 1; also for kSquaredHinge
  kSquaredHinge,
  kPoisson,
  kBinaryFocalCrossentropy,
  kCategoricalHinge,  // from here on a row's loss is no mean, but computed from all its columns
  kKlDivergence,
  kCosineSimilarity,              // the negative similarity
  kCategoricalFocalCrossentropy,  // computed on probabilities; logits go through softmax first
};

struct LossShape {
  LossKind kind = LossKind::kMeanSquaredError;
  bool from_logits = false;  // crossentropies: the outputs are logits, before softmax or sigmoid
  int64_t rows = 0, columns = 0;
  float label_smoothing = 0;       // crossentropies with a target number for each class
  float delta = 1;                 // the delta of kHuber
  float alpha = 0.25f, gamma = 2;  // for the focal crossentropies
  bool balanced = false;           // binary focal crossentropy: alpha weighs the classes
  // Binary crossentropies of probabilities: added to the logarithms' arguments, as in Keras 2.
  float log_offset = 0;
  // kCosineSimilarity: a smaller sum of a vector's squares is replaced by this number before the
  // division: the square of Keras 3's epsilon, or Keras 2's 1e-12.
  float least_square = 1e-14f;
};

// The kind of a recurrent layer's time step. Gates lie in Keras' order, each `units` wide. z is the
// product of the input with the kernel, r the product of the state with the recurrent kernel, and
// `kept` what CellForward saves for CellBackward.
enum class CellKind {
  kSimple,  // h = activation(z + r)
  kLstm,    // gates input, forget, cell, output; kept: the gates and activation(c)
  // Gates update, reset and candidate, reset after the product; kept: the gates, and the
  // candidate's part of r.
  kGru,
  kGruGates,      // first half of a GRU with the reset before the product; h = reset gate * h0
  kGruCandidate,  // second half, on the same tensors: r is the product of the first half's h
};

struct CellShape {
  CellKind kind = CellKind::kSimple;
  int64_t batch = 0, units = 0;
  Activation activation, recurrent_activation;
};

// The tensors of a step, with a row for each example. Tensors that a kind does not use are null.
struct CellStep {
  const float* mask = nullptr;               // (batch); an example with 0 keeps its state; or null
  const float *h0 = nullptr, *c0 = nullptr;  // (batch, units), the state before the step
  float* z = nullptr;                // (batch, gates), the input's product; the step adds r to it
  float* kept = nullptr;             // saved for CellBackward; its width is in cell_widths.h
  float *h = nullptr, *c = nullptr;  // (batch, units), the state after the step
};

// How the softmax treats scores that a mask hides.
enum class MaskedScore {
  kReplaced,  // replaced by the lowest float: a wholly hidden row is uniform, without gradient
  kZero,      // like kReplaced, but the results of hidden scores are 0
  kLowered,   // lowered by 1e9
};

struct SoftmaxShape {
  int64_t batch = 0, heads = 1, queries = 0, keys = 0;
  float scale = 1;      // multiplies the scores
  bool causal = false;  // query i sees keys 0 to i
  MaskedScore masked = MaskedScore::kReplaced;
};

// How an image continues beyond its edges, as in TensorFlow's ImageProjectiveTransformV3.
enum class FillMode { kConstant, kReflect, kWrap, kNearest };

// An axis of a resampled image. Resizing stretches the `size` pixels from `begin` on over the `out`
// pixels of the output; pixels outside the image have the fill value.
struct ResampleAxis {
  int64_t in = 0, out = 0;
  int64_t begin = 0, size = 0;
};

// Resampling of images (batch, height.in, width.in, channels) to (batch, height.out, width.out,
// channels), by resizing or by a map for each example.
struct ResampleShape {
  int64_t batch = 0, channels = 0;
  ResampleAxis height, width;
  bool bilinear = true;                 // false: the nearest pixel
  FillMode fill = FillMode::kConstant;  // with maps; resizing always fills with fill_value
  float fill_value = 0;
};

enum class MapKind {
  kFlip,       // flips each axis whose drawn number is at most 0.5
  kTranslate,  // moves by the drawn shares of the height and of the width
  kRotate,     // rotates by the number drawn for rows, in degrees
  kZoom,       // scales about the centre: a drawn number is input pixels for each output pixel
  kShift,      // moves by whole pixels: the drawn numbers, rounded down
};

// A random affine map for each example, from output pixels to places in the input. Two numbers are
// drawn for each example, uniform in [low, high): [0] for rows, [1] for columns.
struct RandomMap {
  MapKind kind = MapKind::kFlip;
  int64_t height = 0, width = 0;  // size of the input, in pixels
  float low[2] = {0, 0}, high[2] = {1, 1};
  bool alike = false;     // one draw serves rows and columns, each in its own [low, high)
  bool together = false;  // every example gets the map of index 0
  bool inverse = false;   // RandomMaps writes the inverse of the map
};

class Ops : public Device {
 public:
  // Sets the precision of the products and convolutions that are made from now on.
  virtual void AllowOperands(Operands operands) = 0;
  // True if the device computes products faster with kBfloat16 than with kFloat32.
  virtual bool has_bfloat16() const = 0;
  virtual absl::StatusOr<std::unique_ptr<Matmul>> MakeMatmul(const MatmulShape& shape) = 0;
  virtual absl::StatusOr<std::unique_ptr<Conv2D>> MakeConv2D(const ConvShape& shape) = 0;
  // True if the device natively convolves bfloat16 tensors of the shape, for any batch size. False
  // if MakeConv2D would convert the tensors to float32 and back (wide_conv.h). Depends on the
  // operands allowed now (AllowOperands).
  virtual bool ComputesBfloat16(const ConvShape& shape) = 0;
  virtual absl::StatusOr<std::unique_ptr<Pool2D>> MakePool2D(const PoolShape& shape) = 0;

  // y = activation(x) over (rows, columns); x == y is allowed. Activations along the last axis take
  // float32 only.
  virtual void Activate(Activation activation, int64_t rows, int64_t columns, ConstTensor x,
                        Tensor y) = 0;
  // dx = dy * activation'(x), where y = activation(x); dy == dx is allowed. x may be null if the
  // derivative can be computed from y alone (ReLU, sigmoid, tanh and others).
  virtual void ActivateBackward(Activation activation, int64_t rows, int64_t columns, ConstTensor x,
                                ConstTensor y, ConstTensor dy, Tensor dx) = 0;
  // y = scale * x + offset; x == y is allowed.
  virtual void Affine(int64_t n, float scale, float offset, const float* x, float* y) = 0;
  // y += x
  virtual void Add(int64_t n, ConstTensor x, Tensor y) = 0;
  // sums[c] = sum over rows of x[r, c]
  virtual void SumRows(int64_t rows, int64_t columns, const float* x, float* sums) = 0;
  // Sets each element to zero with probability `rate` and otherwise multiplies by 1 / (1 - rate).
  // The choice is a pure function of (key, first + the element's index). x == y is allowed.
  virtual void Dropout(uint64_t key, float rate, int64_t first, int64_t n, ConstTensor x,
                       Tensor y) = 0;

  virtual void Fill(int64_t n, float value, Tensor y) = 0;
  // y = x, converted between float32 and bfloat16 if the types differ.
  virtual void Convert(int64_t n, ConstTensor x, Tensor y) = 0;
  // y = a, or y += a if `add`, along the walk.
  virtual void Copy(const Walk& walk, bool add, ConstTensor a, Tensor y) = 0;
  // y = a op b along the walk.
  virtual void Binary(BinaryKind kind, const Walk& walk, ConstTensor a, ConstTensor b,
                      Tensor y) = 0;

  // Writes the mean and the variance (the mean of squared differences) of each column or row. By
  // row, x is float32.
  virtual void Moments(const NormShape& shape, ConstTensor x, float* mean, float* variance) = 0;
  // y = (x - mean) / sqrt(variance + epsilon) [* scale] [+ offset], then the shape's ReLU, if any.
  // `scale` and `offset` may be null.
  virtual void Normalize(const NormShape& shape, ConstTensor x, const float* mean,
                         const float* variance, const float* scale, const float* offset,
                         Tensor y) = 0;
  // Writes the gradients of Normalize; dx, dscale and doffset may be null. With `constant`, mean
  // and variance count as constants, otherwise as functions of x. `offset` is needed only for the
  // ReLU.
  virtual void NormalizeBackward(const NormShape& shape, bool constant, ConstTensor x,
                                 const float* mean, const float* variance, const float* scale,
                                 const float* offset, ConstTensor dy, Tensor dx, float* dscale,
                                 float* doffset) = 0;

  // y[i, :] = table[ids[i], :], with ids as in row_ids.h; ids outside the table give zeros.
  virtual void Gather(int64_t count, int64_t width, int64_t table_rows, const float* ids,
                      const float* table, float* y) = 0;
  // dtable[r, :] = the sum of dy[i, :] over all i with ids[i] = r, in a fixed order: a sum of n > 1
  // numbers is the sum of the first 2^k (the largest power of two below n) plus the sum of the
  // rest, each computed in the same way. The rounding error grows with log(n).
  virtual void ScatterAdd(int64_t count, int64_t width, int64_t table_rows, const float* ids,
                          const float* dy, float* dtable) = 0;

  // Computes a time step forward. `r` is the product of the state with the recurrent kernel; its
  // width is in cell_widths.h.
  virtual void CellForward(const CellShape& shape, const CellStep& step, const float* r) = 0;
  // Computes a time step backward. On entry dh and dc are the gradients of h and c. On return they
  // are the gradients of h0 and c0, without the part through r, which the caller adds. dz gets the
  // gradient of z (kGruGates and kGruCandidate write only their own gates), dr the gradient of r.
  // For kSimple and kLstm dr would equal dz and is not written. For kGruGates, dc is on entry the
  // gradient of the step's h.
  virtual void CellBackward(const CellShape& shape, const CellStep& step, float* dh, float* dc,
                            float* dz, float* dr) = 0;

  // y = softmax(scale * x) over the keys. x and y are (batch, heads, queries, keys); `mask` is
  // (batch, queries, keys) with 0 for a hidden key, or null. x == y is allowed.
  virtual void MaskedSoftmax(const SoftmaxShape& shape, const float* mask, const float* x,
                             float* y) = 0;
  virtual void MaskedSoftmaxBackward(const SoftmaxShape& shape, const float* mask, const float* y,
                                     const float* dy, float* dx) = 0;

  // y = x + stddev * a normal number, a pure function of (key, first + the element's index).
  virtual void AddNoise(uint64_t key, float stddev, int64_t first, int64_t n, const float* x,
                        float* y) = 0;
  // y[i] = a number uniform in [low, high), a pure function of (key, first + i).
  virtual void Uniform(uint64_t key, float low, float high, int64_t first, int64_t n, float* y) = 0;
  // Writes maps (batch, 6). A map {a0, a1, a2, b0, b1, b2} takes the output's pixel (column x, row
  // y) to column a0 x + a1 y + a2 and row b0 x + b1 y + b2 of the input. An example's map is a pure
  // function of the key and the map's index, first + the example's index.
  virtual void RandomMaps(uint64_t key, const RandomMap& map, int64_t first, int64_t batch,
                          float* maps) = 0;
  // Sets each pixel of y to x at the place given by the example's map, or resizes x to y if `maps`
  // is null.
  virtual void Resample(const ResampleShape& shape, const float* maps, const float* x,
                        float* y) = 0;
  // Writes to dx the gradient of x in a Resample without maps.
  virtual void ResizeBackward(const ResampleShape& shape, const float* dy, float* dx) = 0;
  // The next Finish, if it returns OK, writes the sum of l1 |x| + l2 x^2 to `sum`, unless that is
  // null. dx, unless null, gets += scale times the gradient of the sum.
  virtual void Penalty(int64_t n, float l1, float l2, const float* x, float scale, float* dx,
                       double* sum) = 0;

  // The next Finish, if it returns OK, writes to `sum` the sum over rows of the row's loss times
  // its weight (1 if `weights` is null). A row of weight 0 is left out, whatever its targets.
  // d_outputs, unless null, gets `scale` times the gradient of the sum. The caller has checked the
  // class indices of all rows whose weight is not 0.
  virtual void Loss(const LossShape& shape, const float* outputs, const float* targets,
                    const float* weights, float scale, float* d_outputs, double* sum) = 0;
};

}  // namespace paracord
