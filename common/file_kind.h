// Tells what a file is by how it begins, so that an error about a file of another kind can name
// that kind and say what to do. Pure.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace paracord {

// FileKind looks at this many bytes of a file's beginning.
constexpr size_t kFileKindBytes = 512;

// Returns "an HDF5 file" or, if there is something to do about it, "a pointer of Git LFS, not the
// file itself; fetch that with git lfs pull"; "" if the bytes are of no known kind.
std::string FileKind(std::string_view beginning);
// Whether the bytes begin an HTML page, which is the one kind that is text.
bool IsHtmlPage(std::string_view beginning);
// Returns the kind as the end of a sentence: "; it is an HDF5 file", or "".
std::string FileKindHint(std::string_view beginning);

}  // namespace paracord
