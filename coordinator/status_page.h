// The status page of a job: one self-contained HTML document with its styles and script. The build
// makes it of the files in coordinator/page. Constant.
#pragma once

namespace paracord {

extern const char kStatusPage[];

}  // namespace paracord
