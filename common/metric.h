// The state of a metric over some examples, and its value. States merge by addition; an evaluation
// may be split over any number of workers and stays exact. Pure.
#pragma once

#include "proto/paracord.pb.h"

namespace paracord {

// sum += state, element by element; an empty sum takes the state's size.
void MergeMetric(const MetricState& state, MetricState& sum);

// The value of a state. For a mean, values = {sum over the examples, sum of their weights}; 0 if
// the weights sum to 0. NaN for an empty state.
double MetricValue(const MetricState& state);

}  // namespace paracord
