// Recognises the kind of a file by its first bytes, for errors that name the kind.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace paracord {

// FileKind looks at no more than this number of bytes.
constexpr size_t kFileKindBytes = 512;

// Returns the kind of a file that begins with `beginning`, often with a remedy: "a PDF file", "a
// gzip file; unpack it". Returns "empty" if `beginning` is empty, and "" if the kind is unknown.
std::string FileKind(std::string_view beginning);
// Whether `beginning` is the beginning of an HTML page.
bool IsHtmlPage(std::string_view beginning);
// Returns FileKind as the end of a sentence: "; it is a PDF file"; "" if the kind is unknown.
std::string FileKindHint(std::string_view beginning);

}  // namespace paracord
