#include "keras/layers/window.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"

namespace paracord {
namespace {

// The limit of a convolution kernel's places. oneDNN's time and memory to prepare a convolution
// grow with the places; at the limit they reach a few seconds.
constexpr int64_t kPlacesMax = int64_t{1} << 22;

std::pair<int64_t, int64_t> Sizes(LayerConfig& config, size_t axes, absl::string_view key,
                                  int64_t fallback) {
  if (axes == 2) return config.Pair(key, fallback);
  const int64_t size = config.AnyInteger(key, fallback);
  if (size < 1 || size > 1'000'000) config.Fail(key, "must be a positive whole number");
  return {1, std::max<int64_t>(size, 1)};
}

}  // namespace

// "same" puts the odd pixel at the end.
absl::Status SlideWindow(const char* name, const std::string& padding, WindowAxis& axis) {
  const int64_t reach = (axis.size - 1) * axis.dilation + 1;
  if (padding == "valid") {
    axis.out = axis.in < reach ? 0 : (axis.in - reach) / axis.stride + 1;
  } else if (padding == "same") {
    axis.out = (axis.in + axis.stride - 1) / axis.stride;
    const int64_t pad = std::max<int64_t>((axis.out - 1) * axis.stride + reach - axis.in, 0);
    axis.pad_before = pad / 2;
    axis.pad_after = pad - pad / 2;
  } else {  // causal
    axis.pad_before = reach - 1;
    axis.out = (axis.in - 1) / axis.stride + 1;
  }
  if (axis.out < 1) {
    return absl::InvalidArgumentError(absl::StrCat("the ", name, " of its input, ", axis.in,
                                                   ", is smaller than its window, ", reach));
  }
  // Pixels at the end beyond every window count as left out, not as negative padding.
  const int64_t used = (axis.out - 1) * axis.stride + reach;
  if (padding == "causal") axis.pad_after = std::max<int64_t>(used - axis.in - axis.pad_before, 0);
  return absl::OkStatus();
}

Window::Window(LayerConfig& config, size_t window_axes, absl::string_view size_key,
               absl::string_view dilation_key, int64_t strides_default)
    : axes(window_axes),
      padding(window_axes == 1 && !dilation_key.empty()
                  ? config.Choice("padding", "valid", {"valid", "same", "causal"})
                  : config.Choice("padding", "valid", {"valid", "same"})) {
  config.Choice("data_format", "channels_last", {"channels_last"});
  if (!config.Has(size_key)) config.Fail(size_key, "is missing");
  const auto size = Sizes(config, axes, size_key, 1);
  const bool convolution = !dilation_key.empty();
  if (convolution && size.first * size.second > kPlacesMax) {
    config.Fail(size_key, absl::StrCat("must have at most ", kPlacesMax, " places, not ",
                                       size.first, " x ", size.second));
  }
  auto strides = size;
  if (config.Has("strides") || strides_default > 0) {
    strides = Sizes(config, axes, "strides", std::max<int64_t>(strides_default, 1));
  }
  config.Ignore("strides");
  std::pair<int64_t, int64_t> dilation{1, 1};
  if (convolution) dilation = Sizes(config, axes, dilation_key, 1);
  height = {.size = size.first, .stride = strides.first, .dilation = dilation.first};
  width = {.size = size.second, .stride = strides.second, .dilation = dilation.second};
  if ((strides.first > 1 || strides.second > 1) && (dilation.first > 1 || dilation.second > 1)) {
    // Refused by Keras, too.
    config.Fail("strides", "above 1 cannot be combined with dilation_rate above 1");
  }
}

absl::StatusOr<Window::Axes> Window::Over(const Shape& input) const {
  if (input.size() != axes + 1) {
    return absl::InvalidArgumentError(absl::StrCat(
        "needs an input of ", axes == 2 ? "(height, width, channels)" : "(steps, channels)",
        ", not ", ShapeName(input)));
  }
  Axes over{height, width};
  over.height.in = axes == 2 ? input[0] : 1;
  over.width.in = input[axes - 1];
  RETURN_IF_ERROR(SlideWindow("height", axes == 2 ? padding : "valid", over.height));
  RETURN_IF_ERROR(SlideWindow(axes == 2 ? "width" : "length", padding, over.width));
  return over;
}

Shape Window::Axes::Output(size_t rank, int64_t channels) const {
  if (rank == 2) return {height.out, width.out, channels};
  return {width.out, channels};
}

}  // namespace paracord
