// The state of a metric over some examples, and its value. States merge by addition, so an
// evaluation may be split over any number of workers: the value is that of all examples.
#pragma once

#include "proto/paracord.pb.h"

namespace paracord {

// sum += state, element by element; an empty sum takes the state's kind and size.
void MergeMetric(const MetricState& state, MetricState& sum);

// Returns the value of a state, by its kind. For a mean, values = {sum over the examples, sum of
// their weights}; 0 if the weights sum to 0. NaN if the state has too few values.
double MetricValue(const MetricState& state);

}  // namespace paracord
