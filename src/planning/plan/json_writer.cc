#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "base/plan/field_visits.h"
#include "planning/plan/assumption.h"
#include "square/plan.h"
#include "square/units.h"

namespace square {
namespace {

using plan_fields::JsonKey;
using plan_fields::Presence;
using plan_fields::Unit;
// Keeps keys in the order in which they are written: people read plans, too.
using OrderedJson = nlohmann::ordered_json;

OrderedJson finite_or_null(double value) {
  return std::isfinite(value) ? OrderedJson(value) : OrderedJson(nullptr);
}

template <typename Struct, typename Field>
bool is_left_out(const Struct& item, const Field& field) {
  return field.json.presence == Presence::kUnlessDefault &&
         plan_fields::same_values(item.*field.member, plan_fields::default_of<Struct>().*field.member);
}
// A code of floats has both members over bytes, another code neither.
template <typename Field>
bool is_left_out(const PlanCodePart& part, const Field& field) {
  return field.json.presence == Presence::kUnlessDefault && part.byte_row.empty();
}

class Writer {
 public:
  explicit Writer(const Plan& plan) : plan_(plan), assumed_(planning::assumed_bounds(plan)) {}

  [[nodiscard]] OrderedJson write() const {
    OrderedJson out;
    out["format"] = kPlanFormat;
    plan_fields::for_each<Plan>([&](const auto& field) {
      if (plan_fields::are_same_member(field.member, &Plan::headroom)) write_assumption(out);
      write_field(plan_, field, field.json, out);
    });
    return out;
  }

 private:
  void write_assumption(OrderedJson& out) const {
    if (const auto assumption = planning::assumption_of(plan_)) {
      out["assumed"] = {{"links", assumption->links},
                        {"capacity_mbps", written(assumption->capacity_bps, Unit::kRate)}};
    }
  }

  template <typename Struct>
  void write_fields(const Struct& item, OrderedJson& out) const {
    plan_fields::for_each<Struct>([&](const auto& field) { write_field(item, field, field.json, out); });
  }

  template <typename Struct, typename Field>
  void write_field(const Struct&, const Field&, plan_fields::Nowhere, OrderedJson&) const {}
  template <typename Struct, typename Field>
  void write_field(const Struct& item, const Field& field, plan_fields::Inline, OrderedJson& out) const {
    write_fields(item.*field.member, out);
  }
  template <typename Struct, typename Field>
  void write_field(const Struct& item, const Field& field, const JsonKey& key, OrderedJson& out) const {
    if (is_left_out(item, field)) return;
    OrderedJson& value = out[std::string(key.key)];
    if constexpr (std::is_same_v<typename Field::value_type, std::optional<PlanCodePart>>) {
      value = (item.*field.member).has_value();
      if (item.*field.member) write_fields(*(item.*field.member), out);
    } else {
      value = written(item.*field.member, key.unit);
    }
  }

  [[nodiscard]] const std::string& name(NodeId node) const { return plan_.nodes.at(node.index()).name; }

  [[nodiscard]] OrderedJson written(const std::string& value, Unit) const { return value; }
  [[nodiscard]] OrderedJson written(double value, Unit unit) const {
    return finite_or_null(unit == Unit::kRate ? bps_to_mbps(value) : value);
  }
  [[nodiscard]] OrderedJson written(NodeId value, Unit) const { return name(value); }
  [[nodiscard]] OrderedJson written(Epoch value, Unit) const { return value.value(); }
  [[nodiscard]] OrderedJson written(StreamIndex value, Unit) const { return value.value(); }
  template <typename Tag>
  [[nodiscard]] OrderedJson written(Id<Tag> value, Unit) const {
    return std::to_string(value.value());
  }
  [[nodiscard]] OrderedJson written(Duration value, Unit) const {
    return value == Duration::max() ? OrderedJson(nullptr) : OrderedJson(to_seconds(value) * 1e3);
  }
  [[nodiscard]] OrderedJson written(const std::pair<LinkId, double>& value, Unit unit) const {
    const PlanLink& link = plan_.links.at(value.first.index());
    return OrderedJson::array({name(link.from), name(link.to), written(value.second, unit)});
  }
  template <typename A, typename B>
  [[nodiscard]] OrderedJson written(const std::pair<A, B>& value, Unit unit) const {
    return OrderedJson::array({written(value.first, unit), written(value.second, unit)});
  }
  template <typename T>
  [[nodiscard]] OrderedJson written(const std::optional<T>& value, Unit unit) const {
    return value ? written(*value, unit) : OrderedJson(nullptr);
  }
  template <typename T>
  [[nodiscard]] OrderedJson written(const std::vector<T>& values, Unit unit) const {
    OrderedJson out = OrderedJson::array();
    for (const T& value : values) out.push_back(written(value, unit));
    return out;
  }
  // Often many sessions have the same cuts: neighbours in the list share one entry.
  [[nodiscard]] OrderedJson written(const std::vector<PlanPacking>& items, Unit) const {
    OrderedJson out = OrderedJson::array();
    const PlanPacking* before = nullptr;
    for (const PlanPacking& item : items) {
      const bool is_shared =
          before != nullptr && plan_fields::same_fields(*before, item, &PlanPacking::session);
      before = &item;
      if (!is_shared) {
        OrderedJson& added = out.emplace_back();
        write_fields(item, added);
        added["sessions"] = OrderedJson::array();
      }
      out.back()["sessions"].push_back(written(item.session, Unit::kPlain));
    }
    return out;
  }
  [[nodiscard]] OrderedJson written(const PlanCollective& item, Unit) const {
    OrderedJson out;
    write_fields(item, out);
    if (std::ranges::find(assumed_, item.id) != assumed_.end()) out["bound_is_assumed"] = true;
    return out;
  }
  // Numbers, words and structs.
  template <typename T>
  [[nodiscard]] OrderedJson written(const T& value, Unit unit) const {
    if constexpr (plan_fields::Listed<T>) {
      OrderedJson out;
      write_fields(value, out);
      return out;
    } else if constexpr (std::is_enum_v<T>) {
      return to_string(value);
    } else if constexpr (std::is_same_v<T, std::uint64_t>) {
      return unit == Unit::kHex ? OrderedJson(fmt::format("{:016x}", value)) : OrderedJson(value);
    } else {
      return value;
    }
  }

  const Plan& plan_;
  const std::vector<CollectiveId> assumed_;
};

}  // namespace

std::string to_json(const Plan& plan) {
  // A name that is not UTF-8 must not throw: it comes out with replacement characters.
  return Writer(plan).write().dump(-1, ' ', false, OrderedJson::error_handler_t::replace);
}

}  // namespace square
