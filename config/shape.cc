#include "config/shape.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace paracord {

int64_t Elements(const Shape& shape) {
  int64_t product = 1;
  for (const int64_t dim : shape) product *= dim;
  return product;
}

std::string ShapeName(const Shape& shape) {
  constexpr size_t kAxesShown = 64;  // a tensor may have no more
  if (shape.size() > kAxesShown) {
    return absl::StrCat("(", absl::StrJoin(shape.begin(), shape.begin() + 8, ", "), ", ..., ",
                        shape.size(), " axes)");
  }
  return absl::StrCat("(", absl::StrJoin(shape, ", "), shape.size() == 1 ? ",)" : ")");
}

}  // namespace paracord
