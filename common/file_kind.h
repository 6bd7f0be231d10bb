// Recognises the kind of a file by the first bytes, for errors that name the kind and often a
// remedy.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace paracord {

// FileKind needs no more than so many bytes of a file's beginning.
constexpr size_t kFileKindBytes = 512;

// Returns what the file is, in many cases with a remedy: "a PDF file", "a gzip file; unpack it";
// "empty" if there are no bytes, and "" if the kind is unknown.
std::string FileKind(std::string_view beginning);
// Whether the bytes begin an HTML page. A reader of text could take such a page for data.
bool IsHtmlPage(std::string_view beginning);
// Returns FileKind as the end of a sentence: "; it is a PDF file", or "" if the kind is unknown.
std::string FileKindHint(std::string_view beginning);

}  // namespace paracord
