// The window of a convolution or a pooling, as its layer's keys say, over steps (one axis, an image
// of one row) or an image. Pure.
#pragma once

#include "keras/layers/layer.h"

namespace paracord {

struct Window {
  // `strides`: the default; 0: the window's size.
  Window(LayerConfig& config, size_t axes, absl::string_view size_key,
         absl::string_view dilation_key, int64_t strides);

  struct Axes {
    WindowAxis height, width;
    Shape Output(size_t rank, int64_t channels) const;
  };
  // With the sizes of an input; TensorFlow's rules of padding.
  absl::StatusOr<Axes> Over(const Shape& input) const;

  const size_t axes;
  const std::string padding;  // "valid", "same", "causal"
  WindowAxis height, width;
};

// Sets `axis.out` and the padding, by TensorFlow's rules; `name` of the axis is for errors.
absl::Status SlideWindow(const char* name, const std::string& padding, WindowAxis& axis);

}  // namespace paracord
