// The status page of a job: one self-contained HTML document with its styles and script, generated
// by the build from the files in coordinator/page.
#pragma once

namespace paracord {

extern const char kStatusPage[];

}  // namespace paracord
