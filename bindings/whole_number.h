// Whole numbers of a call, refused with their name and range where they do not fit.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <type_traits>
#include <utility>

#include "bindings.h"

namespace square::python {

// The name of an argument, as a template's parameter.
template <std::size_t N>
struct ArgumentName {
  char text[N];
  constexpr ArgumentName(const char (&name)[N]) {  // NOLINT(google-explicit-constructor): from a literal
    for (std::size_t i = 0; i < N; ++i) text[i] = name[i];
  }
};

// An argument of a bound function. pybind11 answers a number out of range with the signatures of the function
// (TypeError); this raises InvalidArgumentError, which says what is allowed.
template <typename T, ArgumentName kName>
struct WholeNumber {
  T value = 0;
  constexpr operator T() const { return value; }  // NOLINT(google-explicit-constructor): stands for a T
};
template <ArgumentName kName>
using Count = WholeNumber<std::uint32_t, kName>;
template <ArgumentName kName>
using Size = WholeNumber<std::uint64_t, kName>;

static_assert(std::is_same_v<std::uint64_t, std::size_t>, "Size stands for both");

}  // namespace square::python

template <typename T, square::python::ArgumentName kName>
struct pybind11::detail::type_caster<square::python::WholeNumber<T, kName>> {
 private:
  using Number = square::python::WholeNumber<T, kName>;

 public:
  PYBIND11_TYPE_CASTER(Number, make_caster<T>::name);

  bool load(handle source, bool convert) {
    make_caster<T> number;
    if (number.load(source, convert)) {
      value.value = cast_op<T>(number);
      return true;
    }
    if (!source || PyFloat_Check(source.ptr()) || !PyIndex_Check(source.ptr())) return false;
    const auto whole = reinterpret_steal<object>(PyNumber_Index(source.ptr()));
    if (!whole) throw error_already_set();
    constexpr std::size_t kMaxDigits = 40;
    std::string text = str(whole);
    if (text.size() > kMaxDigits) text = text.substr(0, kMaxDigits) + "...";
    square::python::raise(square::invalid_argument(std::string(kName.text) + " must be a whole number from " +
                                                   std::to_string(std::numeric_limits<T>::min()) + " to " +
                                                   std::to_string(std::numeric_limits<T>::max()) + ", not " +
                                                   text));
  }

  static handle cast(Number number, return_value_policy policy, handle parent) {
    return make_caster<T>::cast(number.value, policy, parent);
  }
};
