// The status page of a job: one HTML document with its styles and its script, which needs nothing
// else. The build makes it of the files in coordinator/page. Constant.
#pragma once

namespace paracord {

extern const char kStatusPage[];

}  // namespace paracord
