// Recognises the kind of a file by its first bytes, for errors that name the kind found and a
// remedy. Pure.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace paracord {

// How many bytes of a file's beginning FileKind examines.
constexpr size_t kFileKindBytes = 512;

// Returns "an HDF5 file" or, with a remedy, "a pointer of Git LFS, not the file itself; fetch that
// with git lfs pull"; "" if the kind is unknown.
std::string FileKind(std::string_view beginning);
// Whether the bytes begin an HTML page, the only kind made of text.
bool IsHtmlPage(std::string_view beginning);
// Returns FileKind as the end of a sentence: "; it is an HDF5 file", or "".
std::string FileKindHint(std::string_view beginning);

}  // namespace paracord
