// Makes an UpSampling2D with interpolation "bilinear"; called by MakeUpSampling (layers.h).
#pragma once

#include <memory>

#include "keras/layers/layer.h"

namespace paracord {

std::unique_ptr<Layer> MakeBilinear(LayerConfig& config);

}  // namespace paracord
