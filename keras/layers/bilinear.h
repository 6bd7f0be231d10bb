// UpSampling2D with interpolation "bilinear", which MakeUpSampling (layers.h) leaves to this.
#pragma once

#include <memory>

#include "keras/layers/layer.h"

namespace paracord {

std::unique_ptr<Layer> MakeBilinear(LayerConfig& config);

}  // namespace paracord
