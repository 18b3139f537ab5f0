#include "ps/outer/kernels.h"

#include <cmath>
#include <cstdint>
#include <cstring>

#include "base/check.h"

namespace square::ps {
namespace {

// Sums that grow side by side, so that the compiler may use vectors without reordering one.
constexpr std::size_t kLanes = 8;

// Of value(0), value(1), ..., which may write as it goes.
template <typename Value>
inline NormOf norm_of_each(std::size_t count, Value value) {
  double sums[kLanes] = {};
  std::size_t i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    for (std::size_t lane = 0; lane < kLanes; ++lane) {
      const double one = value(i + lane);
      sums[lane] += one * one;
    }
  }
  for (; i < count; ++i) {
    const double one = value(i);
    sums[i % kLanes] += one * one;
  }
  double sum = 0;
  for (const double lane : sums) sum += lane;
  return {sum, std::isfinite(sum)};
}

// The upper half of a float32.
inline float float_of_bfloat16(std::uint16_t half) {
  const std::uint32_t bits = std::uint32_t{half} << 16U;
  float value = 0;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}

template <typename Element>
inline Element element_at(const std::byte* bytes, std::size_t index) {
  Element element;
  std::memcpy(&element, bytes + index * sizeof(Element), sizeof(Element));
  return element;
}

template <typename Value>
inline void add_each(std::span<float> average, float weight, bool first, Value value) {
  float* const sum = average.data();
  if (first) {
    for (std::size_t i = 0; i < average.size(); ++i) sum[i] = weight * value(i);
  } else {
    for (std::size_t i = 0; i < average.size(); ++i) sum[i] += weight * value(i);
  }
}

void check_sizes_of_step(std::span<float> next, std::span<float> average, std::span<const float> parameters,
                         std::span<const float> momentum, std::span<const float> accumulator) {
  const std::size_t count = next.size();
  SQUARE_CHECK(average.size() == count && parameters.size() == count && momentum.size() == count,
               "a step's buffers differ in size");
  SQUARE_CHECK(accumulator.empty() || accumulator.size() == count, "an accumulator of another size");
}

// kGathers: there is something in the accumulator.
template <bool kGathers>
void momentum_steps(std::size_t count, float* __restrict next, float* __restrict average,
                    const float* __restrict parameters, const float* __restrict momentum,
                    const float* __restrict accumulator, const Step step) {
  for (std::size_t i = 0; i < count; ++i) {
    const float g = step.factor * average[i];
    const float gathered = kGathers ? accumulator[i] + g : g;
    const float m = step.momentum * momentum[i] + step.share * gathered;
    next[i] = parameters[i] - step.lr * (step.look_ahead * m + step.share * g);
    average[i] = m;
  }
}

template <bool kGathers>
void delayed_steps(std::size_t count, float* __restrict next, float* __restrict average,
                   const float* __restrict parameters, const float* __restrict momentum,
                   const float* __restrict accumulator, const Step step) {
  for (std::size_t i = 0; i < count; ++i) {
    const float g = step.factor * average[i];
    next[i] = parameters[i] - step.lr * (step.look_ahead * momentum[i] + step.share * g);
    average[i] = kGathers ? accumulator[i] + g : g;
  }
}

}  // namespace

NormOf total(std::span<const NormOf> blocks) {
  NormOf sum;
  for (const NormOf& block : blocks) {
    sum.squared += block.squared;
    sum.is_finite = sum.is_finite && block.is_finite;
  }
  return sum;
}

NormOf receive(std::span<float> out, std::span<const std::byte> payload, ElementType type) {
  const bool is_half = type == ElementType::kBfloat16;
  SQUARE_CHECK(is_half || type == ElementType::kFloat32, "a push is float32 or bfloat16");
  SQUARE_CHECK(payload.size() == out.size() * (is_half ? sizeof(std::uint16_t) : sizeof(float)),
               "a payload of another size");
  float* const __restrict to = out.data();
  const std::byte* const __restrict from = payload.data();
  if (is_half) {
    return norm_of_each(out.size(), [=](std::size_t i) {
      return to[i] = float_of_bfloat16(element_at<std::uint16_t>(from, i));
    });
  }
  return norm_of_each(out.size(), [=](std::size_t i) { return to[i] = element_at<float>(from, i); });
}

NormOf receive_parameters(std::span<float> out, std::span<const float> current,
                          std::span<const std::byte> payload) {
  SQUARE_CHECK(current.size() == out.size() && payload.size() == out.size() * sizeof(float),
               "a payload of another size");
  float* const __restrict to = out.data();
  const float* const __restrict theta = current.data();
  const std::byte* const __restrict from = payload.data();
  return norm_of_each(out.size(),
                      [=](std::size_t i) { return to[i] = theta[i] - element_at<float>(from, i); });
}

NormOf squared_norm(std::span<const float> values) {
  const float* const from = values.data();
  return norm_of_each(values.size(), [=](std::size_t i) { return from[i]; });
}

NormOf squared_norm_of_difference(std::span<const float> current, std::span<const float> values) {
  SQUARE_CHECK(current.size() == values.size(), "values of another size");
  const float* const theta = current.data();
  const float* const from = values.data();
  return norm_of_each(values.size(), [=](std::size_t i) { return theta[i] - from[i]; });
}

void add_weighted(std::span<float> average, std::span<const float> push, float weight, bool first) {
  SQUARE_CHECK(average.size() == push.size(), "a push of another size");
  const float* const from = push.data();
  add_each(average, weight, first, [=](std::size_t i) { return from[i]; });
}

void add_weighted_difference(std::span<float> average, std::span<const float> current,
                             std::span<const float> values, float weight, bool first) {
  SQUARE_CHECK(average.size() == current.size() && average.size() == values.size(), "values of another size");
  const float* const theta = current.data();
  const float* const from = values.data();
  add_each(average, weight, first, [=](std::size_t i) { return theta[i] - from[i]; });
}

void nesterov(std::span<float> next, std::span<float> average, std::span<const float> parameters,
              std::span<const float> momentum, std::span<const float> accumulator, const Step& step) {
  check_sizes_of_step(next, average, parameters, momentum, accumulator);
  const auto steps = accumulator.empty() ? &momentum_steps<false> : &momentum_steps<true>;
  steps(next.size(), next.data(), average.data(), parameters.data(), momentum.data(), accumulator.data(),
        step);
}

void delayed(std::span<float> next, std::span<float> average, std::span<const float> parameters,
             std::span<const float> momentum, std::span<const float> accumulator, const Step& step) {
  check_sizes_of_step(next, average, parameters, momentum, accumulator);
  const auto steps = accumulator.empty() ? &delayed_steps<false> : &delayed_steps<true>;
  steps(next.size(), next.data(), average.data(), parameters.data(), momentum.data(), accumulator.data(),
        step);
}

}  // namespace square::ps
