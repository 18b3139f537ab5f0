#include <fmt/format.h>

#include <utility>

#include "base/check.h"
#include "ps/outer/kernels.h"
#include "square/outer_optimizer.h"

namespace square::ps {
namespace {

Status check_finite(std::span<const float> values, std::string_view what) {
  if (squared_norm(values).is_finite) return Status::ok();
  return invalid_argument(
      fmt::format("{} with an infinity or a NaN: no optimizer can start from them", what));
}

Status check_as_many(std::span<const float> values, std::size_t count, std::string_view what) {
  if (values.size() == count) return Status::ok();
  return invalid_argument(fmt::format("{} elements of {} for {} parameters", values.size(), what, count));
}

// The formulas of Nesterov, with the c of delays.
Step step_of(const Nesterov& outer, bool moves_momentum, double factor) {
  const double delay = outer.delay;
  const double held_back =
      moves_momentum ? 1 - outer.delay_share * delay + outer.delay_share : outer.delay_share;
  Step step;
  step.lr = static_cast<float>(outer.lr);
  step.momentum = static_cast<float>(outer.momentum);
  step.look_ahead = static_cast<float>(held_back * outer.momentum);
  step.share = static_cast<float>(1 / delay);
  step.factor = static_cast<float>(factor);
  return step;
}

}  // namespace

OuterShard::OuterShard(State state, Nesterov outer) : state_(std::move(state)), outer_(outer) {}

Result<OuterShard> OuterShard::create(std::vector<float> parameters, Nesterov outer) {
  SQUARE_RETURN_IF_ERROR(check(outer));
  SQUARE_RETURN_IF_ERROR(check_finite(parameters, "parameters"));
  State state;
  state.momentum.resize(parameters.size());
  state.parameters = std::move(parameters);
  return OuterShard(std::move(state), outer);
}

Result<OuterShard> OuterShard::restore(State state, Nesterov outer) {
  SQUARE_RETURN_IF_ERROR(check(outer));
  const std::size_t count = state.parameters.size();
  SQUARE_RETURN_IF_ERROR(check_finite(state.parameters, "parameters"));
  SQUARE_RETURN_IF_ERROR(check_as_many(state.momentum, count, "momentum"));
  SQUARE_RETURN_IF_ERROR(check_finite(state.momentum, "momentum"));
  if (!state.accumulator.empty()) {
    if (state.rounds % outer.delay == 0) {
      return invalid_argument(fmt::format("an accumulator after {} rounds: with a delay of {} there is none",
                                          state.rounds, outer.delay));
    }
    SQUARE_RETURN_IF_ERROR(check_as_many(state.accumulator, count, "an accumulator"));
    SQUARE_RETURN_IF_ERROR(check_finite(state.accumulator, "an accumulator"));
  }
  return OuterShard(std::move(state), outer);
}

bool OuterShard::moves_momentum() const { return (state_.rounds + 1) % outer_.delay == 0; }

void OuterShard::begin() {
  SQUARE_CHECK(!begun_, "a round is under way");
  next_.resize(size());
  begun_ = true;
}

void OuterShard::update(std::size_t first, std::span<float> average, double factor) {
  SQUARE_CHECK(begun_, "no round is under way");
  SQUARE_CHECK(first <= size() && average.size() <= size() - first, "a range beyond the shard");
  const std::size_t count = average.size();
  const bool moves = moves_momentum();
  std::span<const float> gathered = state_.accumulator;
  if (!gathered.empty()) gathered = gathered.subspan(first, count);
  const auto step = moves ? &nesterov : &delayed;
  step(std::span(next_).subspan(first, count), average, parameters().subspan(first, count),
       momentum().subspan(first, count), gathered, step_of(outer_, moves, factor));
}

std::vector<float> OuterShard::commit(std::vector<float> average) {
  SQUARE_CHECK(begun_, "no round is under way");
  SQUARE_CHECK(average.size() == size(), "averages of another size");
  const bool moves = moves_momentum();
  state_.parameters.swap(next_);
  (moves ? state_.momentum : state_.accumulator).swap(average);
  // D = 0, which is no memory.
  if (moves) state_.accumulator = {};
  ++state_.rounds;
  begun_ = false;
  return average;
}

void OuterShard::abort() { begun_ = false; }

}  // namespace square::ps
