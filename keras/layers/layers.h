// The functions that make the layers and operations in the tables of layers.cc, and layers that are
// parts of these. A function with a LayerConfig& reads its keys and records mistakes in it.
#pragma once

#include <memory>

#include "keras/layers/layer.h"

namespace paracord {

// Makes Activation, LeakyReLU, ELU and other activation layers.
std::unique_ptr<Layer> MakeActivation(LayerConfig& config);
std::unique_ptr<Layer> MakeActivityRegularization(LayerConfig& config);
std::unique_ptr<Layer> MakeAttention(LayerConfig& config);   // MultiHeadAttention
std::unique_ptr<Layer> MakeArgExtreme(LayerConfig& config);  // Argmax, Argmin
std::unique_ptr<Layer> MakeAxisView(LayerConfig& config);    // ExpandDims, Squeeze
std::unique_ptr<Layer> MakeBatchNormalization(LayerConfig& config);
std::unique_ptr<Layer> MakeBidirectional(LayerConfig& config);
std::unique_ptr<Layer> MakeConcatenate(LayerConfig& config);  // also Stack
// Makes Conv1D, Conv2D and their depthwise and separable forms.
std::unique_ptr<Layer> MakeConv(LayerConfig& config);
std::unique_ptr<Layer> MakeConvTranspose(LayerConfig& config);
std::unique_ptr<Layer> MakeCumsum(LayerConfig& config);
std::unique_ptr<Layer> MakeDense(LayerConfig& config);
std::unique_ptr<Layer> MakeDot(LayerConfig& config);
std::unique_ptr<Layer> MakeDotInteraction(LayerConfig& config);
std::unique_ptr<Layer> MakeCustomScaleLayer(LayerConfig& config);
// Makes Dropout, SpatialDropout and the layers of noise.
std::unique_ptr<Layer> MakeDropout(LayerConfig& config);
std::unique_ptr<Layer> MakeEinsumDense(LayerConfig& config);
std::unique_ptr<Layer> MakeEinsumOperation(LayerConfig& config);
std::unique_ptr<Layer> MakeEmbedReduce(LayerConfig& config);
std::unique_ptr<Layer> MakeEmbedding(LayerConfig& config);
std::unique_ptr<Layer> MakeFeatureCross(LayerConfig& config);
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
std::unique_ptr<Layer> MakeRmsNormalization(LayerConfig& config);  // also UnitNormalization
std::unique_ptr<Layer> MakeRoll(LayerConfig& config);
std::unique_ptr<Layer> MakeScoreAttention(LayerConfig& config);  // Attention, AdditiveAttention
std::unique_ptr<Layer> MakeSequenceMask(LayerConfig& config);
std::unique_ptr<Layer> MakeSlice(LayerConfig& config);  // x[:, 1:3], and tf.slice
std::unique_ptr<Layer> MakeSoftmax(LayerConfig& config);
std::unique_ptr<Layer> MakeSplit(LayerConfig& config);  // also Unstack
std::unique_ptr<Layer> MakeStopGradient(LayerConfig& config);
std::unique_ptr<Layer> MakeTimeDistributed(LayerConfig& config);
std::unique_ptr<Layer> MakeUnary(LayerConfig& config);  // Exp, Sqrt, ...
std::unique_ptr<Layer> MakeUpSampling(LayerConfig& config);
std::unique_ptr<Layer> MakeVolumeConv(LayerConfig& config);     // Conv3D
std::unique_ptr<Layer> MakeVolumePooling(LayerConfig& config);  // MaxPooling3D, AveragePooling3D
std::unique_ptr<Layer> MakeWhere(LayerConfig& config);

// If the config's keys ask for other axes than the last, makes a layer that moves these axes to the
// end, applies the layer, and moves them back; otherwise returns null.
absl::StatusOr<std::unique_ptr<Layer>> MakeMoved(const LayerConfig& config);

// Makes a layer that applies `inner`, a layer over the last axis, over the axis `axis`.
std::unique_ptr<Layer> MakeAlongAxis(const LayerConfig& config, std::unique_ptr<Layer> inner,
                                     int64_t axis);

// The number of axes in the end of a class name: 3 for "3D", 2 for "2D", otherwise 1.
size_t AxesOfName(const std::string& class_name);

// Make a layer that applies `activation`. Here and below, the layer gets the name of `of`.
std::unique_ptr<Layer> MakeActivationLayer(const LayerConfig& of, Activation activation);
std::unique_ptr<Layer> MakeActivationLayer(const Layer& of, Activation activation);
// Makes a layer that applies `first` and then `then`.
std::unique_ptr<Layer> MakeActivations(const LayerConfig& of, Activation first, Activation then);
std::unique_ptr<Layer> MakeGluLayer(const LayerConfig& of);
std::unique_ptr<Layer> MakeGluLayer(const Layer& of);
// Makes a layer that copies as many elements of each example as `shape` has, from number `from` on.
std::unique_ptr<Layer> MakePartLayer(const Layer& of, const Shape& shape, int64_t from);
// Makes a layer without inputs whose output is `values`, of shape `shape`, in every example.
std::unique_ptr<Layer> MakeConstant(const Layer& of, Shape shape, std::vector<float> values);
// Return the shape that a constant of the model file has in every example. ShapeOfOne drops the
// first axis, which must have size 1, for the batch. AlignedShape prepends axes of size 1 until
// there are `rank`, as NumPy does to broadcast; a further first axis is the batch, of size 1.
absl::StatusOr<Shape> ShapeOfOne(const Shape& constant);
absl::StatusOr<Shape> AlignedShape(const Shape& constant, size_t rank);
// The padding before and after each axis of an example. PadsOf makes it of the file's padding,
// which has an entry for every axis, the batch first, or a single entry for all axes.
using PadAround = std::vector<std::pair<int64_t, int64_t>>;
absl::StatusOr<PadAround> PadsOf(PadAround given, const Shape& input);
// Makes a layer that pads with the mirror image of the input, with `edge_twice` including the edge.
std::unique_ptr<Layer> MakeMirrorPad(LayerConfig& config, PadAround around, bool edge_twice);
std::unique_ptr<Layer> MakeAddLayer(const Layer& of);
// Makes an IdMask (table_layer.h).
std::unique_ptr<Layer> MakeIdMask(const Layer& of);
// Makes a layer whose output is 1 where at least one of its two inputs, which are masks, is 1.
std::unique_ptr<Layer> MakeOrLayer(const Layer& of);

}  // namespace paracord
