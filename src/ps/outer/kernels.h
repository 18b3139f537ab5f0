// The loops of the outer optimizer. Each goes over one range, in the thread that calls it.
#pragma once

#include <cstddef>
#include <span>

#include "square/reduction.h"

namespace square::ps {

// A sum of squares depends on how its range is cut, as rounding does. So whoever cuts work into threads
// calls these loops block by block, blocks begin at multiples of this in a layer or shard, and total() adds
// the blocks in order. Then the bits do not depend on the number of threads.
inline constexpr std::size_t kBlockElements = 65'536;

// Of a pseudo-gradient: the square of its L2 norm, in float64. The sum of squares of float32 elements
// overflows no double, so it is finite exactly where they all are.
struct NormOf {
  double squared = 0;
  bool is_finite = true;
};
// Of blocks, added from the first to the last.
NormOf total(std::span<const NormOf> blocks);

// In all of these: spans of one call have as many elements (SQUARE_CHECK), and overlap nowhere unless a
// line says so; bytes begin anywhere. Thread-safe on ranges that do not overlap.

// Copies what came from a link to float32. Preconditions: `type` is kFloat32 or kBfloat16; `payload` has
// as many elements of it as `out`.
NormOf receive(std::span<float> out, std::span<const std::byte> payload, ElementType type);
// The same for a worker's parameters in float32: out = current - payload, the pseudo-gradient.
NormOf receive_parameters(std::span<float> out, std::span<const float> current,
                          std::span<const std::byte> payload);
NormOf squared_norm(std::span<const float> values);
// Of current - values.
NormOf squared_norm_of_difference(std::span<const float> current, std::span<const float> values);

// average = weight * push for the first push, and average += weight * push for the next ones. `average` may
// be the first push itself.
void add_weighted(std::span<float> average, std::span<const float> push, float weight, bool first);
// The same for push = current - values.
void add_weighted_difference(std::span<float> average, std::span<const float> current,
                             std::span<const float> values, float weight, bool first);

// One step of an element, with g = factor * average. Nesterov: share = 1, look_ahead = momentum.
struct Step {
  float lr = 0;
  float momentum = 0;    // beta, what stays of m
  float look_ahead = 0;  // what multiplies the momentum in the step
  float share = 1;       // 1 / N, of a delay N
  float factor = 1;      // of clipping
};
// m' = momentum m + share (D + g); next = parameters - lr (look_ahead m' + share g). Writes m' where the
// average was. `accumulator` is D; empty, it stands for zeros.
void nesterov(std::span<float> next, std::span<float> average, std::span<const float> parameters,
              std::span<const float> momentum, std::span<const float> accumulator, const Step& step);
// A round that leaves m alone: next = parameters - lr (look_ahead m + share g). Writes D + g where the
// average was.
void delayed(std::span<float> next, std::span<float> average, std::span<const float> parameters,
             std::span<const float> momentum, std::span<const float> accumulator, const Step& step);

}  // namespace square::ps
