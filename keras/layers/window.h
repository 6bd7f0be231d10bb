// The window of a convolution or pooling, from the layer's keys: over an image, or over steps (one
// axis, treated as an image of one row). Pure.
#pragma once

#include "keras/layers/layer.h"

namespace paracord {

struct Window {
  // `axes`: 1 for steps, 2 for images. `dilation_key` is "" for a pooling. `strides` is the
  // default; 0 stands for the window's size.
  Window(LayerConfig& config, size_t axes, absl::string_view size_key,
         absl::string_view dilation_key, int64_t strides);

  struct Axes {
    WindowAxis height, width;
    Shape Output(size_t rank, int64_t channels) const;
  };
  // Returns the window over an input of this shape, padded by TensorFlow's rules. INVALID_ARGUMENT:
  // the input has other axes, or is smaller than the window.
  absl::StatusOr<Axes> Over(const Shape& input) const;

  const size_t axes;
  const std::string padding;  // "valid", "same", or, of a convolution over steps, "causal"
  WindowAxis height, width;
};

// Sets `axis.out` and the padding by TensorFlow's rules. INVALID_ARGUMENT, for an input smaller
// than the window, calls the axis `name`.
absl::Status SlideWindow(const char* name, const std::string& padding, WindowAxis& axis);

}  // namespace paracord
