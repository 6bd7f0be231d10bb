// The state of a metric over some examples, and its value. States merge by addition, so that an
// evaluation may be cut over any number of workers and still be exact. Pure.
#pragma once

#include "proto/paracord.pb.h"

namespace paracord {

// sum += state, element by element; an empty sum takes the state's size.
void MergeMetric(const MetricState& state, MetricState& sum);

// Of a mean: values = {sum over the examples, sum of their weights}, 0 where that is 0. NaN for
// a state that nothing was added to.
double MetricValue(const MetricState& state);

}  // namespace paracord
