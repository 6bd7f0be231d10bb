#include "tensor/cuda/conv_own.h"

#include <string>

#include "absl/strings/str_cat.h"

namespace paracord::cuda {

void SaySlow(Engine& engine, const ConvShape& s, const Directions& can, absl::string_view why) {
  std::string what;
  for (const auto& [has, name] :
       {std::pair(can.forward, "output"), std::pair(can.data, "gradient of the input"),
        std::pair(can.filter, "gradient of the kernel")}) {
    if (!has) absl::StrAppend(&what, what.empty() ? "" : ", ", name);
  }
  if (what.empty()) return;
  engine.SaySlow(absl::StrCat("a convolution of ", s.in_channels, " to ", s.out_channels,
                              " channels by ", s.height.size, "x", s.width.size,
                              " is computed without cuDNN, slowly (", what, "): ", why));
}

}  // namespace paracord::cuda
