#include "common/descriptors.h"

#include <sys/resource.h>

#include <algorithm>
#include <climits>

#include "absl/strings/str_cat.h"

namespace paracord {

int DescriptorsMax() {
  rlimit files{};
  if (getrlimit(RLIMIT_NOFILE, &files) != 0) return INT_MAX;
  return static_cast<int>(std::min<rlim_t>(files.rlim_cur, INT_MAX));
}

absl::Status WantDescriptors(uint64_t least) {
  rlimit files{};
  if (getrlimit(RLIMIT_NOFILE, &files) != 0) return absl::OkStatus();
  files.rlim_cur = files.rlim_max;
  setrlimit(RLIMIT_NOFILE, &files);
  if (files.rlim_max >= least) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("this process may have ", files.rlim_max,
                                                 " descriptors (ulimit -n), and needs at least ",
                                                 least));
}

}  // namespace paracord
