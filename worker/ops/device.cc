#include "worker/ops/device.h"

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

namespace paracord {

absl::StatusOr<std::string> ChooseDevice(const std::string& text) {
  if (text == "auto" || text == "cpu") return std::string("cpu");
  uint32_t index = 0;
  if (text.starts_with("cuda:") && absl::SimpleAtoi(text.substr(5), &index)) {
    return absl::InvalidArgumentError(
        absl::StrCat("--device ", text, ": this build has no CUDA; use auto or cpu"));
  }
  return absl::InvalidArgumentError(
      absl::StrCat("--device: \"", text, "\" is none of auto, cpu, cuda:N"));
}

}  // namespace paracord
