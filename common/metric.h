// The state of a metric over some examples, and the metric's value. States are merged by addition:
// if workers share an evaluation, the merged state gives the value for all examples together.
#pragma once

#include "proto/paracord.pb.h"

namespace paracord {

// Adds `state` to `sum`, element by element. An empty `sum` takes over the kind and size.
void MergeMetric(const MetricState& state, MetricState& sum);

// Returns the value of a metric from its state. For a mean, `values` has the sum over the examples
// and the sum of their weights, and the value is 0 if the weights sum to 0. Returns NaN if the
// state has too few values for its kind.
double MetricValue(const MetricState& state);

}  // namespace paracord
