// The names, keys and values that Kubernetes accepts (k8s.io/apimachinery, pkg/util/validation):
// `paracord render` refuses all others, before an API server would. Pure.
#pragma once

#include <string_view>

namespace paracord {

// Whether objects may have the name: RFC 1123's labels of small letters, digits and dashes, with
// dots between them, and at most 253 bytes together.
bool IsObjectName(std::string_view name);

// Whether labels, annotations, nodes and tolerations may have the key: a name of at most 63
// letters, digits, dashes, dots and underscores, which begins and ends with a letter or digit. A
// domain and a slash may stand before the name.
bool IsLabelKey(std::string_view key);

// Whether a label may have the value: an empty one, or one of the form of a key without a domain.
bool IsLabelValue(std::string_view value);

}  // namespace paracord
