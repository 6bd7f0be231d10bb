// The names, keys and values that Kubernetes accepts (k8s.io/apimachinery, pkg/util/validation):
// `paracord render` refuses all others, before an API server would. Pure.
#pragma once

#include <string_view>

namespace paracord {

// Whether objects may have the name: RFC 1123's words of small letters, digits and dashes, with
// dots between words, and at most 253 bytes.
bool IsObjectName(std::string_view name);

// Whether labels, annotations, nodes and tolerations may have the key: a name of at most 63
// letters, digits, dashes, dots and underscores, which begins and ends with a letter or digit. A
// domain and a slash may stand before the name.
bool IsLabelKey(std::string_view key);

// Whether a label may have the value: nothing, or what a key's name may be.
bool IsLabelValue(std::string_view value);

}  // namespace paracord
