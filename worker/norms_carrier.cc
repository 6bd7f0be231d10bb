#include "worker/norms_carrier.h"

#include <algorithm>
#include <vector>

namespace paracord {

std::optional<RoundNorms> NormsCarrier::Begin() {
  told_.clear();
  if (norms_.has_value()) {
    *norms_->mutable_lease() = lease_;
    norms_->set_proof(proof_);
  }
  return std::exchange(norms_, std::nullopt);
}

void NormsCarrier::Told(uint32_t variable, const PartitionState& state) {
  if (!state.has_squares() || !(state.squares() >= 0)) return;
  // Of several holders of a partition some may lack lanes of the round that another waits with.
  const auto [at, first] = told_.try_emplace(state.partition());
  auto& [round, squares] = at->second;
  if (!first && round > state.squares_round()) return;
  round = state.squares_round();
  squares = {state.partition(), variable, state.squares()};
}

bool NormsCarrier::End(bool wanted) {
  if (!wanted || told_.size() != trained_) return false;
  const uint64_t round = told_.begin()->second.first;
  std::vector<PartitionSquares> squares;
  for (const auto& [partition, told] : told_) {
    if (told.first != round) return false;
    squares.push_back(told.second);
  }
  norms_.emplace().set_round(round);
  const std::vector<double> sums = SquaresOfVariables(squares, variables_);
  norms_->mutable_squares()->Add(sums.begin(), sums.end());
  return std::exchange(carried_, round) != round;
}

}  // namespace paracord
