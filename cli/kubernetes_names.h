// The names, keys and values that Kubernetes accepts (k8s.io/apimachinery, pkg/util/validation).
// `paracord render` refuses all others. Pure.
#pragma once

#include <string_view>

namespace paracord {

// Whether objects may have the name: labels of RFC 1123 (small letters, digits and dashes) with
// dots between them, and at most 253 bytes in all.
bool IsObjectName(std::string_view name);

// Whether labels, annotations, node selectors and tolerations may have the key: at most 63 letters,
// digits, dashes, dots and underscores, of which the first and the last is a letter or digit. A
// domain, of the form of an object's name, and a slash may stand before them.
bool IsLabelKey(std::string_view key);

// Whether a label may have the value: empty, or a key without a domain as IsLabelKey accepts it.
bool IsLabelValue(std::string_view value);

}  // namespace paracord
