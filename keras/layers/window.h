// The window of a convolution or pooling, from the layer's keys: over steps (one axis, treated as
// an image of one row) or over an image. Pure.
#pragma once

#include "keras/layers/layer.h"

namespace paracord {

struct Window {
  // `strides` is the default; 0 stands for the window's size.
  Window(LayerConfig& config, size_t axes, absl::string_view size_key,
         absl::string_view dilation_key, int64_t strides);

  struct Axes {
    WindowAxis height, width;
    Shape Output(size_t rank, int64_t channels) const;
  };
  // The window over an input of this shape, padded by TensorFlow's rules.
  absl::StatusOr<Axes> Over(const Shape& input) const;

  const size_t axes;
  const std::string padding;  // "valid", "same", "causal"
  WindowAxis height, width;
};

// Sets `axis.out` and the padding by TensorFlow's rules. Errors call the axis `name`.
absl::Status SlideWindow(const char* name, const std::string& padding, WindowAxis& axis);

}  // namespace paracord
