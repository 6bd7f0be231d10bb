#include "config/unknown_name.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "config/nearest.h"

namespace paracord {
namespace {

struct OtherName {
  std::string_view name;
  std::string_view ours;
  std::string_view option;  // an option that the name implies; empty: none
};

// What PyTorch and scikit-learn call losses and metrics, in snake case.
constexpr OtherName kOtherNames[] = {
    {"roc_auc", "auc", ""},
    {"roc_auc_score", "auc", ""},
    {"auroc", "auc", ""},
    {"accuracy_score", "accuracy", ""},
    {"r2", "r2_score", ""},
    {"bce_loss", "binary_crossentropy", ""},
    {"log_loss", "binary_crossentropy", ""},
    {"bce_with_logits", "binary_crossentropy", "\"from_logits\": true"},
    {"bce_with_logits_loss", "binary_crossentropy", "\"from_logits\": true"},
    {"cross_entropy", "sparse_categorical_crossentropy", "\"from_logits\": true"},
    {"cross_entropy_loss", "sparse_categorical_crossentropy", "\"from_logits\": true"},
    {"nll_loss", "sparse_categorical_crossentropy", ""},
    {"mse_loss", "mean_squared_error", ""},
    {"l1_loss", "mean_absolute_error", ""},
    {"smooth_l1_loss", "huber", ""},
    {"huber_loss", "huber", ""},
    {"kl_div_loss", "kl_divergence", ""},
    {"poisson_nll_loss", "poisson", ""},
};

// Returns the known name that was meant, quoted, with the implied option: `"auc"`.
std::string Meant(const std::string& wrong, std::span<const std::string_view> known) {
  for (const OtherName& other : kOtherNames) {
    if (other.name != wrong || std::ranges::find(known, other.ours) == known.end()) continue;
    return absl::StrCat("\"", std::string(other.ours), "\"", other.option.empty() ? "" : " with ",
                        std::string(other.option));
  }
  const std::string near = NearestName(wrong, known);
  return near.empty() ? "" : absl::StrCat("\"", near, "\"");
}

}  // namespace

std::string NotSupported(const std::string& wrong, std::span<const std::string_view> known) {
  const std::string meant = Meant(wrong, known);
  return absl::StrCat(" is not supported",
                      meant.empty() ? "" : absl::StrCat(" (did you mean ", meant, "?)"),
                      "; supported: ", JoinNames(known));
}

}  // namespace paracord
