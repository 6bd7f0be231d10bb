// Tells what a file is by how it begins, so that an error about a file of another kind can name
// that kind and say what to do. Pure.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace paracord {

// As much of a file's beginning as FileKind looks at.
constexpr size_t kFileKindBytes = 512;

// "an HDF5 file", or where there is something to do about it "a pointer of Git LFS, not the file
// itself; fetch that with git lfs pull"; empty where the bytes are no kind that is known here.
std::string FileKind(std::string_view beginning);
// The one kind of these that is text.
bool IsHtmlPage(std::string_view beginning);
// The same as the end of a sentence: "; it is an HDF5 file", or nothing.
std::string FileKindHint(std::string_view beginning);

}  // namespace paracord
