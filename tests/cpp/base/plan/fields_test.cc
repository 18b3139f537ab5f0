// Every member of a plan's structs is compared, each in turn.
#include <doctest/doctest.h>

#include "base/plan/field_visits.h"
#include "full_plan.h"

namespace {

struct Pair {
  int first = 0;
  std::optional<int> second;
};

}  // namespace

namespace square::plan_fields {

template <>
inline constexpr auto kFields<Pair> = std::tuple{
    field(&Pair::first, json("first"), kNowhere, kNowhere),
};

}  // namespace square::plan_fields

using namespace square;
using namespace square::testing;

namespace {

static_assert(plan_fields::member_count<Pair>() == 2);
static_assert(!plan_fields::lists_each_once<Pair>());
static_assert(plan_fields::lists_each_once<Plan>());

void change(bool& value) { value = !value; }
void change(std::string& value) { value += "x"; }
void change(Duration& value) { value += Duration(1); }
template <typename Tag, typename Number>
void change(Id<Tag, Number>& value) {
  value = Id<Tag, Number>(static_cast<Number>(value.value() + 1));
}
template <typename T>
void change(T& value) requires std::is_arithmetic_v<T> {
  value = value == T(1) ? T(2) : T(1);  // infinite ones too
}
template <typename T>
void change(T& value) requires std::is_enum_v<T> {
  value = value == plan_fields::kValues<T>.front() ? plan_fields::kValues<T>.back()
                                                   : plan_fields::kValues<T>.front();
}
template <plan_fields::Listed T>
void change(T&) {}  // its members are changed
template <typename A, typename B>
void change(std::pair<A, B>& value) {
  change(value.second);
}
template <typename T>
void change(std::optional<T>& value) {
  value ? value.reset() : static_cast<void>(value.emplace());
}
template <typename T>
void change(std::vector<T>& values) {
  values.emplace_back();
}

// The plan with the member that is visited as the `number`th changed, if it has so many.
bool change_member(Plan& plan, std::size_t number) {
  std::size_t visited = 0;
  bool is_struct = false;
  const auto visit = [&](auto& item, const auto& field) {
    if (visited++ != number) return;
    is_struct = plan_fields::Listed<std::remove_cvref_t<decltype(item.*field.member)>>;
    change(item.*field.member);
  };
  visit_structs(plan, visit);
  return visited > number && !is_struct;
}

TEST_CASE("plan fields: two plans are the same only where all members are") {
  const Plan plan = full_plan();
  CHECK(members_at_default(plan).empty());
  CHECK(plan_fields::same_fields(plan, Plan(plan)));
  std::size_t members = 0;
  Plan copy = plan;
  const auto count = [&](auto&, const auto&) { ++members; };
  visit_structs(copy, count);
  CHECK(members > 150);
  for (std::size_t number = 0; number < members; ++number) {
    Plan other = plan;
    const bool is_changed = change_member(other, number);
    CHECK_MESSAGE(plan_fields::same_fields(plan, other) != is_changed, "member " << number);
  }
}

TEST_CASE("plan fields: members that a comparison passes over may differ") {
  const PlanLink link{NodeId(1), NodeId(2)};
  PlanLink loaded = link;
  loaded.load_bps = 1;
  CHECK_FALSE(plan_fields::same_fields(link, loaded));
  CHECK(plan_fields::same_fields(link, loaded, &PlanLink::load_bps));
  loaded.most_bps = 1;
  CHECK_FALSE(plan_fields::same_fields(link, loaded, &PlanLink::load_bps));
}

}  // namespace
