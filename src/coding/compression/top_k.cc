#include "coding/compression/top_k.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <functional>
#include <numeric>
#include <vector>

#include "base/check.h"

namespace square::compression {
namespace {

constexpr std::uint32_t kSign = 0x8000'0000U;
constexpr std::uint32_t kQuietNan = 0x7fc0'0000U;

template <typename Element>
Element load(const std::byte* from, std::size_t index) {
  Element element;
  std::memcpy(&element, from + index * sizeof(Element), sizeof(Element));
  return element;
}

template <typename Element>
void store(std::byte* to, std::size_t index, Element element) {
  std::memcpy(to + index * sizeof(Element), &element, sizeof(Element));
}

std::uint32_t magnitude(std::span<const std::byte> elements, std::uint32_t index) {
  return load<std::uint32_t>(elements.data(), index) & ~kSign;
}

// The least value of the upper bits of a magnitude such that at least `wanted` elements reach it.
struct Bound {
  std::uint32_t least = 0;
  std::size_t reached_by = 0;
};
Bound bound_of(std::span<const std::byte> elements, std::size_t wanted) {
  std::vector<std::uint32_t> counts(kMagnitudeBins);
  kernels().count_magnitudes(counts.data(), elements.data(), elements.size() / sizeof(float));
  Bound bound;
  std::size_t bin = kMagnitudeBins;
  while (bin > 0 && bound.reached_by < wanted) bound.reached_by += counts[--bin];
  bound.least = static_cast<std::uint32_t>(bin << kMagnitudeShift);
  return bound;
}

// The indices of what is encoded, ascending.
std::vector<std::uint32_t> choose(std::span<const std::byte> elements, std::size_t wanted) {
  const std::size_t count = elements.size() / sizeof(float);
  std::vector<std::uint32_t> chosen;
  if (wanted == 0) return chosen;
  if (wanted == count) {
    chosen.resize(count);
    std::iota(chosen.begin(), chosen.end(), 0U);
    return chosen;
  }
  const Bound bound = bound_of(elements, wanted);
  chosen.resize(bound.reached_by);
  const std::size_t found =
      kernels().find_large(chosen.data(), chosen.size(), elements.data(), count, bound.least);
  SQUARE_CHECK(found == bound.reached_by, "two passes over the same magnitudes");
  std::vector<std::uint32_t> magnitudes(found);
  std::ranges::transform(chosen, magnitudes.begin(),
                         [&](std::uint32_t index) { return magnitude(elements, index); });
  const auto last = magnitudes.begin() + static_cast<std::ptrdiff_t>(wanted - 1);
  std::ranges::nth_element(magnitudes, last, std::greater<>());
  const std::uint32_t least = *last;
  // Before `last` are those that are larger and, in any order, some that are equal.
  std::size_t equal = 1 + static_cast<std::size_t>(std::count(magnitudes.begin(), last, least));
  std::erase_if(chosen, [&](std::uint32_t index) {
    const std::uint32_t own = magnitude(elements, index);
    if (own != least) return own < least;
    if (equal == 0) return true;
    --equal;
    return false;
  });
  return chosen;
}

}  // namespace

std::size_t top_k_count(std::size_t elements, double fraction) {
  const double part = std::ceil(static_cast<double>(elements) * fraction);
  return std::min(elements, std::max<std::size_t>(static_cast<std::size_t>(part), elements > 0 ? 1 : 0));
}

Loss encode_top_k(std::span<std::byte> encoded, std::span<const std::byte> elements) {
  const std::size_t wanted = encoded.size() / kTopKBytes;
  const std::size_t count = elements.size() / sizeof(float);
  SQUARE_CHECK(wanted <= count && count <= kMostTopKElements && wanted * kTopKBytes == encoded.size(),
               "sizes of a top-k buffer");
  const std::vector<std::uint32_t> chosen = choose(elements, wanted);
  SQUARE_CHECK(chosen.size() == wanted, "how many are chosen");
  std::byte* const values = encoded.data() + wanted * sizeof(std::uint32_t);
  double sent = 0;
  for (std::size_t i = 0; i < wanted; ++i) {
    const auto value = load<float>(elements.data(), chosen[i]);
    store(encoded.data(), i, chosen[i]);
    if (std::isnan(value)) {
      store(values, i, kQuietNan);
    } else {
      store(values, i, value);
    }
    sent += double{value} * double{value};
  }
  Loss loss;
  loss.squared_norm = wanted == count ? sent : kernels().squared_norm(elements.data(), count);
  // Both are rounded sums: their difference may be a little less than nothing, but a NaN stays one.
  const double left = loss.squared_norm - sent;
  loss.squared_error = left < 0 ? 0 : left;
  return loss;
}

void clear_top_k(std::span<std::byte> elements, std::span<const std::byte> encoded) {
  const std::size_t chosen = encoded.size() / kTopKBytes;
  for (std::size_t i = 0; i < chosen; ++i)
    store(elements.data(), load<std::uint32_t>(encoded.data(), i), 0.0F);
  kernels().clear_non_finite(elements.data(), elements.size() / sizeof(float));
}

Status add_top_k(std::span<std::byte> elements, std::span<const std::byte> encoded) {
  const std::size_t chosen = encoded.size() / kTopKBytes;
  const std::size_t count = elements.size() / sizeof(float);
  const std::byte* const values = encoded.data() + chosen * sizeof(std::uint32_t);
  for (std::size_t i = 0; i < chosen; ++i) {
    const auto index = load<std::uint32_t>(encoded.data(), i);
    if (index >= count)
      return data_loss(fmt::format("top-k has an element {} of {}: members' buffers differ", index, count));
  }
  for (std::size_t i = 0; i < chosen; ++i) {
    const auto index = load<std::uint32_t>(encoded.data(), i);
    const float sum = load<float>(elements.data(), index) + load<float>(values, i);
    if (std::isnan(sum)) {
      store(elements.data(), index, kQuietNan);  // of two, processors choose differently
    } else {
      store(elements.data(), index, sum);
    }
  }
  return Status::ok();
}

}  // namespace square::compression
