// The window of a convolution or pooling, read from the layer's keys: over an image, or over steps
// (one axis, treated as an image of one row).
#pragma once

#include "keras/layers/layer.h"

namespace paracord {

struct Window {
  // `axes` is 1 for steps, 2 for images. `size_key` and `dilation_key` are the keys of the window's
  // size and dilation; `dilation_key` is "" for a pooling. `strides` is the default of the key
  // "strides", where 0 stands for the window's size.
  Window(LayerConfig& config, size_t axes, absl::string_view size_key,
         absl::string_view dilation_key, int64_t strides);

  struct Axes {
    WindowAxis height, width;
    Shape Output(size_t rank, int64_t channels) const;
  };
  // Returns the window over an input of this shape, padded as in TensorFlow. INVALID_ARGUMENT: the
  // input has another number of axes, or is smaller than the window.
  absl::StatusOr<Axes> Over(const Shape& input) const;

  const size_t axes;
  const std::string padding;  // "valid", "same", or, only for a convolution over steps, "causal"
  WindowAxis height, width;
};

// Sets the output size and the padding of `axis` as TensorFlow does. INVALID_ARGUMENT: the input is
// smaller than the window; the error calls the axis `name`.
absl::Status SlideWindow(const char* name, const std::string& padding, WindowAxis& axis);

}  // namespace paracord
