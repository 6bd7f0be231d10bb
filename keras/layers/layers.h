// The makers of layers, one for each entry of the tables in layers.cc. Each reads the keys of its
// layer and leaves mistakes in the LayerConfig.
#pragma once

#include <memory>

#include "keras/layers/layer.h"

namespace paracord {

std::unique_ptr<Layer> MakeActivation(LayerConfig& config);  // and LeakyReLU, ELU, ...
std::unique_ptr<Layer> MakeActivityRegularization(LayerConfig& config);
std::unique_ptr<Layer> MakeAttention(LayerConfig& config);  // MultiHeadAttention
std::unique_ptr<Layer> MakeAxisView(LayerConfig& config);   // ExpandDims, Squeeze
std::unique_ptr<Layer> MakeBatchNormalization(LayerConfig& config);
std::unique_ptr<Layer> MakeBidirectional(LayerConfig& config);
std::unique_ptr<Layer> MakeConcatenate(LayerConfig& config);  // and Stack
std::unique_ptr<Layer> MakeConv(LayerConfig& config);         // over steps and images
std::unique_ptr<Layer> MakeConvTranspose(LayerConfig& config);
std::unique_ptr<Layer> MakeCumsum(LayerConfig& config);
std::unique_ptr<Layer> MakeDense(LayerConfig& config);
std::unique_ptr<Layer> MakeDot(LayerConfig& config);
std::unique_ptr<Layer> MakeCustomScaleLayer(LayerConfig& config);
std::unique_ptr<Layer> MakeDropout(LayerConfig& config);  // and SpatialDropout, noise
std::unique_ptr<Layer> MakeEinsumDense(LayerConfig& config);
std::unique_ptr<Layer> MakeEinsumOperation(LayerConfig& config);
std::unique_ptr<Layer> MakeEmbedding(LayerConfig& config);
std::unique_ptr<Layer> MakeFlatten(LayerConfig& config);
std::unique_ptr<Layer> MakeFrame(LayerConfig& config);  // ZeroPadding, Cropping
std::unique_ptr<Layer> MakeGlobalPooling(LayerConfig& config);
std::unique_ptr<Layer> MakeGroupNormalization(LayerConfig& config);
std::unique_ptr<Layer> MakeImageColour(LayerConfig& config);  // RandomBrightness, RandomContrast
std::unique_ptr<Layer> MakeImageMap(LayerConfig& config);     // RandomFlip, RandomRotation, ...
std::unique_ptr<Layer> MakeImageSize(LayerConfig& config);    // Resizing, CenterCrop, RandomCrop
std::unique_ptr<Layer> MakeIdentity(LayerConfig& config);
std::unique_ptr<Layer> MakeLayerNormalization(LayerConfig& config);
std::unique_ptr<Layer> MakeLayerScale(LayerConfig& config);
std::unique_ptr<Layer> MakeLogarithm(LayerConfig& config, float base);
std::unique_ptr<Layer> MakeMasking(LayerConfig& config);
std::unique_ptr<Layer> MakeMatmulOperation(LayerConfig& config);
std::unique_ptr<Layer> MakeMerge(LayerConfig& config);  // Add, Multiply, ...
std::unique_ptr<Layer> MakeNormalization(LayerConfig& config);
std::unique_ptr<Layer> MakeNormalize(LayerConfig& config);
std::unique_ptr<Layer> MakeOneHot(LayerConfig& config);
std::unique_ptr<Layer> MakeOperator(LayerConfig& config);  // x + y, 2 * x, ...
std::unique_ptr<Layer> MakePRelu(LayerConfig& config);
std::unique_ptr<Layer> MakePermute(LayerConfig& config);
std::unique_ptr<Layer> MakePooling(LayerConfig& config);
std::unique_ptr<Layer> MakeRearrangement(LayerConfig& config);  // Take, Flip, Tile, Pad, ...
std::unique_ptr<Layer> MakeRecurrent(LayerConfig& config);      // SimpleRNN, LSTM, GRU
std::unique_ptr<Layer> MakeReduce(LayerConfig& config);         // Mean, Sum, Max, Norm, ...
std::unique_ptr<Layer> MakeRepeatVector(LayerConfig& config);
std::unique_ptr<Layer> MakeRescaling(LayerConfig& config);
std::unique_ptr<Layer> MakeArrayRescaling(LayerConfig& config);
std::unique_ptr<Layer> MakeReshape(LayerConfig& config);
std::unique_ptr<Layer> MakeRmsNormalization(LayerConfig& config);  // and UnitNormalization
std::unique_ptr<Layer> MakeScoreAttention(LayerConfig& config);    // Attention, AdditiveAttention
std::unique_ptr<Layer> MakeSequenceMask(LayerConfig& config);
std::unique_ptr<Layer> MakeSlice(LayerConfig& config);  // x[:, 1:3], and tf.slice
std::unique_ptr<Layer> MakeSoftmax(LayerConfig& config);
std::unique_ptr<Layer> MakeSplit(LayerConfig& config);  // and Unstack
std::unique_ptr<Layer> MakeStopGradient(LayerConfig& config);
std::unique_ptr<Layer> MakeTimeDistributed(LayerConfig& config);
std::unique_ptr<Layer> MakeUnary(LayerConfig& config);  // Exp, Sqrt, ...
std::unique_ptr<Layer> MakeUpSampling(LayerConfig& config);
std::unique_ptr<Layer> MakeVolumeConv(LayerConfig& config);     // Conv3D
std::unique_ptr<Layer> MakeVolumePooling(LayerConfig& config);  // MaxPooling3D, AveragePooling3D
std::unique_ptr<Layer> MakeWhere(LayerConfig& config);

// A layer along other axes than the last, as its keys say; null: there is nothing to move.
absl::StatusOr<std::unique_ptr<Layer>> MakeMoved(const LayerConfig& config);

// A layer of the last axis, along another.
std::unique_ptr<Layer> MakeAlongAxis(const LayerConfig& config, std::unique_ptr<Layer> inner,
                                     int64_t axis);

// Of a class: 1 to 3, as its name ends with 1D, 2D, 3D.
size_t AxesOfName(const std::string& class_name);

// The node that a layer's own `activation` becomes, unless the layer fuses it.
std::unique_ptr<Layer> MakeActivationLayer(const LayerConfig& of, Activation activation);
std::unique_ptr<Layer> MakeActivationLayer(const Layer& of, Activation activation);
// One activation, and another after it.
std::unique_ptr<Layer> MakeActivations(const LayerConfig& of, Activation first, Activation then);
std::unique_ptr<Layer> MakeGluLayer(const LayerConfig& of);
std::unique_ptr<Layer> MakeGluLayer(const Layer& of);
// The part of each example that has this shape and begins there.
std::unique_ptr<Layer> MakePartLayer(const Layer& of, const Shape& shape, int64_t from);
// The same numbers in every example, which has this shape; of no inputs.
std::unique_ptr<Layer> MakeConstant(const Layer& of, Shape shape, std::vector<float> values);
// The shape of a constant in every example: where its first axis, of 1, stands for the batch; and
// as NumPy has it beside a tensor of `rank` axes and the batch, with axes of 1 up to there.
absl::StatusOr<Shape> ShapeOfOne(const Shape& constant);
absl::StatusOr<Shape> AlignedShape(const Shape& constant, size_t rank);
// Pads before and after each axis, of the file (the batch's first, or one for all) and of those of
// an example.
using PadAround = std::vector<std::pair<int64_t, int64_t>>;
absl::StatusOr<PadAround> PadsOf(PadAround given, const Shape& input);
// By mirroring, where the edge comes twice or once.
std::unique_ptr<Layer> MakeMirrorPad(LayerConfig& config, PadAround around, bool edge_twice);
// The sum of two inputs.
std::unique_ptr<Layer> MakeAddLayer(const Layer& of);
// 1 where either of two masks is.
std::unique_ptr<Layer> MakeOrLayer(const Layer& of);

}  // namespace paracord
