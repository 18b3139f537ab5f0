// Visits the fields of a plan's structs, and compares by them.
#pragma once

#include <algorithm>

#include "base/plan/fields.h"

namespace square::plan_fields {

// The values of an enumeration; to_string() has their words.
template <typename Enum>
inline constexpr auto kValues = nullptr;
template <>
inline constexpr std::array kValues<SessionKind> = {SessionKind::kMulticast, SessionKind::kReduce,
                                                    SessionKind::kUnicast};
template <>
inline constexpr std::array kValues<FieldKind> = {FieldKind::kGf256, FieldKind::kGf65536,
                                                  FieldKind::kFloat32};
template <>
inline constexpr std::array kValues<PlanChange::Kind> = {PlanChange::Kind::kJoined, PlanChange::Kind::kLeft,
                                                         PlanChange::Kind::kFaster, PlanChange::Kind::kSlower,
                                                         PlanChange::Kind::kRerouted};
template <>
inline constexpr std::array kValues<CollectiveOp> = {
    CollectiveOp::kBroadcast,     CollectiveOp::kReduce,   CollectiveOp::kAllReduce, CollectiveOp::kAllGather,
    CollectiveOp::kReduceScatter, CollectiveOp::kAllToAll, CollectiveOp::kGather,    CollectiveOp::kScatter};

template <typename T>
inline constexpr bool kIsListed = !std::is_null_pointer_v<std::remove_const_t<decltype(kFields<T>)>>;
template <typename T>
concept Listed = kIsListed<T>;

// Compared with the number of an aggregate's members, and with one another, so that a list has all of them.
struct AnyMember {
  template <typename T>
  operator T() const;  // nothing calls it
};
template <typename T, std::size_t... kMember>
constexpr bool takes(std::index_sequence<kMember...>) {
  return requires { T{(static_cast<void>(kMember), AnyMember{})...}; };
}
template <typename T, std::size_t kCount = 0>
constexpr std::size_t member_count() {
  if constexpr (takes<T>(std::make_index_sequence<kCount + 1>())) return member_count<T, kCount + 1>();
  return kCount;
}
template <typename A, typename B>
constexpr bool are_same_member(A a, B b) {
  if constexpr (std::is_same_v<A, B>) return a == b;
  return false;
}
template <typename T>
constexpr bool lists_each_once() {
  return std::apply(
      [](const auto&... field) {
        const auto count = [&](auto member) {
          return (0 + ... + (are_same_member(member, field.member) ? 1 : 0));
        };
        return sizeof...(field) == member_count<T>() && (... && (count(field.member) == 1));
      },
      kFields<T>);
}

// Calls `visit(field)` for each.
template <Listed T, typename Visit>
constexpr void for_each(Visit&& visit) {
  static_assert(lists_each_once<T>(), "base/plan/fields.h: a member is missing, or there twice");
  std::apply([&](const auto&... field) { (visit(field), ...); }, kFields<T>);
}

template <typename T>
const T& default_of() {
  static const T value{};
  return value;
}

// A class, so that each of its functions sees the others.
class Comparison {
 public:
  template <typename T>
  static bool same(const std::optional<T>& a, const std::optional<T>& b) {
    return a && b ? same(*a, *b) : a.has_value() == b.has_value();
  }
  template <typename T>
  static bool same(const std::vector<T>& a, const std::vector<T>& b) {
    return std::ranges::equal(a, b, [](const T& x, const T& y) { return same(x, y); });
  }
  template <typename T>
  static bool same(const T& a, const T& b) {
    return a == b;
  }
  template <Listed T>
  static bool same(const T& a, const T& b) {
    return same_but(a, b);
  }
  template <Listed T, typename... But>
  static bool same_but(const T& a, const T& b, But... but) {
    bool is_same = true;
    for_each<T>([&](const auto& field) {
      const bool is_passed_over = (... || are_same_member(but, field.member));
      is_same = is_same && (is_passed_over || same(a.*field.member, b.*field.member));
    });
    return is_same;
  }
};

template <typename T>
bool same_values(const T& a, const T& b) {
  return Comparison::same(a, b);
}
// Whether all members are equal, those of members too, except those that `but` points to.
template <Listed T, typename... But>
bool same_fields(const T& a, const T& b, But... but) {
  return Comparison::same_but(a, b, but...);
}

}  // namespace square::plan_fields
