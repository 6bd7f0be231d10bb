// The makers of layers, one for each entry of the table in layers.cc. Each reads the keys of its
// layer and leaves mistakes in the LayerConfig.
#pragma once

#include <memory>

#include "worker/layer.h"

namespace paracord {

std::unique_ptr<Layer> MakeActivation(LayerConfig& config);
std::unique_ptr<Layer> MakeAveragePooling2D(LayerConfig& config);
std::unique_ptr<Layer> MakeConv2D(LayerConfig& config);
std::unique_ptr<Layer> MakeDense(LayerConfig& config);
std::unique_ptr<Layer> MakeDropout(LayerConfig& config);
std::unique_ptr<Layer> MakeFlatten(LayerConfig& config);
std::unique_ptr<Layer> MakeMaxPooling2D(LayerConfig& config);
std::unique_ptr<Layer> MakeRescaling(LayerConfig& config);
std::unique_ptr<Layer> MakeReshape(LayerConfig& config);

// The node that a layer's own `activation` becomes, unless the layer fuses it.
std::unique_ptr<Layer> MakeActivationLayer(const LayerConfig& of, Activation activation);

}  // namespace paracord
